"""Regression tests for stack bounds that once exceeded the cost: one layer each, on a machine isolating the term."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.bounds.group.given_unrolling import GivenUnrolling
from onchip.bounds.layer.unit_shares import AnyUnrolling, Sharing
from onchip.ir.window import Window
from onchip.mapping.methods.registry import METHODS
from onchip.mapping.tile_search.uneven import (
    FixedUnrolling,
    TemporalMethod,
    unrolling_groups,
    unrollings_for,
)
from onchip.model.group.mapper import Mapper, Memoized
from onchip.ops.fusable import FeatureMap, FusableLayer, FusableNetwork
from onchip.scheduling.fronts.costs import StackCosts
from onchip.scheduling.fronts.mappers import LayerMapper
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice
from support.series import series, with_slow
from support.stacks import ONE, convolution, pool

PORTS = (Port(Direction.READ_WRITE, 64),)
INPUT, WEIGHT, OUTPUT = Operand.INPUT, Operand.WEIGHT, Operand.OUTPUT
Level = tuple[str, int, tuple[Operand, ...], tuple[str, ...] | None, float, float]
"""Name, bytes, operands, dimensions that it serves, pJ of a read and of a write of a byte."""


def buffer(capacity_bytes: int = 4000) -> Level:
    return "buffer", capacity_bytes, (INPUT, WEIGHT, OUTPUT), None, 0.0, 0.0


@dataclass(frozen=True)
class Hard:
    layer: FusableLayer
    source: FeatureMap
    levels: Sequence[Level]
    tile: tuple[int, int]
    is_of_parts: bool = False
    dimensions: Mapping[str, int] = field(default_factory=lambda: {"K": 1, "C": 1})
    dram_pj: float = 0.0

    def machine(self) -> Accelerator:
        levels = tuple(
            MemoryLevel(
                Memory(name, capacity, 1, holds),
                serves,
                is_scratchpad=name == "buffer",
                access=Access(8, read_pj, write_pj),
                ports=PORTS,
            )
            for name, capacity, holds, serves, read_pj, write_pj in self.levels
        )
        dram = Dram(Access(8, self.dram_pj, self.dram_pj), PORTS)
        array = ComputeArray(dict(self.dimensions), None, 0.0)
        return Accelerator("hard", (levels[-1].memory,), levels, None, array, dram)

    def mapper(self, method: str) -> tuple[Mapper, Sharing]:
        machine = self.machine()
        if self.is_of_parts:
            return FixedUnrolling(TemporalMethod(method)), GivenUnrolling(unrolling_groups(machine), unrollings_for)
        mapper = LayerMapper(METHODS[method], FusionObjective.ENERGY.of_layers, Run())
        return mapper, AnyUnrolling(machine, every_memory_keeps=True)


def hard_of(
    size: tuple[int, int, int],
    windows: tuple[Window, Window],
    levels: Sequence[Level],
    tile: tuple[int, int],
    *,
    channels: int = 1,
    partial_bits: int = 8,
    is_of_parts: bool = False,
    dimensions: Mapping[str, int] | None = None,
    dram_pj: float = 0.0,
) -> Hard:
    source = FeatureMap("in", *size)
    layer = convolution(source, "y", *windows, channels)
    layer = replace(layer, layer=replace(layer.layer, partial_bits=partial_bits))
    return Hard(layer, source, levels, tile, is_of_parts, dimensions or {"K": 1, "C": 1}, dram_pj)


def rounded_up() -> Hard:
    source = FeatureMap("in", 1, 1, 3)
    layer = pool(source, "y", ONE, ONE)
    layer = replace(layer, layer=replace(layer.layer, partial_bits=24))
    levels = [("near", 8, (INPUT, OUTPUT), (), 0.0, 1.0), buffer()]
    return Hard(layer, source, levels, (3, 1), is_of_parts=True, dimensions={"OX": 2})


REGISTERS = [("w", 1, (WEIGHT,), (), 0.0, 1.0), ("s", 1, (OUTPUT,), (), 0.8, 0.8), buffer()]
CASES = {
    "tiles differ in who is reused, weights or sums": hard_of((2, 20, 11), (ONE, ONE), REGISTERS, (10, 1)),
    "only one of several instances gets a sum back": hard_of(
        (4, 4, 4),
        (Window(3, 1, 1, 0),) * 2,
        [
            ("w", 1, (WEIGHT,), (), 0.0, 10.0),
            ("s", 1, (OUTPUT,), (), 0.0, 1.0),
            ("t", 1, (OUTPUT,), (), 0.0, 0.0),
            buffer(),
        ],
        (2, 2),
        dimensions={"C": 4},
    ),
    "stride and dilation have a common divisor": hard_of(
        (1, 41, 41),
        (Window(2, 2, 2, 0),) * 2,
        [("reg", 64, (INPUT, WEIGHT, OUTPUT), None, 0.0, 0.0), buffer(1000)],
        (20, 20),
        is_of_parts=True,
        dram_pj=10.0,
    ),
    "taps lie in the padding": hard_of(
        (4, 3, 3), (Window(3, 1, 2, 1),) * 2, [("reg", 1, (INPUT,), None, 0.0, 100.0), buffer(1000)], (1, 1)
    ),
    "parts are rounded up where nothing is to be added": rounded_up(),
    "instances are rounded up": hard_of(
        (3, 18, 3),
        (Window(3, 1, 1, 0), ONE),
        [
            ("w", 1, (WEIGHT,), (), 0.0, 0.0),
            ("s", 2, (OUTPUT,), ("K",), 0.0, 0.0),
            ("t", 400, (OUTPUT,), ("K", "OX"), 0.0, 1.0),
            ("wb", 400, (WEIGHT,), None, 50.0, 0.0),
            buffer(),
        ],
        (3, 16),
        channels=2,
        is_of_parts=True,
        dimensions={"K": 2, "OX": 2, "C": 2},
    ),
}


@pytest.mark.parametrize("name", with_slow(CASES, lambda name: name.startswith("only one of several")))
@pytest.mark.parametrize("objective", series([FusionObjective.DRAM, FusionObjective.ENERGY], 1))
def test_the_bound_is_no_higher_than_the_cost(name: str, objective: FusionObjective) -> None:
    case = CASES[name]
    for method in ("loma", "uneven") if case.is_of_parts else ("loma", "exact"):
        mapper, sharing = case.mapper(method)
        network = FusableNetwork("net", (case.source,), (case.layer,))
        costs = StackCosts(network, case.machine(), objective, Memoized(mapper), sharing=sharing)
        choice = StackChoice(LayerSpan(0, 1), Tiling(*case.tile, OverlapMode.RECOMPUTE))
        (cost,), bound = costs.costs([choice]), costs.bound(choice)
        assert cost is not None
        assert bound is not None
        assert bound <= cost
