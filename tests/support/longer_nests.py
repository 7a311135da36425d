"""Random imperfect mappings of layers with few but long loops, in many parts, on random machines."""

from __future__ import annotations

from random import Random

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Operand
from onchip.ir.layer import LOOPS, Layer
from support.nests import random_accelerator

MOST_PARTS = 6


def random_long_problem(random: Random) -> LayerProblem:
    """Return a problem with up to three loops, of up to 40 iterations, or five for taps."""
    accelerator = random_accelerator(random)
    while True:
        sizes = dict.fromkeys(LOOPS, 1)
        for name in random.sample("NKCPQRSG", random.randint(1, 3)):
            sizes[name] = random.randint(2, 5 if name in "RS" else 40)
        n, k, c, p, q, r, s, g = (sizes[name] for name in LOOPS)
        stride, dilation = random.choice(((1, 1), (1, 1), (2, 1), (2, 2))), random.choice(((1, 1), (1, 1), (1, 2)))
        padding = random.choice(((0, 0, 0, 0), (1, 1, 1, 1), (2, 0, 1, 1)))
        span = (p - 1) * stride[0] + (r - 1) * dilation[0] + 1, (q - 1) * stride[1] + (s - 1) * dilation[1] + 1
        if span[0] > padding[0] + padding[2] and span[1] > padding[1] + padding[3]:
            layer = Layer(n, k, c, p, q, r, s, g, stride, dilation, padding, 8, 4, 8, 20, random.random() > 0.1)
            return LayerProblem(layer, accelerator)


def random_long_mapping(random: Random, problem: LayerProblem) -> LayerMapping:
    """Return a mapping with each dimension in parts of two to five, the outermost as needed; some over units."""
    array = problem.accelerator.array or ComputeArray(free=1)
    left, nest = dict(array.sizes), list[Loop]()
    for name, bound in problem.layer.bounds.items():
        for size in _parts(random, bound):
            fitting = [along for along in left if size <= left[along] and name in loops_along(array, along)]
            along = random.choice(fitting) if fitting and random.random() < 0.3 else None
            if along is not None:
                left[along] //= size
            outside = max((at + 1 for at, loop in enumerate(nest) if loop.dimension == name), default=0)
            nest.insert(random.randint(outside, len(nest)), Loop(name, size, along))
    kept = []
    for operand in Operand:
        keepers = problem.keepers(operand) if operand in problem.layer.operands else ()
        cuts = sorted(random.randint(0, len(nest)) for _ in keepers)
        kept.append(tuple(Kept(one.memory.name, cut) for one, cut in zip(keepers, cuts, strict=True)))
    return LayerMapping(tuple(nest), *kept, ragged=LOOPS)


def _parts(random: Random, bound: int) -> list[int]:
    found, inner = list[int](), 1
    while inner < bound:
        rest = -(-bound // inner)
        is_last = random.random() < 0.25 or len(found) + 1 == MOST_PARTS
        size = rest if is_last else min(random.choice((2, 2, 3, 4, 5)), rest)
        found.append(size)
        inner *= size
    return found
