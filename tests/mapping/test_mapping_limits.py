"""`exact` and the mapping cache at small limits: claims hold, and a longer limit is never worse."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count, pairwise
from math import inf
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status, Stop
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from onchip.mapping.methods import cache as cache_module
from onchip.mapping.methods import cache as layer_at
from onchip.mapping.methods.cache import MappingCache, best_mapping_at, combined, known_mapping_at
from onchip.mapping.methods.registry import EVEN_MAPPINGS, METHODS, WITHOUT_BYPASS
from onchip.mapping.prove import wide
from onchip.mapping.prove.wide import solve_widely
from onchip.mapping.tile_search.exact import ExactMapper, solve_exactly
from onchip.scheduling.mappings.nest_mapper import dram_first
from onchip.search.budget.limits import Limits, Run
from oracles.mapspace import toy
from oracles.wide_mapspace import every_cost, tiny
from support.series import series
from support.small_schedules import skip_chip

EXACT = METHODS["exact"]
LOOKS = (0, 10, 40, 200)
"""Limits, in looks at the clock."""
TICK = 0.001


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the clock: each reading advances it by a millisecond, independent of the work."""
    looks = count()
    clock = SimpleNamespace(perf_counter=lambda: TICK * next(looks), process_time=time.process_time)
    monkeypatch.setattr("onchip.search.budget.clock.time", clock)


def _limited(looks: int) -> Run:
    return Run(Limits(time_limit_seconds=looks * TICK))


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("seed", series(range(6), 1))
def test_claims_at_any_limit_hold_for_every_mapping_of_a_tiny_layer(seed: int) -> None:
    problem = tiny(seed)
    costs = [(one.energy_pj, one.cycles) for one in every_cost(problem)]
    for objective in MappingObjective:
        least = min(round(objective.of(*one)) for one in costs)
        best_even = solve_exactly(problem, objective, Run()).objective_value
        for looks in LOOKS:
            result = solve_widely(problem, objective, _limited(looks))
            assert result.space == WITHOUT_BYPASS.name
            assert result.lower_bound <= least <= (result.objective_value or inf)
            assert result.status is not Status.OPTIMAL or result.objective_value == least
            if result.optimal_among is not None:
                assert (result.optimal_among, result.objective_value) == (EVEN_MAPPINGS.name, best_even)


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("seed", series((0, 3, 1, 2, *range(4, 12)), 2))
def test_no_bound_at_any_limit_is_above_what_any_method_finds(seed: int) -> None:
    problem, objective = toy(seed), list(MappingObjective)[seed % 3]
    found = [METHODS[name].solve(problem, objective, _limited(100)) for name in ("exact-even", "random", "loma")]
    least = min((one.objective_value for one in found if one.objective_value is not None), default=inf)
    for looks in LOOKS:
        result = solve_widely(problem, objective, _limited(looks))
        assert result.lower_bound <= least
        assert result.status is not Status.OPTIMAL or (result.objective_value or inf) <= least


@pytest.mark.slow
def test_the_even_optimum_is_not_optimal_if_the_search_beyond_it_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time ends with the proof of the even mappings."""
    problem, run = toy(1), Run(Limits(time_limit_seconds=1000.0))
    proof = solve_exactly(problem, MappingObjective.ENERGY, Run())

    def proven(even: wide._EvenMappings, _nodes: float) -> float:
        even._owner.take_even(proof)
        even.ended_by = Stop.COMPLETED
        run.interrupt.set()
        return 1.0

    monkeypatch.setattr(wide._EvenMappings, "advance", proven)
    monkeypatch.setattr(wide.WideMapper, "_begin", lambda *_: None)
    found = solve_widely(problem, MappingObjective.ENERGY, run)
    assert proof.status is Status.OPTIMAL
    assert (found.status, found.optimal_among) == (Status.FEASIBLE, EVEN_MAPPINGS.name)
    assert (found.answer, found.objective_value) == (proof.answer, proof.objective_value)
    best = solve_widely(problem, MappingObjective.ENERGY, Run())
    assert found.lower_bound <= (best.objective_value or 0)
    assert found.stopped_by is Stop.INTERRUPTED


# The cache


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("seed", series((0, 2, 1, *range(3, 12)), 2))
def test_a_longer_limit_through_one_cache_is_never_worse(seed: int, tmp_path: Path) -> None:
    problem, objective, cache = toy(seed), list(MappingObjective)[seed % 3], MappingCache(tmp_path)
    asked = Random(seed).sample(LOOKS, len(LOOKS))
    found = [(looks, cache.solve(EXACT, problem, objective, _limited(looks))) for looks in asked]
    found.append((1 << 30, cache.solve(EXACT, problem, objective, Run())))
    for (before, first), (after, second) in pairwise(found):
        if after >= before:
            assert (second.objective_value or inf) <= (first.objective_value or inf)
            assert second.lower_bound >= first.lower_bound
    fresh, last = solve_widely(problem, objective, Run()), found[-1][1]
    assert (last.objective_value or inf) <= (fresh.objective_value or inf)
    assert last.lower_bound >= fresh.lower_bound
    if last.answer is not None:
        again = cache.solve(EXACT, problem, objective, _limited(0))
        assert replace(again, seconds=0) == replace(last, seconds=0)


@pytest.mark.slow
def test_a_cached_result_is_searched_again_if_there_is_more_time(tmp_path: Path) -> None:
    problem, cache, asked = LayerProblem(Layer(k=8), load_accelerator("simba")), MappingCache(tmp_path), []
    best = solve_widely(problem, MappingObjective.ENERGY, Run())
    assert best.objective_value is not None
    cut = replace(best, status=Status.FEASIBLE, lower_bound=1, stopped_by=Stop.TIME_LIMIT)

    def noted(_problem: LayerProblem, _objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
        asked.append(run.limits.time_limit_seconds)
        return cut if run.deadline.is_set else replace(best, status=Status.FEASIBLE, lower_bound=2)

    method = replace(EXACT, solve=noted)

    def answers(limits: Sequence[float | None]) -> list[SearchResult[LayerMapping]]:
        return [cache.solve(method, problem, MappingObjective.ENERGY, Run(Limits(one))) for one in limits]

    answers([5.0, 2.0, 5.0, 50.0, 20.0])
    assert asked == [5.0, 50.0]
    assert [one.lower_bound for one in answers([None, None, 500.0])] == [2, 2, 2]
    assert asked == [5.0, 50.0, None]


@pytest.mark.slow
def test_entries_of_an_older_model_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, cache = LayerProblem(Layer(k=8), load_accelerator("simba")), MappingCache(tmp_path)
    with monkeypatch.context() as before:
        before.setattr(cache_module, "MODEL_VERSION", 8)
        cache.solve(EXACT, problem, MappingObjective.ENERGY, Run())
    assert cache.known(EXACT, problem, MappingObjective.ENERGY, Run()) is None


@pytest.mark.filterwarnings("ignore::onchip.errors.CacheWarning")
@pytest.mark.parametrize(("is_dear", "is_taken"), [(False, False), (True, True)])
def test_a_kept_value_may_differ_from_the_sum_of_its_energies_by_rounding(
    tmp_path: Path, is_dear: bool, is_taken: bool
) -> None:
    chip, cache = load_accelerator("simba"), MappingCache(tmp_path)
    layer = Layer(k=8, c=8, p=4, q=4)
    problem = LayerProblem(layer, dram_first(chip) if is_dear else chip)
    found = cache.solve(EXACT, problem, MappingObjective.ENERGY, Run())
    assert found.objective_value is not None
    (path,) = (tmp_path / "mappings").iterdir()
    kept = json.loads(path.read_text())
    path.write_text(
        json.dumps({**kept, "objective_value": kept["objective_value"] + 2, "lower_bound": kept["lower_bound"] + 2})
    )

    assert (cache.known(EXACT, problem, MappingObjective.ENERGY, Run()) is not None) is is_taken


def test_two_results_of_a_question_are_combined() -> None:
    mapping = LayerMapping(())
    even = SearchResult(Status.FEASIBLE, mapping, 10, 5, 0.0, "exact", optimal_among=EVEN_MAPPINGS.name)
    worse = replace(even, objective_value=12, lower_bound=7, optimal_among=None)
    better = replace(even, objective_value=9, lower_bound=4, optimal_among=None)
    nothing: SearchResult[LayerMapping] = SearchResult(Status.UNKNOWN, None, None, 10, 0.0, "exact", Stop.TIME_LIMIT)
    for one, other, expected in (
        (even, worse, (Status.FEASIBLE, 10, 7, EVEN_MAPPINGS.name)),
        (worse, even, (Status.FEASIBLE, 10, 7, EVEN_MAPPINGS.name)),
        (even, better, (Status.FEASIBLE, 9, 5, None)),
        (even, nothing, (Status.OPTIMAL, 10, 10, None)),
    ):
        found = combined(one, other)
        assert (found.status, found.objective_value, found.lower_bound, found.optimal_among) == expected


def test_loma_cut_short_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given more time, LOMA may find a mapping below the best even one."""
    loma, cache = METHODS["loma"], MappingCache(tmp_path)
    cut = replace(loma, solve=lambda *asked: replace(loma.solve(*asked), stopped_by=Stop.TIME_LIMIT))
    problem, energy = toy(1), MappingObjective.ENERGY
    with monkeypatch.context() as short:
        short.setattr(layer_at, "method_named", lambda _: cut)
        found = best_mapping_at(problem, energy, Run(), cache)
    assert found.status is Status.FEASIBLE
    assert known_mapping_at(problem, energy, Run(), cache) is None
    assert best_mapping_at(problem, energy, Run(), cache).status is Status.OPTIMAL
    assert known_mapping_at(problem, energy, Run(), cache) is not None


def test_a_search_with_a_work_limit_is_deterministic_and_ends() -> None:
    problem = LayerProblem(Layer(k=24, c=24, p=24, q=24, r=3, s=3, partial_bits=16), skip_chip(400, 4000))
    short, again, longer = (
        ExactMapper(problem, MappingObjective.LATENCY, Run(), most_work=work) for work in (4_000, 4_000, 72_000)
    )
    found = [mapper.solve() for mapper in (short, again, longer)]
    assert found[0].stopped_by is Stop.TIME_LIMIT
    assert (found[0].answer, short.nodes) == (found[1].answer, again.nodes)
    assert short.nodes < longer.nodes
