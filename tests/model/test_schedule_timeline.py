"""Timeline, figures and copies of schedules."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations, product
from random import Random

import pytest

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.energies import stated
from onchip.arch.memory import DRAM, Access, Direction, Dma, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError, UsageError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import (
    ComputeCost,
    CopyPrices,
    NestCost,
    OperandAtHome,
    cost_of_nests,
    cost_without_nest,
)
from onchip.model.program.figures import ScheduleFigures, schedule_figures
from onchip.model.timeline.activity import LatencyParts, Wait
from onchip.model.timeline.schedule_timeline import FreedPlaces, ScheduleTimeline, time_schedule
from onchip.ops.nests import BandedOperand, operands_of
from oracles.schedule_timeline import OperatorFacts, OracleTimeline
from support.schedule_programs import ProgramCase, random_program
from support.series import in_one_test, series

# The timeline of a schedule's program, compared with a plain one made from the text, and causes that never delay


def timed(case: ProgramCase) -> ScheduleTimeline:
    return time_schedule(case.graph, case.accelerator, case.program, case.costs)


@pytest.mark.parametrize("hundred", series(range(20), 6))
def test_every_instruction_runs_when_the_text_says(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        case = random_program(seed)
        facts = {
            name: OperatorFacts(one.cycles, one.dram_read_bits, one.dram_written_bits, one.workspace_bytes)
            for name, one in case.costs.items()
        }
        oracle = OracleTimeline(case.graph, case.accelerator, facts)
        latency = oracle.run(case.program.instructions)
        found = timed(case)
        expected = [(one.number, one.start, one.stop, one.queue) for one in oracle.done]
        assert [(one.instruction, one.start, one.stop, one.queue) for one in found.activities] == expected, seed
        assert found.latency_cycles == latency == found.parts.total


def test_the_random_programs_have_all_that_a_timeline_can_wait_for() -> None:
    """Otherwise the comparison above proves nothing."""
    waits = {
        (one.queue is None, one.waited_for)
        for seed in range(200)
        for one in timed(random_program(seed)).activities
        if one.idle_cycles
    }
    assert waits == set(product((True, False), (Wait.DATA, Wait.PLACE, Wait.DRAM)))


def starts(timeline: ScheduleTimeline) -> list[tuple[int, int]]:
    return [(one.start, one.stop) for one in timeline.activities]


def never_later(one: ScheduleTimeline, other: ScheduleTimeline) -> bool:
    pairs = zip(starts(one), starts(other), strict=True)
    return all(a <= c and b <= d for (a, b), (c, d) in pairs) and one.latency_cycles <= other.latency_cycles


def faster(ports: tuple[Port, ...], factor: int) -> tuple[Port, ...]:
    return tuple(replace(port, bits_per_cycle=port.bits_per_cycle * factor + factor // 2) for port in ports)


@pytest.mark.parametrize("seed", series(range(300), 100))
def test_faster_memories_and_less_work_never_delay_anything(seed: int) -> None:
    case, random = random_program(seed), Random(seed)
    machine, slow = case.accelerator, timed(case)
    assert machine.dram is not None
    dram = replace(machine, dram=replace(machine.dram, ports=faster(machine.dram.ports, random.choice((1, 2, 7)))))
    levels = tuple(replace(one, ports=faster(one.ports, random.choice((1, 3)))) for one in machine.levels)
    setup = replace(machine, dma=Dma(machine.dma.queues, 0) if machine.dma else None)
    for quicker in (dram, replace(machine, levels=levels), setup):
        assert never_later(timed(replace(case, accelerator=quicker)), slow)
    costs = {name: replace(one, cycles=random.randint(0, one.cycles)) for name, one in case.costs.items()}
    assert never_later(timed(replace(case, costs=costs)), slow)
    streamed = {
        name: replace(one, dram_read_bits=random.randint(0, one.dram_read_bits)) for name, one in case.costs.items()
    }
    assert never_later(timed(replace(case, costs=streamed)), slow)


def with_queues(case: ProgramCase, queues: int) -> ScheduleTimeline:
    dma = replace(case.accelerator.dma or Dma(), queues=queues)
    return timed(replace(case, accelerator=replace(case.accelerator, dma=dma)))


@pytest.mark.parametrize("seed", series(range(300), 100))
def test_a_multiple_of_the_queues_never_delays_anything(seed: int) -> None:
    case = random_program(seed)
    for queues, factor in ((1, 2), (1, 3), (2, 2), (3, 2)):
        assert never_later(with_queues(case, queues * factor), with_queues(case, queues))


def test_three_queues_may_be_slower_than_two() -> None:
    """A copy may join the queue of a long copy, for which it did not wait with two queues."""
    assert any(
        with_queues(random_program(seed), 3).latency_cycles > with_queues(random_program(seed), 2).latency_cycles
        for seed in range(2000)
    )


CHIP = Accelerator(
    "chip",
    (Memory("sram", 100),),
    (
        MemoryLevel(
            Memory("sram", 100), is_scratchpad=True, access=Access(8, 1, 1), ports=(Port(Direction.READ_WRITE, 8),)
        ),
    ),
    None,
    ComputeArray(free=1, mac_energy_pj=0.0),
    Dram(Access(8, 10, 10), (Port(Direction.READ_WRITE, 8),)),
    Dma(1, 0),
)
TWO = Graph(
    "two",
    (
        Tensor("x", 10, Role.INPUT),
        Tensor("w", 30, Role.PARAMETER),
        Tensor("y", 10, Role.ACTIVATION),
        Tensor("z", 10, Role.OUTPUT),
    ),
    (Operator("first", "Relu", ("x",), ("y",)), Operator("second", "Conv", ("y",), ("z",), ("w",))),
)
RESIDENT = {name: ComputeCost(0, 50, 0, 0, {}) for name in ("first", "second")}


def of_two(*instructions: Instruction, costs: dict[str, ComputeCost] = RESIDENT) -> ScheduleTimeline:
    return time_schedule(TWO, CHIP, Plan((CHIP.scratchpads[0],), instructions), costs)


def test_a_prefetch_stands_earlier_and_runs_beside_the_computation() -> None:
    before = (Allocate("x", "sram", 0), Copy("x", DRAM, "sram"), Allocate("y", "sram", 10))
    load = (Allocate("w", "sram", 20), Copy("w", DRAM, "sram"))
    after = (Allocate("z", "sram", 50), Compute("second"), Copy("z", "sram", DRAM))
    prefetched = of_two(*before, *load, Compute("first"), *after)
    assert [(one.subject, one.start, one.stop) for one in prefetched.activities] == [
        ("x", 0, 10),
        ("w", 10, 40),
        ("first", 10, 60),
        ("second", 60, 110),
        ("z", 110, 120),
    ]
    assert starts(of_two(*before, Compute("first"), *load, *after))[1:3] == [(10, 60), (10, 40)]


def test_a_copy_waits_for_a_compute_whose_place_it_takes() -> None:
    """The copy has no other reason to wait than its place."""
    timeline = of_two(
        Allocate("x", "sram", 0),
        Copy("x", DRAM, "sram"),
        Allocate("y", "sram", 70),
        Compute("first"),
        Free("x", "sram"),
        Allocate("w", "sram", 5),
        Copy("w", DRAM, "sram"),
        Allocate("z", "sram", 35),
        Compute("second"),
        Copy("z", "sram", DRAM),
    )
    assert starts(timeline)[:3] == [(0, 10), (10, 60), (60, 90)]
    assert timeline.parts == LatencyParts(100, preload=10, waiting_for_room=30, waiting_for_stores=10)


def test_a_place_that_nobody_wrote_hides_nobody_who_used_its_bytes() -> None:
    timeline = of_two(
        Allocate("x", "sram", 60),
        Copy("x", DRAM, "sram"),
        Allocate("y", "sram", 70),
        Compute("first"),
        Free("x", "sram"),
        Allocate("w", "sram", 0),
        Copy("w", DRAM, "sram"),
        Allocate("z", "sram", 80),
        Compute("second"),
        Free("w", "sram"),
        Allocate("x", "sram", 5),
        Free("x", "sram"),
        Allocate("w", "sram", 20),
        Copy("w", DRAM, "sram"),
        Copy("z", "sram", DRAM),
    )
    assert starts(timeline)[3:5] == [(60, 110), (110, 140)]


def test_a_compute_that_streams_has_dram_from_its_beginning_and_may_let_it_go_late() -> None:
    streaming = RESIDENT | {"first": ComputeCost(0, 5, 80, 80, {}), "second": ComputeCost(0, 5, 240, 80, {})}
    timeline = of_two(Compute("first"), Compute("second"), costs=streaming)
    assert starts(timeline) == [(0, 5), (20, 25)]
    assert timeline.latency_cycles == 60
    assert timeline.parts == LatencyParts(10, waiting_for_dram=15 + 35)


def test_a_port_of_no_use_is_refused() -> None:
    assert CHIP.dram is not None
    only_writing = replace(CHIP, dram=replace(CHIP.dram, ports=(Port(Direction.WRITE, 8),)))
    program = Plan((CHIP.scratchpads[0],), (Allocate("x", "sram", 0), Copy("x", DRAM, "sram")))
    with pytest.raises(AcceleratorError, match="no port can read"):
        time_schedule(TWO, only_writing, program, RESIDENT)


@pytest.mark.parametrize("seed", series(range(200), 66))
def test_places_are_free_when_their_bytes_were_last_in_use(seed: int) -> None:
    """The check runs byte by byte."""
    random, places, bytes_free_at = Random(seed), FreedPlaces(), [0] * 40
    for cycle in range(1, 60):
        start = random.randrange(40)
        stop = random.randint(start + 1, 40)
        assert places.take(start, stop)[0] == max(bytes_free_at[start:stop])
        bytes_free_at[start:stop] = [cycle] * (stop - start)
        places.give_back(start, stop, (cycle, cycle))


# The sums over a schedule's program, compared with adding up one instruction after the other


SEEDS = in_one_test("seed", range(100))


def figures_of(case: ProgramCase) -> ScheduleFigures:
    return schedule_figures(case.graph, case.accelerator, case.program, case.costs)


@SEEDS
def test_energy_is_that_of_each_compute_and_each_copy(seed: int) -> None:
    case = random_program(seed)
    figures, prices, energy_fj, rounded = figures_of(case), CopyPrices(case.accelerator), 0, 0
    for one in case.program.instructions:
        if isinstance(one, Compute):
            energy_fj += case.costs[one.operator].energy_fj
        elif isinstance(one, Copy):
            tensor = case.graph.tensor[one.tensor]
            is_parameter = tensor.role is Role.PARAMETER
            energy_fj += prices.of(tensor.size_bytes, one.source, one.target, is_parameter=is_parameter).energy_fj
            rounded += 1
    computes_fj = sum(cost.energy_fj for cost in case.costs.values())
    assert figures.energy_fj == energy_fj
    total_pj = sum(figures.energy.by_memory_pj.values()) + stated(figures.energy.mac_pj)
    assert abs(total_pj * 1000 + computes_fj - energy_fj) <= rounded / 2 + 1e-6
    assert figures.edp == energy_fj * figures.latency_cycles


@SEEDS
def test_traffic_is_what_copies_and_computes_move(seed: int) -> None:
    case = random_program(seed)
    copies = [one for one in case.program.instructions if isinstance(one, Copy)]
    size = {one.name: one.size_bytes for one in case.graph.tensors}
    traffic = figures_of(case).traffic
    assert traffic.loads == sum(size[one.tensor] for one in copies if one.source == DRAM)
    assert traffic.write_backs == sum(size[one.tensor] for one in copies if one.target == DRAM)
    assert traffic.streamed_reads == sum((cost.dram_read_bits + 7) // 8 for cost in case.costs.values())
    assert traffic.streamed_writes == sum((cost.dram_written_bits + 7) // 8 for cost in case.costs.values())
    assert figures_of(case).traffic_bytes == traffic.total


@SEEDS
def test_latency_is_the_end_of_the_timeline_and_its_parts_add_up(seed: int) -> None:
    case = random_program(seed)
    figures = figures_of(case)
    assert figures.timeline == time_schedule(case.graph, case.accelerator, case.program, case.costs)
    assert figures.latency.total == figures.latency_cycles
    assert figures.latency.computing == sum(cost.cycles for cost in case.costs.values())
    assert min(figures.latency.by_name.values()) >= 0


@SEEDS
def test_peak_and_arena_count_bytes(seed: int) -> None:
    """The test counts each byte of each memory after each instruction."""
    case = random_program(seed)
    taken: dict[tuple[str, str], range] = {}
    peak, arena = dict.fromkeys(figures_of(case).memories, 0), dict.fromkeys(figures_of(case).memories, 0)
    for one in case.program.instructions:
        match one:
            case Allocate(tensor, memory, offset):
                operator = tensor.removesuffix("@workspace")
                if operator != tensor:
                    size = case.costs[operator].workspace_bytes[memory]
                else:
                    size = case.graph.tensor[tensor].size_bytes
                taken[tensor, memory] = range(offset, offset + size)
            case Free(tensor, memory):
                del taken[tensor, memory]
        for memory in peak:
            used = {byte for (_, place), some in taken.items() if place == memory for byte in some}
            peak[memory] = max(peak[memory], len(used))
            arena[memory] = max(arena[memory], max(used, default=-1) + 1)
    found = figures_of(case).memories
    assert {memory: one.peak_bytes for memory, one in found.items()} == peak
    assert {memory: one.arena_bytes for memory, one in found.items()} == arena


# Costs of copies and of operators without a loop nest, by hand


MAPS = (Operand.INPUT, Operand.OUTPUT)


def level(name: str, holds: tuple[Operand, ...], access: Access, *ports: Port) -> MemoryLevel:
    return MemoryLevel(Memory(name, 1024, holds=holds), None, True, access=access, ports=ports)


LOCAL = level("local", tuple(Operand), Access(8, 1, 2), Port(Direction.READ_WRITE, 64))
WEIGHTS = level("weights", (Operand.WEIGHT,), Access(64, 16, 32, 16), Port(Direction.READ, 8), Port(Direction.WRITE, 8))
SHARED = level("shared", MAPS, Access(64, 10, 12), Port(Direction.READ, 32), Port(Direction.WRITE, 16))
REGISTER = replace(level("register", tuple(Operand), Access(8, 0.1, 0.1)), serves=(), is_scratchpad=False)
LEVELS = (REGISTER, LOCAL, WEIGHTS, SHARED)
CHIP_WITH_COPIES = Accelerator(
    "chip",
    tuple(one.memory for one in LEVELS[1:]),
    LEVELS,
    None,
    ComputeArray({"lane": 2}, mac_energy_pj=0.0),
    Dram(Access(64, 700, 750, 8), (Port(Direction.READ_WRITE, 8), Port(Direction.READ, 16))),
    Dma(1, 5),
)
PRICES = CopyPrices(CHIP_WITH_COPIES)


@pytest.mark.parametrize(
    ("source", "target", "is_parameter", "way"),
    [
        (DRAM, "local", False, (DRAM, "shared", "local")),
        (DRAM, "local", True, (DRAM, "weights", "local")),
        ("local", DRAM, False, ("local", "shared", DRAM)),
        ("local", "shared", False, ("local", "shared")),
        ("shared", "weights", False, ("shared", "weights")),
        (DRAM, "shared", True, (DRAM, "shared")),
    ],
)
def test_a_copy_passes_what_may_hold_the_tensor(
    source: str, target: str, is_parameter: bool, way: tuple[str, ...]
) -> None:
    assert PRICES.way(source, target, is_parameter=is_parameter) == way


def test_each_hop_is_a_read_and_a_write_in_shortest_accesses() -> None:
    cost = PRICES.of(9, DRAM, "local", is_parameter=False)
    assert cost.access_pj == {DRAM: 9 * 700 / 8, "shared": 2 * 12 + 2 * 10, "local": 9 * 2}
    assert cost.energy_fj == 787_500 + 44_000 + 18_000
    assert (cost.dram_read_bits, cost.dram_written_bits) == (72, 0)
    weights = PRICES.of(3, "local", DRAM, is_parameter=True)
    assert weights.access_pj == {"local": 3, "weights": 2 * 8 + 2 * 4, DRAM: 3 * 750 / 8}
    assert (weights.dram_read_bits, weights.dram_written_bits) == (0, 24)


def test_a_copy_takes_its_set_up_and_its_slowest_hop() -> None:
    assert PRICES.of(9, DRAM, "local", is_parameter=False).cycles == 5 + 5  # 72 bits at 16 into `shared`
    assert PRICES.of(9, "local", "weights", is_parameter=True).cycles == 5 + 9
    assert PRICES.of(9, DRAM, "local", is_parameter=False).dram_cycles == 3
    assert PRICES.of(9, "local", DRAM, is_parameter=False).dram_cycles == 9


def test_a_memory_without_ports_keeps_up() -> None:
    quick = replace(CHIP_WITH_COPIES, levels=tuple(replace(one, ports=()) for one in LEVELS), dma=None)
    assert CopyPrices(quick).of(9, "local", "shared", is_parameter=False).cycles == 0
    assert CopyPrices(quick).of(9, DRAM, "local", is_parameter=False).cycles == 3


@pytest.mark.parametrize(("energy_pj", "rounded_fj"), [(0.0005, 0), (0.0015, 2), (0.1, 100), (0.00149999, 1)])
def test_the_whole_copy_is_rounded_once_half_to_even(energy_pj: float, rounded_fj: int) -> None:
    half = Access(8, energy_pj, 0.0)
    levels = tuple(replace(one, access=half if one is LOCAL else Access(8, 0, 0)) for one in LEVELS)
    assert (
        CopyPrices(replace(CHIP_WITH_COPIES, levels=levels)).of(1, "local", "shared", is_parameter=False).energy_fj
        == rounded_fj
    )


def test_where_a_copy_cannot_be_it_is_refused() -> None:
    with pytest.raises(AcceleratorError, match="cannot address memory 'register'"):
        PRICES.of(1, "register", DRAM, is_parameter=False)


def test_the_energy_of_a_copy_is_unknown_where_a_memory_states_none() -> None:
    silent = replace(CHIP_WITH_COPIES, levels=(REGISTER, replace(LOCAL, access=None)), scratchpads=(LOCAL.memory,))
    known = replace(CHIP_WITH_COPIES, levels=(REGISTER, LOCAL), scratchpads=(LOCAL.memory,))
    cost, same = (CopyPrices(chip).of(1, DRAM, "local", is_parameter=False) for chip in (silent, known))
    assert cost == replace(same, stated_energy_fj=None, access_pj={DRAM: same.access_pj[DRAM]})
    with pytest.raises(AcceleratorError, match="does not state all energies"):
        _ = cost.energy_fj


@pytest.mark.parametrize("way", list(permutations(["local", "weights", "shared", DRAM], 2)))
@pytest.mark.parametrize("is_parameter", [False, True])
def test_a_copy_costs_as_much_as_its_hops_one_by_one(way: tuple[str, str], is_parameter: bool) -> None:
    cost = PRICES.of(16, *way, is_parameter=is_parameter)
    hops = [PRICES.of(16, *hop, is_parameter=is_parameter) for hop in pairwise(cost.memories)]
    assert cost.energy_fj == sum(hop.energy_fj for hop in hops)
    assert cost.cycles == max(hop.cycles for hop in hops)


def test_an_operator_without_a_nest_reads_and_writes_once_where_its_operands_are() -> None:
    operands = [
        OperandAtHome(Operand.INPUT, 80, 40, "shared"),
        OperandAtHome(Operand.INPUT, 24, 8, None),
        OperandAtHome(Operand.WEIGHT, 9, 9, None),
        OperandAtHome(Operand.OUTPUT, 80, 40, "shared"),
    ]
    cost = cost_without_nest(operands, CHIP_WITH_COPIES)
    assert cost.access_pj == {
        ("shared", "input"): 20,
        (DRAM, "input"): 3 * 700 / 8,
        (DRAM, "weight"): 2 * 700 / 8,
        ("shared", "output"): 24,
    }
    assert cost.energy_fj == 20_000 + 262_500 + 175_000 + 24_000
    assert cost.cycles == max(3 + 5, 2)  # `shared`: 80 bits at 32, 80 at 16; DRAM: 33 bits at 24
    assert (cost.dram_read_bits, cost.dram_written_bits) == (33, 0)
    assert cost.workspace_bytes == {"shared": 1, "weights": 2}


def test_rows_of_one_memory_share_its_last_byte() -> None:
    rows = [OperandAtHome(Operand.INPUT, 12, 4, None), OperandAtHome(Operand.OUTPUT, 12, 5, None)]
    assert cost_without_nest(rows, CHIP_WITH_COPIES).workspace_bytes == {"shared": 2}
    no_maps = replace(CHIP_WITH_COPIES, levels=(WEIGHTS,), scratchpads=(WEIGHTS.memory,))
    assert cost_without_nest(rows, no_maps).workspace_bytes == {}


def test_rows_that_are_larger_than_their_memory_pass_through_it_in_pieces() -> None:
    capacity = next(one.memory.capacity_bytes for one in CHIP_WITH_COPIES.levels if one.memory.name == "shared")
    rows = [OperandAtHome(Operand.INPUT, 80 * capacity, bits, None) for bits in (8 * capacity, 1)]
    assert cost_without_nest(rows[:1], CHIP_WITH_COPIES).workspace_bytes == {"shared": capacity}
    assert cost_without_nest(rows, CHIP_WITH_COPIES).workspace_bytes == {"shared": capacity}
    assert cost_without_nest(rows, CHIP_WITH_COPIES).dram_read_bits == 160 * capacity


def test_of_several_nests_costs_add_up_and_the_greatest_workspace_counts() -> None:
    nests = [
        NestCost(0.0004, 7, 8, 0, {"local": 3, "shared": 1}, 0.0002, {("local", "input"): 0.0002}),
        NestCost(0.0004, 5, 3, 9, {"local": 2, "weights": 4}, 0.0, {("local", "input"): 0.0004}),
    ]
    cost = cost_of_nests(nests)
    assert (cost.energy_fj, cost.cycles, cost.dram_read_bits, cost.dram_written_bits) == (1, 12, 11, 9)
    assert cost.workspace_bytes == {"local": 3, "shared": 1, "weights": 4}
    assert cost.access_pj == pytest.approx({("local", "input"): 0.0006})


def test_a_negative_figure_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 0"):
        ComputeCost(0, -1, 0, 0, {})


def test_all_bands_of_a_tensor_are_one_operand() -> None:
    tensors = (
        Tensor("x[0]", 5, Role.INPUT, (1, 5), 8, part_of="x", region=((0, 1), (0, 5))),
        Tensor("x[1]", 3, Role.INPUT, (1, 3), 8, part_of="x", region=((0, 1), (5, 8))),
        Tensor("b", 2, Role.PARAMETER),
        Tensor("y", 4, Role.OUTPUT, (2, 4), 4),
    )
    operator = Operator("scale", "Softmax", ("x[1]", "x[0]", "x[1]"), ("y",), ("b",))
    found = operands_of(Graph("bands", tensors, (operator,)), operator)
    assert found == (
        BandedOperand(Operand.INPUT, (tensors[1], tensors[0])),
        BandedOperand(Operand.WEIGHT, (tensors[2],)),
        BandedOperand(Operand.OUTPUT, (tensors[3],)),
    )
    assert [one.bits for one in found] == [64, 16, 32]
    assert [one.row_bits for one in found] == [24, 16, 16]
