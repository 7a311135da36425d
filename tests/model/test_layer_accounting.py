"""Options of the accounting: each by a figure computed by hand, and all together against figures of ZigZag."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from re import fullmatch
from typing import Any

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.zigzag import read_zigzag_hardware
from onchip.ir.layer import Layer
from onchip.model.accounting.accounting import DEFINES, INTERPRETER, OF_BOUNDS, ZIGZAG, Accounting, settled
from onchip.model.layer.cost import LayerCost, layer_cost
from onchip.model.layer.latency import Visit, covered_cycles
from onchip.model.layer.limits import needed_bits
from onchip.model.layer.ragged import boundaries

SYSTOLIC = Path(__file__).parents[1] / "data" / "zigzag-systolic.yaml"
ACCESS = Access(8, 1.0, 1.0)
WIDE = (Port(Direction.READ, 64), Port(Direction.WRITE, 64))


def _machine(
    capacity_bytes: int = 64,
    *,
    buffer_ports: tuple[Port, ...] = (),
    dram_ports: tuple[Port, ...] = (),
    dimensions: tuple[str, ...] = ("P", "K"),
) -> Accelerator:
    """Return a machine with a register at each unit, a buffer for all, and DRAM; two units along each dimension."""
    register = MemoryLevel(Memory("register", 16), (), access=ACCESS)
    buffer = MemoryLevel(Memory("buffer", capacity_bytes), None, True, access=ACCESS, ports=buffer_ports)
    array = ComputeArray(dict.fromkeys(dimensions, 2), mac_energy_pj=0.0)
    return Accelerator("small", (buffer.memory,), (register, buffer), None, array, Dram(ACCESS, dram_ports))


def _moved(cost: LayerCost, memory: str, operand: str, move: Move) -> tuple[int, int]:
    """Return the number of elements moved and the bits of an element; (0, 0) if none is moved."""
    found = [one for one in cost.accesses if (one.memory, one.operand, one.move) == (memory, operand, move)]
    return (found[0].elements, found[0].bits) if found else (0, 0)


def test_by_default_nothing_is_counted_otherwise() -> None:
    assert Accounting() == INTERPRETER
    assert {getattr(INTERPRETER, field.name) for field in fields(Accounting)} == {False, ()}
    alone = {"parts_are_cut_late", "parts_have_whole_room", "single_taps_are_channels", "accesses_are_of_a_cycle"}
    alone |= {"lone_transfers_never_stall", "last_sums_overlap"}
    assert {field.name for field in fields(Accounting) if not getattr(ZIGZAG, field.name)} == {"systolic"} | alone
    left_out = {"systolic", "units_keep_operands", "whole_operands_load_meanwhile", "lone_transfers_never_stall"}
    assert {field.name for field in fields(Accounting) if not getattr(DEFINES, field.name)} == left_out


@pytest.mark.parametrize("option", OF_BOUNDS)
def test_what_speaks_of_sizes_from_bounds_needs_them(option: str) -> None:
    chosen: dict[str, Any] = {option: True}
    with pytest.raises(InputError, match=f"{option} needs sizes from bounds; expected tiles_from_bounds with it"):
        Accounting(**chosen)
    assert Accounting(tiles_from_bounds=True, **chosen) != INTERPRETER


def test_tiles_span_their_reuse() -> None:
    mapping = LayerMapping((Loop("P", 2), Loop("C", 2), Loop("K", 2)), output=(Kept("buffer", 1),))
    assert settled(mapping).output == (Kept("buffer", 2),)
    bits = [
        _moved(
            layer_cost(LayerProblem(Layer(p=2, c=2, k=2), _machine()), mapping, one),
            "dram",
            "output",
            Move.WRITE_FROM_BELOW,
        )
        for one in (INTERPRETER, Accounting(tiles_span_their_reuse=True))
    ]
    assert bits == [(4, 24), (4, 8)]  # the tile is complete when it leaves


def test_tiles_from_bounds() -> None:
    layer = Layer(p=4, r=3, padding=(1, 0, 1, 0))
    mapping = LayerMapping((Loop("R", 3), Loop("P", 2), Loop("P", 2)), input=(Kept("buffer", 2),))
    moved = [
        _moved(layer_cost(LayerProblem(layer, _machine()), mapping, one), "buffer", "input", Move.WRITE_FROM_ABOVE)[0]
        for one in (INTERPRETER, Accounting(tiles_from_bounds=True))
    ]
    assert moved == [3 + 3, 4 + 4]  # each of two tiles has one row of zeros


def test_skipped_rows_are_absent() -> None:
    layer, mapping = Layer(p=4, stride=(2, 1)), LayerMapping((Loop("P", 4),), input=(Kept("buffer", 1),))
    bounds = Accounting(tiles_from_bounds=True)
    moved = [
        _moved(layer_cost(LayerProblem(layer, _machine()), mapping, one), "buffer", "input", Move.WRITE_FROM_ABOVE)[0]
        for one in (bounds, replace(bounds, skipped_rows_are_absent=True))
    ]
    assert moved == [7, 4]


def test_neighbours_share_no_halo() -> None:
    layer = Layer(p=2, r=3)
    mapping = LayerMapping((Loop("R", 3), Loop("P", 2, "P")), input=(Kept("register", 1), Kept("buffer", 1)))
    bounds = Accounting(tiles_from_bounds=True)
    moved = [
        _moved(layer_cost(LayerProblem(layer, _machine()), mapping, one), "buffer", "input", Move.READ_FOR_BELOW)[0]
        for one in (INTERPRETER, bounds, replace(bounds, neighbours_share_no_halo=True))
    ]
    assert moved == [4, 4, 6]  # two windows of three rows, two of them in both


def test_units_keep_operands() -> None:
    mapping = LayerMapping((Loop("K", 4), Loop("P", 2)), input=(Kept("buffer", 2),), weight=(Kept("buffer", 2),))
    kept = layer_cost(LayerProblem(Layer(k=4, p=2), _machine()), mapping, Accounting(units_keep_operands=True))
    plain = layer_cost(LayerProblem(Layer(k=4, p=2), _machine()), mapping)
    assert [_moved(one, "buffer", "input", Move.READ_FOR_BELOW)[0] for one in (plain, kept)] == [8, 2]
    assert [_moved(one, "buffer", "weight", Move.READ_FOR_BELOW)[0] for one in (plain, kept)] == [8, 8]


def test_begun_sums_are_read() -> None:
    layer, mapping = Layer(p=2, c=3), LayerMapping((Loop("P", 2), Loop("C", 3)), output=(Kept("register", 0),))
    costs = [
        layer_cost(LayerProblem(layer, _machine()), mapping, one)
        for one in (INTERPRETER, Accounting(begun_sums_are_read=True))
    ]
    assert [_moved(one, "dram", "output", Move.READ_FOR_BELOW)[0] for one in costs] == [2 * 2, 2 * 3]
    assert [_moved(one, "register", "output", Move.WRITE_FROM_ABOVE)[0] for one in costs] == [2 * 2, 2 * 3]


def test_finished_sums_leave_short() -> None:
    layer, mapping = Layer(c=2), LayerMapping((Loop("C", 2),), output=(Kept("buffer", 1),))
    costs = [
        layer_cost(LayerProblem(layer, _machine()), mapping, one)
        for one in (INTERPRETER, Accounting(finished_sums_leave_short=True))
    ]
    assert [_moved(one, "buffer", "output", Move.READ_FOR_ABOVE) for one in costs] == [(1, 24), (1, 8)]
    assert [_moved(one, "buffer", "output", Move.WRITE_FROM_BELOW) for one in costs] == [(2, 24), (2, 24)]


SLOW_DRAM = (Port(Direction.READ, 4), Port(Direction.WRITE, 64))
POOL = Layer(k=4, p=4, has_weight=False)
"""A layer whose input is used four times, once for each k."""
USED_AGAIN = LayerMapping((Loop("P", 2), Loop("K", 4), Loop("P", 2)), input=(Kept("buffer", 2),))
"""A tile of two elements is in use for 8 cycles, the last time from cycle 6 on; the next takes 4 cycles."""


def test_double_buffered_where_room() -> None:
    machine = _machine(4, dram_ports=SLOW_DRAM)
    option = Accounting(double_buffered_where_room=True)
    assert layer_cost(LayerProblem(POOL, machine), USED_AGAIN).latency.stall == 4 - 2
    assert layer_cost(LayerProblem(POOL, machine), USED_AGAIN, option).latency.stall == 0
    narrow = _machine(3, dram_ports=SLOW_DRAM)
    assert layer_cost(LayerProblem(POOL, narrow), USED_AGAIN, option).latency.stall == 4 - 2


def test_windows_end_at_the_level_below() -> None:
    mapping = replace(USED_AGAIN, input=(Kept("register", 2), Kept("buffer", 2)))
    option = Accounting(windows_end_at_the_level_below=True)
    assert layer_cost(LayerProblem(POOL, _machine(dram_ports=SLOW_DRAM)), mapping).latency.stall == 4 - 2
    assert layer_cost(LayerProblem(POOL, _machine(dram_ports=SLOW_DRAM)), mapping, option).latency.stall == 0
    assert layer_cost(LayerProblem(POOL, _machine(dram_ports=SLOW_DRAM)), USED_AGAIN, option).latency.stall == 4 - 2


def test_last_periods_have_windows() -> None:
    visits = [Visit("dram", 0, "input", 1, 4, 2, 3), Visit("dram", 0, "weight", 1, 8, 3, 1)]
    assert covered_cycles(visits, 16) == 2 + 3 + 2
    assert covered_cycles(visits, 16, last_counts=True) == 2 * (2 + 3)
    layer = Layer(k=2, p=4)
    nest = (Loop("P", 2), Loop("K", 2), Loop("P", 2))
    mapping = LayerMapping(nest, input=(Kept("buffer", 2),), weight=(Kept("register", 1), Kept("buffer", 1)))
    machine = _machine(dram_ports=SLOW_DRAM)
    plain, option = (
        layer_cost(LayerProblem(layer, machine), mapping, one).latency.stall
        for one in (INTERPRETER, Accounting(last_periods_have_windows=True))
    )
    assert plain > option


def test_first_cycles_are_free() -> None:
    machine = _machine(buffer_ports=(Port(Direction.READ, 4), Port(Direction.WRITE, 64)))
    mapping = LayerMapping((Loop("P", 4),), input=(Kept("buffer", 1),))
    layer = Layer(p=4, has_weight=False)
    assert layer_cost(LayerProblem(layer, machine), mapping).latency.stall == 4
    assert layer_cost(LayerProblem(layer, machine), mapping, Accounting(first_cycles_are_free=True)).latency.stall == 3


WHOLE = LayerMapping((Loop("P", 4), Loop("K", 3)), input=(Kept("buffer", 2),), weight=(Kept("register", 2),))
"""The port takes 8 cycles for 4 elements of input and 6 for 3 weights."""


def test_operands_load_side_by_side() -> None:
    machine, layer = _machine(dram_ports=SLOW_DRAM), Layer(p=4, k=3)
    levels = tuple(_for_one(level) for level in machine.levels)
    scratchpads = tuple(level.memory for level in levels if level.is_scratchpad)
    apart = replace(machine, levels=levels, scratchpads=scratchpads)
    assert layer_cost(LayerProblem(layer, apart), WHOLE).latency.preload == 8 + 6
    assert (
        layer_cost(LayerProblem(layer, apart), WHOLE, Accounting(operands_load_side_by_side=True)).latency.preload == 8
    )


def _for_one(level: MemoryLevel) -> MemoryLevel:
    holds = (Operand.WEIGHT,) if level.memory.name == "register" else (Operand.INPUT, Operand.OUTPUT)
    return replace(level, memory=replace(level.memory, holds=holds), ports=WIDE)


def test_whole_operands_load_meanwhile() -> None:
    machine, layer = _machine(dram_ports=SLOW_DRAM), Layer(p=4, k=3)
    mapping = replace(WHOLE, weight=(Kept("register", 1), Kept("buffer", 2)))
    assert layer_cost(LayerProblem(layer, machine), mapping).latency.preload == 8 + 6
    # The port is free in all 12 cycles of compute. The preload is the nearest tile: all inputs, one of three weights.
    option = Accounting(whole_operands_load_meanwhile=True)
    assert layer_cost(LayerProblem(layer, machine), mapping, option).latency.preload == 8 + 2


def test_systolic_dimensions_drain() -> None:
    mapping = LayerMapping((Loop("P", 2), Loop("K", 2, "K"), Loop("P", 2, "P")))
    plain = layer_cost(LayerProblem(Layer(k=2, p=4), _machine()), mapping)
    drained = layer_cost(LayerProblem(Layer(k=2, p=4), _machine()), mapping, Accounting(systolic=("K", "P")))
    assert (plain.latency.drain, drained.latency.drain) == (0, 1 + 1)
    assert drained.cycles == plain.cycles + 2


PARTS = Accounting(tiles_from_bounds=True, skipped_rows_are_absent=True, units_in_parts=True)
LATE = replace(PARTS, parts_are_cut_late=True)


def _of_input(layer: Layer, mapping: LayerMapping, accounting: Accounting) -> int:
    """Return the number of input elements written into the buffer from above."""
    return _moved(
        layer_cost(LayerProblem(layer, _machine()), mapping, accounting), "buffer", "input", Move.WRITE_FROM_ABOVE
    )[0]


def test_units_in_parts() -> None:
    mapping = LayerMapping((Loop("K", 2, "K"), Loop("K", 2)), weight=(Kept("register", 1), Kept("buffer", 2)))
    whole, parts = (
        layer_cost(LayerProblem(Layer(k=3), _machine()), mapping, one)
        for one in (Accounting(tiles_from_bounds=True), PARTS)
    )
    assert [_moved(one, "dram", "weight", Move.READ_FOR_BELOW)[0] for one in (whole, parts)] == [4, 3]
    # Twice, one weight each in 1.5 registers, rounded to two.
    assert _moved(parts, "register", "weight", Move.WRITE_FROM_ABOVE)[0] == 2 * 2
    assert parts.cycles == whole.cycles


HALF = LayerMapping((Loop("P", 2, "P"), Loop("P", 2), Loop("P", 2)), input=(Kept("buffer", 2),))
"""A layer of seven rows in four turns of 1.75: 3.5 at a time in the buffer, twice."""


def test_parts_are_cut_late() -> None:
    layer = Layer(p=7, r=3, stride=(4, 1))
    mapping = LayerMapping((Loop("R", 3), *HALF.nest), input=(Kept("buffer", 3),))
    assert [_of_input(layer, mapping, one) for one in (PARTS, LATE)] == [2 * 3 * 3, 2 * 10]


def test_parts_have_whole_room() -> None:
    options = PARTS, replace(PARTS, parts_have_whole_room=True)
    problem = LayerProblem(Layer(p=7, r=1), _machine())
    needs = [needed_bits(problem, boundaries(problem.layer, problem, HALF, one))["buffer", "input"] for one in options]
    assert needs == [3 * 8, 4 * 8]


def test_single_taps_are_channels() -> None:
    option = replace(PARTS, single_taps_are_channels=True)
    mapping = LayerMapping((Loop("C", 2), *HALF.nest), input=(Kept("buffer", 3),))
    assert [_of_input(Layer(p=7, c=2), mapping, one) for one in (PARTS, option)] == [2 * 3 * 2, 2 * 7]
    with_taps = replace(mapping, nest=(Loop("R", 2), *HALF.nest))
    assert len({_of_input(Layer(p=7, r=2), with_taps, one) for one in (PARTS, option)}) == 1


def test_a_tile_of_single_taps_is_at_most_the_stored_input() -> None:
    layer = Layer(p=5, c=2, padding=(1, 0, 1, 0))
    mapping = LayerMapping((Loop("P", 5), Loop("C", 2)), input=(Kept("buffer", 1),))
    option = replace(PARTS, single_taps_are_channels=True)
    for accounting in (PARTS, option, DEFINES):
        assert _of_input(layer, mapping, accounting) == 2 * 3
        problem = LayerProblem(layer, _machine())
        needs = needed_bits(problem, boundaries(layer, problem, mapping, accounting))
        assert needs["buffer", "input"] == 3 * 8


def test_accesses_are_of_a_cycle() -> None:
    machine = _machine(dram_ports=(Port(Direction.READ, 12), Port(Direction.WRITE, 64)))
    mapping = LayerMapping((Loop("P", 3),), input=(Kept("buffer", 1),))
    bounds = Accounting(tiles_from_bounds=True)
    energies = [
        layer_cost(LayerProblem(Layer(p=3), machine), mapping, one).memory_energy_pj["dram", "input"]
        for one in (bounds, replace(bounds, accesses_are_of_a_cycle=True))
    ]
    assert energies == [3.0, 2.0 * 2]  # 24 bits in two cycles, each with two accesses of 8 bits


def test_lone_transfers_never_stall() -> None:
    machine = _machine(buffer_ports=(Port(Direction.READ, 4), Port(Direction.WRITE, 64)))
    mapping, option = (
        LayerMapping((Loop("P", 4),), input=(Kept("buffer", 1),)),
        Accounting(lone_transfers_never_stall=True),
    )
    layer = Layer(p=4, has_weight=False)
    assert layer_cost(LayerProblem(layer, machine), mapping, option).latency.stall == 0
    shared = replace(mapping, weight=(Kept("buffer", 1),))
    stalls = [layer_cost(LayerProblem(Layer(p=4), machine), shared, one).latency.stall for one in (INTERPRETER, option)]
    assert stalls[0] == stalls[1] > 0


def test_last_sums_overlap() -> None:
    machine = _machine(buffer_ports=(Port(Direction.READ, 8), Port(Direction.WRITE, 4)), dram_ports=WIDE)
    mapping = LayerMapping((Loop("P", 4),), output=(Kept("register", 0), Kept("buffer", 1)))
    plain, option = (
        layer_cost(LayerProblem(Layer(p=4), machine), mapping, one)
        for one in (INTERPRETER, Accounting(last_sums_overlap=True))
    )
    assert plain.latency.offload == 2 + 4
    assert option.latency.offload == 4 + 1


EYERISS = (
    (
        "conv:k64c3p112q112r7s7:stride2:pad3x3x2x2",
        "K2 K2 Q2 C3 Q2 S7 Q7 K2 K2 Q2 K2 P2 P2 K2 P2 Q2 P14@column R7@row",
        ((6, 6), (5, 16), (0, 9, 16)),
        1865823684.0,
        4867271.0,
    ),
    (
        "conv:k128c64p28q28r3s3:stride2:pad1x1x0x0",
        "S3 K2 P2 Q7 K2 K2 C2 C2 Q2 K2 K2 C2 R3 K2 K2 Q2 P14@column C8@row",
        ((6, 16), (7, 14), (3, 9, 16)),
        494689272.0,
        756898.0,
    ),
    (
        "conv:k128c64p28q28:stride2",
        "K2 P2 K2 Q2 C2 K2 C2 Q2 P2 P7 C2 K2 Q7 K8@column C8@row",
        ((9, 13), (11, 13), (3, 11, 13)),
        76802960.0,
        207234.0,
    ),
    (
        "conv:k64c64p56q56r3s3:stride2:pad1x1x0x0:groups64",
        "Q2 Q7 G2 Q2 P2 G2 P2 G2 G2 G2 G2 Q2 P14@column R3@row S3@row",
        ((4, 12), (0, 1), (2, 7, 12)),
        146639364.0,
        128296.296875,
    ),
)
TPU = (
    (
        "conv:k64c3p112q112r7s7:stride2:pad3x3x2x2",
        "S7 K2 P2 P2 P2 Q7 P7 R7 K2 Q2 Q2 P2 Q2 Q2 K16@D1 C3@D2",
        ((14,), (1,), (1, 14)),
        10515850222.976,
        14870895.0,
    ),
    (
        "conv:k128c64p28q28r3s3:stride2:pad1x1x0x0",
        "Q2 P2 R3 S3 Q2 K2 K2 Q7 P7 C2 P2 K32@D1 C32@D2",
        ((11,), (11,), (0, 11)),
        56577216.768,
        138046.0,
    ),
    (
        "conv:k128c64p28q28:stride2",
        "Q7 K2 Q2 K2 K2 K2 K2 C2 K2 Q2 P2 P7 K2 P2 C32@D2",
        ((14,), (12,), (0, 14)),
        31778516.352,
        407711.0,
    ),
    (
        "conv:k64c64p56q56r3s3:stride2:pad1x1x0x0:groups64",
        "P7 P2 G2 P2 S3 Q2 Q2 Q2 Q7 P2 R3 G32@D1",
        ((11,), (11,), (0, 6)),
        307872225.984,
        400544.0,
    ),
)


META = (
    (
        "conv:k56c1p79q66r5s5",
        "K28@K Q4@OX P4@OY R5 S5 K2 P4 Q17 P5",
        ((9, 9), (0, 9, 9), (5, 8, 9)),
        30063174.759999998,
        59740,
    ),
    (
        "conv:k12c56p79q66",
        "K12@K C2@C Q4@OX P4@OY C4 C7 P2 Q17 P2 P5",
        ((9, 10), (0, 10, 10), (6, 8, 10)),
        33178344.015,
        57631,
    ),
    (
        "conv:k33c12p27q50r3s3:stride2",
        "K17@K C2@C Q4@OX P4@OY C6 R3 S3 K2 Q13 P7",
        ((9, 10), (0, 10, 10), (7, 10, 10)),
        11255592.260000002,
        25174,
    ),
    (
        "conv:k16c56p135q238r3s3",
        "K16@K C2@C Q4@OX P4@OY C28 R3 S3 P34 Q12 Q5",
        ((8, 9), (0, 10, 10), (7, 8, 10)),
        248516488.21500003,
        636410,
    ),
)
"""Figures of zigzag-dse 2.0.0's cost model, without clipping at the border and with offloading as in DeFiNES."""


@pytest.mark.parametrize(("layer", "nest", "cuts", "energy_pj", "cycles"), META)
def test_defines_says_the_same_of_units_in_parts(
    layer: str, nest: str, cuts: tuple[tuple[int, ...], ...], energy_pj: float, cycles: float
) -> None:
    cost = _cost_of(load_accelerator("meta-prototype-df"), layer, nest, cuts, DEFINES)
    assert (cost.energy_pj, cost.cycles) == pytest.approx((energy_pj, cycles), rel=1e-12)


@pytest.mark.parametrize(("layer", "nest", "cuts", "energy_pj", "cycles"), EYERISS)
def test_zigzag_says_the_same_of_eyeriss(
    layer: str, nest: str, cuts: tuple[tuple[int, ...], ...], energy_pj: float, cycles: float
) -> None:
    cost = _cost_of(load_accelerator("eyeriss-like"), layer, nest, cuts, ZIGZAG)
    assert (cost.energy_pj, cost.cycles) == pytest.approx((energy_pj, cycles), rel=1e-9)


@pytest.mark.parametrize(("layer", "nest", "cuts", "energy_pj", "cycles"), TPU)
def test_zigzag_says_the_same_of_a_systolic_array(
    layer: str, nest: str, cuts: tuple[tuple[int, ...], ...], energy_pj: float, cycles: float
) -> None:
    hardware = read_zigzag_hardware(SYSTOLIC)
    cost = _cost_of(hardware.accelerator, layer, nest, cuts, replace(ZIGZAG, systolic=hardware.systolic))
    # ZigZag rounds each memory's accesses down to whole ones.
    assert cost.energy_pj == pytest.approx(energy_pj, rel=2e-5)
    assert cost.cycles == pytest.approx(cycles, rel=1e-9)


def _cost_of(
    machine: Accelerator, text: str, nest: str, cuts: tuple[tuple[int, ...], ...], accounting: Accounting
) -> LayerCost:
    kept = []
    for operand, own in zip((Operand.INPUT, Operand.WEIGHT, Operand.OUTPUT), cuts, strict=True):
        names = [level.memory.name for level in machine.levels if operand in level.memory.holds]
        kept.append(tuple(Kept(name, cut) for name, cut in zip(names, own, strict=True)))
    loops = tuple(map(_loop, nest.split()))
    return layer_cost(
        LayerProblem(replace(Layer.of_text(text), partial_bits=16), machine), LayerMapping(loops, *kept), accounting
    )


def _loop(text: str) -> Loop:
    match = fullmatch(r"([A-Z])([0-9]+)(?:@(\w+))?", text)
    if match is None:
        raise ValueError(text)
    return Loop(match[1], int(match[2]), match[3])
