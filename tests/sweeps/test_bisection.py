"""Bisection, capacities and their curve."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.document import Reading
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.options.verb_options import CapacityOptions
from onchip.answer.problem import Count, Objective
from onchip.answer.result import Status
from onchip.api.plan import plan_problem
from onchip.api.target import roomy_problem
from onchip.arch.memory import Memory
from onchip.arch.sharing import Share
from onchip.errors import UsageError
from onchip.formats.own.graph_json import graph_to_json
from onchip.model.capacity.bounds import operator_need
from onchip.search.budget.limits import Limits
from onchip.sweeps.capacity import CapacityRequest, Curve, capacity_curve, unit_of
from onchip.sweeps.point import PointAnswer, PointStatus
from onchip.sweeps.sweep import Bisection, answer_between
from oracles.one_scratchpad import least_traffic, random_graph
from oracles.states import random_graph_with_states
from support.diamond import diamond_fields
from support.series import series

# Chains of capacities: inferred answers equal computed ones, in any order of arrival


PROVEN = st.lists(st.integers(0, 4), min_size=1, max_size=40).map(lambda values: sorted(values, reverse=True))


def answer_of(value: int, is_proven: bool = True) -> PointAnswer:
    """Return an answer for the cost; 4 stands for a network that does not fit."""
    if value == 4:
        return PointAnswer(PointStatus.INFEASIBLE, None, 0)
    if is_proven:
        return PointAnswer(PointStatus.OPTIMAL, value, value)
    return PointAnswer(PointStatus.FEASIBLE, value + 1, max(0, value - 1))


def run(truth: dict[str, PointAnswer], chain: Bisection, random: Random, most: int = 10**6) -> list[str]:
    """Answer the questions of a chain in random order, at most `most`; return the keys asked for."""
    asked: list[str] = []
    waiting = list(chain.next_keys())
    while waiting and len(asked) < most:
        key = waiting.pop(random.randrange(len(waiting)))
        asked.append(key)
        chain.take(key, truth[key])
        waiting += chain.next_keys()
    return asked


@given(PROVEN, st.randoms(use_true_random=False))
def test_what_is_settled_is_what_computing_gives(values: list[int], random: Random) -> None:
    keys = [f"k{at}" for at in range(len(values))]
    truth = {key: answer_of(value) for key, value in zip(keys, values, strict=True)}
    chain = Bisection(keys)

    asked = run(truth, chain, random)

    assert chain.is_over
    assert len(asked) == len(set(asked))
    assert set(asked) | set(chain.settled) == set(keys)
    assert not set(asked) & set(chain.settled)
    for key, found in chain.settled.items():
        assert (found.status, found.objective_value) == (truth[key].status, truth[key].objective_value)
        assert found.settled_by in asked
    levels = len(set(values))
    assert len(asked) <= 2 + levels * (1 + len(values).bit_length())


@given(PROVEN, st.randoms(use_true_random=False), st.integers(0, 20))
def test_an_interrupted_chain_goes_on_as_it_would_have(values: list[int], random: Random, most: int) -> None:
    keys = [f"k{at}" for at in range(len(values))]
    truth = {key: answer_of(value, random.random() < 0.8) for key, value in zip(keys, values, strict=True)}
    whole, first, second = Bisection(keys), Bisection(keys), Bisection(keys)
    run(truth, whole, random)
    run(truth, first, random, most)

    for key, answer in first.answers.items():
        second.take(key, answer)
    again = run(truth, second, random)

    assert not set(again) & set(first.answers)
    assert second.answers == whole.answers


@given(PROVEN, st.randoms(use_true_random=False))
def test_what_is_not_proven_settles_nothing(values: list[int], random: Random) -> None:
    keys = [f"k{at}" for at in range(len(values))]
    truth = {key: answer_of(value, is_proven=False) for key, value in zip(keys, values, strict=True)}
    chain = Bisection(keys)

    run(truth, chain, random)

    assert all(answer.status is PointStatus.INFEASIBLE for answer in chain.settled.values())


def test_a_bound_that_a_smaller_memory_meets_settles_what_lies_between() -> None:
    low = PointAnswer(PointStatus.FEASIBLE, 10, 3)
    for bound, is_settled in ((10, True), (9, False)):
        between = answer_between("low", low, "high", PointAnswer(PointStatus.FEASIBLE, 11, bound))
        assert (between is not None) is is_settled
        if between is not None:
            assert (between.status, between.lower_bound, between.settled_by) == (PointStatus.OPTIMAL, 10, "low")


def test_failed_and_unknown_ends_settle_nothing() -> None:
    found, nothing = PointAnswer(PointStatus.OPTIMAL, 5, 5), PointAnswer(PointStatus.FAILED, reason="x")
    unknown = PointAnswer(PointStatus.UNKNOWN, None, 5)
    assert answer_between("a", nothing, "b", found) is None
    assert answer_between("a", found, "b", nothing) is None
    assert answer_between("a", unknown, "b", found) is None
    settled = answer_between("a", found, "b", unknown)
    assert settled is not None, "a bound is proven, whether an answer is found or not"
    assert settled.objective_value == 5


FOUND = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=20)


@given(FOUND)
def test_neighbours_make_answers_as_tight_as_they_can(drawn: list[tuple[int, int, int, bool]]) -> None:
    least = sorted((value for value, *_ in drawn), reverse=True)
    keys = [f"k{at}" for at in range(len(drawn))]
    given_answers = {}
    for key, value, (_, above, below, is_known) in zip(keys, least, drawn, strict=True):
        bound = max(0, value - below)
        if not is_known:
            given_answers[key] = PointAnswer(PointStatus.UNKNOWN, None, bound)
        else:
            status = PointStatus.OPTIMAL if value + above == bound else PointStatus.FEASIBLE
            given_answers[key] = PointAnswer(status, value + above, bound)
    chain = Bisection(keys)
    for key, answer in given_answers.items():
        chain.take(key, answer)

    chain.tightened()

    for at, (key, value) in enumerate(zip(keys, least, strict=True)):
        found, own = chain.answers[key], given_answers[key]
        if own.status is PointStatus.OPTIMAL:
            assert found == own
            continue
        values = [one.objective_value for one in map(given_answers.__getitem__, keys[: at + 1]) if one.has_value]
        bounds = [one.lower_bound or 0 for one in map(given_answers.__getitem__, keys[at:])]
        assert found.objective_value == min((one for one in values if one is not None), default=None)
        assert found.lower_bound == max(bounds) <= value
        assert found.objective_value is None or value <= found.objective_value
        assert (found.status is PointStatus.OPTIMAL) is (found.objective_value == found.lower_bound)
        if found.settled_by is not None:
            assert given_answers[found.settled_by].objective_value == found.objective_value
    assert chain.tightened() == {}


# Capacity curves of networks, compared with the exhaustive search at every single capacity


SECONDS_OF_A_SEARCH = 0.05


def least_at(curve: Sequence[tuple[int, int | None, int | None]], capacity: int) -> int | None:
    (value,) = [value for first, last, value in curve if first <= capacity and (last is None or capacity <= last)]
    return value


@pytest.mark.parametrize("seed", series(range(12), 4))
@pytest.mark.parametrize("alignment_bytes", [1, 4])
def test_the_curve_is_the_least_at_every_capacity(tmp_path: Path, seed: int, alignment_bytes: int) -> None:
    graph = random_graph(seed, operators=5)
    path = tmp_path / "graph.json"
    path.write_text(graph_to_json(graph))

    outcome = capacity_curve(CapacityRequest(str(path), options=CapacityOptions(alignment_bytes=alignment_bytes)))

    assert outcome.is_proven
    curve = [(step.first, step.last, step.value) for step in outcome.steps]
    problem = roomy_problem(graph, Count.ACTIVATIONS, alignment_bytes)
    for capacity in range(curve[0][0], problem.memories[0].capacity_bytes + 1):
        at = replace(problem, memories=(Memory("sram", capacity, alignment_bytes),))
        assert least_at(curve, capacity) == least_traffic(at), capacity
    below = replace(problem, memories=(Memory("sram", curve[0][0] - 1, alignment_bytes),))
    assert least_traffic(below) is None


def test_the_curve_of_the_diamond_is_the_one_worked_out_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "diamond.json"
    path.write_text(json.dumps(diamond_fields()))

    outcome = capacity_curve(CapacityRequest(str(path)))

    assert [(step.first, step.last, step.value) for step in outcome.steps] == [(130, 159, 100), (160, None, 0)]
    assert [outcome.names_at(step) for step in outcome.steps] == [("M_R",), ("M_P",)]


def test_a_step_of_the_unit_is_the_least_that_matters(tmp_path: Path) -> None:
    problem = roomy_problem(random_graph(3, operators=5), Count.ACTIVATIONS)
    sizes = [tensor.size_bytes for tensor in problem.counted_tensors]
    assert all(size % unit_of(problem) == 0 for size in sizes)
    assert unit_of(roomy_problem(problem.graph, Count.ACTIVATIONS, 64)) == 1


def test_without_time_what_is_known_is_said() -> None:
    outcome = capacity_curve(CapacityRequest("densenet121", limits=Limits(1e-6)))
    assert not outcome.is_proven
    assert outcome.steps


def test_without_a_machine_nothing_says_what_a_transfer_takes() -> None:
    for objective in (Objective.DMA_CYCLES, Objective.DMA_ENERGY):
        with pytest.raises(UsageError, match="expected an accelerator, or traffic"):
            capacity_curve(CapacityRequest("lenet5", objective=objective))


def test_a_machine_of_several_scratchpads_is_refused() -> None:
    with pytest.raises(UsageError, match="several scratchpads: dtcm, axi_sram"):
        capacity_curve(CapacityRequest("lenet5", objective=Objective.DMA_CYCLES, accelerator="cortex-m7-like"))


@pytest.mark.parametrize("seed", range(6))
def test_least_cycles_of_transfers_are_the_least_at_every_capacity(tmp_path: Path, seed: int) -> None:
    graph = random_graph(seed, operators=5)
    path = tmp_path / "graph.json"
    path.write_text(graph_to_json(graph))
    asked = CapacityRequest(str(path), objective=Objective.DMA_CYCLES, accelerator=machine(tmp_path, bits_per_cycle=16))

    outcome = capacity_curve(asked)

    assert outcome.is_proven
    problem = outcome.problem
    curve = [(step.first, step.last, step.value) for step in outcome.steps]
    for capacity in range(curve[0][0], problem.memories[0].capacity_bytes + 1):
        memories = (replace(problem.memories[0], capacity_bytes=capacity),)
        assert least_at(curve, capacity) == least_traffic(replace(problem, memories=memories)), capacity


@pytest.mark.parametrize("seed", range(8))
def test_a_least_arena_is_one_step_from_itself_on(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "graph.json"
    path.write_text(graph_to_json(random_graph(seed, operators=5)))
    outcome = capacity_curve(CapacityRequest(str(path), objective=Objective.PEAK))
    ((first, last, value),) = [(step.first, step.last, step.value) for step in outcome.steps]
    assert (first, last) == (value, None)
    memory = Memory("sram", first - 1)
    assert plan_problem(replace(outcome.problem, memories=(memory,))).status is Status.INFEASIBLE


@pytest.mark.parametrize("objective", [Objective.TRAFFIC, Objective.PEAK])
def test_a_curve_of_a_network_with_state_is_that_of_plans_at_every_capacity(
    tmp_path: Path, objective: Objective
) -> None:
    """A persistent state that is overwritten may fit where no operator has room for its old and its new value."""
    below_loaded = 0
    for seed in range(30):
        path = tmp_path / "graph.json"
        path.write_text(graph_to_json(random_graph_with_states(seed, 3, greatest_size=3)))
        outcome = capacity_curve(
            CapacityRequest(str(path), objective=objective, options=CapacityOptions(share=Share.ALL))
        )
        curve = [(step.first, step.last, step.value) for step in outcome.steps]
        for capacity in range(max(1, curve[0][0] - 3), outcome.problem.memories[0].capacity_bytes + 1):
            memories = (replace(outcome.problem.memories[0], capacity_bytes=capacity),)
            value = plan_problem(replace(outcome.problem, memories=memories)).objective_value
            assert value == (None if capacity < curve[0][0] else least_at(curve, capacity)), (seed, capacity)
        if objective is Objective.TRAFFIC:
            assert curve[0][0] == outcome.budgets.required_bytes
        needs = [operator_need(outcome.problem, one).need_bytes for one in outcome.problem.graph.operators]
        below_loaded += curve[0][0] < max(needs)
    assert below_loaded > 0


def machine(folder: Path, bits_per_cycle: int) -> str:
    path = folder / "chip.yaml"
    path.write_text(
        "format: onchip-accelerator\nversion: 1\nname: chip\n"
        "memories: [{name: sram, capacity: 1KiB, holds: [input, weight, output], scratchpad: true}]\n"
        f"dram: {{ports: [{{direction: read_write, bits_per_cycle: {bits_per_cycle}}}]}}\n"
    )
    return str(path)


def test_in_tiles_the_curve_begins_below_the_largest_operator_and_falls() -> None:
    request = CapacityRequest("lenet5", reading=Reading(bits=8), limits=Limits(4.0))

    whole, tiled = (
        capacity_curve(request),
        capacity_curve(replace(request, options=CapacityOptions(tiles=TilesOption.AUTO))),
    )

    assert tiled.steps[0].first < whole.steps[0].first
    values = [step.value for step in tiled.steps if step.value is not None]
    assert values == sorted(values, reverse=True)
    assert all(step.value is None or step.value >= step.lower_bound for step in tiled.steps)
    assert values[-1] == whole.steps[-1].value == 0


# Curves of cost against capacity: claims hold for any plans found, and in the end every capacity is known


FIRST = 10
LEAST = st.lists(st.integers(0, 5), min_size=1, max_size=80).map(lambda values: [*sorted(values, reverse=True), 0])
"""Least cost at each capacity from FIRST on; the last is free."""


def follow(least: list[int], data: st.DataObject, unit: int = 1, unproven: float = 0.0) -> tuple[Curve, int]:
    """Ask until no question is left; plans have any capacity from which on their value is the minimum."""
    last = FIRST + len(least) * unit - 1
    curve = Curve(FIRST, last, unit)
    curve.add(last, None, None, 0)
    asked = 0
    while (capacity := curve.next_capacity()) is not None:
        asked += 1
        assert asked < 10_000
        assert FIRST <= capacity <= last
        at = (capacity - FIRST) // unit
        if unproven and data.draw(st.floats(0, 1)) < unproven:
            curve.add(capacity, least[at] + 1, capacity, max(0, least[at] - 1))
            curve.give_up(capacity)
            continue
        earliest = least.index(least[at])
        end = FIRST + data.draw(st.integers(earliest, at)) * unit
        curve.add(capacity, least[at], end, least[at])
    return curve, asked


@given(LEAST, st.data(), st.sampled_from([1, 3]))
def test_every_step_is_found_exactly_where_it_begins(least: list[int], data: st.DataObject, unit: int) -> None:
    curve, asked = follow(least, data, unit)
    steps = list(curve.steps())

    assert all(step.is_proven for step in steps)
    assert (steps[0].first, steps[-1].last) == (FIRST, None)
    assert all(low.last is not None and low.last + 1 == high.first for low, high in pairwise(steps))
    assert all(low.value != high.value for low, high in pairwise(steps))
    for step in steps:
        ends = [at for at, value in enumerate(least) if value == step.value]
        assert step.first == FIRST + ends[0] * unit
    assert len(steps) == len(set(least))
    assert asked <= len(steps) * (2 * len(least).bit_length() + 2)


@given(LEAST, st.data())
def test_what_is_not_proven_is_between_its_bounds(least: list[int], data: st.DataObject) -> None:
    curve, _ = follow(least, data, unproven=0.4)
    for step in curve.steps():
        last = FIRST + len(least) - 1 if step.last is None else step.last
        for value in least[step.first - FIRST : last - FIRST + 1]:
            assert step.lower_bound <= value
            assert step.value is None or value <= step.value
