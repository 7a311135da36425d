"""Odd problems for one to three scratchpads, as files of the public formats."""

from __future__ import annotations

import random
from itertools import product

from adversary.frame import Facts
from oracles.machine import Json, Machine, Net

HOLDS = (["input", "weight"], ["output"], ["input", "output"], ["input"], ["output", "weight"], ["weight"])
OBJECTIVES = ("traffic", "traffic", "dma-cycles", "dma-energy", "dma-energy", "peak")
LARGEST_ROOM = 14


def new_case(chance: random.Random) -> Facts:
    """Return a graph that fits into its scratchpads with nothing or little to spare, seldom not at all."""
    count = chance.choice(("activations", "activations", "all"))
    objective = chance.choice(OBJECTIVES)
    graph = new_graph(chance, count)
    accelerator = new_accelerator(chance, objective)
    net = Net.of_graph(graph, count)
    fit(chance, accelerator, net)
    return {
        "graph": graph,
        "accelerator": accelerator,
        "objective": objective,
        "count": count,
        "order": chance.choice(("free", "free", "given", "given", "min-peak")),
        "placement": chance.choice(("dynamic", "dynamic", "static")),
        "method": chance.choice(("exact",) * 24 + ("pinning", "naive", "onsram", "colouring", "belady", "greedy")),
        "also": chance.choice(("nothing", "nothing", "check", "limit", "rename", "roomier", *("mutate",) * 4)),
        "luck": chance.randint(0, 999),
    }


def new_graph(chance: random.Random, count: str) -> Json:
    """Return one to five operators with repeated reads, several outputs, outputs with readers, and unused inputs."""
    greatest = chance.choice((1, 2, 2, 3, 3))
    parameters = [f"w{i}" for i in range(chance.randint(0, 2) if count == "all" else 0)]
    made = [f"x{i}" for i in range(chance.randint(1, 2))]
    tensors = [{"name": name, "bytes": chance.randint(1, greatest), "role": "input"} for name in made]
    tensors += [{"name": name, "bytes": chance.randint(1, greatest), "role": "parameter"} for name in parameters]
    operators: list[Json] = []
    for index in range(chance.choice((1, 2, 3, 3, 4, 4, 5))):
        inputs = [chance.choice(made) for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3)))]
        weights = sorted({chance.choice(parameters) for _ in parameters[: chance.randint(0, 2)]})
        outputs = [f"t{index}{letter}" for letter in "ab"[: chance.choice((1, 1, 1, 1, 2))]]
        operators.append(
            {"name": f"o{index}", "kind": "Op", "inputs": inputs, "parameters": weights, "outputs": outputs}
        )
        tensors += [{"name": name, "bytes": chance.randint(1, greatest), "role": "activation"} for name in outputs]
        made += outputs
    read = {name for one in operators for name in one["inputs"]}
    for tensor in tensors:
        is_output = chance.random() < (0.2 if tensor["name"] in read else 0.75)
        if tensor["role"] == "activation" and is_output:
            tensor["role"] = "output"
    return {"format": "onchip-graph", "version": 1, "name": "odd", "tensors": tensors, "operators": operators}


def new_accelerator(chance: random.Random, objective: str) -> Json:
    """Return one to three scratchpads of one byte with distinct operands, costs and alignments, and random links."""
    names = ["a", "b", "c"][: chance.choice((1, 2, 2, 2, 2, 3, 3))]
    holds_all = chance.random() < 0.4
    memories = []
    for name in names:
        memory: Json = {"name": name, "capacity": 1, "scratchpad": True, "alignment": chance.choice((1, 1, 1, 1, 2, 3))}
        if not holds_all and chance.random() < 0.7:
            memory["holds"] = list(chance.choice(HOLDS))
        memories.append(memory | _costs(chance, objective))
    if chance.random() < 0.97:
        _hold_everything(chance, memories)
    accelerator: Json = {"format": "onchip-accelerator", "version": 1, "name": "odd", "memories": memories}
    pairs = [(source, target) for source in names for target in names if source != target]
    links: list[Json] = [{"source": s, "target": t} for s, t in pairs if chance.random() < 0.45]
    if links and chance.random() < 0.7:
        accelerator["links"] = links
        if objective == "dma-cycles":
            for link in links:
                link["bits_per_cycle"] = chance.choice((1, 3, 8, 16))
    accelerator["dram"] = _costs(chance, objective)
    if objective == "dma-cycles":
        accelerator["dma"] = {"queues": 1, "setup_cycles": chance.choice((0, 0, 1, 5))}
    return accelerator


def _hold_everything(chance: random.Random, memories: list[Json]) -> None:
    """Let one scratchpad hold each operand that none holds."""
    for operand in ("input", "weight", "output"):
        if all("holds" in memory and operand not in memory["holds"] for memory in memories):
            chance.choice(memories)["holds"].append(operand)


def _costs(chance: random.Random, objective: str) -> Json:
    if objective == "dma-cycles":
        return {"ports": [{"direction": "read_write", "bits_per_cycle": chance.choice((1, 2, 3, 8, 16))}]}
    if objective == "dma-energy":
        energies = {key: chance.choice((0, 1, 1, 2, 5, 30)) for key in ("read_energy_pj", "write_energy_pj")}
        return {"access_bits": chance.choice((8, 8, 16)), "shortest_access_bits": 8, **energies}
    return {}


def fit(chance: random.Random, accelerator: Json, net: Net) -> None:
    """Grow the scratchpads byte by byte until every operator fits, then by up to three more bytes."""
    memories = accelerator["memories"]
    while not all_fit(Machine.of_accelerator(accelerator, net, "traffic"), net):
        if sum(memory["capacity"] for memory in memories) >= LARGEST_ROOM:
            return
        chance.choice(memories)["capacity"] += 1
    for _ in range(chance.choice((0, 0, 0, 1, 1, 2))):
        chance.choice(memories)["capacity"] += 1
    if chance.random() < 0.05:
        memory = chance.choice(memories)
        memory["capacity"] = max(1, memory["capacity"] - 1)


def all_fit(machine: Machine, net: Net) -> bool:
    """Return True if the operands of each operator fit together, in some choice of scratchpads."""
    return all(_fits(machine, net, number) for number in range(len(net.steps)))


def _fits(machine: Machine, net: Net, number: int) -> bool:
    step = net.steps[number]
    operands = [(t, net.operand(t)) for t in step.reads] + [(t, "output") for t in step.writes]
    choices = [[p for p, pad in enumerate(machine.pads) if operand in pad.holds] for _, operand in operands]
    for pads in product(*choices):
        if all(
            _stacks([net.sizes[t] for (t, _), where in zip(operands, pads, strict=True) if where == p], machine, p)
            for p in range(len(machine.pads))
        ):
            return True
    return False


def _stacks(sizes: list[int], machine: Machine, pad: int) -> bool:
    """Return True if aligned blocks of these sizes fit on top of each other, the one with most padding on top."""
    one = machine.pads[pad]
    aligned = [-(-size // one.alignment) * one.alignment for size in sizes]
    waste = max((whole - size for whole, size in zip(aligned, sizes, strict=True)), default=0)
    return sum(aligned) - waste <= one.capacity
