"""Requirements of the mapping verifier on memories, the array and tiles, in addition to the table of refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Memory, MemoryLevel, Operand
from onchip.ir.layer import Layer
from onchip.verify.mapping import tile_bits, verify_mapping
from onchip.verify.rules import Rule

MAPS = MemoryLevel(Memory("maps", 64, holds=(Operand.INPUT,)), None, is_scratchpad=True)
WEIGHTS = MemoryLevel(Memory("weights", 64, holds=(Operand.WEIGHT,)), None, is_scratchpad=True)
SUMS = MemoryLevel(Memory("sums", 64, holds=(Operand.OUTPUT,)), None, is_scratchpad=True)
LEVELS = (MAPS, WEIGHTS, SUMS)
ARRAY = ComputeArray({"K": 4, "pe": 4}, unrolls={"pe": ("P", "Q")})
MACHINE = Accelerator("three", tuple(one.memory for one in LEVELS), LEVELS, array=ARRAY)
SQUARE = Layer(g=4)


def wrong(layer: Layer, mapping: LayerMapping, *, is_input: bool = False, homes: Homes | None = None) -> list[Rule]:
    problem = LayerProblem(layer, MACHINE, homes or Homes(), weight_is_an_input=is_input)
    return [one.rule for one in verify_mapping(problem, mapping)]


def kept(memory: str, loops: int = 1) -> tuple[Kept, ...]:
    return (Kept(memory, loops),)


@pytest.mark.parametrize(("is_input", "legal", "illegal"), [(False, "weights", "maps"), (True, "maps", "weights")])
def test_a_second_map_to_add_is_kept_where_inputs_are(is_input: bool, legal: str, illegal: str) -> None:
    def mapping(memory: str) -> LayerMapping:
        return LayerMapping((Loop("G", 4),), kept("maps"), kept(memory), kept("sums"))

    assert wrong(SQUARE, mapping(legal), is_input=is_input) == []
    assert wrong(SQUARE, mapping(illegal), is_input=is_input) == [Rule.NOT_HELD]


@pytest.mark.parametrize("memory", ["maps", "weights"])
def test_the_second_map_of_a_product_is_kept_where_inputs_or_weights_are(memory: str) -> None:
    product = Layer(n=2, k=2, c=2)
    mapping = LayerMapping((Loop("N", 2), Loop("K", 2), Loop("C", 2)), kept("maps"), kept(memory), kept("sums"))

    assert wrong(product, mapping, is_input=True) == []
    assert wrong(product, replace(mapping, weight=kept("sums")), is_input=True) == [Rule.NOT_HELD]


@pytest.mark.parametrize("is_input", [False, True])
def test_sums_are_kept_where_outputs_are_whatever_the_weight_is(is_input: bool) -> None:
    mapping = LayerMapping((Loop("G", 4),), output=kept("maps"))
    assert wrong(SQUARE, mapping, is_input=is_input) == [Rule.NOT_HELD]
    assert wrong(SQUARE, replace(mapping, output=kept("sums")), is_input=is_input) == []


def test_a_loop_of_one_iteration_leaves_nothing_to_come() -> None:
    nest = (Loop("P", 4), Loop("C", 1), Loop("C", 1, "K"))
    bits = tile_bits(LayerProblem(Layer(p=4), MACHINE), LayerMapping(nest, output=kept("sums")))
    assert bits["sums"] == {"output": 32}
    changing = (Loop("P", 4), Loop("P", 1))
    twice = replace(SUMS, double_buffered=True)
    machine = replace(MACHINE, levels=(MAPS, WEIGHTS, twice))
    assert tile_bits(LayerProblem(Layer(p=4), machine), LayerMapping(changing, output=kept("sums")))["sums"] == {
        "output": 32
    }


def test_a_loop_of_one_iteration_may_run_along_any_dimension() -> None:
    assert wrong(Layer(p=4), LayerMapping((Loop("P", 1, "K"), Loop("P", 4)))) == []
    assert wrong(Layer(p=2), LayerMapping((Loop("P", 2, "K"),))) == [Rule.NOT_UNROLLED]


def test_units_are_counted_for_each_dimension() -> None:
    nest = (Loop("K", 4, "K"), Loop("P", 2, "pe"), Loop("Q", 2, "pe"))
    assert wrong(Layer(k=4, p=2, q=2), LayerMapping(nest)) == []
    more = (Loop("K", 5, "K"), Loop("P", 5, "pe"))
    assert wrong(Layer(k=5, p=5), LayerMapping(more)) == [Rule.ARRAY_EXCEEDED] * 2


def test_an_operand_is_kept_nearer_than_its_home() -> None:
    mapping = LayerMapping((Loop("G", 4),), input=kept("maps"))
    assert wrong(SQUARE, mapping, homes=Homes(None, "weights", "sums")) == []
    assert wrong(SQUARE, mapping, homes=Homes("maps", "weights", "sums")) == [Rule.MISPLACED]


def test_tiles_of_all_operands_are_measured_beside_the_room_that_is_left() -> None:
    mapping = LayerMapping((Loop("G", 4),), input=kept("maps"))
    for room, rules in ((4, []), (3, [Rule.CAPACITY_EXCEEDED])):
        problem = LayerProblem(SQUARE, MACHINE, room_bytes={"maps": room})
        assert [one.rule for one in verify_mapping(problem, mapping)] == rules


def test_sums_in_the_making_that_lie_whole_need_what_they_are_wider() -> None:
    layer, homes = Layer(p=4, c=2), Homes(None, None, "sums")
    below = LayerMapping((Loop("P", 4), Loop("C", 2)))
    assert tile_bits(LayerProblem(layer, MACHINE, homes), below)["sums"] == {"output": 4 * 16}
    finished = LayerMapping((Loop("C", 2, "K"), Loop("P", 4)))
    array = replace(ARRAY, dimensions={"K": 4}, unrolls={"K": ("C",)})
    problem = LayerProblem(layer, replace(MACHINE, array=array), homes)
    assert tile_bits(problem, finished)["sums"] == {}


def test_tiles_that_see_padding_alone_need_no_bytes() -> None:
    """The outputs see positions -1 and 1 of an input of one row."""
    layer, mapping = Layer(p=2, stride=(2, 1), padding=(1, 0, 1, 0)), LayerMapping((Loop("P", 2),))
    bits = [
        tile_bits(LayerProblem(layer, MACHINE), replace(mapping, input=kept("maps", loops)))["maps"] for loops in (0, 1)
    ]
    assert bits == [{}, {"input": 8}]
