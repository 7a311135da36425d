"""Random and corrupted schedules, their end times, and the boxes, bytes and hops that the verifier counts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.answer.schedule import WORKSPACE, Homes, Schedule, ScheduledMapping, ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import stated
from onchip.arch.memory import Access, Direction, Dram, Operand, Port
from onchip.errors import AcceleratorError
from onchip.ir.layer import LOOPS
from onchip.ir.tensor import Role
from onchip.ir.tile import Region
from onchip.model.program.figures import schedule_figures
from onchip.verify.latency import UsedBytes
from onchip.verify.rules import Rule
from onchip.verify.schedule.costs import Clock, Expense, expense_of_copy, turn_at_dram
from onchip.verify.schedule.machine import AddressedMachine, ScheduleSetting, ScheduleVerdict
from onchip.verify.schedule.tiles import cover, partition
from onchip.verify.schedule.verifier import verify_schedule
from support.programs import instructions
from support.schedule_cases import (
    ACTIVATIONS,
    CONV1,
    CONV2,
    HALF,
    NEAR_AND_FAR,
    PAIR,
    RESIDENT,
    TILED,
    ScheduleCase,
    level,
    machine,
    price,
    tensor,
)
from support.schedule_programs import ProgramCase, operands_of, random_program, replayed
from support.series import series


def expenses_of(case: ProgramCase) -> dict[int, Expense]:
    machine = AddressedMachine(case.accelerator)
    found = {}
    for number, instruction in enumerate(case.program.instructions):
        if isinstance(instruction, Copy):
            found[number] = expense_of_copy(machine, case.graph.tensor[instruction.tensor], instruction)
        elif isinstance(instruction, Compute):
            cost = case.costs[instruction.operator]
            read, written = cost.dram_read_bits, cost.dram_written_bits
            turn = turn_at_dram(machine, read, written)
            found[number] = Expense(cost.energy_fj, cost.cycles, read, written, turn, cost.workspace_bytes)
    return found


def sizes_of(case: ProgramCase) -> dict[tuple[str, str], int]:
    names = AddressedMachine(case.accelerator).level
    sizes = {(tensor.name, memory): tensor.size_bytes for tensor in case.graph.tensors for memory in names}
    for name, cost in case.costs.items():
        sizes |= {(name + WORKSPACE, memory): size for memory, size in cost.workspace_bytes.items()}
    return sizes


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_figures_are_those_that_the_cost_model_counts(first: int) -> None:
    for seed in range(first, first + 100):
        case = random_program(seed)
        program = case.program.instructions
        replay = replayed(case, program)
        assert replay.report.violations == [], seed
        expenses = expenses_of(case)
        figures = schedule_figures(case.graph, case.accelerator, case.program, case.costs)
        assert sum(stated(one.energy_fj) for one in expenses.values()) == figures.energy_fj, seed
        assert sum(one.traffic_bytes for one in expenses.values()) == figures.traffic_bytes, seed
        dma = AddressedMachine(case.accelerator).dma
        clock = Clock(sizes_of(case), expenses, operands_of(case.graph), replay.homes, dma, {})
        assert clock.run(program) == figures.latency_cycles, seed
        arenas = {name: one.arena_bytes for name, one in figures.memories.items()}
        assert dict(replay.meter.arenas) == arenas, seed
        peaks = [one.peak_bytes for one in figures.memories.values()]
        assert max(peaks, default=0) <= replay.meter.peak_bytes <= sum(peaks), seed


@pytest.mark.parametrize("seed", range(100))
def test_a_program_without_one_of_its_allocations_or_computes_is_refused(seed: int) -> None:
    """An operand without an allocation streams from another home; no other omission is tolerated."""
    case, random = random_program(seed), Random(seed)
    program = list(case.program.instructions)
    kinds = (Allocate, Compute)
    at = random.choice([at for at, one in enumerate(program) if isinstance(one, kinds)])
    left_out = program.pop(at)
    replay = replayed(case, program)
    rules = {violation.rule for violation in replay.report.violations}
    if isinstance(left_out, Compute):
        assert Rule.OPERATOR_NEVER_RUN in rules
    else:
        assert rules or replay.homes != replayed(case, case.program.instructions).homes


def test_every_network_output_goes_to_dram_once() -> None:
    for case in map(random_program, range(50)):
        for at, one in enumerate(case.program.instructions):
            program = list(case.program.instructions)
            if isinstance(one, Copy) and one.target == "dram" and case.graph.tensor[one.tensor].role is Role.OUTPUT:
                assert [each.rule for each in replayed(case, [*program, one]).report.violations][-1:] in (
                    [Rule.OUTPUT_WRITTEN_AGAIN],
                    [Rule.SOURCE_NOT_RESIDENT],
                )
                del program[at]
                assert Rule.OUTPUT_NEVER_WRITTEN in {each.rule for each in replayed(case, program).report.violations}


def test_a_copied_workspace_and_one_that_stays_are_refused() -> None:
    case = next(one for one in map(random_program, range(99)) if _first_workspace(one) is not None)
    at = _first_workspace(case)
    assert at is not None
    program = list(case.program.instructions)
    allocate = program[at]
    assert isinstance(allocate, Allocate)
    moved = [*program[: at + 1], Copy(allocate.tensor, allocate.memory, "dram"), *program[at + 1 :]]
    assert [one.rule for one in replayed(case, moved).report.violations] == [Rule.WORKSPACE_COPIED]
    without = program[:at] + program[at + 1 :]
    rules = [one.rule for one in replayed(case, without).report.violations]
    assert rules == [Rule.WORKSPACE_MISSING, Rule.FREED_NOT_RESIDENT]


def _first_workspace(case: ProgramCase) -> int | None:
    instructions = enumerate(case.program.instructions)
    return next((at for at, one in instructions if isinstance(one, Allocate) and WORKSPACE in one.tensor), None)


OPERATORS = st.sampled_from(("conv1", "conv2", "conv1#0", "conv2#1", "ghost"))
NAMES = st.sampled_from(("x", "a", "y", "w1", "w2", "x[:,:,0:1,:]", "conv1@workspace", "conv2@workspace", "@workspace"))
MEMORIES = st.sampled_from(("near", "far", "dram", "register", "ghost"))
INSTRUCTIONS: st.SearchStrategy[Instruction] = st.one_of(
    st.builds(Allocate, NAMES, MEMORIES, st.integers(-3, 130)),
    st.builds(Copy, NAMES, MEMORIES, MEMORIES),
    st.builds(Compute, OPERATORS),
    st.builds(Free, NAMES, MEMORIES),
)
EDITS = st.lists(st.tuples(st.integers(0, 99), st.none() | INSTRUCTIONS), max_size=3)
HOMES = st.builds(Homes, *(st.sampled_from((None, "near", "far", "register", "ghost")) for _ in range(3)))
KEPT = st.lists(st.builds(Kept, st.sampled_from(("near", "far", "register", "ghost")), st.just(1)), max_size=2).map(
    tuple
)
NESTS = st.lists(
    st.builds(Loop, st.sampled_from(LOOPS), st.sampled_from((2, 3, 4)), st.sampled_from((None, "lane", "ghost"))),
    min_size=1,
    max_size=6,
).map(tuple)
MAPPINGS = st.builds(LayerMapping, NESTS, KEPT, KEPT, KEPT)
SCHEDULED = st.builds(ScheduledMapping, st.integers(0, 3), st.sampled_from((CONV1, CONV2)), HOMES, MAPPINGS)
STACKS = st.sampled_from(
    (
        *(case.stacks for case in (RESIDENT, TILED)),
        (ScheduledStack(("conv2",)), ScheduledStack(("conv1",))),
        (ScheduledStack(("conv1", "conv2"), Tiling(9, 9, OverlapMode.H_CACHED)),),
        (ScheduledStack(("conv1", "ghost"), Tiling(1, 1, OverlapMode.FULLY_CACHED)),),
    )
)
CASES = st.sampled_from((RESIDENT, HALF, TILED))


def verdict(case: ScheduleCase, program: list[Instruction], extra: list[ScheduledMapping]) -> ScheduleVerdict:
    keys = {(one.stack, one.layer, one.homes): one for one in (*extra, *case.mappings)}
    setting = ScheduleSetting(PAIR, NEAR_AND_FAR, case.lowered(), 24)
    schedule = Schedule(case.stacks, tuple(keys.values()), Plan((), tuple(program)))
    return verify_schedule(setting, schedule, case.claim, price)


def edited(case: ScheduleCase, edits: list[tuple[int, Instruction | None]]) -> list[Instruction]:
    program = list(instructions(case.program))
    for index, instruction in edits:
        program[index % len(program) : index % len(program) + 1] = [instruction] if instruction else []
        program = program or [Compute("conv1")]
    return program


@given(CASES, STACKS, EDITS, st.lists(SCHEDULED, max_size=2))
def test_no_schedule_whatever_it_says_makes_the_verifier_fail(
    case: ScheduleCase,
    stacks: tuple[ScheduledStack, ...],
    edits: list[tuple[int, Instruction | None]],
    extra: list[ScheduledMapping],
) -> None:
    other = replace(case, stacks=stacks, tiles=None)
    found = verdict(other, edited(case, edits), extra)
    assert found == verdict(other, edited(case, edits), extra)
    assert (found.figures is None) <= bool(found.violations)
    assert all("\n" not in str(violation) for violation in found.violations)


@pytest.mark.slow
@given(EDITS, st.lists(SCHEDULED, max_size=1))
def test_a_schedule_that_is_edited_is_refused_or_has_figures(
    edits: list[tuple[int, Instruction | None]], extra: list[ScheduledMapping]
) -> None:
    found = verdict(replace(RESIDENT, claim=None), edited(RESIDENT, edits), extra)
    assert found.is_legal is (found.figures is not None)


@pytest.mark.parametrize("case", [RESIDENT, HALF, TILED])
def test_without_any_edit_the_schedule_is_legal(case: ScheduleCase) -> None:
    assert verdict(case, edited(case, []), []).is_legal


def random_box(random: Random) -> Region:
    return tuple((start, start + random.randint(1, 3)) for start in (random.randrange(4), random.randrange(4)))


def elements(region: Region) -> set[tuple[int, ...]]:
    return set(product(*(range(*each) for each in region)))


@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_boxes_cover_what_their_elements_cover(first: int) -> None:
    verdicts = set()
    for seed in range(first, first + 500):
        random = Random(seed)
        wanted, boxes = random_box(random), [random_box(random) for _ in range(random.randint(0, 4))]
        is_covered = elements(wanted) <= {each for one in boxes for each in elements(one)}
        assert cover(wanted, boxes) is is_covered, seed
        verdicts.add(is_covered)
    assert verdicts == {True, False}


@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_boxes_partition_what_their_elements_make_up(first: int) -> None:
    verdicts = set()
    for seed in range(first, first + 500):
        random = Random(seed)
        whole = random_box(random)
        cut = random.randint(whole[0][0], whole[0][1])
        (start, stop), across = whole
        boxes: list[Region] = [(span, across) for span in ((start, cut), (cut, stop)) if span[0] < span[1]]
        for _ in range(random.randint(0, 1)):
            boxes[random.randrange(len(boxes))] = random_box(random)
        listed = [each for one in boxes for each in elements(one)]
        is_one = len(listed) == len(set(listed)) and set(listed) == elements(whole)
        assert partition(whole, boxes) is is_one, seed
        verdicts.add(is_one)
    assert verdicts == {True, False}


def test_equal_sizes_are_no_partition() -> None:
    whole = ((0, 2), (0, 2))
    assert not partition(whole, [((0, 1), (0, 2)), ((0, 1), (0, 2))])
    assert not partition(whole, [((0, 1), (0, 2)), ((2, 3), (0, 2))])
    assert not partition(whole, [((0, 2), (0, 1)), ((1, 3), (0, 1))])


def test_a_box_beside_the_whole_is_no_part_of_it() -> None:
    assert partition(((0, 2),), [((0, 1),), ((1, 2),)])
    assert not partition(((0, 2),), [((0, 2),), ((2, 3),)])
    assert not partition(((1, 2),), [((0, 1),), ((1, 2),)])
    assert not partition(((0, 2),), [((0, 3),)])
    assert not partition(((0, 2),), [])


@pytest.mark.parametrize("seed", series(range(200), 66))
def test_bytes_in_use_are_those_of_an_array(seed: int) -> None:
    random, used, plain = Random(seed), UsedBytes(), [0] * 20
    for cycle in range(1, 15):
        start = random.randrange(19)
        stop = random.randint(start + 1, 20)
        assert used.latest(start, stop) == max(plain[start:stop])
        if random.random() < 0.7:
            used.use(start, stop, cycle)
            plain[start:stop] = [cycle] * (stop - start)
    assert [used.latest(at, at + 1) for at in range(20)] == plain


WITH_WEIGHTS_BETWEEN = machine(
    level("near", 64, 1.0), level("weights", 64, 2.0, (Operand.WEIGHT,)), level("maps", 64, 3.0, ACTIVATIONS)
)


@pytest.mark.parametrize(
    ("role", "ends", "stops"),
    [
        (Role.INPUT, ("dram", "near"), ["dram", "maps", "near"]),
        (Role.ACTIVATION, ("near", "dram"), ["near", "maps", "dram"]),
        (Role.PARAMETER, ("dram", "near"), ["dram", "weights", "near"]),
        (Role.PARAMETER, ("near", "weights"), ["near", "weights"]),
        (Role.ACTIVATION, ("maps", "near"), ["maps", "near"]),
        (Role.INPUT, ("dram", "maps"), ["dram", "maps"]),
    ],
)
def test_a_copy_passes_the_memories_between_that_may_hold_it(
    role: Role, ends: tuple[str, str], stops: list[str]
) -> None:
    hops = AddressedMachine(WITH_WEIGHTS_BETWEEN).hops(tensor("t", (4,), role), *ends)
    assert hops == [(stops[at], stops[at + 1]) for at in range(len(stops) - 1)]


def test_memories_with_an_instance_for_each_lane_are_not_addressed() -> None:
    assert list(AddressedMachine(NEAR_AND_FAR).level) == ["near", "far"]


def test_a_rate_is_the_sum_of_the_ports_of_a_direction() -> None:
    ports = (Port(Direction.READ, 3), Port(Direction.READ_WRITE, 8), Port(Direction.WRITE, 16))
    dram = Dram(Access(32, 8.0, 0.3, 8), ports)
    found = AddressedMachine(_with_dram(dram))
    assert found.cycles("dram", Direction.READ, 23) == 3
    assert found.cycles("dram", Direction.READ, 22) == 2
    assert found.cycles("dram", Direction.WRITE, 24) == 1
    assert found.cycles("dram", Direction.WRITE, 0) == 0
    assert found.energy_fj("dram", Direction.READ, 9) == 4000
    assert found.energy_fj("dram", Direction.WRITE, 33) == Fraction(375)


def test_a_memory_without_ports_keeps_up_and_one_without_the_direction_is_refused() -> None:
    assert AddressedMachine(_with_dram(Dram(Access(8, 1.0, 1.0)))).cycles("dram", Direction.READ, 99) == 0
    read_only = AddressedMachine(_with_dram(Dram(Access(8, 1.0, 1.0), (Port(Direction.READ, 8),))))
    with pytest.raises(AcceleratorError, match="no port of it can write"):
        read_only.cycles("dram", Direction.WRITE, 8)


def test_the_energy_of_a_memory_that_states_none_is_unknown() -> None:
    assert AddressedMachine(_with_dram(Dram())).energy_fj("dram", Direction.READ, 8) is None


def _with_dram(dram: Dram) -> Accelerator:

    return replace(NEAR_AND_FAR, dram=dram)
