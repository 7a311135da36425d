"""Odd layers and machines for `onchip map`, as JSON."""

from __future__ import annotations

import random
from math import comb, prod

from adversary.frame import Facts
from onchip.errors import InputError
from onchip.ir.layer import Layer

MOST_SPLITS = 1100
"""Most ways to split the bounds over memories and the array, so that all mappings can be listed."""
OPERANDS = ("input", "weight", "output")
ARRAYS: tuple[Facts, ...] = (
    {"dimensions": {"lane": 4}},
    {"dimensions": {"lane": 2, "pe": 2}},
    {"dimensions": {"lane": 3, "pe": 4}},
    {"dimensions": {"K": 2, "OX": 3}},
    {"dimensions": {"C": 4, "pe": 2}},
    {"dimensions": {"lane": 2, "pe": 2, "FX": 3}},
    {"dimensions": {"lane": 6, "pe": 2}, "unrolls": {"lane": ["P", "C", "R"]}},
    {"dimensions": {"lane": 4}, "unrolls": {"lane": ["Q", "S", "N"]}},
    {"free": 1},
    {"free": 4},
    {"free": 7},
)
LARGE_ARRAYS: tuple[Facts, ...] = ({"dimensions": {"lane": 32, "pe": 16}}, {"dimensions": {"pe": 24}}, {"free": 60})
"""Arrays with more than forty spatial mappings, most of which are pruned before their tiles are examined."""
ROOMY_BYTES = 1 << 20


def random_machine(chance: random.Random) -> Facts:
    """Return one to four memories: some for one operand, some replicated, with slow, shared or no ports."""
    is_large = chance.random() < 0.2
    array = dict(chance.choice(LARGE_ARRAYS if is_large else ARRAYS))
    array["mac_energy_pj"] = chance.choice((0, 0.5, 1, 3.7))
    memories: list[Facts] = []
    for number in range(chance.choice((1, 1, 2) if is_large else (1, 2, 2, 3, 3, 4))):
        memories.append(_memory(chance, f"m{number}", list(array.get("dimensions", {})), memories))
    memories[-1]["scratchpad"] = True
    dram = _accesses(chance, chance.choice((10, 60)), chance.choice((0, 1, 1, 1)))
    return {
        "format": "onchip-accelerator", "version": 1, "name": "odd", "array": array, "memories": memories, "dram": dram,
    }  # fmt: skip


def _memory(chance: random.Random, name: str, dimensions: list[str], below: list[Facts]) -> Facts:
    holds = [operand for operand in OPERANDS if chance.random() < 0.55] or [chance.choice(OPERANDS)]
    memory: Facts = {"name": name, "holds": holds}
    nearer = [one for one in below if set(one["holds"]) & set(holds)]
    if all("serves" in one for one in nearer) and chance.random() < 0.7:
        least = {dimension for one in nearer for dimension in one["serves"]}
        memory["serves"] = [one for one in dimensions if one in least or chance.random() < 0.4]
    memory["double_buffered"] = chance.random() < 0.25
    one_element = len(holds)
    memory["capacity"] = chance.choice((one_element, one_element + 1, one_element + 3, 4, 6, 9, 16, 33, ROOMY_BYTES))
    memory["capacity"] = max(memory["capacity"], one_element)
    return memory | _accesses(chance, 1, chance.choice((0, 1, 1, 1)))


def _accesses(chance: random.Random, times: int, has_ports: int) -> Facts:
    """Return the access energies of a memory, and its ports, if it has some."""
    bits = chance.choice((1, 8, 8, 16, 24, 64))
    found: Facts = {
        "access_bits": bits,
        "read_energy_pj": times * chance.choice((0, 1, 2.5, 7)),
        "write_energy_pj": times * chance.choice((0, 1, 3, 4.25)),
    }
    if bits % 8 == 0 and chance.random() < 0.4:
        found["shortest_access_bits"] = chance.choice((1, 2, 4, 8))
    if has_ports:
        kinds = chance.choice((("read_write",), ("read", "write"), ("read", "read", "write"), ("read_write", "write")))
        kinds = ("read_write", "read") if kinds == ("read_write", "write") and chance.random() < 0.5 else kinds
        found["ports"] = [
            {"direction": kind, "bits_per_cycle": chance.choice((1, 2, 3, 5, 8, 16, 64))} for kind in kinds
        ]
    return found


def random_layer(chance: random.Random, machine: Facts) -> str:
    """Return a layer with few enough loop splits; every loop may be the long one."""
    places = 1 + len(machine["memories"]) + len(machine["array"].get("dimensions", "1"))
    is_large = sum(machine["array"].get("dimensions", {"free": machine["array"].get("free")}).values()) > 20
    most, sizes = (MOST_SPLITS, (1, 1, 2, 2, 3)) if is_large else (MOST_SPLITS // 2, (1, 1, 1, 1, 2, 2, 3, 4))
    while True:
        if chance.random() < 0.12:
            bounds = {letter: chance.choice((1, 2, 3, 4, 6, 7)) for letter in "mnk"}
            if _splits(list(bounds.values()), places) <= most:
                return "gemm:" + "".join(f"{letter}{bound}" for letter, bound in bounds.items())
            continue
        bounds = {letter: chance.choice(sizes) for letter in "nkcpqrs"}
        if chance.random() < 0.3:
            bounds[chance.choice("nkcpqrs")] = chance.choice((5, 6, 7, 8, 9, 13))
        groups = chance.choice((1, 1, 1, 2, 3))
        if _splits([*bounds.values(), groups], places) <= most:
            bounds["k"], bounds["c"] = groups * bounds["k"], groups * bounds["c"]
            text = "conv:" + "".join(f"{letter}{bound}" for letter, bound in bounds.items()) + _options(chance, groups)
            return text if _leaves_input(text) else text.partition(":pad")[0]


def _leaves_input(layer: str) -> bool:
    try:
        Layer.of_text(layer)
    except InputError:
        return False
    return True


def _options(chance: random.Random, groups: int) -> str:
    text = f":groups{groups}" if groups > 1 else ""
    if chance.random() < 0.4:
        text += f":stride{chance.choice(('2', '3', '2x1', '1x3'))}"
    if chance.random() < 0.25:
        text += f":dilation{chance.choice(('2', '3', '1x2', '3x1'))}"
    if chance.random() < 0.25:
        text += f":pad{chance.choice(('1', '1x1x0x0', '0x1x1x0', '2x0x0x1'))}"
    return text


def _splits(bounds: list[int], places: int) -> int:
    """Return the number of ways to distribute the prime factors of the bounds over the given places."""
    return prod(comb(count + places - 1, places - 1) for bound in bounds for count in _prime_counts(bound))


def _prime_counts(number: int) -> list[int]:
    counts, prime = [], 2
    while number > 1:
        count = 0
        while number % prime == 0:
            number, count = number // prime, count + 1
        counts.append(count)
        prime += 1
    return counts
