"""The order in which DeFiNES enumerates loop orders, and its choice among equally good mappings."""

from __future__ import annotations

from itertools import pairwise, permutations, product
from math import factorial

import pytest

from onchip.answer.layer_problem import LayerProblem
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from onchip.mapping.baselines.loma import FirstOfDefines, arrangements, filled_orders, ranks, unrolled_for
from onchip.model.accounting.accounting import DEFINES

FACTORS = [("K", 2), ("C", 2), ("OX", 3)]


@pytest.mark.parametrize("size", range(6))
def test_each_arrangement_comes_once_and_the_next_has_one_item_at_the_front(size: int) -> None:
    for items in product(FACTORS, repeat=size):
        every = list(arrangements(items))
        assert len(every) == len(set(every))
        assert set(every) == set(permutations(items))
        for one, following in pairwise(every):
            rest = list(following[1:])
            assert any([*one[:at], *one[at + 1 :]] == rest and one[at] == following[0] for at in range(size))


def test_the_order_is_that_of_its_source() -> None:
    """Williams (SODA 2009), as E. Garrison's multipermute has it, which DeFiNES uses."""
    assert ["".join(name for name, _ in one) for one in arrangements([("1", 0), ("2", 0), ("3", 0)])] == [
        "321",
        "132",
        "312",
        "231",
        "123",
        "213",
    ]
    twos = [("1", 0), ("1", 0), ("2", 0), ("2", 0)]
    found = ["".join(name for name, _ in one) for one in arrangements(twos)]
    assert found == ["2211", "1221", "2121", "1212", "1122", "2112"]


def test_rows_have_the_numbers_of_their_orders_innermost_first() -> None:
    problem = LayerProblem(Layer(k=64, c=4, p=8, q=4, r=3), load_accelerator("meta-prototype-df"))
    unrolled = unrolled_for(problem, {"K": {"K": 32}, "C": {"C": 2}, "OX": {"Q": 4}, "OY": {"P": 4}})
    chosen = next(filled_orders(problem, unrolled, 6, DEFINES))
    rows = len(chosen.temporal_count)
    assert rows == factorial(4)
    numbers = [FirstOfDefines()(chosen, row) for row in range(rows)]
    assert sorted(numbers) == list(range(rows))
    outermost_k = ranks((("C", 2), ("FY", 3), ("K", 2), ("OY", 2)))[("C", 2), ("FY", 3), ("OY", 2), ("K", 2)]
    assert outermost_k in numbers
