"""A GPU with ample capacity, and random mappings for it: threads, blocks, and tiles anywhere."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Memory, MemoryLevel, Operand
from onchip.ir.layer import LOOPS, OUTPUT, RELEVANT, Layer
from support.nests import random_layer

ROOMY = 1 << 20
READ = (Operand.INPUT, Operand.WEIGHT)
ARRAY = ComputeArray({"thread": 1024, "block": 1024}, mac_energy_pj=0.0)
LEVELS = (
    MemoryLevel(Memory("registers", ROOMY), ()),
    MemoryLevel(Memory("shared", ROOMY, holds=READ), ("thread",)),
    MemoryLevel(Memory("l2", ROOMY), None, is_scratchpad=True),
)
ROOMY_GPU = Accelerator("gpu", (LEVELS[2].memory,), LEVELS, None, ARRAY)


def gpu_layer(random: Random, bits: int) -> Layer:
    """Return a random layer; half of them are matrix products or depthwise."""
    layer = random_layer(random, 2000)
    match random.randrange(4):
        case 0:
            layer = Layer(n=random.randint(1, 20), k=random.randint(1, 40), c=random.randint(1, 20))
        case 1:
            layer = replace(layer, n=1, k=1, c=1, g=random.randint(1, 20))
    return replace(layer, input_bits=bits, weight_bits=bits, output_bits=bits, partial_bits=32, has_weight=True)


def gpu_mapping(random: Random, layer: Layer) -> LayerMapping:
    """Return up to four loops per dimension, temporal or spatial, at any position, possibly beyond the bound."""
    nest = []
    for name, bound in layer.bounds.items():
        sizes = [random.choice((1, 2, 3, 4)) for _ in range(random.randint(0, 3))]
        for size in sizes:
            along = random.choice(("thread", "block", None)) if name in RELEVANT[OUTPUT] else None
            nest.append(Loop(name, min(size, bound), along))
            bound = -(-bound // nest[-1].size)
        nest.append(Loop(name, bound))
    random.shuffle(nest)
    kept = []
    for names in (("registers", "shared", "l2"), ("registers", "shared", "l2"), ("registers", "l2")):
        cuts = sorted(random.randint(0, len(nest)) for _ in names)
        if random.random() < 0.7:
            cuts[0] = min(cuts[0], 4)
        kept.append(tuple(Kept(one, cut) for one, cut in zip(names, cuts, strict=True) if random.random() < 0.8))
    return LayerMapping(tuple(nest), *kept, ragged=LOOPS if random.random() < 0.7 else ())
