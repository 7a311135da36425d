"""Rivals of the exact mapper: legal, the same for a seed, and never better than the proof allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Status
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import UsageError
from onchip.ir.layer import Layer
from onchip.mapping.baselines.loma import solve_as_loma
from onchip.mapping.baselines.random_search import solve_as_hybrid, solve_at_random
from onchip.mapping.methods.cache import MappingCache
from onchip.mapping.methods.registry import METHODS, method_named
from onchip.model.layer.cost import layer_cost
from onchip.search.budget.limits import Limits, Run
from onchip.verify.mapping import verify_mapping
from support.series import series, with_slow

LAYER = Layer(k=8, c=8, p=4, q=4, r=3, s=3, padding=(1, 1, 1, 1))
PORTS = (Port(Direction.READ, 16), Port(Direction.WRITE, 16))
RIVALS = ("random", "hybrid", "loma")


@pytest.fixture
def accelerator() -> Accelerator:
    """Return a machine whose inner memories hold one operand each, so that operands have separate cuts."""
    held = (
        MemoryLevel(Memory("sums", 16, holds=(Operand.OUTPUT,)), ("lane",), access=Access(8, 1.0, 1.5), ports=PORTS),
        MemoryLevel(Memory("weights", 64, holds=(Operand.WEIGHT,)), ("lane",), access=Access(8, 2.0, 2.5), ports=PORTS),
    )
    shared = MemoryLevel(
        Memory("shared", 256, holds=(Operand.INPUT, Operand.OUTPUT)),
        None,
        True,
        access=Access(8, 6.0, 7.0),
        ports=PORTS,
    )
    dram = Dram(Access(8, 100.0, 110.0), (Port(Direction.READ_WRITE, 16),))
    array = ComputeArray({"lane": 4, "pe": 2}, mac_energy_pj=0.5)
    return Accelerator("three levels", (shared.memory,), (*held, shared), None, array, dram)


@pytest.mark.parametrize("method", with_slow(RIVALS, {"hybrid"}.__contains__))
@pytest.mark.parametrize("objective", series(MappingObjective, 1))
def test_a_rivals_mapping_is_legal_and_costs_what_it_says(
    accelerator: Accelerator, method: str, objective: MappingObjective
) -> None:
    result = method_named(method)(LayerProblem(LAYER, accelerator), objective, Run(Limits(seed=3)))
    assert result.status is Status.FEASIBLE
    assert result.answer is not None
    assert verify_mapping(LayerProblem(LAYER, accelerator), result.answer) == ()
    cost = layer_cost(LayerProblem(LAYER, accelerator), result.answer)
    assert result.objective_value == round(objective.of(cost.energy_pj, cost.cycles))


@pytest.mark.parametrize("method", with_slow(RIVALS, {"hybrid"}.__contains__))
def test_the_same_seed_gives_the_same_mapping(accelerator: Accelerator, method: str) -> None:
    first, second = (
        method_named(method)(LayerProblem(LAYER, accelerator), MappingObjective.EDP, Run(Limits(seed=5)))
        for _ in range(2)
    )
    assert first.answer == second.answer


def test_another_seed_gives_another_random_mapping(accelerator: Accelerator) -> None:
    answers = {
        str(solve_at_random(LayerProblem(LAYER, accelerator), MappingObjective.ENERGY, Run(Limits(seed=seed))).answer)
        for seed in range(6)
    }
    assert len(answers) > 1


def test_more_valid_mappings_are_never_worse(accelerator: Accelerator) -> None:
    few, many = (
        solve_at_random(LayerProblem(LAYER, accelerator), MappingObjective.ENERGY, Run(), valid).objective_value
        for valid in (2, 40)
    )
    assert few is not None
    assert many is not None
    assert many <= few


def test_more_threads_and_more_patience_are_never_worse(accelerator: Accelerator) -> None:
    less, more = (
        solve_as_hybrid(
            LayerProblem(LAYER, accelerator), MappingObjective.ENERGY, Run(), threads, patience
        ).objective_value
        for threads, patience in ((1, 5), (3, 60))
    )
    assert less is not None
    assert more is not None
    assert more <= less


def test_loma_with_more_loops_is_no_worse_here(accelerator: Accelerator) -> None:
    coarse, fine = (
        solve_as_loma(LayerProblem(LAYER, accelerator), MappingObjective.ENERGY, Run(), limit).objective_value
        for limit in (3, 6)
    )
    assert coarse is not None
    assert fine is not None
    assert fine <= coarse


@pytest.mark.parametrize("method", ["random", pytest.param("hybrid", marks=pytest.mark.slow)])
def test_no_rival_of_the_same_mapspace_is_better_than_the_proof(accelerator: Accelerator, method: str) -> None:
    best = METHODS["exact"](LayerProblem(LAYER, accelerator), MappingObjective.ENERGY, Run())
    rival = METHODS[method](LayerProblem(LAYER, accelerator), MappingObjective.ENERGY, Run())
    assert best.status is Status.OPTIMAL
    assert rival.objective_value is not None
    assert best.lower_bound <= rival.objective_value


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no method 'best'"):
        method_named("best")


@pytest.mark.slow
def test_a_kept_mapping_is_found_again_and_a_false_one_is_not_believed(
    accelerator: Accelerator, tmp_path: Path
) -> None:
    cache, method = MappingCache(tmp_path), METHODS["exact"]
    layer = Layer(k=4, c=4, p=2)
    first = cache.solve(method, LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run())
    (path,) = (tmp_path / "mappings").iterdir()
    again = cache.solve(
        method, LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run(Limits(time_limit_seconds=0.0))
    )
    assert (again.answer, again.objective_value) == (first.answer, first.objective_value)
    text = path.read_text(encoding="utf-8")
    for broken in ("", "{}", text.replace('"K"', '"C"'), text.replace('"objective_value": ', '"objective_value": 1')):
        path.write_text(broken, encoding="utf-8")
        assert (
            cache.solve(method, LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run()).answer == first.answer
        )
        assert path.read_text(encoding="utf-8") == text


@pytest.mark.slow
def test_another_objective_or_layer_is_another_file(accelerator: Accelerator, tmp_path: Path) -> None:
    cache, method = MappingCache(tmp_path), METHODS["exact"]
    for layer in (Layer(k=4), Layer(k=8)):
        for objective in (MappingObjective.ENERGY, MappingObjective.EDP):
            cache.solve(method, LayerProblem(layer, accelerator), objective, Run())
    assert len(list((tmp_path / "mappings").iterdir())) == 4
