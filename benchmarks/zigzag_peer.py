"""Evaluation of mappings with the cost model of ZigZag (zigzag-dse 3.9.1), if it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from onchip.answer.layer_mapping import LayerMapping, Loop
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand
from onchip.ir.layer import OTHER_NAMES, Layer

INSTALL: Final = "pip install zigzag-dse==3.9.1 six"
THEIR_LOOPS: Final = {ours: theirs for theirs, ours in OTHER_NAMES.items()}
THEIR_OPERANDS: Final = {Operand.OUTPUT: "O", Operand.WEIGHT: "W", Operand.INPUT: "I"}
THEIR_WAYS: Final = {
    "RD_OUT_TO_LOW": "read for below",
    "WR_IN_BY_HIGH": "write from above",
    "RD_OUT_TO_HIGH": "read for above",
    "WR_IN_BY_LOW": "write from below",
}
EQUATION: Final = "O[b][g][k][oy][ox]+=W[g][k][c][fy][fx]*I[b][g][c][iy][ix]"


@dataclass(frozen=True, slots=True)
class PeerCost:
    """ZigZag's figures: energies in pJ by memory and operand, and by move; latency in cycles by its parts."""

    energy_pj: float
    cycles: float
    memory_energy_pj: dict[tuple[str, str], float]
    move_energy_pj: dict[tuple[str, str, str], float]
    latency: dict[str, float]


def primes(number: int) -> Iterator[int]:
    """Yield the prime factors in ascending order."""
    factor = 2
    while number > 1:
        while number % factor == 0:
            yield factor
            number //= factor
        factor += 1


def peer_inputs() -> Path:
    """Return the folder of ZigZag's own input files; end the program if ZigZag is not installed."""
    try:
        found = import_module("zigzag").__file__
    except ImportError:
        found = None
    if found is None:
        raise SystemExit(f"ZigZag is not installed here: {INSTALL}")
    return Path(found).parent / "inputs"


class Peer:
    """A machine of ZigZag, from its hardware file."""

    def __init__(self, hardware: Path) -> None:
        data = import_module("zigzag.utils").open_yaml(str(hardware))
        validator = import_module("zigzag.parser.accelerator_validator").AcceleratorValidator(data)
        if not validator.validate():
            raise SystemExit(f"ZigZag refuses {hardware}")
        factory = import_module("zigzag.parser.accelerator_factory").AcceleratorFactory(validator.normalized_data)
        self._accelerator: Any = factory.create()

    def cost(self, layer: Layer, accelerator: Accelerator, mapping: LayerMapping) -> PeerCost:
        """Return ZigZag's cost of the mapping on `accelerator`, our version of this machine.

        Bounds must not be padded.
        """
        node = _node(layer, mapping)
        datatypes = import_module("zigzag.datatypes")
        spatial, temporal = {}, {}
        for operand, name in THEIR_OPERANDS.items():
            key = datatypes.LayerOperand(name)
            spatial[key] = [_loops(level) for level in _spatial_levels(accelerator, mapping, operand)]
            temporal[key] = [_loops(level) for level in _temporal_levels(mapping, operand)]
        internal = import_module("zigzag.mapping.spatial_mapping_internal").SpatialMappingInternal(spatial, node)
        module = import_module("zigzag.mapping.temporal_mapping")
        ordered = module.TemporalMapping(temporal, node, module.TemporalMappingType.UNEVEN)
        evaluation = import_module("zigzag.cost_model.cost_model").CostModelEvaluation(
            accelerator=self._accelerator,
            layer=node,
            spatial_mapping=internal,
            spatial_mapping_int=internal,
            temporal_mapping=ordered,
        )
        return _read(evaluation, mapping)


def _read(evaluation: Any, mapping: LayerMapping) -> PeerCost:  # noqa: ANN401 - ZigZag is untyped
    by_memory: dict[tuple[str, str], float] = {}
    by_move: dict[tuple[str, str, str], float] = {}
    names = {theirs: ours for ours, theirs in THEIR_OPERANDS.items()}
    for operand, levels in evaluation.mem_energy_breakdown_further.items():
        ours = names[operand.name]
        memories = [*(kept.memory for kept in mapping.kept(ours)), DRAM]
        for memory, moves in zip(memories, levels, strict=True):
            for way, energy in moves.data.items():
                by_move[memory, str(ours), THEIR_WAYS[way.name]] = float(energy)
                by_memory[memory, str(ours)] = by_memory.get((memory, str(ours)), 0.0) + float(energy)
    parts = {
        "loops": float(evaluation.ideal_temporal_cycle),
        "stall": float(evaluation.stall_slack_comb),
        "preload": float(evaluation.data_onloading_cycle),
        "offload": float(evaluation.data_offloading_cycle),
        "drain": float(evaluation.systolic_drain_cycle),
    }
    return PeerCost(float(evaluation.energy_total), float(evaluation.latency_total2), by_memory, by_move, parts)


def _node(layer: Layer, mapping: LayerMapping) -> Any:  # noqa: ANN401
    top, left, bottom, right = layer.padding
    along: dict[str, list[str]] = {}
    for loop in mapping.nest:
        if loop.along is not None:
            along.setdefault(loop.along, []).append(f"{_theirs(loop)}, {loop.size}")
    links = {"O": "O", "W": "I2", "I": "I1"}
    unrolled = [{"name": "default", "spatial_mapping": along, "memory_operand_links": links}]
    relations = [f"i{x}={layer.stride[i]}*o{x}+{layer.dilation[i]}*f{x}" for i, x in enumerate("yx")]
    fields = {
        "id": 0,
        "name": "layer",
        "operator_type": "Conv",
        "equation": EQUATION,
        "dimension_relations": relations,
        "loop_dims": [THEIR_LOOPS.get(name, name) for name in layer.bounds],
        "loop_sizes": list(layer.bounds.values()),
        "operand_precision": {
            "W": layer.weight_bits,
            "I": layer.input_bits,
            "O": layer.partial_bits,
            "O_final": layer.output_bits,
        },
        "operand_source": {"W": 0, "I": 0},
        "pr_loop_dims": ["IY", "IX"],
        "padding": [[top, bottom], [left, right]],
    }
    checked = import_module("zigzag.parser.mapping_validator").MappingValidator(unrolled)
    if not checked.validate():
        raise SystemExit(f"ZigZag refuses {unrolled}")
    validator = import_module("zigzag.parser.workload_validator").WorkloadValidator([fields])
    if not validator.validate():
        raise SystemExit(f"ZigZag refuses {fields}")
    factory = import_module("zigzag.parser.workload_factory").LayerNodeFactory(
        validator.normalized_data[0], checked.normalized_data
    )
    return factory.create()


def _spatial_levels(accelerator: Accelerator, mapping: LayerMapping, operand: Operand) -> list[list[Loop]]:
    """Loops that run over what one instance serves and no nearer one does; for each memory, and DRAM, and above."""
    serves = {level.memory.name: level.serves for level in accelerator.levels}
    left = [loop for loop in mapping.nest if loop.along is not None and loop.size > 1]
    levels = []
    for kept in mapping.kept(operand):
        served = serves[kept.memory]
        levels.append([loop for loop in left if served is None or loop.along in served])
        left = [loop for loop in left if loop not in levels[-1]]
    return [*levels, left, []]


def _temporal_levels(mapping: LayerMapping, operand: Operand) -> list[list[Loop]]:
    cuts = [0, *(kept.loops for kept in mapping.kept(operand)), len(mapping.nest)]
    return [
        [loop for loop in mapping.nest[first:stop] if loop.along is None and loop.size > 1]
        for first, stop in pairwise(cuts)
    ]


def _loops(loops: list[Loop]) -> list[tuple[Any, int]]:
    dimension = import_module("zigzag.datatypes").LayerDim
    return [(dimension(_theirs(loop)), loop.size) for loop in loops]


def _theirs(loop: Loop) -> str:
    return THEIR_LOOPS.get(loop.dimension, loop.dimension)
