"""Mappings of chains: their tiles stand in the places that the chain says, and the best of them is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Status, Stop
from onchip.arch.memory import Operand
from onchip.bounds.layer.floors import SAFE
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from onchip.mapping.baselines.loma import greedy_mapping
from onchip.mapping.prove import wide
from onchip.mapping.prove.bounds import LeastChain, WayBounds
from onchip.mapping.prove.wide import solve_widely
from onchip.model.layer.cost import layer_cost
from onchip.ops.layers_of import Precision
from onchip.search.budget.limits import Run
from support.nests import random_case
from support.ragged_nests import random_ragged_mapping
from support.random_chains import places_of
from support.ways import way_of


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_mappings_of_a_chain_use_the_array_as_it_says_and_cover_the_layer(first: int) -> None:
    """Chains come from random, mostly ragged mappings; some of the found mappings have tiles in the same places.

    Some of those mappings have a loop in two parts.
    """
    same, parted = 0, 0
    for seed in range(first, first + 10):
        problem = random_case(seed, most_macs=1500).problem
        mapping = random_ragged_mapping(Random(seed), problem, keeps_all=True)
        places = list(places_of(problem, mapping))
        numbers = [(one, at) for one in map(Operand, problem.layer.operands) for at in range(len(mapping.kept(one)))]
        cells = {number: [(one, one) for one in place.met] for number, place in zip(numbers, places, strict=True)}
        way = way_of(problem, mapping)
        chain = LeastChain(0.0, way, cells)
        whole = list(chain.mappings())
        for found in (*whole, *chain.mappings_of_parted_loops()):
            assert (way_of(problem, found).most <= way.most).all()
            assert all(found.bounds[name] >= bound for name, bound in problem.layer.bounds.items())
            assert [len(found.kept(one)) for one in Operand] == [len(mapping.kept(one)) for one in Operand]
            is_same = list(places_of(problem, found)) == places
            same += is_same
            parted += is_same and found not in whole
            try:
                layer_cost(problem, found)
            except MappingError as error:
                assert error.place is not None  # noqa: PT017
    assert same > 5
    assert parted > 0


@pytest.mark.slow
def test_a_chain_that_the_bound_met_is_the_answer_and_proven() -> None:
    """Steps from other mappings end 0.09 % above it."""
    machine = load_accelerator("tpu-like-df")
    problem = LayerProblem(Precision().on(machine).of(Layer.of_text("conv:n16k64c64p14q14r3s3:pad1")), machine)
    found = solve_widely(problem, MappingObjective.EDP, Run())
    assert found.status is Status.OPTIMAL
    assert found.answer is not None
    assert layer_cost(problem, found.answer).cycles == 119_890


@pytest.mark.slow
def test_a_chain_that_is_met_as_the_time_ends_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain's cost equals the bound, up to rounding, and is below that of the answer before."""
    machine, run, objective = load_accelerator("tpu-like-df"), Run(), MappingObjective.ENERGY
    problem = LayerProblem(Layer(k=8, c=6, p=5), machine)
    best = solve_widely(problem, objective, Run())
    assert best.status is Status.OPTIMAL

    class Met:
        def mappings(self) -> Iterator[LayerMapping]:
            assert best.answer is not None
            yield best.answer
            run.interrupt.set()

    def bound(_bounds: WayBounds, value: int, _run: Run, _nodes: float = 0.0) -> int:
        return value if best.lower_bound >= value * SAFE else int(best.lower_bound * SAFE)

    monkeypatch.setattr(WayBounds, "bound", bound)
    monkeypatch.setattr(WayBounds, "chains_below", lambda *_: [Met()])
    monkeypatch.setattr(WayBounds, "is_done", lambda *_: False)
    first = greedy_mapping(problem, objective)
    assert first is not None
    worse = wide.WideMapper(problem, objective, run, value=2.0 * best.lower_bound, answer=first)
    wide._BoundOfAll(worse, worse._bounds, lambda: True).advance(1.0)
    found = worse._result(Stop.INTERRUPTED)
    assert (found.status, found.objective_value) == (Status.OPTIMAL, best.objective_value)
