"""Schedules of small networks, their oracle, and joined maps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from threading import Event

import pytest

from onchip.answer.document import Reading
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import ScheduleOptions
from onchip.answer.schedule import Schedule, ScheduledStack
from onchip.api.check_schedule import check_schedule_document
from onchip.api.run import RunValues, execution_of
from onchip.api.schedule import ScheduleRequest, read_schedule_question, schedule_network
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Port
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import nest_cost
from onchip.ops.layers_of import Precision
from onchip.ops.views import views_that_join
from onchip.scheduling.program.composition import ScheduleQuestion
from onchip.scheduling.search.solve import ScheduleSearch, solve_schedule
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Progress, Run
from onchip.transform.groups.tiled import tile_graph_of_schedule
from onchip.verify.schedule.machine import ScheduleSetting, VerifiedFigures
from onchip.verify.schedule.verifier import verify_schedule
from oracles.schedule import LeastSchedule, Work
from oracles.schedule_costs import Toy
from oracles.schedule_programs import recounted, schedule_of
from scheduling.test_every_schedule import machine
from support.random_schedules import Case, joining_case, tiny_case
from support.series import series, with_slow

FOLDER = Path(__file__).parent.parent / "data" / "schedules"
SECONDS = 100.0
"""Many times as long as any of these takes on an idle core."""
KNOWN = {
    "fragments": (84, 6829),
    "smallest": (82, 16518),
    "order": (1440, 298095),
    "order-and-fragments": (922, 57590),
    "eviction": (1264, 254340),
    "objectives": (754, 68265),
}
"""Traffic in bytes and energy in picojoules of schedules that were found by hand, or by other searches."""


def found(name: str, objective: ScheduleObjective, enough: int) -> int:
    """Return the value of the schedule that is found, and that the verifier has passed; the search ends at `enough`."""

    @contextmanager
    def until_enough(limits: Limits, deadline: Deadline) -> Iterator[Run]:
        interrupt = Event()

        def hear(progress: Progress) -> None:
            if progress.best is not None and progress.best <= enough:
                interrupt.set()

        yield Run(limits, hear, interrupt, deadline)

    files = str(FOLDER / f"{name}.onnx"), str(FOLDER / f"{name}.yaml")
    request = ScheduleRequest(
        *files, objective, options=ScheduleOptions(uses_cache=False), reading=Reading(bits=8), limits=Limits(SECONDS)
    )
    result = schedule_network(request, until_enough).result
    assert result.objective_value is not None
    assert result.objective_value >= result.lower_bound
    return result.objective_value


@pytest.mark.parametrize("name", KNOWN)
def test_traffic_is_at_most_that_of_a_known_schedule(name: str) -> None:
    traffic = KNOWN[name][0]
    assert found(name, ScheduleObjective.TRAFFIC, traffic) <= traffic


@pytest.mark.parametrize("name", with_slow(KNOWN, lambda name: name == "objectives"))
def test_energy_is_at_most_that_of_a_known_schedule(name: str) -> None:
    energy_fj = 1000 * KNOWN[name][1]
    assert found(name, ScheduleObjective.ENERGY, energy_fj) <= energy_fj


def test_by_traffic_loop_nests_move_each_byte_once() -> None:
    assert found("traffic-mapping", ScheduleObjective.TRAFFIC, 8) == 8


MEMORY = Memory("sram", 6)
TINY = Accelerator(
    "tiny",
    (MEMORY,),
    (MemoryLevel(MEMORY, is_scratchpad=True, access=Access(8, 1, 2)),),
    None,
    ComputeArray({"lane": 1}, None, 0.0),
    Dram(Access(8, 10, 20), (Port(Direction.READ_WRITE, 8),)),
)


def chain(*kinds: str, elements: int = 2) -> Graph:
    """Return a chain of maps x, m0, m1 ... of `elements` elements, each computed from the map before."""
    names = ["x", *(f"m{at}" for at in range(len(kinds)))]
    roles = [Role.INPUT, *[Role.ACTIVATION] * (len(kinds) - 1), Role.OUTPUT]
    tensors = [Tensor.of_shape(name, (1, 1, 1, elements), 8, role) for name, role in zip(names, roles, strict=True)]
    operators = [Operator(f"op{at}", kind, (names[at],), (names[at + 1],)) for at, kind in enumerate(kinds)]
    return Graph("chain", tuple(tensors), tuple(operators))


def verified(toy: Toy, schedule: Schedule) -> VerifiedFigures:
    setting = ScheduleSetting(toy.graph, toy.accelerator, toy.graph, 8)
    verdict = verify_schedule(setting, schedule, None, nest_cost)
    assert verdict.violations == ()
    assert verdict.figures is not None
    return verdict.figures


def test_a_map_between_two_operators_stays_on_the_chip() -> None:
    """The cost per element: x is read at 10, m0 written at 2 and read at 1, y written at 20."""
    toy = Toy(chain("Softmax", "Softmax"), TINY, Precision(8, 8))
    least = LeastSchedule(toy, "energy").least()
    assert least.cost == 1000 * (2 * 10 + 2 * 2 + 2 * 1 + 2 * 20)
    assert LeastSchedule(toy, "traffic").least().cost == 4


def test_where_only_dram_may_hold_maps_each_moves_twice() -> None:
    toy = Toy(chain("Softmax", "Softmax"), TINY, Precision(8, 8))
    assert LeastSchedule(toy, "traffic", may_stay=False).least().cost == 8


def test_a_row_of_workspace_needs_room_beside_the_map() -> None:
    """Four bytes for the map and four for a row of x are more than the six that there are."""
    toy = Toy(chain("Hardmax", "Hardmax", elements=4), TINY, Precision(8, 8))
    assert LeastSchedule(toy, "traffic").least().cost > 8
    roomy = replace(TINY.levels[0], memory=replace(MEMORY, capacity_bytes=8))
    machine = replace(TINY, levels=(roomy,), scratchpads=(roomy.memory,))
    assert LeastSchedule(Toy(toy.graph, machine, Precision(8, 8)), "traffic").least().cost == 8


def test_where_there_is_no_room_for_a_row_it_passes_in_pieces() -> None:
    """The cost equals that in an ample memory, but the pieces leave no room for anything else."""
    small = replace(TINY.levels[0], memory=replace(MEMORY, capacity_bytes=1))
    machine = replace(TINY, levels=(small,), scratchpads=(small.memory,))
    toy = Toy(chain("Softmax"), machine, Precision(8, 8))
    least = LeastSchedule(toy, "energy").least()
    assert least.cost == LeastSchedule(Toy(toy.graph, TINY, Precision(8, 8)), "energy").least().cost
    assert verified(toy, schedule_of(toy, least)).peak_bytes == 1


@pytest.mark.parametrize("objective", ["energy", "traffic", "cycles"])
@pytest.mark.parametrize("seed", range(6))
def test_what_it_finds_is_legal_and_costs_what_it_says(objective: str, seed: int) -> None:
    random = Random(seed)
    kinds = random.choices(("Relu", "Softmax"), k=random.randint(2, 3))
    sizes = random.choice((6, 8, 12)), random.choice((2, 4))
    levels = tuple(
        MemoryLevel(
            Memory(name, size, alignment_bytes=random.choice((1, 2))),
            is_scratchpad=True,
            access=Access(8, random.choice((1, 3)), random.choice((1, 2))),
            ports=(Port(Direction.READ_WRITE, 8),),
        )
        for name, size in zip(("near", "far"), sorted(sizes), strict=True)
    )
    machine = replace(TINY, levels=levels, scratchpads=tuple(level.memory for level in levels))
    toy = Toy(chain(*kinds, elements=random.choice((2, 3))), machine, Precision(8, 8))
    least = LeastSchedule(toy, objective).least()
    schedule = schedule_of(toy, least)
    figures, counted = verified(toy, schedule), recounted(toy, schedule)
    own = {"energy": figures.energy_fj, "traffic": figures.traffic_bytes, "cycles": least.cost}
    assert least.cost == own[objective]
    assert objective != "cycles" or figures.latency_cycles <= least.cost
    assert counted.latency_cycles == figures.latency_cycles
    assert (counted.energy_fj, counted.traffic_bytes) == (figures.energy_fj, figures.traffic_bytes)


SEARCH_SECONDS = 2.0
PRECISION = Precision(8, 8)


@cache
def cases() -> tuple[Case, ...]:
    """Return cases with joined maps that need not be copied."""
    return tuple(case for seed in range(100) if views_that_join((case := joining_case(seed)).network))


def request(case: Case, folder: Path, objective: ScheduleObjective) -> ScheduleRequest:
    network, chip = folder / "network.json", folder / "chip.yaml"
    network.write_text(case.network_text)
    chip.write_text(case.machine_text)
    return ScheduleRequest(
        str(network),
        str(chip),
        objective,
        ScheduleOptions(uses_cache=False),
        reading=Reading(bits=8),
        limits=Limits(SEARCH_SECONDS),
    )


@pytest.mark.parametrize("objective", [ScheduleObjective.ENERGY, ScheduleObjective.TRAFFIC])
@pytest.mark.parametrize("number", series(range(20), 2))
def test_schedules_that_copy_nothing_are_legal_and_compute_the_same(
    number: int, objective: ScheduleObjective, tmp_path: Path
) -> None:
    case = cases()[number]
    asked = request(case, tmp_path, objective)
    outcome = schedule_network(asked)
    assert outcome.document is not None
    run = {one.operator for one in outcome.document.answer.program.instructions if hasattr(one, "operator")}
    assert not run & views_that_join(case.network)
    execution = execution_of(check_schedule_document(outcome.document, asked.source), asked.source, RunValues())
    assert execution.check.is_legal
    assert execution.run is not None
    assert execution.run.difference is None
    assert execution.relative_difference == 0


@pytest.mark.parametrize("number", series(range(20), 3))
def test_a_schedule_that_copies_what_it_joins_is_legal_and_respects_the_bound(number: int, tmp_path: Path) -> None:
    """Programs of earlier versions copy their joined maps."""
    asked = read_schedule_question(request(cases()[number], tmp_path, ScheduleObjective.TRAFFIC))
    question = replace(asked.question(ScheduleObjective.TRAFFIC, uses_cache=False), views=frozenset())
    found = ScheduleSearch(question, asked.options, Run(Limits(SEARCH_SECONDS))).solved()
    assert found.answer is not None
    assert found.objective_value is not None
    assert found.objective_value >= asked.relaxation.traffic_bytes
    schedule = found.answer.composition.schedule
    tiles = tile_graph_of_schedule(asked.network, schedule, asked.precision)
    assert tiles == found.answer.tiles
    assert {name.partition("#")[0] for name in tiles.operators} >= views_that_join(asked.network)
    setting = ScheduleSetting(asked.network, asked.accelerator, tiles.graph, asked.precision.sum_bits)
    assert verify_schedule(setting, schedule, None, nest_cost).is_legal


def joins(shapes: tuple[int, ...], *, is_read_apart: bool) -> Graph:
    """Return a graph of maps of two pixels with the given channels, computed from one input, joined and read."""
    size = (1, 2)
    tensors = [Tensor.of_shape("x", (1, 1, *size), 8, Role.INPUT)]
    operators = []
    for at, channels in enumerate(shapes):
        tensors.append(Tensor.of_shape(f"w{at}", (channels, 1, 1, 1), 8, Role.PARAMETER))
        tensors.append(Tensor.of_shape(f"m{at}", (1, channels, *size), 8, Role.ACTIVATION))
        operators.append(Operator(f"conv{at}", "Conv", ("x",), (f"m{at}",), (f"w{at}",), {"kernel_shape": [1, 1]}))
    parts = tuple(f"m{at}" for at in range(len(shapes)))
    tensors.append(Tensor.of_shape("j", (1, sum(shapes), *size), 8, Role.ACTIVATION))
    tensors.append(Tensor.of_shape("y", (1, sum(shapes), *size), 8, Role.OUTPUT))
    operators.append(Operator("join", "Concat", parts, ("j",), (), {"axis": 1}))
    operators.append(Operator("last", "Softmax", ("j",), ("y",)))
    if is_read_apart:
        tensors.append(Tensor.of_shape("z", (1, shapes[0], *size), 8, Role.OUTPUT))
        operators.append(Operator("apart", "Softmax", ("m0",), ("z",)))
    return Graph("joins", tuple(tensors), tuple(operators))


def least(network: Graph, chip: Accelerator, objective: str, *, makes_joins: bool) -> float:
    stacks = [ScheduledStack((one.name,)) for one in network.operators]
    toy = Toy(network, chip, PRECISION, stacks, makes_joins=makes_joins)
    return LeastSchedule(toy, objective, work=Work(300_000)).least().cost


@pytest.mark.parametrize("objective", ["energy", "traffic"])
@pytest.mark.parametrize("capacity", [4, 6, 8, 10, 14])
@pytest.mark.parametrize("is_read_apart", [False, True])
def test_no_schedule_that_copies_what_it_joins_costs_less(
    capacity: int, objective: str, *, is_read_apart: bool
) -> None:
    network = joins((1, 2), is_read_apart=is_read_apart)
    assert views_that_join(network) == {"join"}
    copied = least(network, machine(capacity), objective, makes_joins=True)
    assert least(network, machine(capacity), objective, makes_joins=False) <= copied


def value_of_tiny_case(seed: int, objective: ScheduleObjective, enough: int) -> int | None:
    """Return the value that the search finds for a tiny network; it ends at `enough`, which it takes for the bound."""
    case = tiny_case(seed)
    precision = Precision(8, None).on(case.machine)
    question = ScheduleQuestion(case.network, case.machine, precision, objective, enough, uses_cache=False)
    return solve_schedule(question, ScheduleOptions(), Run(Limits(SECONDS))).objective_value


def test_loads_pass_several_operators_and_results_wait_for_no_store() -> None:
    """The optimum of 32 cycles needs both; results in bytes that a store still reads take 34, late weights 36."""
    assert value_of_tiny_case(203, ScheduleObjective.LATENCY, 32) == 32


def test_an_operator_alone_runs_in_slices_of_channels() -> None:
    """The optimum of 28 bytes needs them: partial sums of all channels at once push a map out, which takes 34 bytes."""
    assert value_of_tiny_case(2, ScheduleObjective.TRAFFIC, 28) == 28
