"""Cases of the level `baselines`: layers of a few factors, machines whose memories hardly fit, Timeloop's files."""

from __future__ import annotations

import random
from copy import deepcopy
from math import sqrt

from adversary.frame import Facts, Json, Program
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.formats.own.accelerator_yaml import load_accelerator

QUESTIONS = {"uneven": 6, "loma": 5, "cosa": 4, "mapspace": 3, "random": 1, "hybrid": 0.05}
"""Relative frequency of each question; `hybrid` takes two seconds."""
OPERANDS = ("input", "weight", "output")
LETTERS = {"input": "Inputs", "weight": "Weights", "output": "Outputs"}


def random_facts(chance: random.Random) -> Facts:
    """Return a question with a layer for which exhaustive search can find the answer.

    If hardly anything fits, `random` and `hybrid` draw for minutes, so they have a time limit.
    """
    question = chance.choices(list(QUESTIONS), list(QUESTIONS.values()))[0]
    most = {"uneven": 3, "loma": 4, "cosa": 4, "mapspace": 3}.get(question, 4)
    widths = {"bits": chance.choice((8, 8, 8, 4, 1)), "partial_bits": chance.choice((8, 8, 16, 24))}
    if question == "mapspace":
        machine = _timeloop_machine(chance, widths)
    else:
        machine = _machine(chance, widths, is_chain=question == "cosa")
    objective = "energy" if question == "uneven" else chance.choice(("energy", "latency", "edp"))
    accounting = "interpreter"
    if question in ("uneven", "loma"):
        accounting = chance.choice(
            ("zigzag", "defines") if question == "uneven" else ("interpreter", "zigzag", "defines")
        )
    return {
        "question": question,
        "layer": _layer(chance, chance.randint(1, most)),
        "machine": machine,
        "objective": objective,
        "accounting": accounting,
        **widths,
        "seed": chance.randint(0, 3),
        "time_limit": 0.5 if question in ("random", "hybrid") else chance.choice((None, None, None, None, 0.001, 0.02)),
        "variant": chance.choice((None, None, None, None, None, "again", "renamed")),
    }


def _layer(chance: random.Random, factors: int) -> str:
    """Return the text of a layer."""
    sizes = dict.fromkeys("nkcpqrs", 1)
    groups = chance.choice((1, 1, 1, 1, 2))
    for loop in chance.choices("nkcpqrskcp", k=factors):
        sizes[loop] *= chance.choice((2, 2, 2, 3, 3, 5, 7) if factors < 4 else (2, 2, 3))
    bounds = "".join(f"{loop}{size * groups if loop in 'kc' else size}" for loop, size in sizes.items())
    stride, dilation = chance.choice(((1, 1), (1, 1), (2, 2), (1, 3), (2, 1))), chance.choice(((1, 1), (2, 2), (3, 1)))
    options = [f"stride{stride[0]}x{stride[1]}", f"dilation{dilation[0]}x{dilation[1]}", f"groups{groups}"]
    spans = [
        (sizes[output] - 1) * stride[axis] + (sizes[taps] - 1) * dilation[axis] + 1
        for axis, (output, taps) in enumerate((("p", "r"), ("q", "s")))
    ]
    top, left, bottom, right = chance.choice(((0, 0, 0, 0), (1, 1, 1, 1), (1, 0, 0, 1), (0, 1, 1, 0)))
    if top + bottom < spans[0] and left + right < spans[1]:
        options.append(f"pad{top}x{left}x{bottom}x{right}")
    return ":".join(("conv", bounds, *options))


def _machine(chance: random.Random, widths: dict[str, int], *, is_chain: bool) -> Json:
    """Return one to three memories; in a chain the last one serves the whole array."""
    dimensions = chance.choice(({"lane": 2}, {"lane": 2, "pe": 3}, {"K": 2, "OX": 2}, {"C": 4}, {"lane": 3}, None))
    array: Json = {"mac_energy_pj": 0.5} | ({"free": chance.choice((1, 2, 4))} if dimensions is None else {})
    if dimensions is not None:
        array["dimensions"] = dimensions
    memories: list[Json] = []
    served: list[str] = []
    count = chance.choice((1, 2, 2, 3))
    for number in range(count):
        is_last = number == count - 1
        free = [name for name in (dimensions or {"free": 1}) if name not in served]
        if chance.random() < 0.5 and dimensions is not None:
            served = [*served, *chance.sample(free, min(len(free), 1))]
        held = chance.sample(OPERANDS, chance.choice((1, 1, 2, 3)))
        if is_chain and is_last:
            held = chance.choice((["input", "output"], ["input", "output"], list(OPERANDS), ["weight", "output"]))
        memories.append(_memory(chance, f"m{number}", held, None if is_last else list(served), widths))
    return {
        "format": "onchip-accelerator",
        "version": 1,
        "name": "odd",
        "array": array,
        "memories": memories,
        "dram": {"access_bits": 8, "read_energy_pj": 60, "write_energy_pj": 70, "ports": _ports(chance, least=1)},
    }


def _memory(
    chance: random.Random, name: str, held: list[str], serves: list[str] | None, widths: dict[str, int]
) -> Json:
    """For one that serves all `serves` is None."""
    is_last = serves is None
    capacity = _bytes_of_one(held, widths) + chance.choice((0, 0, 1, 1, 2, 3, 5, 8, 16)) * (2 if is_last else 1)
    bits = chance.choice((8, 8, 16, 32))
    memory: Json = {"name": name, "capacity": f"{capacity}B", "holds": held, "access_bits": bits}
    memory |= {"read_energy_pj": chance.choice((1, 3, 10)), "write_energy_pj": chance.choice((1, 4, 9))}
    memory |= {"ports": _ports(chance, least=0)}
    memory |= {"scratchpad": True} if is_last else {"serves": serves}
    memory |= {"double_buffered": True} if chance.random() < 0.2 else {}
    memory |= {"shortest_access_bits": 8} if bits > 8 and chance.random() < 0.5 else {}
    return memory


def _bytes_of_one(held: list[str], widths: dict[str, int]) -> int:
    """Return the bytes of one element of each operand together: a smaller memory is rejected."""
    bits = sum(widths["partial_bits"] if operand == "output" else widths["bits"] for operand in held)
    return -(-bits // 8)


def _ports(chance: random.Random, least: int) -> list[Json]:
    widths = (1, 3, 4, 8, 16, 64)
    kinds: tuple[list[tuple[str, int]], ...] = (
        [],
        [("read_write", chance.choice(widths))],
        [("read", chance.choice(widths)), ("write", chance.choice(widths))],
        [("read", 8), ("read", chance.choice(widths)), ("write", chance.choice(widths)), ("write", 8)],
    )
    return [{"direction": direction, "bits_per_cycle": bits} for direction, bits in chance.choice(kinds[least:])]


def _timeloop_machine(chance: random.Random, widths: dict[str, int]) -> Json:
    """Return a flat architecture: registers, perhaps a buffer for some units, one for all, and the operands of each."""
    units = chance.choice((1, 2, 4))
    between = chance.choice([one for one in (1, 2, 4) if units % one == 0])
    instances = {"reg": units, "local": between, "shared": 1}
    names = ["reg", "local", "shared"] if chance.random() < 0.6 else ["local", "shared"]
    memories = []
    for name in names:
        word = chance.choice((8, 8, 16))
        keep = chance.sample(OPERANDS, chance.choice((1, 2, 2, 3)))
        words = -(-_bytes_of_one(keep, widths) * 8 // word)
        memories.append(
            {
                "name": name,
                "entries": words + chance.choice((0, 0, 1, 2, 4, 8)) * (4 if name == "shared" else 1),
                "instances": instances[name],
                "meshX": instances[name],
                "word-bits": word,
                "block-size": chance.choice((1, 1, 2)),
                "keep": keep,
                "multiple-buffering": chance.choice((1, 1, 1, 2)),
            }
        )
    return {"units": units, "memories": memories, "dram": {"word-bits": 8, "block-size": chance.choice((1, 2))}}


def machine_of(facts: Facts, program: Program) -> Accelerator:
    """Write the machine's files for the program; return what the oracles compute with."""
    machine = facts["machine"]
    if facts["question"] != "mapspace":
        return load_accelerator(str(program.write("machine.yaml", machine)))
    own = [{key: value for key, value in one.items() if key != "keep"} for one in machine["memories"]]
    dram = machine["dram"] | {"name": "DRAM", "technology": "DRAM", "instances": 1}
    arithmetic = {"instances": machine["units"], "meshX": machine["units"], "word-bits": 8}
    program.write("machine.yaml", {"arch": {"arithmetic": arithmetic, "storage": [*own, dram]}})
    constraints = [
        {
            "target": one["name"],
            "type": "datatype",
            "keep": [LETTERS[operand] for operand in one["keep"]],
            "bypass": [LETTERS[operand] for operand in OPERANDS if operand not in one["keep"]],
        }
        for one in machine["memories"]
    ]
    program.write("mapspace.yaml", {"mapspace": {"constraints": constraints}})
    return _as_documented(machine)


def _as_documented(machine: Json) -> Accelerator:
    """Return the accelerator that docs/timeloop.md describes for such a file."""
    memories, dimensions, serves = machine["memories"], dict[str, int](), list[list[str]]()
    inner, count = "MAC", machine["units"]
    for one in memories:
        if count > one["instances"]:
            dimensions[f"{inner} units"] = count // one["instances"]
        serves.append(list(dimensions))
        inner, count = one["name"], one["instances"]
    of_inputs = [at for at, one in enumerate(memories) if "input" in one["keep"]]
    chosen = of_inputs[-1] if of_inputs else len(memories) - 1
    levels = []
    for at, one in enumerate(memories):
        bits = one["word-bits"] * one["block-size"]
        capacity = one["entries"] * one["word-bits"] // 8
        each_pj = 10 * sqrt(capacity / 8192) * bits / 64
        held = tuple(Operand(operand) for operand in OPERANDS if operand in one["keep"])
        ports = Port(Direction.READ, bits), Port(Direction.WRITE, bits)
        access = Access(bits, each_pj, each_pj, None if bits % 8 else 8)
        is_doubled = one["multiple-buffering"] == 2
        memory = Memory(one["name"], capacity, holds=held)
        levels.append(MemoryLevel(memory, tuple(serves[at]), at == chosen, is_doubled, access, ports))
    bits = machine["dram"]["word-bits"] * machine["dram"]["block-size"]
    dram = Dram(Access(bits, 1300 * bits / 64, 1300 * bits / 64, 8), (Port(Direction.READ_WRITE, bits),))
    array = ComputeArray(dimensions or {"MAC": 1}, mac_energy_pj=0.3)
    return Accelerator("machine", (levels[chosen].memory,), tuple(levels), None, array, dram)


def renamed(facts: Facts) -> Facts:
    """Return the same machine with other names of memories, and of dimensions without a loop's name."""
    other = deepcopy(facts)
    for one in other["machine"]["memories"]:
        one["name"] = f"z{one['name']}"
        if "serves" in one:
            one["serves"] = [_other(name) for name in one["serves"]]
    array = other["machine"].get("array", {})
    if "dimensions" in array:
        array["dimensions"] = {_other(name): units for name, units in array["dimensions"].items()}
    return other


def _other(name: str) -> str:
    return f"z{name}" if name in ("lane", "pe") else name
