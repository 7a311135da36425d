"""Random mappings with imperfect factors: the product of a dimension's loops may exceed the layer's bound."""

from __future__ import annotations

from random import Random

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Operand
from onchip.ir.layer import LOOPS


def random_ragged_mapping(random: Random, problem: LayerProblem, *, keeps_all: bool = False) -> LayerMapping:
    """Return a mapping whose outermost loops have only the iterations that the inner ones require."""
    array = problem.accelerator.array or ComputeArray(free=1)
    left, nest = dict(array.sizes), list[Loop]()
    for name, bound in problem.layer.bounds.items():
        inner = random.choice([size for size in (1, 1, 2, 3) if size <= bound])
        middle = random.choice([size for size in (1, 1, 2, 3) if inner * (size - 1) < bound])
        for size in (inner, middle, -(-bound // (inner * middle))):
            fitting = [along for along in left if size <= left[along] and name in loops_along(array, along)]
            along = random.choice(fitting) if fitting and random.random() < 0.4 else None
            if along is not None:
                left[along] //= size
            nest.insert(_place(random, nest, name), Loop(name, size, along))
    kept = []
    for operand in Operand:
        keepers = problem.keepers(operand) if operand in problem.layer.operands else ()
        names = [level.memory.name for level in keepers if keeps_all or random.random() < 0.8]
        cuts = sorted(random.randint(0, len(nest)) for _ in names)
        kept.append(tuple(Kept(one, cut) for one, cut in zip(names, cuts, strict=True)))
    return LayerMapping(tuple(nest), *kept, ragged=LOOPS)


def _place(random: Random, nest: list[Loop], name: str) -> int:
    """Return a random position outside the loops of the same dimension."""
    last = max((at for at, loop in enumerate(nest) if loop.dimension == name), default=-1)
    return random.randint(last + 1, len(nest))
