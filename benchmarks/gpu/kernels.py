"""Mappings of products and ResNet-50's layers on two GPUs: their claims, and what NVIDIA's compiler finds.

    PYTHONPATH=benchmarks python -m gpu.kernels [--seconds 5] [--all] [--ptxas PROGRAM] [--results FILE.json]

Needs nvcc and no GPU. Kernels for `h100-like` are compiled for sm_90, those for `k80-like` for the oldest architecture
that nvcc has; with PROGRAM, the assembler of CUDA 11.8 (in PyPI's `nvidia-cuda-nvcc-cu11`), for the K80's own, sm_37.
Shared memory and threads have to be as claimed, registers at least as many and at most 255, and nothing spilled.
`--all` uses all layers of the table, not only those of 3x3.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from gpu.gpu_compiler import CompiledKernel, OlderAssembler, gpu_compiler
from shared.runner import Row, asked_of, options_of, report

from onchip.answer.document import Reading
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.verb_options import MapOptions
from onchip.api.map import MappingRequest, map_layers
from onchip.backends.nests.gpu_source import CUDA, GpuKernel, gpu_kernel
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table
from onchip.search.budget.limits import Limits

ARCHITECTURES: Final = {"h100-like": "sm_90", "k80-like": None}
METHODS: Final = ("exact", "cosa", "random")
PRODUCTS: Final = ("gemm:m1024n1024k1024", "gemm:m256n512k512", "gemm:m100n1000k300", "gemm:m33n127k65")
GREATEST_REGISTERS: Final = 255


def rows(asked: Namespace) -> Iterator[Row]:
    """Yield a row for each GPU, layer and method."""
    layers = [name for name, layer in layer_table("resnet50").items() if layer.r == 3 or asked.all]
    for gpu, architecture in ARCHITECTURES.items():
        is_older = asked.ptxas is not None and architecture is None
        compiler = OlderAssembler(asked.ptxas) if is_older else gpu_compiler(architecture)
        for source in (*PRODUCTS, *(f"cosa:resnet50:{name}" for name in layers)):
            for method in METHODS:
                limits, edp = Limits(asked.seconds), MappingObjective.EDP
                request = MappingRequest(
                    source,
                    gpu,
                    edp,
                    MapOptions(method=method, uses_cache=False, partial_bits=32),
                    reading=Reading(bits=32),
                    limits=limits,
                )
                outcome = map_layers(request)
                for one, layer in zip(outcome.document.answer, outcome.layers.layers.values(), strict=False):
                    kernel = gpu_kernel(layer, one.mapping, load_accelerator(gpu), CUDA, "nest", source)
                    found = compiler.compiled(kernel.source)
                    yield {
                        "gpu": gpu,
                        "layer": source,
                        "method": method,
                        "iterations": one.mapping.temporal_iterations,
                        "blocks": kernel.blocks,
                        "threads": found.threads,
                        "shared_bytes": found.shared_bytes,
                        "registers_claimed": kernel.registers,
                        "registers": found.registers,
                        "is_as_claimed": is_as_claimed(kernel, found),
                        "spilled_bytes": found.spilled_bytes,
                    }


def is_as_claimed(kernel: GpuKernel, found: CompiledKernel) -> bool:
    """Return True if the compiler confirms the claims of the mapping."""
    return (
        (found.threads, found.shared_bytes, found.spilled_bytes) == (kernel.threads, kernel.shared_bytes, 0)
        and kernel.registers <= found.registers <= GREATEST_REGISTERS
        and not found.warnings
    )


def main() -> int:
    """Print the rows; return 1 if a claim does not hold."""
    parser = options_of(__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--ptxas", type=Path, metavar="PROGRAM")
    asked = asked_of(parser)
    found = report(asked, {"kernels": partial(rows, asked)})["kernels"]
    return int(not all(row["is_as_claimed"] for row in found))


if __name__ == "__main__":
    raise SystemExit(main())
