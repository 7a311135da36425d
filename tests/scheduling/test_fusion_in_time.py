"""A time limit always leaves a strategy, even if `exact` finds none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.fusion_options import LAYERS, FusionOptions
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status, Stop
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.formats.own.graph_json import graph_from_json
from onchip.mapping.methods.registry import METHODS, MappingMethod, Solve
from onchip.mapping.tile_search.exact import solve_by_dive
from onchip.model.group.mapper import Mapper, Memoized
from onchip.model.layer.cost import LayerCost
from onchip.ops.fusable import FusableNetwork
from onchip.ops.fusable_reading import fusable_of
from onchip.ops.layers_of import Precision
from onchip.scheduling.choice.anytime import FoundInTime, solve_in_time
from onchip.scheduling.fronts.cost_table import CostingStoppedError
from onchip.scheduling.fronts.costs import StackCosts
from onchip.scheduling.fronts.mappers import LayerMapper, MapperInTime
from onchip.scheduling.fronts.workers import Costing
from onchip.search.budget.limits import Limits, Progress, Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice
from onchip.verify.mapping import verify_mapping
from support.fusable_networks import chain_network, network_of
from support.fused_files import CHIP, three_convolutions
from support.series import series

OPTIONS = FusionOptions(tile=(8, 8))
LONG = 3600.0
"""Seconds: far more than is needed."""


@pytest.fixture(scope="module")
def network() -> FusableNetwork:
    return fusable_of(graph_from_json(three_convolutions(), "three.json"), Precision(8, 16))


@pytest.fixture
def machine() -> Accelerator:
    return accelerator_from_yaml(CHIP, "chip.yaml")


@pytest.fixture
def found(network: FusableNetwork, machine: Accelerator) -> Callable[..., FoundInTime]:
    def solve(mapper: str, limit: float | None, heard: list[Progress] | None = None) -> FoundInTime:
        costing = Costing(network, machine, FusionObjective.ENERGY, mapper, use_cache=False)
        listener = (lambda _: None) if heard is None else heard.append
        return solve_in_time(costing, OPTIONS, Run(Limits(limit), listener))

    return solve


def exact_that(monkeypatch: pytest.MonkeyPatch, solve: Solve) -> None:
    monkeypatch.setattr("onchip.mapping.methods.registry.EVEN", MappingMethod("exact-even", "", solve))


def _interrupted(problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
    """Run until Ctrl-C interrupts."""
    run.interrupt.set()
    return SearchResult(Status.UNKNOWN, None, None, 0, run.seconds, "exact", Stop.INTERRUPTED)


def test_where_exact_has_no_mapping_the_strategy_is_that_of_the_quick_mapper(
    found: Callable[..., FoundInTime], monkeypatch: pytest.MonkeyPatch
) -> None:
    best = found("dive", None).found
    exact_that(monkeypatch, _interrupted)
    heard: list[Progress] = []
    answer = found("exact", LONG, heard)
    result = answer.found.result
    assert answer.mapper == "dive"
    assert (result.answer, result.objective_value) == (best.result.answer, best.result.objective_value)
    assert (result.status, result.stopped_by) == (Status.FEASIBLE, Stop.INTERRUPTED)
    assert answer.found.space == best.space
    every = [one.best for one in heard]
    told = [best for best in every if best is not None]
    assert told == sorted(told, reverse=True)
    assert None not in every[every.index(told[0]) :]
    assert told[-1] == best.result.objective_value
    assert [one.lower_bound for one in heard] == sorted(one.lower_bound for one in heard)


def test_its_bound_holds_for_both(found: Callable[..., FoundInTime], monkeypatch: pytest.MonkeyPatch) -> None:
    least = min(float(found(mapper, None).found.result.objective_value or 0) for mapper in ("exact", "dive"))
    exact_that(monkeypatch, _interrupted)
    assert 0 <= found("exact", LONG).found.result.lower_bound <= least


def test_without_a_limit_nothing_is_sought_with_another_mapper(
    found: Callable[..., FoundInTime], monkeypatch: pytest.MonkeyPatch
) -> None:
    exact_that(monkeypatch, _interrupted)
    answer = found("exact", None)
    assert (answer.mapper, answer.found.result.status) == ("exact", Status.UNKNOWN)


@pytest.mark.parametrize("is_worse", [False, True])
def test_where_exact_proves_its_strategy_that_is_the_answer(
    found: Callable[..., FoundInTime], monkeypatch: pytest.MonkeyPatch, is_worse: bool
) -> None:
    """Also if the quick mapper has a better one: that is not what was asked."""
    if is_worse:
        exact_that(monkeypatch, _one_element_at_a_time)
    limited, unlimited = found("exact", LONG), found("exact", None)
    assert limited.mapper == unlimited.mapper == "exact"
    assert limited.found.result.status is Status.OPTIMAL
    assert limited.found.stacks == unlimited.found.stacks
    assert limited.found.space == unlimited.found.space


@pytest.mark.slow
def test_the_better_of_two_strategies_is_the_answer(
    found: Callable[..., FoundInTime], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone presses Ctrl-C when so many layers are mapped, as well as by the quick mapper or badly."""
    by_dive = found("dive", None).found.result.objective_value

    def answer_after(layers: int, solve: Solve) -> FoundInTime:
        exact_that(monkeypatch, _until(layers, solve))
        return found("exact", LONG)

    few = answer_after(1, solve_by_dive)
    assert (few.mapper, few.found.result.objective_value) == ("dive", by_dive)
    answers = [answer_after(layers, solve_by_dive) for layers in range(2, 9)]
    enough = next(at for at, answer in enumerate(answers, 2) if answer.mapper == "exact")
    assert answers[enough - 2].found.result.stopped_by is Stop.INTERRUPTED
    exact_that(monkeypatch, _one_element_at_a_time)
    alone = found("exact", None)
    assert alone.found.result.objective_value is not None
    assert by_dive is not None
    assert alone.found.result.objective_value > by_dive
    both = answer_after(enough, _one_element_at_a_time)
    assert (both.mapper, both.found.result.objective_value) == ("dive", by_dive)


def _until(layers: int, solve: Solve) -> Solve:
    """Interrupted with so many layers mapped."""
    mapped = [0]

    def counting(problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
        mapped[0] += 1
        result = solve(problem, objective, run)
        if mapped[0] >= layers:
            run.interrupt.set()
        return result

    return counting


def _one_element_at_a_time(problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
    """In every memory, if that fits."""
    layer = problem.layer
    kept = (
        tuple(Kept(level.memory.name, 0) for level in problem.keepers(operand) if operand in layer.operands)
        for operand in Operand
    )
    mapping = LayerMapping(tuple(Loop(name, size) for name, size in layer.bounds.items() if size > 1), *kept)
    if verify_mapping(problem, mapping):
        return SearchResult(Status.UNKNOWN, None, None, 0, run.seconds, "exact")
    return SearchResult(Status.FEASIBLE, mapping, 1, 0, run.seconds, "exact")


def test_where_stacks_cannot_even_be_listed_in_time_every_layer_runs_alone(
    found: Callable[..., FoundInTime], monkeypatch: pytest.MonkeyPatch
) -> None:
    described = found("dive", None).found.space
    monkeypatch.setattr("onchip.scheduling.choice.solve.SECONDS_OF_A_STACK", LONG)
    result = found("exact", LONG / 2).found
    assert result.result.answer is not None
    assert all(len(stack.layers) == 1 for stack in result.result.answer.stacks)
    best = found("exact", None).found.result
    assert result.result.status is Status.FEASIBLE
    assert best.objective_value is not None
    assert 0 < result.result.lower_bound <= best.objective_value
    assert result.result.stopped_by is Stop.TIME_LIMIT
    assert result.space == described


def test_layers_alone_are_an_answer_whatever_the_time(network: FusableNetwork, machine: Accelerator) -> None:
    costing = Costing(network, machine, FusionObjective.ENERGY, "exact", use_cache=False)
    options = FusionOptions(groups=LAYERS)
    late = solve_in_time(costing, options, Run(Limits(0.0))).found.result
    best = solve_in_time(costing, options, Run()).found.result

    assert late.answer is not None
    assert all(len(stack.layers) == 1 for stack in late.answer.stacks)
    assert (late.status, late.stopped_by) == (Status.FEASIBLE, Stop.TIME_LIMIT)
    assert late.objective_value is not None
    assert best.objective_value is not None
    assert 0 < late.lower_bound <= best.objective_value <= late.objective_value


def test_a_stack_of_many_layers_is_not_costed_further_than_there_is_time(machine: Accelerator) -> None:
    """Its layers are all alike, so that only the first one is mapped."""
    network = chain_network(60, size=8)
    run, asked = Run(), [0]
    mapper = MapperInTime(_counting(asked, run), run)
    costs = StackCosts(network, machine, FusionObjective.ENERGY, mapper)
    with pytest.raises(CostingStoppedError):
        costs.cost(StackChoice(LayerSpan(0, 60), Tiling(4, 4, OverlapMode.RECOMPUTE)))
    assert asked == [10]


def _counting(asked: list[int], run: Run) -> Mapper:
    """Someone presses Ctrl-C while the tenth layer is mapped."""
    by_loma = Memoized(LayerMapper(METHODS["loma"], MappingObjective.ENERGY, Run()))

    def mapped(problem: LayerProblem) -> LayerCost | None:
        asked[0] += 1
        if asked[0] == 10:
            run.interrupt.set()
        return by_loma(problem)

    return mapped


@pytest.mark.parametrize("seconds", series([0.01, 1.0], 1))
def test_a_network_with_many_heads_has_a_strategy_and_a_bound_in_time(machine: Accelerator, seconds: float) -> None:
    heads = {f"h{at}": ("a",) for at in range(24)}
    network = network_of({"a": ("x",), **heads, **{f"t{at}": (f"h{at}",) for at in range(24)}}, size=2)
    costing = Costing(network, machine, FusionObjective.ENERGY, "exact", use_cache=False)
    result = solve_in_time(costing, FusionOptions(), Run(Limits(seconds))).found.result
    assert result.objective_value is not None
    assert 0 < result.lower_bound <= result.objective_value
