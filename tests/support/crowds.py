"""Networks with millions of sets of evictions in one state."""

from __future__ import annotations

import random

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor


def crowd(seed: int, waiting: int, greatest_size: int, reads: int = 1) -> Graph:
    """Return tensors that all wait while a large one is live; each is then read up to `reads` times in random order."""
    chance = random.Random(seed)
    sizes = [chance.randint(1, greatest_size) for _ in range(waiting)]
    large = sum(sizes) // 2 + 1
    tensors = [Tensor("x", 1, Role.INPUT), Tensor("large", large, Role.ACTIVATION), Tensor("y", 1, Role.OUTPUT)]
    makers = [Operator(f"make{i}", "Op", ("x",), (f"t{i}",)) for i in range(waiting)]
    tensors += [Tensor(f"t{i}", size, Role.ACTIVATION) for i, size in enumerate(sizes)]
    middle = [Operator("grow", "Op", ("x",), ("large",)), Operator("shrink", "Op", ("large",), ("y",))]
    uses = [(i, again) for i in range(waiting) for again in range(chance.randint(1, reads))]
    chance.shuffle(uses)
    users = [Operator(f"use{i}_{again}", "Op", (f"t{i}",), (f"z{i}_{again}",)) for i, again in uses]
    tensors += [Tensor(f"z{i}_{again}", 1, Role.OUTPUT) for i, again in uses]
    return Graph(f"crowd{seed}", tuple(tensors), (*makers, *middle, *users))
