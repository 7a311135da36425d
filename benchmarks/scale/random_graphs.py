"""Seeded random graphs of any size: windowed (reads of recent tensors), and layered (reads of the layer before)."""

from __future__ import annotations

import random

from scale.wiring import Wiring

from onchip.ir.graph import Graph


def windowed(operators: int, seed: int = 0, window: int = 10, reads: int = 3, most_bytes: int = 100_000) -> Graph:
    """Return operators that each read 1 to `reads` of the `window` most recent tensors of 1 to `most_bytes` bytes."""
    chance, wiring = random.Random(seed), Wiring(element_bytes=1)
    recent = [wiring.input("in", chance.randint(1, most_bytes))]
    for number in range(operators):
        read = chance.sample(recent, min(len(recent), chance.randint(1, reads)))
        recent.append(wiring.add("Op", tuple(read), chance.randint(1, most_bytes), f"t{number}"))
        del recent[:-window]
    return wiring.graph(f"windowed-{operators}-{seed}")


def layered(layers: int, width: int, seed: int = 0, reads: int = 2, most_bytes: int = 100_000) -> Graph:
    """Return layers of operators that each read 1 to `reads` of the layer before, and now and then an older one."""
    chance, wiring = random.Random(seed), Wiring(element_bytes=1)
    before = [wiring.input("in", chance.randint(1, most_bytes))]
    old = list(before)
    for layer in range(layers):
        here = []
        for place in range(width):
            read = chance.sample(before, min(len(before), chance.randint(1, reads)))
            if chance.random() < 1 / width:
                read.append(chance.choice(old))
            size = chance.randint(1, most_bytes)
            here.append(wiring.add("Op", tuple(dict.fromkeys(read)), size, f"t{layer}_{place}"))
        old.append(chance.choice(here))
        del old[:-4]
        before = here
    return wiring.graph(f"layered-{layers}x{width}-{seed}")
