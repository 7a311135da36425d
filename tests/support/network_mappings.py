"""Random mappings of small layers for the network on a chip."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from onchip.mapping.baselines.random_search import random_orders, random_tiling
from onchip.verify.mapping import verify_mapping

SIMBA: Final = load_accelerator("simba")


def mappings_for_the_network(seed: int) -> tuple[LayerProblem, list[LayerMapping]]:
    """Return six mappings that fit, of a layer with bounds of at most 8."""
    random = Random(seed)
    k, c, p, q = (random.choice([1, 2, 3, 4, 6, 8]) for _ in range(4))
    r, s, stride = random.choice([1, 3]), random.choice([1, 2]), (random.choice([1, 2]), random.choice([1, 3]))
    layer = Layer(k=k, c=c, p=p, q=q, r=r, s=s, stride=stride)
    problem = LayerProblem(layer, SIMBA)
    drawn = (random_tiling(random, problem).mapping(problem, random_orders(random, 6)) for _ in range(10_000))
    return problem, list(islice((one for one in drawn if not list(verify_mapping(problem, one))), 6))
