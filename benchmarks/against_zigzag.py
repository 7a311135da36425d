"""The same mappings on the same machines under ZigZag's cost model and under ours with its accounting.

    pip install zigzag-dse==3.9.1 six
    python benchmarks/against_zigzag.py [--mappings 8]

Machines are read from ZigZag's own hardware files; mappings are random orders of the prime factors of a layer's
loops, allocated from the MACs up as far as capacities allow, on random divisors along the array. Exits with 1 where
energies differ by more than 0.5 %, or latencies by more than 2 % on more than 5 % of the triples.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import islice
from random import Random
from typing import Final

from zigzag_peer import Peer, PeerCost, peer_inputs

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.formats.zigzag import read_zigzag_hardware
from onchip.ir.layer import Layer
from onchip.model.accounting.accounting import ZIGZAG, Accounting
from onchip.model.layer.cost import LayerCost, layer_cost
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
OPTIONS: Final = tuple(
    field.name
    for field in fields(Accounting)
    if field.name == "systolic" or (field.name != "tiles_from_bounds" and getattr(ZIGZAG, field.name))
)
"""Accounting options of ZigZag; `tiles_from_bounds` cannot be left out alone, because two others need it."""
ENERGY_LIMIT, LATENCY_LIMIT, LATENCY_SHARE = 0.005, 0.02, 0.95


@dataclass(frozen=True, slots=True)
class Compared:
    """One triple of layer, machine and mapping."""

    machine: str
    layer: str
    mapping: LayerMapping
    theirs: PeerCost
    ours: LayerCost
    one_option_less: dict[str, LayerCost]

    def energy_error(self, ours: LayerCost) -> float:
        """Relative to ZigZag's."""
        return abs(ours.energy_pj / self.theirs.energy_pj - 1)

    def latency_error(self, ours: LayerCost) -> float:
        """Relative to ZigZag's."""
        return abs(ours.cycles / self.theirs.cycles - 1)


def primes(number: int) -> Iterator[int]:
    """Yield the prime factors in ascending order."""
    factor = 2
    while number > 1:
        while number % factor == 0:
            yield factor
            number //= factor
        factor += 1


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


def compared(wanted: int) -> Iterator[Compared]:
    """Yield `wanted` mappings of each layer on each machine."""
    for machine, along in MACHINES.items():
        path = peer_inputs() / "hardware" / f"{machine}.yaml"
        peer, hardware = Peer(path), read_zigzag_hardware(path)
        accounting = replace(ZIGZAG, systolic=hardware.systolic)
        less = {name: without(accounting, name) for name in OPTIONS}
        for name, text in LAYERS.items():
            layer = replace(Layer.of_text(text), partial_bits=16)
            for mapping in islice(mappings(layer, hardware.accelerator, along, f"{machine} {name}"), wanted):
                yield Compared(
                    machine,
                    name,
                    mapping,
                    peer.cost(layer, hardware.accelerator, mapping),
                    layer_cost(LayerProblem(layer, hardware.accelerator), mapping, accounting),
                    costs_that_fit(layer, hardware.accelerator, mapping, less),
                )


def costs_that_fit(
    layer: Layer, accelerator: Accelerator, mapping: LayerMapping, accountings: dict[str, Accounting]
) -> dict[str, LayerCost]:
    """Return costs by name of the accounting; some accountings need more bytes for the same tiles."""
    found = {}
    for name, accounting in accountings.items():
        try:
            found[name] = layer_cost(LayerProblem(layer, accelerator), mapping, accounting)
        except MappingError:
            continue
    return found


def without(accounting: Accounting, option: str) -> Accounting:
    """Return the accounting with one option left out."""
    values = {field.name: getattr(accounting, field.name) for field in fields(Accounting)}
    return Accounting(**values | {option: () if option == "systolic" else False})


def mappings(
    layer: Layer, accelerator: Accelerator, along: dict[str, tuple[str, ...]], seed: str
) -> Iterator[LayerMapping]:
    """Random ones that fit."""
    random = Random(seed)
    for _ in range(200):
        found = allocated(layer, accelerator, random_nest(random, layer, accelerator, along), random)
        if found is not None:
            yield found


def print_machines(triples: list[Compared]) -> None:
    """Print the errors of our energy and latency against ZigZag's."""
    heads = "machine", "triples", "stalled", "energy: worst error", "latency: within 2 %", "worst error"
    print("{:16} {:>8} {:>8} {:>20} {:>20} {:>12}".format(*heads))
    for machine in (*MACHINES, "all"):
        ones = [one for one in triples if machine in (one.machine, "all")]
        energy = max(one.energy_error(one.ours) for one in ones)
        errors = [one.latency_error(one.ours) for one in ones]
        stalled = sum(one.theirs.latency["stall"] > 0 for one in ones)
        within = sum(error <= LATENCY_LIMIT for error in errors) / len(errors)
        print(f"{machine:16} {len(ones):8} {stalled:8} {energy:20.2e} {within:20.1%} {max(errors):12.2e}")


def print_options(triples: list[Compared]) -> None:
    """Print the effect of each option: the errors if it alone is left out."""
    heads = "without the option", "fit", "energy: differs", "worst", "latency: differs", "worst"
    print("\n{:32} {:>6} {:>16} {:>10} {:>18} {:>10}".format(*heads))
    for option in OPTIONS:
        costs = [(one, one.one_option_less[option]) for one in triples if option in one.one_option_less]
        energies = [one.energy_error(cost) for one, cost in costs]
        latencies = [one.latency_error(cost) for one, cost in costs]
        differ = [sum(error > 1e-4 for error in errors) / len(errors) for errors in (energies, latencies)]
        figures = f"{differ[0]:16.1%} {max(energies):10.1%} {differ[1]:18.1%} {max(latencies):10.1%}"
        print(f"{option:32} {len(costs):6} {figures}")


def main() -> None:
    """Prints the tables; the exit code says whether the limits hold."""
    parser = argparse.ArgumentParser(description="Our cost model with ZigZag's accounting against ZigZag.")
    parser.add_argument("--mappings", type=int, default=8, help="of each layer on each machine")
    logging.getLogger("zigzag").setLevel(logging.ERROR)
    triples = list(compared(parser.parse_args().mappings))
    print_machines(triples)
    print_options(triples)
    latencies = [one.latency_error(one.ours) <= LATENCY_LIMIT for one in triples]
    energies = [one.energy_error(one.ours) <= ENERGY_LIMIT for one in triples]
    raise SystemExit(not all(energies) or sum(latencies) < LATENCY_SHARE * len(latencies))


if __name__ == "__main__":
    main()
