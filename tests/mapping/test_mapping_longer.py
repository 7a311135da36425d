"""Layers with a loop longer than it has to be, whose even mappings are cut off where the layer ends."""

from __future__ import annotations

import pytest

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import LOOPS, Layer
from onchip.mapping.prove.wide import MOST_LENGTHENED, SMALL_PRIMES, WideMapper, longer_layers
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.model.layer.cost import layer_cost
from onchip.model.unrolling.unrolling import prime_counts
from onchip.ops.layers_of import Precision
from onchip.search.budget.limits import Limits, Run
from onchip.search.strategy.portfolio import Stepped
from onchip.verify.mapping import verify_mapping

LAYER = Layer(n=512, k=64, c=64)


def test_each_has_one_loop_that_is_a_little_longer_and_may_be_cut_in_many_places() -> None:
    seen, before = set(), 1.0
    for longer in longer_layers(LAYER):
        (loop,) = [name for name in LOOPS if longer.bounds[name] != LAYER.bounds[name]]
        length, bound = longer.bounds[loop], LAYER.bounds[loop]
        assert bound < length <= bound + bound / MOST_LENGTHENED
        assert set(prime_counts(length)) <= set(SMALL_PRIMES)
        assert length / bound >= before
        seen.add((loop, length))
        before = length / bound
    assert seen == {("N", 540), ("N", 576), ("K", 72), ("C", 72)}


def test_a_loop_of_few_iterations_has_none() -> None:
    assert not list(longer_layers(Layer(n=1, k=3, c=5)))


@pytest.mark.slow
def test_the_best_even_mapping_is_improved_on_by_a_legal_one_that_costs_as_much_as_is_said() -> None:
    machine = load_accelerator("eyeriss-like")
    problem = LayerProblem(Precision().on(machine).of(Layer(n=32, k=64, c=64)), machine)
    even = solve_exactly(problem, MappingObjective.LATENCY, Run(Limits()))
    assert even.answer is not None
    mapper = WideMapper(problem, MappingObjective.LATENCY, Run(Limits()))
    mapper._offer(even.answer)
    before = mapper.value
    for _ in Stepped("longer", mapper._incumbent, mapper.run, mapper._look_at_longer)._steps:
        pass
    assert mapper.value < before
    assert mapper.answer is not None
    assert mapper.answer.ragged
    assert not verify_mapping(problem, mapper.answer)
    cost = layer_cost(problem, mapper.answer)
    assert MappingObjective.LATENCY.of(cost.energy_pj, cost.cycles) == mapper.value
