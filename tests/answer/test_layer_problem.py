from __future__ import annotations

import pickle

import pytest

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Memory, MemoryLevel, Operand
from onchip.errors import AcceleratorError
from onchip.ir.layer import Layer

MAPS = (Operand.INPUT, Operand.OUTPUT)
LEVELS = (
    MemoryLevel(Memory("register", 2, holds=(Operand.OUTPUT,)), ("K",)),
    MemoryLevel(Memory("weights", 64, holds=(Operand.WEIGHT,)), ("K", "C")),
    MemoryLevel(Memory("local", 100, holds=MAPS)),
    MemoryLevel(Memory("global", 1000), is_scratchpad=True),
)
MACHINE = Accelerator("small", (LEVELS[3].memory,), LEVELS, array=ComputeArray({"K": 2, "C": 2}))
LAYER = Layer(k=4, c=2, p=3, partial_bits=16)


def names(levels: tuple[MemoryLevel, ...]) -> list[str]:
    return [level.memory.name for level in levels]


def test_a_memory_is_addressed_if_one_instance_serves_the_whole_array() -> None:
    assert names(MACHINE.addressed) == ["weights", "local", "global"]
    free = Accelerator(
        "free", (LEVELS[3].memory,), (MemoryLevel(Memory("of each unit", 1), ()), LEVELS[3]), array=ComputeArray(free=4)
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
