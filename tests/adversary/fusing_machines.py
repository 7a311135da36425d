"""Tiny machines for stacks of layers, odd on purpose, as accelerator files."""

from __future__ import annotations

import random
from typing import Final

from adversary.frame import Facts, Json

DIMENSIONS: Final = ("K", "C", "OX", "OY", "FX")
CAPACITIES: Final = (1, 2, 3, 5, 8, 13, 20, 31, 48, 64, 97, 150, 400, 2000)
OPERANDS: Final = ("input", "weight", "output")
ROOMY_BYTES: Final = 1 << 16


def random_machine(chance: random.Random) -> Facts:
    """Return one to four memories on chip, the outermost of which holds all operands, some replicated, slow or tiny."""
    names = chance.sample(DIMENSIONS[:4], chance.randint(1, 3)) + chance.choice(([], [], [], ["FX"]))
    dimensions = {name: chance.choice((1, 2, 2, 3)) for name in names}
    served = sorted(chance.randint(0, len(names)) for _ in range(chance.choice((0, 0, 1, 1, 2, 3))))
    memories = [_memory(chance, f"near{at}", names[:count]) for at, count in enumerate(served)]
    top = {"name": "top", "capacity": chance.choice(CAPACITIES[5:]), "scratchpad": True, **_access(chance)}
    return _file({"dimensions": dimensions, "mac_energy_pj": chance.choice((0, 0.1, 2))}, [*memories, top], chance)


def roomy_machine(chance: random.Random) -> Facts:
    """Everything has room in its one memory, and DRAM is so dear that nothing comes from there twice."""
    top = {"name": "top", "capacity": ROOMY_BYTES, "scratchpad": True, **_access(chance)}
    machine = _file({"dimensions": {"K": 2}, "mac_energy_pj": 0.1}, [top], chance)
    machine["dram"] |= {"read_energy_pj": 100_000, "write_energy_pj": 100_000, "access_bits": 8}
    return machine


def _file(array: Json, memories: list[Json], chance: random.Random) -> Facts:
    dram = {**_access(chance), "read_energy_pj": chance.choice((0, 3, 20)), "write_energy_pj": chance.choice((1, 25))}
    return {
        "format": "onchip-accelerator",
        "version": 1,
        "name": "tiny",
        "array": array,
        "memories": memories,
        "dram": dram,
    }


def _memory(chance: random.Random, name: str, served: list[str]) -> Json:
    """Return a memory that serves at least the dimensions of the nearer ones, so that it can fill them."""
    memory: Json = {"name": name, "capacity": chance.choice(CAPACITIES), **_access(chance)}
    holds = sorted(chance.sample(OPERANDS, chance.randint(1, 3)))
    if len(holds) < len(OPERANDS) or chance.random() < 0.5:
        memory["holds"] = holds
    return {**memory, "serves": served}


def _access(chance: random.Random) -> Json:
    read, write = (chance.choice((0, 0.3, 1, 4.5)) for _ in range(2))
    rates = (1, 3, 8, 16, 64)
    ports = [{"direction": "read_write", "bits_per_cycle": chance.choice(rates)}]
    if chance.random() < 0.4:
        ports = [{"direction": way, "bits_per_cycle": chance.choice(rates)} for way in ("read", "write")]
    return {
        "access_bits": chance.choice((8, 8, 16, 24)),
        "read_energy_pj": read,
        "write_energy_pj": write,
        "ports": ports,
    }


def homes_of(machine: Facts) -> dict[str, int]:
    """Return the memories in which whole feature maps may lie: single, for inputs and outputs; with their bits."""
    dimensions = set(machine["array"]["dimensions"])
    return {
        memory["name"]: memory["capacity"] * 8
        for memory in machine["memories"]
        if {"input", "output"} <= set(memory.get("holds", OPERANDS))
        and dimensions <= set(memory.get("serves", dimensions))
    }


def bits_for_weights(machine: Facts) -> int:
    """Return the room of the highest memory on the chip that holds weights."""
    holding = [memory for memory in machine["memories"] if "weight" in memory.get("holds", OPERANDS)]
    return int(holding[-1]["capacity"]) * 8 if holding else 0
