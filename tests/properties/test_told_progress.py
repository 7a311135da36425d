"""Progress of a search in a terminal: the bound never falls, the answer never gets worse, and both are true.

No bound shown is above the final proven value, and no answer shown is below the final answer.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import pytest

from onchip.answer.document import Reading
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import FusionOptions, MapOptions, PackOptions, ScheduleOptions
from onchip.answer.problem import Objective, Order, Placement, Problem
from onchip.api.fuse import FusionRequest, fuse_network
from onchip.api.map import MappingRequest, map_layers
from onchip.api.pack import pack_buffers
from onchip.api.plan import Request, describe_network, plan_network
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.api.target import CapacityBudget, Target
from onchip.arch.memory import Memory
from onchip.memory.methods import METHODS
from onchip.model.capacity.bounds import greatest_need
from onchip.reports.shared.output import ProgressLine
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Progress, Run
from onchip.search.strategy import interruptible
from oracles.one_scratchpad import random_graph
from support.series import series
from support.timed_problems import UNTIMED

INSTANCES = Path(__file__).parent.parent / "data" / "minimalloc"
SECONDS = 20.0
SUPPORTED = [
    (name, objective, order)
    for name, objective, order in product(METHODS, UNTIMED, Order)
    if objective in METHODS[name].objectives and order in METHODS[name].orders
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@dataclass(slots=True)
class Told:
    """A listener with the terminal's progress line that compares each report with the preceding ones."""

    line: ProgressLine = field(default_factory=lambda: ProgressLine(Terminal()))
    heard: list[Progress] = field(default_factory=list)

    def hear(self, progress: Progress) -> None:
        best, bound = self.line.best, self.line.lower_bound
        self.line.hear(progress)
        self.heard.append(progress)
        assert self.line.lower_bound >= bound
        assert best is None or (self.line.best is not None and self.line.best <= best)
        assert self.line.best is None or self.line.lower_bound <= self.line.best

    @contextmanager
    def started(self, limits: Limits, deadline: Deadline | None = None) -> Iterator[Run]:
        with self.line.during("searching"):
            yield Run(limits, self.hear, deadline=deadline or Deadline.after(limits.time_limit_seconds))

    def ensure_true_of(self, value: float | None, lower_bound: float) -> None:
        for progress in self.heard:
            assert progress.lower_bound <= lower_bound, progress
            assert progress.best is None or (value is not None and progress.best >= value), progress


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """Return a listener that gets far more reports than a terminal."""
    monkeypatch.setattr(interruptible, "WATCH_EVERY_SECONDS", 0.0002)
    return Told()


@pytest.mark.parametrize("seed", series([3, 4, 8, 11], 2))
@pytest.mark.parametrize(("method", "objective", "order"), SUPPORTED)
def test_methods_tell_of_the_question_asked(
    told: Told, method: str, objective: Objective, order: Order, seed: int
) -> None:
    graph = random_graph(seed, operators=7)
    problem = Problem(graph, (Memory("sram", 1000, (1, 4)[seed % 2]),), objective, order)
    if objective is not Objective.PEAK:
        need = greatest_need(problem).need_bytes
        problem = replace(problem, memories=(replace(problem.memories[0], capacity_bytes=need),))
    with told.started(Limits(SECONDS)) as run:
        result = METHODS[method](problem, run)

    told.ensure_true_of(result.objective_value, result.lower_bound)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("method", ["exact", "divide"])
@pytest.mark.parametrize("seconds", [0.3, pytest.param(SECONDS, marks=pytest.mark.slow)])
def test_a_longer_search_does_too(told: Told, method: str, seconds: float, seed: int) -> None:
    graph = random_graph(100 + seed, operators=14)
    problem = Problem(graph, (Memory("sram", 1000),))
    problem = replace(problem, memories=(Memory("sram", greatest_need(problem).need_bytes),))
    with told.started(Limits(seconds)) as run:
        result = METHODS[method](problem, run)

    assert told.heard
    told.ensure_true_of(result.objective_value, result.lower_bound)


@pytest.mark.parametrize("seed", [4, 8])
def test_the_bound_of_an_order_is_none_of_all_orders(told: Told, seed: int) -> None:
    """`divide` plans one order exactly, which is not the best order of these networks."""
    graph = random_graph(seed, operators=40)
    need = greatest_need(Problem(graph, (Memory("sram", 1000),))).need_bytes
    with told.started(Limits(SECONDS)) as run:
        result = METHODS["divide"](Problem(graph, (Memory("sram", need),)), run)

    assert told.heard
    told.ensure_true_of(result.objective_value, result.lower_bound)


@pytest.mark.parametrize("seed", series(range(6), 8))
@pytest.mark.parametrize("placement", Placement)
@pytest.mark.parametrize(("objective", "order"), list(product(UNTIMED, (Order.FREE, Order.GIVEN))))
def test_several_scratchpads_too(
    told: Told, objective: Objective, order: Order, placement: Placement, seed: int
) -> None:
    graph = random_graph(seed, operators=6)
    single = Problem(graph, (Memory("sram", 1000),))
    need = greatest_need(single).need_bytes
    more = 2 * need if objective is Objective.PEAK else need // 2 + 1
    problem = Problem(graph, (Memory("a", need), Memory("b", more)), objective, order, placement=placement)
    method = METHODS["exact"]
    if not method.supports(problem):
        pytest.skip("the method does not have it")
    with told.started(Limits(SECONDS)) as run:
        result = method(problem, run)

    told.ensure_true_of(result.objective_value, result.lower_bound)


@pytest.mark.parametrize("budget", [CapacityBudget.M_H, CapacityBudget.M_P])
@pytest.mark.parametrize("order", [Order.FREE, Order.MIN_PEAK])
def test_what_is_found_of_a_budget_is_not_told_of_the_plan(told: Told, budget: CapacityBudget, order: Order) -> None:
    request = Request("densenet121", Reading(bits=8), Target(budget), order=order, limits=Limits(SECONDS))
    outcome = plan_network(request, told.started)

    assert told.heard
    told.ensure_true_of(outcome.result.objective_value, outcome.result.lower_bound)


def test_the_budget_itself_is_told_where_it_is_asked_for(told: Told) -> None:
    description = describe_network("densenet121", Reading(bits=8), Limits(SECONDS), told.started)

    assert told.line.lower_bound > 0
    told.ensure_true_of(description.least_peak.objective_value, description.least_peak.lower_bound)


@pytest.mark.parametrize("objective", series(MappingObjective, 1))
@pytest.mark.parametrize("source", series(["lenet5", "conv:n1k7c5p13q13r3s3:pad1"], 1))
def test_layers_tell_of_all_of_them(told: Told, source: str, objective: MappingObjective) -> None:
    request = MappingRequest(
        source, "simba", objective, MapOptions(uses_cache=False), reading=Reading(bits=8), limits=Limits(1.0)
    )
    outcome = map_layers(request, told.started)

    assert told.heard
    if outcome.totals is None:  # on a slow machine a second may not suffice for every layer
        assert all(progress.best is None for progress in told.heard)
        return
    several = len(outcome.layers.layers) > 1
    if several and objective is MappingObjective.EDP:  # EDP does not add up over a network: no bound is reported
        assert {(progress.best, progress.lower_bound) for progress in told.heard} == {(None, 0)}
        return
    claims = [(one.claim, len(one.names)) for one in outcome.mapped if one.claim is not None]
    value = sum(times * claim.objective_value for claim, times in claims)
    told.ensure_true_of(value, sum(times * claim.lower_bound for claim, times in claims))


@pytest.mark.parametrize("objective", series(FusionObjective, 1))
@pytest.mark.parametrize("stacks", ["greedy", "optimal"])
@pytest.mark.parametrize("seconds", [None, pytest.param(1.0, marks=pytest.mark.slow)])
def test_strategies_tell_a_bound_of_all_strategies(
    told: Told, stacks: str, objective: FusionObjective, seconds: float | None
) -> None:
    mapper = "loma" if seconds is None else "exact"
    options = FusionOptions(stacks, (8, 8) if stacks == "optimal" else None)
    request = FusionRequest(
        "lenet5",
        "simba",
        objective,
        replace(options, mapper=mapper, uses_cache=False),
        reading=Reading(bits=8),
        limits=Limits(seconds),
    )
    outcome = fuse_network(request, told.started)

    assert told.heard or seconds is not None  # on a slow machine one second may end during the first mapping
    told.ensure_true_of(outcome.result.objective_value, outcome.result.lower_bound)


@pytest.mark.parametrize("objective", series(ScheduleObjective, 1))
def test_schedules_tell_of_all_of_them(told: Told, objective: ScheduleObjective) -> None:
    request = ScheduleRequest(
        "lenet5", "simba", objective, ScheduleOptions(uses_cache=False), reading=Reading(bits=8), limits=Limits(1.0)
    )
    outcome = schedule_network(request, told.started)

    assert told.heard
    told.ensure_true_of(outcome.result.objective_value, outcome.result.lower_bound)


@pytest.mark.parametrize("instance", sorted(INSTANCES.glob("*.csv")), ids=lambda file: file.stem)
def test_packings_tell_of_the_capacity_asked_for(told: Told, instance: Path) -> None:
    outcome = pack_buffers(instance, None, PackOptions(), Limits(0.5), told.started, minimize=True)

    told.ensure_true_of(outcome.result.objective_value, outcome.result.lower_bound)


@pytest.mark.parametrize("instance", series(sorted(INSTANCES.glob("*.csv"))[:4], 3), ids=lambda file: file.stem)
def test_what_overflows_is_told_of_the_capacity_asked_for(told: Told, instance: Path) -> None:
    outcome = pack_buffers(instance, 2**18, PackOptions(overflow=True), Limits(2.0), told.started)

    told.ensure_true_of(outcome.result.objective_value, outcome.result.lower_bound)
