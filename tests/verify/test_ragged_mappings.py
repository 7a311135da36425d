from __future__ import annotations

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Memory, MemoryLevel
from onchip.ir.layer import Layer
from onchip.verify.mapping import tile_bits, verify_mapping
from onchip.verify.rules import Rule

SRAM = MemoryLevel(Memory("sram", 100), None, is_scratchpad=True)
MACHINE = Accelerator("small", (SRAM.memory,), (SRAM,), array=ComputeArray({"K": 4}))


@pytest.mark.parametrize(
    ("nest", "bound", "rules"),
    [
        ((Loop("K", 2), Loop("K", 3)), 6, ()),
        ((Loop("K", 2), Loop("K", 3)), 5, ()),
        ((Loop("K", 2), Loop("K", 3)), 4, (Rule.TOO_MANY_ITERATIONS,)),
        ((Loop("K", 2), Loop("K", 3)), 7, (Rule.TOO_FEW_ITERATIONS,)),
        ((Loop("K", 3), Loop("K", 2), Loop("K", 1)), 3, (Rule.TOO_MANY_ITERATIONS,)),
        ((Loop("K", 3), Loop("K", 2), Loop("K", 1)), 4, ()),
        ((Loop("K", 2), Loop("K", 4, "K")), 7, ()),
        ((Loop("K", 2), Loop("K", 4, "K")), 6, (Rule.TOO_MANY_ITERATIONS,)),
        ((Loop("K", 4, "K"), Loop("K", 2)), 5, ()),
        ((), 1, ()),
    ],
)
def test_the_outermost_loop_of_one_that_ends_short_is_needed_to_its_last_iteration(
    nest: tuple[Loop, ...], bound: int, rules: tuple[Rule, ...]
) -> None:
    mapping = LayerMapping(nest, ragged=("K",))
    for may_pad in (False, True):
        found = verify_mapping(LayerProblem(Layer(k=bound), MACHINE), mapping, may_pad=may_pad)
        assert tuple(one.rule for one in found) == rules


def test_what_does_not_say_that_it_ends_short_runs_too_long() -> None:
    problem = LayerProblem(Layer(k=5, p=5), MACHINE)
    nest = (Loop("K", 2), Loop("K", 3), Loop("P", 2), Loop("P", 3))
    assert verify_mapping(problem, LayerMapping(nest, ragged=("K", "P"))) == ()
    (violation,) = verify_mapping(problem, LayerMapping(nest, ragged=("P",)))
    assert (violation.rule, violation.subject) == (Rule.TOO_MANY_ITERATIONS, "K")


def test_a_tile_that_ends_short_takes_the_room_of_what_it_has() -> None:
    nest = (Loop("K", 2), Loop("P", 3), Loop("K", 3), Loop("P", 2))
    problem = LayerProblem(Layer(k=5, p=4, r=2), MACHINE)

    def bits(loops: int, operand: str) -> int:
        kept = (Kept("sram", loops),)
        own = LayerMapping((*nest, Loop("R", 2)), **{operand: kept}, ragged=("K", "P"))
        return tile_bits(problem, own)["sram"][operand]

    assert [bits(loops, "weight") for loops in (1, 3, 5)] == [2 * 8, 5 * 8, 2 * 5 * 8]
    assert [bits(loops, "input") for loops in (2, 4, 5)] == [3 * 8, 4 * 8, 5 * 8]
