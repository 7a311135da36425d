"""The same mappings on the same machines under ZigZag's cost model and under ours with its accounting.

    pip install zigzag-dse==3.9.1 six
    python benchmarks/against_zigzag.py [--mappings 8]

Machines are read from ZigZag's own hardware files; mappings are random orders of the prime factors of a layer's
loops, allocated from the MACs up as far as capacities allow, on random divisors along the array. Exits with 1 where
energies differ by more than 0.5 %, or latencies by more than 2 % on more than 5 % of the triples.
"""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from random import Random
from typing import Final

from shared.runner import Row, asked_of, options_of, report
from zigzag_peer import Peer, peer_inputs, primes

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.formats.zigzag import read_zigzag_hardware
from onchip.ir.layer import Layer
from onchip.model.accounting.accounting import ZIGZAG
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.limits import checked_boundaries

MACHINES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "tpu_like": {"D1": ("K", "G"), "D2": ("C",)},
    "eyeriss_like": {"D1": ("P", "Q", "K"), "D2": ("R", "S", "C")},
    "meta_prototype": {"D1": ("K", "G"), "D2": ("C",), "D3": ("Q",), "D4": ("P",)},
}
"""Loops unrolled along the dimensions of the array, by machine."""
LAYERS: Final = {
    "resnet18 conv1": "conv:k64c3p112q112r7s7:stride2:pad3x3x2x2",
    "resnet18 layer1": "conv:k64c64p56q56r3s3:pad1",
    "resnet18 layer2.0": "conv:k128c64p28q28r3s3:stride2:pad1x1x0x0",
    "resnet18 layer2": "conv:k128c128p28q28r3s3:pad1",
    "resnet18 shortcut2": "conv:k128c64p28q28:stride2",
    "resnet18 layer3.0": "conv:k256c128p14q14r3s3:stride2:pad1x1x0x0",
    "resnet18 layer3": "conv:k256c256p14q14r3s3:pad1",
    "resnet18 shortcut3": "conv:k256c128p14q14:stride2",
    "resnet18 layer4": "conv:k512c512p7q7r3s3:pad1",
    "resnet18 fc": "conv:k1000c512",
    "mobilenet conv1": "conv:k32c3p112q112r3s3:stride2:pad1x1x0x0",
    "mobilenet depthwise1": "conv:k32c32p112q112r3s3:pad1:groups32",
    "mobilenet pointwise1": "conv:k64c32p112q112",
    "mobilenet depthwise2": "conv:k64c64p56q56r3s3:stride2:pad1x1x0x0:groups64",
    "mobilenet pointwise2": "conv:k128c64p56q56",
    "mobilenet depthwise6": "conv:k512c512p14q14r3s3:pad1:groups512",
    "mobilenet pointwise6": "conv:k512c512p14q14",
    "mobilenet pointwise12": "conv:k1024c1024p7q7",
}
ENERGY_LIMIT, LATENCY_LIMIT, LATENCY_SHARE = 0.005, 0.02, 0.95


def random_nest(
    random: Random, layer: Layer, accelerator: Accelerator, along: dict[str, tuple[str, ...]]
) -> list[Loop]:
    """Divisors along the array, mostly the greatest that fit, outside all temporal loops; these in any order."""
    left = dict(layer.bounds)
    spatial = []
    for dimension, loops in along.items():
        units = accelerator.array.sizes[dimension] if accelerator.array else 1
        for name in random.sample(loops, random.randint(1, len(loops))):
            divisors = [size for size in range(1, units + 1) if left[name] % size == 0]
            size = divisors[-1] if random.random() < 0.8 else random.choice(divisors)
            left[name] //= size
            units //= size
            if size > 1:
                spatial.append(Loop(name, size, dimension))
    temporal = [Loop(name, factor) for name, bound in left.items() for factor in primes(bound)]
    random.shuffle(temporal)
    return [*temporal, *spatial]


def allocated(layer: Layer, accelerator: Accelerator, nest: list[Loop], random: Random) -> LayerMapping | None:
    """Cuts raised, memory by memory and operand by operand in random order, until nothing more fits."""
    temporal = sum(loop.along is None for loop in nest)
    cuts = {
        operand: {level.memory.name: 0 for level in accelerator.levels if operand in level.memory.holds}
        for operand in Operand
    }

    def mapping() -> LayerMapping:
        kept = (tuple(Kept(name, cut) for name, cut in cuts[o].items()) for o in Operand)
        return LayerMapping(tuple(nest), *kept)

    def fits() -> bool:
        try:
            checked_boundaries(LayerProblem(layer, accelerator), mapping(), ZIGZAG)
        except MappingError:
            return False
        return True

    def put(operand: Operand, first: str, cut: int) -> None:
        names = list(cuts[operand])
        cuts[operand].update(dict.fromkeys(names[names.index(first) :], cut))

    if not fits():
        return None
    for level in accelerator.levels:
        name = level.memory.name
        for operand in random.sample(level.memory.holds, len(level.memory.holds)):
            low, high = cuts[operand][name], temporal if random.random() < 0.8 else random.randint(0, temporal)
            while low < high:
                put(operand, name, (low + high + 1) // 2)
                low, high = ((low + high + 1) // 2, high) if fits() else (low, (low + high - 1) // 2)
            put(operand, name, low)
    return mapping()


def compared(asked: Namespace) -> Iterator[Row]:
    """Yield the relative errors of energy and latency for mappings of each layer on each machine."""
    for machine, along in MACHINES.items():
        path = peer_inputs() / "hardware" / f"{machine}.yaml"
        peer, hardware = Peer(path), read_zigzag_hardware(path)
        accounting = replace(ZIGZAG, systolic=hardware.systolic)
        for name, text in LAYERS.items():
            layer = replace(Layer.of_text(text), partial_bits=16)
            problem = LayerProblem(layer, hardware.accelerator)
            for mapping in islice(mappings(layer, hardware.accelerator, along, f"{machine} {name}"), asked.mappings):
                theirs = peer.cost(layer, hardware.accelerator, mapping)
                row: Row = {"machine": machine, "layer": name, "stall": theirs.latency["stall"]}
                cost = layer_cost(problem, mapping, accounting)
                row["ours"] = (abs(cost.energy_pj / theirs.energy_pj - 1), abs(cost.cycles / theirs.cycles - 1))
                yield row


def mappings(
    layer: Layer, accelerator: Accelerator, along: dict[str, tuple[str, ...]], seed: str
) -> Iterator[LayerMapping]:
    """Random ones that fit."""
    random = Random(seed)
    for _ in range(200):
        found = allocated(layer, accelerator, random_nest(random, layer, accelerator, along), random)
        if found is not None:
            yield found


def main() -> int:
    """Print the errors; return 1 if a limit does not hold."""
    parser = options_of(__doc__)
    parser.add_argument("--mappings", type=int, default=8, help="of each layer on each machine")
    asked = asked_of(parser)
    logging.getLogger("zigzag").setLevel(logging.ERROR)
    rows = report(asked, {"errors": partial(compared, asked)})["errors"]
    for machine in MACHINES:
        errors = [row["ours"] for row in rows if row["machine"] == machine]
        print(f"{machine}: energy at most {max(errors)[0]:.2e}, latency at most {max(one[1] for one in errors):.2e}")
    energies, latencies = zip(*(row["ours"] for row in rows), strict=True)
    within = sum(error <= LATENCY_LIMIT for error in latencies)
    return int(max(energies) > ENERGY_LIMIT or within < LATENCY_SHARE * len(rows))


if __name__ == "__main__":
    raise SystemExit(main())
