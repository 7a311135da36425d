from __future__ import annotations

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError, even, loops_along
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Operand
from onchip.ir.layer import LOOPS, Layer

LEVELS = (("register", (Loop("Q", 2),)), ("buffer", (Loop("C", 8, "pe"), Loop("P", 2), Loop("S", 3))))


def test_an_even_mapping_cuts_the_nest_at_the_same_place_for_all_operands() -> None:
    mapping = even(LEVELS, {"weight": ["register", "buffer"], Operand.INPUT: ["buffer"]}, [Loop("K", 4)])
    assert str(mapping) == "Q2 C8@pe P2 S3 K4 | input(buffer:4) weight(register:1, buffer:4) output()"
    assert mapping.kept(Operand.OUTPUT) == ()


def test_bounds_are_products_over_time_and_space() -> None:
    mapping = LayerMapping((Loop("P", 2), Loop("P", 3, "OY"), Loop("K", 4), Loop("P", 1)))
    assert mapping.bounds == dict.fromkeys(LOOPS, 1) | {"P": 6, "K": 4}
    assert mapping.temporal_iterations == 8


def test_a_loop_of_one_iteration_says_nothing() -> None:
    mapping = LayerMapping((Loop("P", 1), Loop("K", 4), Loop("C", 1), Loop("C", 2)), weight=(Kept("register", 3),))
    assert mapping.without_loops_of_one() == LayerMapping((Loop("K", 4), Loop("C", 2)), weight=(Kept("register", 1),))


def test_the_layer_executed_is_as_long_as_the_mapping() -> None:
    layer = Layer(k=6)
    assert LayerMapping((Loop("K", 6),)).layer(layer) is layer
    assert LayerMapping((Loop("K", 8),)).layer(layer) == Layer(k=8)
    with pytest.raises(MappingError, match="loop K has 5 iterations"):
        LayerMapping((Loop("K", 5),)).layer(layer)


def test_a_cut_beyond_the_nest_or_below_a_nearer_one_is_refused() -> None:
    with pytest.raises(MappingError, match=r"the tiles of input span \[2\] of 1 loops"):
        LayerMapping((Loop("K", 2),), input=(Kept("buffer", 2),))
    with pytest.raises(MappingError, match=r"the tiles of output span \[1, 0\] of 1 loops"):
        LayerMapping((Loop("K", 2),), output=(Kept("register", 1), Kept("buffer", 0)))


def test_a_loop_that_no_layer_has_is_refused() -> None:
    with pytest.raises(MappingError, match="'OY' is no loop of a layer"):
        Loop("OY", 2)
    with pytest.raises(MappingError, match="loop K has 0 iterations"):
        Loop("K", 0)


def test_a_dimension_of_the_array_unrolls_what_it_lists_or_is_named_for_or_else_all() -> None:
    array = ComputeArray({"K": 4, "OX": 2, "pe": 16, "lane": 8}, unrolls={"lane": ("C", "R")})
    assert loops_along(array, "K") == ("K",)
    assert loops_along(array, "OX") == ("Q",)
    assert loops_along(array, "pe") == LOOPS
    assert loops_along(array, "lane") == ("C", "R")
    assert loops_along(ComputeArray(free=64), "free") == LOOPS


def test_a_layer_is_not_padded_along_loops_that_end_short() -> None:
    layer, nest = Layer(k=5, p=3), (Loop("K", 2), Loop("K", 3), Loop("P", 4))
    mapping = LayerMapping(nest, ragged=("K",))
    assert mapping.layer(layer) == Layer(k=5, p=4)
    assert str(mapping) == "K2 K3 P4 | input() weight() output() | K short"
    assert mapping.without_loops_of_one() == mapping
    with pytest.raises(MappingError, match="loop K has 6 iterations"):
        mapping.layer(Layer(k=7, p=3))


@pytest.mark.parametrize("names", [("OY",), ("C", "K"), ("K", "K")])
def test_loops_that_end_short_are_named_once_and_in_order(names: tuple[str, ...]) -> None:
    with pytest.raises(MappingError, match=f"loops {', '.join(names)} end short"):
        LayerMapping((), ragged=names)
