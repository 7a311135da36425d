from __future__ import annotations

from itertools import product
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.layer_problem import LayerProblem
from onchip.bounds.layer.unit_shares import AnyUnrolling, most_in_factors
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from onchip.mapping.tile_search.exact import ways_of


@given(st.integers(1, 12), st.lists(st.integers(1, 30), max_size=3))
def test_the_most_units_at_work_are_those_of_the_best_way_to_divide_all_loops(units: int, bounds: list[int]) -> None:
    factors = ([factor for factor in range(1, bound + 1) if bound % factor == 0] for bound in bounds)
    assert most_in_factors(units, bounds) == max(prod(way) for way in product(*factors) if prod(way) <= units)


@given(st.integers(1, 70), st.integers(1, 5), st.integers(1, 30), st.integers(1, 30))
def test_no_way_that_the_even_mapper_takes_has_more_units_at_work(k: int, c: int, p: int, q: int) -> None:
    accelerator = load_accelerator("meta-prototype-df")
    layer = Layer(k=k, c=c, p=p, q=q, r=3, s=3)
    shares = AnyUnrolling(accelerator, every_memory_keeps=True, divides_loops=True).of(layer)
    most = prod(max(map(prod, ways)) for ways in ways_of(LayerProblem(layer, accelerator)))
    assert shares.at_work == most <= AnyUnrolling(accelerator).of(layer).at_work
