"""Accounting of ZigZag and DeFiNES: differences by figures computed by hand, and all against their own figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from re import fullmatch

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.zigzag import read_zigzag_hardware
from onchip.ir.layer import Layer
from onchip.model.accounting.accounting import DEFINES, INTERPRETER, ZIGZAG, Accounting, settled
from onchip.model.layer.cost import LayerCost, Visit, covered_cycles, layer_cost
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


def test_the_interpreter_counts_as_neither_of_the_others() -> None:
    assert Accounting() == INTERPRETER
    flags = [(one.counts_from_bounds, one.is_zigzag, one.is_defines) for one in (INTERPRETER, ZIGZAG, DEFINES)]
    assert flags == [(False, False, False), (True, True, False), (True, False, True)]


def test_a_tile_spans_the_loops_above_it_that_reuse_it() -> None:
    mapping = LayerMapping((Loop("P", 2), Loop("C", 2), Loop("K", 2)), output=(Kept("buffer", 1),))
    assert settled(mapping).output == (Kept("buffer", 2),)
    layer = Layer(p=2, c=2, k=2)
    moved = [_moved_by(one, layer, mapping, "dram", "output", Move.WRITE_FROM_BELOW) for one in (INTERPRETER, ZIGZAG)]
    assert moved == [(4, 24), (4, 8)]  # the tile is complete when it leaves


def test_tiles_have_the_size_of_their_bounds() -> None:
    layer = Layer(p=4, r=3, padding=(1, 0, 1, 0))
    mapping = LayerMapping((Loop("R", 3), Loop("P", 2), Loop("P", 2)), input=(Kept("buffer", 2),))
    assert _of_input(layer, mapping, INTERPRETER) == 3 + 3  # each of two tiles has one row of zeros
    assert _of_input(layer, mapping, ZIGZAG) == 4 + 4


def test_skipped_rows_are_absent() -> None:
    layer, mapping = Layer(p=4, stride=(2, 1)), LayerMapping((Loop("P", 4),), input=(Kept("buffer", 1),))
    assert [_of_input(layer, mapping, one) for one in (INTERPRETER, ZIGZAG)] == [7, 4]


def test_neighbours_share_no_halo() -> None:
    layer = Layer(p=2, r=3)
    mapping = LayerMapping((Loop("R", 3), Loop("P", 2, "P")), input=(Kept("register", 1), Kept("buffer", 1)))
    moved = [_moved_by(one, layer, mapping, "buffer", "input", Move.READ_FOR_BELOW) for one in (INTERPRETER, ZIGZAG)]
    assert moved == [(4, 8), (6, 8)]  # two windows of three rows, two of them in both


def test_units_keep_operands_as_zigzag_counts_not_as_defines_does() -> None:
    mapping = LayerMapping((Loop("K", 4), Loop("P", 2)), input=(Kept("buffer", 2),), weight=(Kept("buffer", 2),))
    read = [
        [_moved_by(one, Layer(k=4, p=2), mapping, "buffer", operand, Move.READ_FOR_BELOW)[0] for operand in operands]
        for operands in (("input", "weight"),)
        for one in (INTERPRETER, ZIGZAG, DEFINES)
    ]
    assert read == [[8, 8], [2, 8], [8, 8]]


def test_begun_sums_are_read() -> None:
    layer, mapping = Layer(p=2, c=3), LayerMapping((Loop("P", 2), Loop("C", 3)), output=(Kept("register", 0),))
    for memory, move in (("dram", Move.READ_FOR_BELOW), ("register", Move.WRITE_FROM_ABOVE)):
        read = [_moved_by(one, layer, mapping, memory, "output", move)[0] for one in (INTERPRETER, ZIGZAG)]
        assert read == [2 * 2, 2 * 3]


def test_finished_sums_leave_short() -> None:
    layer, mapping = Layer(c=2), LayerMapping((Loop("C", 2),), output=(Kept("buffer", 1),))
    moved = [_moved_by(one, layer, mapping, "buffer", "output", Move.READ_FOR_ABOVE) for one in (INTERPRETER, ZIGZAG)]
    assert moved == [(1, 24), (1, 8)]


SLOW_DRAM = (Port(Direction.READ, 4), Port(Direction.WRITE, 64))
POOL = Layer(k=4, p=4, has_weight=False)
"""A layer whose input is used four times, once for each k."""
USED_AGAIN = LayerMapping((Loop("P", 2), Loop("K", 4), Loop("P", 2)), input=(Kept("buffer", 2),))
"""A tile of two elements is in use for 8 cycles, the last time from cycle 6 on; the next takes 4 cycles."""


def test_a_memory_is_double_buffered_where_a_second_tile_fits() -> None:
    machine, narrow = _machine(8, dram_ports=SLOW_DRAM), _machine(3, dram_ports=SLOW_DRAM)
    assert layer_cost(LayerProblem(POOL, machine), USED_AGAIN).latency.stall == 4 - 2
    assert layer_cost(LayerProblem(POOL, machine), USED_AGAIN, ZIGZAG).latency.stall == 0
    assert layer_cost(LayerProblem(POOL, narrow), USED_AGAIN, ZIGZAG).latency.stall > 0


def test_the_last_period_has_a_window_as_others_count() -> None:
    visits = [Visit("dram", 0, "input", 1, 4, 2, 3), Visit("dram", 0, "weight", 1, 8, 3, 1)]
    assert covered_cycles(visits, 16) == 2 + 3 + 2
    assert covered_cycles(visits, 16, last_counts=True) == 2 * (2 + 3)


WHOLE = LayerMapping((Loop("P", 4), Loop("K", 3)), input=(Kept("buffer", 2),), weight=(Kept("register", 2),))
"""The port takes 8 cycles for 4 elements of input and 6 for 3 weights."""


def test_operands_that_share_no_memory_load_side_by_side() -> None:
    machine, layer = _machine(dram_ports=SLOW_DRAM), Layer(p=4, k=3)
    levels = tuple(_for_one(level) for level in machine.levels)
    scratchpads = tuple(level.memory for level in levels if level.is_scratchpad)
    apart = LayerProblem(layer, replace(machine, levels=levels, scratchpads=scratchpads))
    assert [layer_cost(apart, WHOLE, one).latency.preload for one in (INTERPRETER, DEFINES)] == [8 + 6, 8]


def _for_one(level: MemoryLevel) -> MemoryLevel:
    holds = (Operand.WEIGHT,) if level.memory.name == "register" else (Operand.INPUT, Operand.OUTPUT)
    return replace(level, memory=replace(level.memory, holds=holds), ports=WIDE)


def test_systolic_dimensions_drain() -> None:
    mapping = LayerMapping((Loop("P", 2), Loop("K", 2, "K"), Loop("P", 2, "P")))
    plain, drained = (
        layer_cost(LayerProblem(Layer(k=2, p=4), _machine()), mapping, replace(ZIGZAG, systolic=one))
        for one in ((), ("K", "P"))
    )
    assert (plain.latency.drain, drained.latency.drain) == (0, 1 + 1)
    assert drained.cycles == plain.cycles + 2


def _moved_by(
    accounting: Accounting, layer: Layer, mapping: LayerMapping, memory: str, operand: str, move: Move
) -> tuple[int, int]:
    return _moved(layer_cost(LayerProblem(layer, _machine()), mapping, accounting), memory, operand, move)


def _of_input(layer: Layer, mapping: LayerMapping, accounting: Accounting) -> int:
    """Return the number of input elements written into the buffer from above."""
    return _moved_by(accounting, layer, mapping, "buffer", "input", Move.WRITE_FROM_ABOVE)[0]


def test_units_are_in_parts_where_they_do_not_divide_a_loop() -> None:
    mapping = LayerMapping((Loop("K", 2, "K"), Loop("K", 2)), weight=(Kept("register", 1), Kept("buffer", 2)))
    assert _moved_by(ZIGZAG, Layer(k=3), mapping, "dram", "weight", Move.READ_FOR_BELOW)[0] == 3
    # Twice, one weight each in 1.5 registers, rounded to two.
    assert _moved_by(ZIGZAG, Layer(k=3), mapping, "register", "weight", Move.WRITE_FROM_ABOVE)[0] == 2 * 2


HALF = LayerMapping((Loop("P", 2, "P"), Loop("P", 2), Loop("P", 2)), input=(Kept("buffer", 2),))
"""A layer of seven rows in four turns of 1.75: 3.5 at a time in the buffer, twice."""


def test_defines_cuts_parts_late_and_gives_them_whole_room() -> None:
    layer = Layer(p=7, r=3, stride=(4, 1))
    mapping = LayerMapping((Loop("R", 3), *HALF.nest), input=(Kept("buffer", 3),))
    assert [_of_input(layer, mapping, one) for one in (ZIGZAG, DEFINES)] == [2 * 3 * 3, 2 * 10]
    problem = LayerProblem(Layer(p=7, r=1), _machine())
    needs = [
        needed_bits(problem, boundaries(problem.layer, problem, HALF, one))["buffer", "input"]
        for one in (ZIGZAG, DEFINES)
    ]
    assert needs == [3 * 8, 4 * 8]


def test_defines_counts_single_taps_as_channels() -> None:
    mapping = LayerMapping((Loop("C", 2), *HALF.nest), input=(Kept("buffer", 3),))
    assert [_of_input(Layer(p=7, c=2), mapping, one) for one in (ZIGZAG, DEFINES)] == [2 * 3 * 2, 2 * 7]


def test_a_tile_of_single_taps_is_at_most_the_stored_input() -> None:
    layer = Layer(p=5, c=2, padding=(1, 0, 1, 0))
    mapping = LayerMapping((Loop("P", 5), Loop("C", 2)), input=(Kept("buffer", 1),))
    for accounting in (ZIGZAG, DEFINES):
        assert _of_input(layer, mapping, accounting) == 2 * 3
        problem = LayerProblem(layer, _machine())
        needs = needed_bits(problem, boundaries(layer, problem, mapping, accounting))
        assert needs["buffer", "input"] == 3 * 8


def test_defines_rounds_accesses_up_in_each_cycle() -> None:
    machine = _machine(dram_ports=(Port(Direction.READ, 12), Port(Direction.WRITE, 64)))
    mapping = LayerMapping((Loop("P", 3),), input=(Kept("buffer", 1),))
    energies = [
        layer_cost(LayerProblem(Layer(p=3), machine), mapping, one).memory_energy_pj["dram", "input"]
        for one in (ZIGZAG, DEFINES)
    ]
    assert energies == [3.0, 2.0 * 2]  # 24 bits in two cycles, each with two accesses of 8 bits


def test_the_last_sums_overlap_as_defines_counts() -> None:
    machine = _machine(buffer_ports=(Port(Direction.READ, 8), Port(Direction.WRITE, 4)), dram_ports=WIDE)
    mapping = LayerMapping((Loop("P", 4),), output=(Kept("register", 0), Kept("buffer", 1)))
    offloads = [
        layer_cost(LayerProblem(Layer(p=4), machine), mapping, one).latency.offload for one in (INTERPRETER, DEFINES)
    ]
    assert offloads == [2 + 4, 4 + 1]


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
