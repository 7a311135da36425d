"""Generate the C code of a network for Deeploy's platform Generic, with all activations in one arena.

    PYTHONPATH=DEEPLOY:DEEPLOY/DeeployTest MINIMALLOC_INSTALL_DIR=FOLDER python generic.py NETWORK_FOLDER OUT_FOLDER

Deeploy calls its allocator only for tiled platforms, which need a cross compiler. Here Generic, which any host
compiles, gets one memory level and no tiles. Runs in Deeploy's Python environment, without onchip.
"""

import sys

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from Deeploy.CommonExtensions.CodeTransformationPasses import MemoryAllocation
from Deeploy.CommonExtensions.OptimizationPasses.TopologyOptimizationPasses.DebugPasses import EmulateCMSISRequantPass
from Deeploy.DeeployTypes import _NoVerbosity
from Deeploy.MemoryLevelExtension.MemoryLevels import MemoryHierarchy, MemoryLevel
from Deeploy.MemoryLevelExtension.NetworkDeployers.MemoryLevelDeployer import MemoryDeployerWrapper
from Deeploy.MemoryLevelExtension.OptimizationPasses import MemoryLevelAnnotationPasses as Annotations
from Deeploy.Targets.Generic.TileConstraints.UntiledTileConstraint import UntiledTileConstraint
from Deeploy.TilingExtension.TilerExtension import TilerDeployerWrapper
from testUtils.codeGenerate import generateTestNetwork
from testUtils.platformMapping import mapDeployer, mapPlatform, setupMemoryPlatform
from testUtils.tilingUtils import SBTiler
from testUtils.typeMapping import inferTypeAndOffset

network, out = sys.argv[1:]
given, expected = (np.load(f"{network}/{name}.npz") for name in ("inputs", "outputs"))
inputs, outputs = ([file[name].reshape(-1).astype(float) for name in file.files] for file in (given, expected))
platform, has_signs = mapPlatform("Generic")
mappers = [mapper for engine in platform.engines for layer in engine.Mapping.values() for mapper in layer.maps]
bindings = [binding for mapper in mappers for binding in mapper.bindings]
for binding in bindings:
    binding.template.tileConstraint = UntiledTileConstraint()
kinds = MemoryAllocation.MemoryManagementGeneration, MemoryAllocation.MemoryPassthroughGeneration
for passes in {id(binding.codeTransformer): binding.codeTransformer.passes for binding in bindings}.values():
    at = next(at for at, one in enumerate(passes) if isinstance(one, kinds))
    passes.insert(at, type(passes[at])("L2"))  # pointers of a level come from its arena
types, offsets = {}, {}
for at, (name, values) in enumerate(zip(given.files, inputs, strict=True)):
    key = f"input_{at}"
    types[key], offsets[key] = inferTypeAndOffset(values, has_signs, original_dtype=given[name].dtype)
    values -= offsets[key]
graph = gs.import_onnx(onnx.load_model(f"{network}/network.onnx"))
layerwise = {"scheduler": lambda graph: [[node] for node in graph.nodes], "deeployStateDir": f"{out}/states"}
deployer = mapDeployer(platform, graph, types, inputOffsets=offsets, **layerwise)
deployer.loweringOptimizer.passes.insert(0, EmulateCMSISRequantPass())
level = MemoryLevel("L2", [], 1 << 20)
levels = MemoryHierarchy([level])
levels.setDefaultMemoryLevel("L2")
deployer.Platform = setupMemoryPlatform(deployer.Platform, levels, level)
annotations = [Annotations.AnnotateIOMemoryLevel("L2"), Annotations.AnnotateDefaultMemoryLevel(levels)]
deployer = TilerDeployerWrapper(MemoryDeployerWrapper(deployer, annotations), SBTiler, testName="arena", workDir=out)
deployer.tiler.memoryAllocStrategy, deployer.tiler.searchStrategy = "MiniMalloc", "random-max"
deployer.prepare(_NoVerbosity)
for at, values in enumerate(outputs):
    buffer = deployer.ctxt.lookup(f"output_{at}")
    values -= 0 if buffer._signed else buffer.nLevels // 2
generateTestNetwork(deployer, inputs, outputs, out, _NoVerbosity)
