"""Costs of Computes and Copies of a schedule, homes of operands and mappings, compared with figures by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.answer.schedule import Homes, ScheduledMapping
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Access, Direction, Dma, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.verify.rules import Rule
from onchip.verify.schedule.costs import (
    Expense,
    expense_of_copy,
    expense_of_nests,
    expense_without_nest,
    in_bytes,
    with_own_workspace,
)
from onchip.verify.schedule.machine import AddressedMachine, MappingsInUse, NestAtHomes, PricedNest
from onchip.verify.schedule.streaming import HomeOf, HomesOfProgram, tile_operands
from onchip.verify.schedule.tiles import TileOfNetwork
from support.schedule_cases import (
    ACTIVATIONS,
    CONV2,
    NEAR_AND_FAR,
    NestFigures,
    level,
    machine,
    mapped,
    one_by_one,
    price,
    tensor,
)
from support.schedule_programs import ProgramCase, operands_of, random_program, replayed

GRAPH = Graph(
    "odd",
    (
        tensor("x", (2, 3), Role.INPUT),
        Tensor("v", 5, Role.INPUT),
        tensor("w", (2, 4), Role.PARAMETER),
        Tensor.of_shape("y", (4, 3), 4, Role.OUTPUT),
    ),
    (Operator("odd", "Odd", ("x", "v"), ("y",), ("w",)),),
)


def without_nest(homes: HomeOf, addressed: AddressedMachine) -> Expense:
    (operator,) = GRAPH.operators
    operands = tile_operands(GRAPH, TileOfNetwork(operator, operator, 0, 0))
    return expense_without_nest(addressed, GRAPH, operands, homes)


def test_an_operator_without_a_nest_reads_and_writes_each_operand_once() -> None:
    found = without_nest({"x": "near", "v": None, "w": "far", "y": None}, AddressedMachine(NEAR_AND_FAR))
    assert found.energy_fj == 6 * 1_000 + 5 * 10_000 + 8 * 2_000 + 6 * 10_000
    assert (found.cycles, found.dram_cycles) == (5 + 6, 5 + 6)
    assert (found.dram_read_bits, found.dram_written_bits, found.traffic_bytes) == (40, 48, 11)


def test_parts_that_are_read_in_place_of_a_concatenation_are_one_operand() -> None:
    (operator,) = GRAPH.operators
    run = TileOfNetwork(operator, operator, 0, 0, {"joined": {"x": 0, "v": 3}})
    bands = [(one.base, one.held_as, one.bands) for one in tile_operands(GRAPH, run)]
    assert bands == [
        ("joined", Operand.INPUT, ("x", "v")),
        ("w", Operand.WEIGHT, ("w",)),
        ("y", Operand.OUTPUT, ("y",)),
    ]


def test_what_an_operator_without_a_nest_takes_longest_for_are_its_cycles() -> None:
    found = without_nest({"x": "far", "v": None, "w": "far", "y": "near"}, AddressedMachine(NEAR_AND_FAR))
    assert (found.cycles, found.dram_cycles, found.traffic_bytes) == (6 + 8, 5, 5)


def test_rows_of_what_streams_are_rounded_up_together() -> None:
    """The rows are all of v, which has no shape, and a row of y of twelve bits."""
    found = without_nest({"x": "near", "v": None, "w": "far", "y": None}, AddressedMachine(NEAR_AND_FAR))
    assert found.workspaces == {"far": in_bytes(40 + 12)}
    everything = without_nest(dict.fromkeys("xvwy"), AddressedMachine(NEAR_AND_FAR))
    assert everything.workspaces == {"far": in_bytes(24 + 40 + 32 + 12)}


def test_the_row_of_a_single_element_is_all_of_it() -> None:
    scalar = Graph(
        "scalar",
        (tensor("x", (), Role.INPUT), Tensor.of_shape("y", (3,), 1, Role.OUTPUT)),
        (Operator("odd", "Odd", ("x",), ("y",)),),
    )
    (operator,) = scalar.operators
    operands = tile_operands(scalar, TileOfNetwork(operator, operator, 0, 0))
    found = expense_without_nest(AddressedMachine(NEAR_AND_FAR), scalar, operands, {"x": None, "y": "near"})
    assert found.workspaces == {"far": 1}
    found = expense_without_nest(AddressedMachine(NEAR_AND_FAR), scalar, operands, {"x": None, "y": None})
    assert found.workspaces == {"far": in_bytes(8 + 3)}


@pytest.mark.parametrize(("kind", "shape", "bits"), [("Slice", (9,), 24), ("Slice", (2,), 16), ("Odd", (9,), 72)])
def test_what_takes_elements_out_reads_no_more_than_it_writes(kind: str, shape: tuple[int, ...], bits: int) -> None:
    tensors = (tensor("x", shape, Role.INPUT), tensor("y", (3,), Role.OUTPUT))
    taken = Graph("taken", tensors, (Operator("op", kind, ("x",), ("y",)),))
    operands = tile_operands(taken, TileOfNetwork(taken.operators[0], taken.operators[0], 0, 0))
    found = expense_without_nest(AddressedMachine(NEAR_AND_FAR), taken, operands, {"x": None, "y": "near"})
    assert found.dram_read_bits == bits


@pytest.mark.parametrize(
    "tensors",
    [
        (Tensor("x", 9, Role.INPUT), tensor("y", (3,), Role.OUTPUT)),
        (tensor("x", (9,), Role.INPUT), Tensor("y", 3, Role.OUTPUT)),
    ],
)
def test_of_what_has_no_shape_all_is_read(tensors: tuple[Tensor, ...]) -> None:
    taken = Graph("taken", tensors, (Operator("op", "Slice", ("x",), ("y",)),))
    operands = tile_operands(taken, TileOfNetwork(taken.operators[0], taken.operators[0], 0, 0))
    found = expense_without_nest(AddressedMachine(NEAR_AND_FAR), taken, operands, {"x": None, "y": "near"})
    assert found.dram_read_bits == 72


def test_rows_that_are_larger_than_their_memory_pass_through_it_in_pieces() -> None:
    for size, room in ((13, 13), (14, 14), (15, 14)):
        small = machine(level("near", 14, 1.0, (*ACTIVATIONS, Operand.WEIGHT)))
        row = Graph("row", (tensor("x", (size,), Role.INPUT), tensor("y", (1,), Role.OUTPUT)), (_odd(("x",)),))
        operands = tile_operands(row, TileOfNetwork(row.operators[0], row.operators[0], 0, 0))
        found = expense_without_nest(AddressedMachine(small), row, operands, {"x": None, "y": "near"})
        assert (found.workspaces, found.dram_read_bits) == ({"near": room}, 8 * size)


def _odd(inputs: tuple[str, ...]) -> Operator:
    return Operator("odd", "Odd", inputs, ("y",))


def test_a_workspace_of_its_own_lies_in_the_last_memory_beside_what_else_is_there() -> None:
    found = without_nest({"x": "near", "v": None, "w": "far", "y": None}, AddressedMachine(NEAR_AND_FAR))
    own = with_own_workspace(AddressedMachine(NEAR_AND_FAR), found, 9)
    assert own == replace(found, workspaces={"far": in_bytes(40 + 12) + 9})
    assert with_own_workspace(AddressedMachine(NEAR_AND_FAR), found, 0) == found
    resident = without_nest(dict.fromkeys("xvy", "near") | {"w": "far"}, AddressedMachine(NEAR_AND_FAR))
    assert with_own_workspace(AddressedMachine(NEAR_AND_FAR), resident, 9).workspaces == {"far": 9}


@pytest.mark.parametrize(("own_bytes", "left"), [(0, 20), (5, 15), (6, 14), (7, 13), (19, 1), (25, 1)])
def test_rows_pass_through_what_a_workspace_leaves_a_byte_at_least(own_bytes: int, left: int) -> None:
    small = AddressedMachine(machine(level("near", 30, 1.0, ACTIVATIONS), level("far", 20, 2.0)))
    row = Graph("row", (tensor("x", (28,), Role.INPUT), tensor("y", (1,), Role.OUTPUT)), (_odd(("x",)),))
    operands = tile_operands(row, TileOfNetwork(row.operators[0], row.operators[0], 0, 0))
    found = expense_without_nest(small, row, operands, {"x": None, "y": "near"}, own_bytes)
    assert found.workspaces == {"far": left}


def test_rows_lie_where_such_operands_may() -> None:
    """A parameter that no addressed memory holds takes no room."""
    outputs = level("outputs", 99, 1.0, (Operand.OUTPUT,))
    found = without_nest(dict.fromkeys("xvwy"), AddressedMachine(machine(level("near", 99, 1.0, ACTIVATIONS), outputs)))
    assert found.workspaces == {"near": in_bytes(24 + 40), "outputs": 2}
    resident = without_nest(dict.fromkeys("xvy", "near") | {"w": "far"}, AddressedMachine(NEAR_AND_FAR))
    assert resident.workspaces == {}


def test_nests_that_run_one_after_another_share_their_workspace() -> None:
    first = PricedNest(NestFigures(1.25, 2.25, 5, 11), {"near": 17, "far": 8})
    second = PricedNest(NestFigures(2.00025, 1.5, 4, 0), {"near": 8})
    found = expense_of_nests(AddressedMachine(NEAR_AND_FAR), [first, second])
    assert (found.energy_fj, found.cycles) == (3250, 4)
    assert (found.dram_read_bits, found.dram_written_bits, found.dram_cycles) == (9, 11, 2 + 2)
    assert found.traffic_bytes == 2 + 2
    assert found.workspaces == {"near": 3, "far": 1}


@pytest.mark.parametrize(
    ("home", "written_bits", "cycles", "energy_fj"),
    [("near", 0, 2, 3_000), ("far", 0, 4, 6_000), (None, 24, 3, 30_000)],
)
def test_outputs_that_no_nest_computes_are_written_where_the_output_lies(
    home: str | None, written_bits: int, cycles: int, energy_fj: int
) -> None:
    ports = {"near": (Port(Direction.READ_WRITE, 12),), "far": (Port(Direction.READ_WRITE, 6),)}
    levels = tuple(replace(one, ports=ports.get(one.memory.name, ())) for one in NEAR_AND_FAR.levels)
    found = expense_of_nests(AddressedMachine(replace(NEAR_AND_FAR, levels=levels)), [], 24, home)
    assert (found.dram_written_bits, found.cycles, found.energy_fj) == (written_bits, cycles, energy_fj)


def test_where_a_memory_states_no_energy_none_is_known() -> None:
    levels = tuple(replace(one, access=None) for one in NEAR_AND_FAR.levels)
    silent = AddressedMachine(replace(NEAR_AND_FAR, levels=levels))
    stated = without_nest(dict.fromkeys("xvy", "near") | {"w": "far"}, AddressedMachine(NEAR_AND_FAR))
    assert without_nest(dict.fromkeys("xvy", "near") | {"w": "far"}, silent) == replace(stated, energy_fj=None)
    assert expense_of_copy(silent, GRAPH.tensor["x"], Copy("x", "far", "near")).energy_fj is None
    assert expense_of_nests(silent, [], 24, "near").energy_fj is None
    assert expense_of_nests(silent, [], 24).energy_fj == 30_000
    known = PricedNest(NestFigures(2.0, 1.0, 0, 0), {})
    assert expense_of_nests(silent, [known], output_home="near").energy_fj == 2_000
    unknown = PricedNest(NestFigures(None, 1.0, 0, 0), {})
    assert expense_of_nests(AddressedMachine(NEAR_AND_FAR), [unknown, known]).energy_fj is None


@pytest.mark.parametrize(
    ("source", "target", "energy_pj", "slowest_hop", "traffic"),
    [
        ("dram", "near", 10 + 2 + 2 + 1, 6, (48, 0)),
        ("near", "far", 1 + 2, 4, (0, 0)),
        ("far", "near", 2 + 1, 6, (0, 0)),
        ("near", "dram", 1 + 2 + 2 + 10, 6, (0, 48)),
        ("far", "dram", 2 + 10, 6, (0, 48)),
    ],
)
def test_a_copy_costs_what_its_hops_read_and_write_and_lasts_as_long_as_the_slowest(
    source: str, target: str, energy_pj: int, slowest_hop: int, traffic: tuple[int, int]
) -> None:
    """The copy has six bytes: far sends 8 bits in a cycle, near takes or sends 12, and the others move more."""
    ports = {"near": (Port(Direction.READ_WRITE, 12),), "far": (Port(Direction.READ, 8), Port(Direction.WRITE, 48))}
    levels = tuple(replace(one, ports=ports.get(one.memory.name, ())) for one in NEAR_AND_FAR.levels)
    dram = Dram(Access(8, 10.0, 10.0), (Port(Direction.READ_WRITE, 16),))
    addressed = AddressedMachine(replace(NEAR_AND_FAR, levels=levels, dram=dram))
    found = expense_of_copy(addressed, GRAPH.tensor["x"], Copy("x", source, target))
    assert (found.energy_fj, found.cycles) == (6 * 1000 * energy_pj, 2 + slowest_hop)
    assert (found.dram_read_bits, found.dram_written_bits) == traffic
    assert found.dram_cycles == sum(traffic) // 16
    assert found.workspaces == {}


def test_a_copy_between_memories_without_ports_takes_its_set_up_alone() -> None:
    levels = tuple(replace(one, ports=()) for one in NEAR_AND_FAR.levels)
    addressed = AddressedMachine(replace(NEAR_AND_FAR, levels=levels))
    assert expense_of_copy(addressed, GRAPH.tensor["x"], Copy("x", "near", "far")).cycles == 2


def test_a_machine_that_says_nothing_of_copies_has_one_queue_and_no_set_up() -> None:
    assert AddressedMachine(replace(NEAR_AND_FAR, dma=None)).dma == Dma()
    assert (Dma().queues, Dma().setup_cycles) == (1, 0)


def homes_in(case: ProgramCase, program: Sequence[Instruction]) -> Mapping[str, Mapping[str, str | None]]:
    return HomesOfProgram(case.program.memories, operands_of(case.graph)).run(program)


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_homes_are_those_of_the_replay(first: int) -> None:
    found = set()
    for seed in range(first, first + 100):
        case = random_program(seed)
        homes = homes_in(case, case.program.instructions)
        assert homes == replayed(case, case.program.instructions).homes, seed
        found |= {home for of_operator in homes.values() for home in of_operator.values()}
    assert found >= {None, "memory0", "memory1"}


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_homes_are_those_of_the_replay_also_where_a_program_is_wrong(first: int) -> None:
    """Wrong programs leave an instruction out, repeat it, or move it: both derivations read the same intent."""
    wrong = 0
    for seed in range(first, first + 100):
        case, random = random_program(seed), Random(seed)
        program = list(case.program.instructions)
        moved = program.pop(random.randrange(len(program)))
        for _ in range(random.randrange(3)):
            program.insert(random.randrange(len(program) + 1), moved)
        replay = replayed(case, program)
        assert homes_in(case, program) == replay.homes, seed
        wrong += bool(replay.report.violations)
    assert wrong > 50


def test_names_that_stand_for_nothing_are_passed_over() -> None:
    case = random_program(0)
    strange: list[Instruction] = [
        Allocate("nothing", "nowhere", 0),
        Copy("nothing", "nowhere", "memory0"),
        Copy("nothing", "memory0", "nowhere"),
        Free("nothing", "memory0"),
        Free("nothing", "nowhere"),
        Compute("nobody"),
    ]
    assert homes_in(case, [*strange, *case.program.instructions]) == homes_in(case, case.program.instructions)


AT_HOMES = Homes("near", "far", None)
FAR_AND_SUMS = {"near": 16 * 16, "far": 8 * 8}


def in_use(*mappings: ScheduledMapping) -> MappingsInUse:
    return MappingsInUse(mappings, NEAR_AND_FAR, price)


def nest(*, is_input: bool = False) -> NestAtHomes:
    return NestAtHomes(1, CONV2, AT_HOMES, is_input)


def test_a_nest_without_a_mapping_says_where_its_operands_are() -> None:
    found = in_use(mapped(0, CONV2, AT_HOMES), mapped(1, CONV2, Homes()))
    assert found.run("conv2", nest()) is None
    (violation,) = found.violations
    assert (violation.rule, violation.subject) == (Rule.MAPPING_MISSING, "conv2")
    where = "a loop nest of 32 multiply-accumulates with input in near, weight in far, output in dram"
    assert violation.detail == f"stack 1 has no mapping of {where}"
    assert found.priced == 0


def test_mappings_by_which_nothing_runs_are_said_by_number() -> None:
    found = in_use(mapped(1, CONV2, Homes()), mapped(1, CONV2, AT_HOMES), mapped(2, Layer(k=2), AT_HOMES))
    assert found.run("conv2", nest()) is not None
    assert [(one.rule, one.subject) for one in found.unused()] == [
        (Rule.MAPPING_UNUSED, "mapping 0"),
        (Rule.MAPPING_UNUSED, "mapping 2"),
    ]
    first, last = (one.detail for one in found.unused())
    assert first.startswith("no Compute of stack 1 runs a loop nest of 32 multiply-accumulates with input in dram")
    assert last.startswith("no Compute of stack 2 runs a loop nest of 2 multiply-accumulates with input in near")


def test_a_mapping_is_priced_once_for_parameters_and_once_for_maps() -> None:
    asked = []

    def priced(problem: LayerProblem, mapping: LayerMapping) -> NestFigures:
        asked.append(problem.weight_is_an_input)
        return price(problem, mapping)

    found = MappingsInUse((mapped(1, CONV2, Homes("near", None, None)),), NEAR_AND_FAR, priced)
    streamed = replace(nest(), homes=Homes("near", None, None))
    first = found.run("conv2", streamed)
    assert first is not None
    assert found.run("again", streamed) is first
    assert found.run("maps", replace(streamed, is_input=True)) is not None
    assert asked == [False, True]
    assert (found.priced, found.violations, list(found.unused())) == (2, [], [])


def test_an_illegal_mapping_is_said_once_and_is_not_priced() -> None:
    found = in_use(replace(mapped(1, CONV2, AT_HOMES), mapping=one_by_one(replace(CONV2, q=3))))
    assert found.run("conv2", nest()) is None
    assert found.run("conv2", nest()) is None
    (violation,) = found.violations
    assert (violation.rule, violation.subject) == (Rule.TOO_FEW_ITERATIONS, "mapping 0, Q")
    assert found.priced == 0
    assert list(found.unused()) == []


def test_a_home_that_does_not_hold_the_operand_is_none() -> None:
    """The near memory holds maps alone: it holds weights only if they are a map."""
    at_near = Homes("far", "near", "far")
    found = in_use(mapped(1, CONV2, at_near))
    assert found.run("maps", NestAtHomes(1, CONV2, at_near, is_input=True)) is not None
    assert found.violations == []
    assert found.run("conv2", NestAtHomes(1, CONV2, at_near, is_input=False)) is None
    assert [(one.rule, one.subject) for one in found.violations] == [(Rule.NOT_HELD, "mapping 0")]


@pytest.mark.parametrize(
    ("homes", "kept", "bits"),
    [
        (Homes("far", "far", "far"), {"input": [Kept("near", 2)]}, {"near": 8 * 8, "far": 16 * 16}),
        (Homes(None, None, "near"), {"weight": [Kept("register", 0)], "input": [Kept("far", 2)]}, FAR_AND_SUMS),
    ],
)
def test_a_workspace_is_all_that_lies_in_addressed_memories_beside_operands(
    homes: Homes, kept: dict[str, list[Kept]], bits: dict[str, int]
) -> None:
    """Partial sums are 16 bits wider than the output, if they are stored at its home."""
    found = in_use(mapped(1, CONV2, homes, **kept)).run("conv2", NestAtHomes(1, CONV2, homes, is_input=False))
    assert found is not None
    assert found.workspace_bits == bits


def test_the_same_mapping_in_several_stacks_is_priced_once_and_judged_in_each() -> None:
    asked = []

    def priced(problem: LayerProblem, mapping: LayerMapping) -> NestFigures:
        asked.append(mapping)
        return price(problem, mapping)

    legal = mapped(1, CONV2, AT_HOMES)
    illegal = replace(legal, stack=3, mapping=one_by_one(replace(CONV2, q=3)))
    several = (legal, replace(legal, stack=2), illegal, replace(illegal, stack=4))
    found = MappingsInUse(several, NEAR_AND_FAR, priced)
    first, second, *wrong = (found.run("conv2", replace(nest(), stack=stack)) for stack in (1, 2, 3, 4))
    assert first is not None
    assert first == second
    assert wrong == [None, None]
    assert [one.subject for one in found.violations] == ["mapping 2, Q", "mapping 3, Q"]
    assert (asked, list(found.unused())) == ([legal.mapping], [])


INPUTS = level("inputs", 64, 1.0, (Operand.INPUT,))
WEIGHTS = level("weights", 64, 1.0, (Operand.WEIGHT,))
OUTPUTS = level("outputs", 64, 1.0, (Operand.OUTPUT,))


@pytest.mark.parametrize(("serves", "is_addressed"), [(None, True), (("lane",), True), ((), False)])
def test_a_memory_is_addressed_where_one_instance_serves_every_dimension(
    serves: tuple[str, ...] | None, is_addressed: bool
) -> None:
    shared = MemoryLevel(Memory("shared", 64), serves)
    found = AddressedMachine(replace(NEAR_AND_FAR, levels=(shared, *NEAR_AND_FAR.levels)))
    assert ("shared" in found.level) is is_addressed
    assert [one.memory.name for one in found.levels][-2:] == ["near", "far"]


def test_without_an_array_every_memory_is_addressed() -> None:
    waiting = replace(WEIGHTS, serves=(), is_scratchpad=False)
    found = AddressedMachine(Accelerator("lonely", (INPUTS.memory,), (INPUTS, waiting)))
    assert list(found.level) == ["inputs", "weights"]


@pytest.mark.parametrize(
    ("role", "memories"),
    [
        (Role.PARAMETER, ["weights"]),
        (Role.INPUT, ["inputs", "outputs"]),
        (Role.ACTIVATION, ["inputs", "outputs"]),
        (Role.OUTPUT, ["inputs", "outputs"]),
    ],
)
def test_weights_lie_where_they_are_held_and_maps_wherever_any_is(role: Role, memories: list[str]) -> None:
    found = AddressedMachine(machine(INPUTS, WEIGHTS, OUTPUTS))
    assert [name for name in found.level if found.may_hold(name, tensor("t", (4,), role))] == memories


def test_without_dram_nothing_is_known_of_it() -> None:
    found = AddressedMachine(replace(NEAR_AND_FAR, dram=None))
    assert found.bits_per_cycle("dram", Direction.READ) is None
    assert found.cycles("dram", Direction.WRITE, 8) == 0
    assert found.energy_fj("dram", Direction.READ, 8) is None


def test_a_memory_without_the_port_that_is_needed_is_refused_only_where_bits_move() -> None:
    found = AddressedMachine(replace(NEAR_AND_FAR, dram=Dram(Access(8, 1.0, 1.0), (Port(Direction.WRITE, 8),))))
    assert found.cycles("dram", Direction.READ, 0) == 0
    assert found.cycles("dram", Direction.WRITE, 9) == 2
    with pytest.raises(AcceleratorError) as error:
        found.cycles("dram", Direction.READ, 1)
    assert (error.value.place, error.value.expected) == ("memory 'dram'", "one")
    assert "can read" in str(error.value)


@pytest.mark.parametrize(
    ("access", "bits", "read_fj", "written_fj"),
    [
        (Access(16, 2.0, 4.0), 1, 2000, 4000),
        (Access(16, 2.0, 4.0), 17, 4000, 8000),
        (Access(16, 2.0, 4.0, 4), 17, 2500, 5000),
        (Access(16, 0.1, 0.3), 16, 100, 300),
    ],
)
def test_bits_move_in_shortest_accesses(access: Access, bits: int, read_fj: int, written_fj: int) -> None:
    levels = tuple(replace(one, access=access) for one in NEAR_AND_FAR.levels)
    found = AddressedMachine(replace(NEAR_AND_FAR, levels=levels))
    assert found.energy_fj("near", Direction.READ, bits) == read_fj
    assert found.energy_fj("near", Direction.WRITE, bits) == written_fj
    silent = AddressedMachine(replace(NEAR_AND_FAR, levels=tuple(replace(one, access=None) for one in levels)))
    assert silent.energy_fj("near", Direction.READ, bits) is None
