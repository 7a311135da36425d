"""The same layer on the same machine in other words, or on a better one."""

from __future__ import annotations

import random

from adversary.frame import Facts

TURNED = {"P": "Q", "Q": "P", "R": "S", "S": "R", "OX": "OY", "FX": "FY"}


def loops_of(bounds: str) -> dict[str, int]:
    """Read `n1k64` as bounds by letter."""
    found: dict[str, int] = {}
    letter = ""
    for sign in bounds:
        if sign.isdigit():
            found[letter] = 10 * found[letter] + int(sign)
        else:
            letter, found[sign] = sign, 0
    return found


def renamed(machine: Facts, chance: random.Random) -> Facts:
    """Give memories and dimensions of the array other names, and these another order."""
    dimensions = machine["array"].get("dimensions", {})
    own = {name: f"row{at}" if name in ("lane", "pe") else name for at, name in enumerate(dimensions)}
    order = chance.sample(list(dimensions), len(dimensions))
    array = dict(machine["array"])
    if dimensions:
        array["dimensions"] = {own[name]: dimensions[name] for name in order}
    if "unrolls" in array:
        array["unrolls"] = {own[name]: loops for name, loops in array["unrolls"].items()}
    memories = [
        memory
        | {"name": f"store{len(machine['memories']) - at}"}
        | ({"serves": [own[name] for name in memory["serves"]]} if "serves" in memory else {})
        for at, memory in enumerate(machine["memories"])
    ]
    return machine | {"array": array, "memories": memories, "name": "other"}


def widened(machine: Facts, chance: random.Random) -> Facts:
    """Give one memory more capacity or faster ports."""
    memories = [dict(memory) for memory in machine["memories"]]
    one = chance.choice(memories)
    if "ports" in one and chance.random() < 0.6:
        one["ports"] = [port | {"bits_per_cycle": 2 * port["bits_per_cycle"]} for port in one["ports"]]
    else:
        one["capacity"] += chance.choice((1, 2, 7))
    return machine | {"memories": memories}


def turned_machine(machine: Facts) -> Facts:
    """Exchange height and width in what the machine unrolls."""
    array = dict(machine["array"])
    if "dimensions" in array:
        array["dimensions"] = {TURNED.get(name, name): units for name, units in array["dimensions"].items()}
    if "unrolls" in array:
        array["unrolls"] = {name: [TURNED.get(loop, loop) for loop in all_] for name, all_ in array["unrolls"].items()}
    memories = [
        memory | ({"serves": [TURNED.get(name, name) for name in memory["serves"]]} if "serves" in memory else {})
        for memory in machine["memories"]
    ]
    return machine | {"array": array, "memories": memories}


def turned_layer(layer: str) -> str:
    """Exchange height and width of a layer."""
    kind, bounds, *options = layer.split(":")
    if kind == "gemm":
        return layer
    loops = loops_of(bounds)
    turned = "".join(f"{letter}{loops[TURNED.get(letter.upper(), letter).lower()]}" for letter in loops)
    return ":".join((kind, turned, *map(_turned_option, options)))


def _turned_option(option: str) -> str:
    name = option.rstrip("0123456789x")
    sizes = option.removeprefix(name).split("x")
    if name == "pad" and len(sizes) == 4:
        sizes = [sizes[1], sizes[0], sizes[3], sizes[2]]
    elif name != "groups":
        sizes = sizes[::-1]
    return name + "x".join(sizes)
