"""Documents, mappings of layers and problems of layers."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.document import as_written, schedule_claim_figures
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError, even, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Memory, MemoryLevel, Operand
from onchip.errors import AcceleratorError
from onchip.ir.layer import LOOPS, Layer


@pytest.mark.slow
@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_a_whole_number_of_64_bits_is_written_as_it_is(figure: int) -> None:
    written = as_written(figure)
    assert isinstance(written, int)
    assert written == figure


@given(st.integers(2**63, 2**200), st.integers(0, 2**200))
def test_a_larger_one_is_written_as_a_real_number_and_none_overtakes_another(figure: int, less: int) -> None:
    written = as_written(figure)
    assert isinstance(written, float)
    assert abs(int(written) - figure) * 2**52 <= figure
    assert as_written(max(0, figure - less)) <= written


@given(st.integers(0, 2**52), st.integers(0, 2**52))
def test_schedules_of_other_energies_claim_other_energies(one_fj: int, other_fj: int) -> None:
    one, other = (schedule_claim_figures(energy_fj, 1, 1)["energy_pj"] for energy_fj in (one_fj, other_fj))
    assert round(one * 1000) == one_fj
    assert (one == other) is (one_fj == other_fj)


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


MAPS = (Operand.INPUT, Operand.OUTPUT)
PROBLEM_LEVELS = (
    MemoryLevel(Memory("register", 2, holds=(Operand.OUTPUT,)), ("K",)),
    MemoryLevel(Memory("weights", 64, holds=(Operand.WEIGHT,)), ("K", "C")),
    MemoryLevel(Memory("local", 100, holds=MAPS)),
    MemoryLevel(Memory("global", 1000), is_scratchpad=True),
)
MACHINE = Accelerator("small", (PROBLEM_LEVELS[3].memory,), PROBLEM_LEVELS, array=ComputeArray({"K": 2, "C": 2}))
LAYER = Layer(k=4, c=2, p=3, partial_bits=16)


def names(levels: tuple[MemoryLevel, ...]) -> list[str]:
    return [level.memory.name for level in levels]


def test_a_memory_is_addressed_if_one_instance_serves_the_whole_array() -> None:
    assert names(MACHINE.addressed) == ["weights", "local", "global"]
    free = Accelerator(
        "free",
        (PROBLEM_LEVELS[3].memory,),
        (MemoryLevel(Memory("of each unit", 1), ()), PROBLEM_LEVELS[3]),
        array=ComputeArray(free=4),
    )
    assert names(free.addressed) == ["global"]


def test_tiles_lie_nearer_the_macs_than_the_operands_home() -> None:
    problem = LayerProblem(LAYER, MACHINE, Homes(input="global", output="local"))
    assert [problem.home(operand) for operand in Operand] == ["global", "dram", "local"]
    assert [names(problem.keepers(operand)) for operand in Operand] == [["local"], ["weights", "global"], ["register"]]


def test_the_second_map_of_a_product_lies_where_inputs_do_and_its_tiles_also_where_weights_do() -> None:
    problem = LayerProblem(LAYER, MACHINE, Homes(weight="local"), weight_is_an_input=True)
    assert names(problem.levels) == names(LayerProblem(LAYER, MACHINE).levels)
    keepers = names(LayerProblem(LAYER, MACHINE, weight_is_an_input=True).keepers(Operand.WEIGHT))
    assert set(keepers) == {"local", "global", "weights"}
    with pytest.raises(AcceleratorError, match="home of weight: 'weights' is no single memory that holds it"):
        LayerProblem(LAYER, MACHINE, Homes(weight="weights"), weight_is_an_input=True)


def test_the_second_map_of_an_element_by_element_layer_lies_only_where_inputs_do() -> None:
    problem = LayerProblem(Layer(g=6), MACHINE, weight_is_an_input=True)
    assert names(problem.levels) == ["register", "local", "global"]
    assert names(problem.keepers(Operand.WEIGHT)) == ["local", "global"]


def test_operands_that_lie_whole_take_no_room_of_the_tiles() -> None:
    problem = LayerProblem(LAYER, MACHINE, Homes(input="global", output="global"), {"global": 10})
    assert problem.room_bits("global") == 80
    assert problem.room_bits("local") == 800
    assert problem.resident_bits("global") == 8 * (2 * 3 + 4 * 3)
    assert problem.usable_bits("global") == 80 + 8 * (2 * 3 + 4 * 3)


def test_room_for_all_is_no_restriction_and_the_order_of_memories_says_nothing() -> None:
    assert LayerProblem(LAYER, MACHINE, room_bytes={"local": 100}) == LayerProblem(LAYER, MACHINE)
    one = LayerProblem(LAYER, MACHINE, room_bytes={"local": 9, "global": 8})
    other = LayerProblem(LAYER, MACHINE, room_bytes={"global": 8, "local": 9})
    assert (one, hash(one), repr(one)) == (other, hash(other), repr(other))
    assert one != LayerProblem(LAYER, MACHINE, room_bytes={"local": 9})


def test_a_problem_goes_to_other_processes() -> None:
    problem = LayerProblem(LAYER, MACHINE, Homes(weight="local"), {"global": 3}, weight_is_an_input=True)
    again = pickle.loads(pickle.dumps(problem))
    assert again == problem
    assert again.levels == problem.levels


@pytest.mark.parametrize(
    ("homes", "room_bytes", "message"),
    [
        (Homes(input="weights"), {}, "home of input: 'weights' is no single memory that holds it"),
        (Homes(output="register"), {}, "home of output: 'register' is no single memory that holds it"),
        (Homes(output="dram"), {}, "home of output: 'dram' is no single memory that holds it"),
        (Homes(), {"local": 101}, "room of tiles in 'local': 101 bytes"),
        (Homes(), {"local": -1}, "room of tiles in 'local': -1 bytes"),
        (Homes(), {"sram": 1}, "room of tiles: there is no memory 'sram'"),
    ],
)
def test_homes_and_room_that_the_machine_does_not_have_are_refused(
    homes: Homes, room_bytes: dict[str, int], message: str
) -> None:
    with pytest.raises(AcceleratorError, match=message):
        LayerProblem(LAYER, MACHINE, homes, room_bytes)


def test_an_operand_that_the_layer_lacks_has_no_home() -> None:
    with pytest.raises(AcceleratorError, match="home of weight: the layer has no weight"):
        LayerProblem(Layer(p=4, has_weight=False), MACHINE, Homes(weight="global"))
