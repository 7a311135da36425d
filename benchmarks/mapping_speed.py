"""Number of mappings of a layer that the cost model evaluates per second on one core.

    python benchmarks/mapping_speed.py

Random mappings, most of which do not fit; `scattered` are those that the model evaluates one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from time import perf_counter

import numpy as np
from shared.runner import Row, asked_of, options_of, report
from zigzag_peer import primes

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml, load_accelerator
from onchip.ir.layer import Layer
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.tables import Chosen, CostStatus, LayerCosts

SIMBA_LIKE = """\
format: onchip-accelerator
version: 1
name: six levels, as many instances as Simba
array: {dimensions: {lane: 8, vector: 8, pe: 16}, mac_energy_pj: 0.1}
memories:
  - {name: register, capacity: 8B, holds: [weight], serves: [], access_bits: 8, read_energy_pj: 0.01,
     write_energy_pj: 0.01, ports: [{direction: read, bits_per_cycle: 8}, {direction: write, bits_per_cycle: 8}]}
  - {name: accumulation, capacity: 384B, holds: [output], serves: [lane], access_bits: 24, read_energy_pj: 0.1,
     write_energy_pj: 0.1, ports: [{direction: read_write, bits_per_cycle: 48}]}
  - {name: weights, capacity: 4KiB, holds: [weight], serves: [lane], access_bits: 64, read_energy_pj: 1.0,
     write_energy_pj: 1.1, ports: [{direction: read_write, bits_per_cycle: 64}]}
  - {name: inputs, capacity: 8KiB, holds: [input], serves: [lane, vector], access_bits: 64, read_energy_pj: 1.5,
     write_energy_pj: 1.6, ports: [{direction: read_write, bits_per_cycle: 64}]}
  - {name: global, capacity: 128KiB, scratchpad: true, holds: [input, output], access_bits: 256,
     shortest_access_bits: 64, read_energy_pj: 10.0, write_energy_pj: 11.0,
     ports: [{direction: read, bits_per_cycle: 256}, {direction: write, bits_per_cycle: 256}]}
dram: {access_bits: 64, read_energy_pj: 700, write_energy_pj: 750, ports: [{direction: read_write, bits_per_cycle: 64}]}
"""
LAYERS = (
    "conv:k64c3p112q112r7s7:stride2:pad3x3x2x2",
    "conv:k256c256p14q14r3s3:pad1",
    "conv:k1024c256p14q14",
    "conv:k64c64p56q56r3s3:stride2:pad1:groups64",
)
DIFFERENT, REPEATED, ONE_BY_ONE = 4_000, 400_000, 200


def random_mapping(random: Random, layer: Layer, accelerator: Accelerator) -> LayerMapping:
    """Any split of the bounds into primes over array, levels and DRAM; the same cuts for all operands."""
    if accelerator.array is None:
        raise SystemExit("no array")
    left = dict(accelerator.array.sizes)
    names = [level.memory.name for level in accelerator.levels]
    loops: list[list[Loop]] = [[] for _ in range(len(names) + 1)]
    spatial = []
    for dimension, bound in layer.bounds.items():
        for prime in primes(bound):
            along = random.choice(list(left))
            if dimension in loops_along(accelerator.array, along) and prime <= left[along] and random.random() < 0.8:
                left[along] //= prime
                spatial.append(Loop(dimension, prime, along))
            else:
                random.choice(loops).append(Loop(dimension, prime))
    nest, cuts = spatial, {}
    for name, own in zip([*names, "dram"], loops, strict=True):
        random.shuffle(own)
        nest.extend(own)
        cuts[name] = len(nest)
    holders = {level.memory.name: level.memory.holds for level in accelerator.levels}
    kept = {o: tuple(Kept(name, cuts[name]) for name in names if o in holders[name]) for o in Operand}
    return LayerMapping(tuple(nest), kept[Operand.INPUT], kept[Operand.WEIGHT], kept[Operand.OUTPUT])


def rows() -> Iterator[Row]:
    """Yield the figures of each layer on each accelerator; times are of one thread."""
    for accelerator in (accelerator_from_yaml(SIMBA_LIKE, "simba"), load_accelerator("meta-prototype-df")):
        for text in LAYERS:
            random, layer = Random(1), Layer.of_text(text)
            mappings = [random_mapping(random, layer, accelerator) for _ in range(DIFFERENT)]
            costs = LayerCosts(LayerProblem(layer, accelerator))
            chosen = costs.encode(mappings)
            status = costs.of_chosen(chosen).status
            repeated = np.random.default_rng(1).integers(0, DIFFERENT, REPEATED)
            many = Chosen(*(np.ascontiguousarray(part[repeated]) for part in chosen))
            start = perf_counter()
            costs.of_chosen(many)
            fast = REPEATED / (perf_counter() - start)
            start = perf_counter()
            for mapping in mappings[:ONE_BY_ONE]:
                with suppress(InputError):
                    layer_cost(LayerProblem(layer, accelerator), mapping)
            yield {
                "accelerator": accelerator.name,
                "layer": text,
                "fit": float(np.mean(status == CostStatus.COSTED)),
                "scattered": float(np.mean(status == CostStatus.INTERLEAVED)),
                "mappings a second": fast,
                "one by one": ONE_BY_ONE / (perf_counter() - start),
            }


if __name__ == "__main__":
    report(asked_of(options_of(__doc__)), {"speed": rows})
