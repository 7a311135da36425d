"""Tiny networks and machines for whole schedules, odd on purpose; and how often answers are above the least."""

from __future__ import annotations

import random
from math import prod
from typing import Final

from adversary.frame import Facts, Json
from adversary.fusing import KINDS, graph_file, name_of, random_network, shapes_of
from adversary.fusing_machines import random_machine

MOST_MACS: Final = 100
"""Most MACs of one layer: the mapspaces of larger layers are too large to list."""


def random_scheduling_network(chance: random.Random) -> Facts:
    """Two to four operators; now and then one is a softmax, or a last one joins two maps."""
    while True:
        network = random_network(chance, (*KINDS, "Gate", "Gate", "Spread", "Spread", "Concat", "Concat"))
        if len(network["layers"]) < 2 or max(_macs(network)) > MOST_MACS:
            continue
        softmaxes = [at for at, one in enumerate(network["layers"]) if one["kind"] == "Exp" and chance.random() < 0.7]
        if softmaxes:
            network["softmaxes"] = softmaxes
        if len(network["layers"]) < 4 and chance.random() < 0.2:
            last, other = len(network["layers"]), chance.randint(0, len(network["layers"]))
            if _may_be_joined(network, last, other):
                network["joined"] = [other, last]
        return network


def _macs(network: Facts) -> list[int]:
    shapes = shapes_of(network)
    found = []
    for at, layer in enumerate(network["layers"]):
        source = shapes[layer["from"][0]]
        depth = {"Conv": source[0], "Gemm": prod(source)}.get(layer["kind"], 1)
        found.append(prod(shapes[at + 1]) * depth * prod(layer.get("kernel", [1, 1])))
    return found


def _may_be_joined(network: Facts, one: int, other: int) -> bool:
    shapes, layers = shapes_of(network), network["layers"]
    is_flat = any(at and layers[at - 1]["kind"] == "Gemm" for at in (one, other))
    return one != other and not is_flat and shapes[one][1:] == shapes[other][1:]


def schedule_graph_file(facts: Facts) -> Json:
    """Return the network as a graph file."""
    graph = graph_file(facts)
    softmaxes = {f"layer_{name_of(facts, at + 1)}" for at in facts.get("softmaxes", ())}
    for operator in graph["operators"]:
        if operator["name"] in softmaxes and operator["kind"] == "Exp":
            operator |= {"kind": "Softmax", "attributes": {"axis": -1}}
    if "joined" in facts:
        shapes, inputs = shapes_of(facts), [name_of(facts, at) for at in facts["joined"]]
        shape = [1, sum(shapes[at][0] for at in facts["joined"]), *shapes[facts["joined"][0]][1:]]
        for tensor in graph["tensors"]:
            if tensor["name"] in inputs and not _leaves(facts, tensor["name"]):
                tensor["role"] = "input" if tensor["role"] == "input" else "activation"
        graph["tensors"].append({"name": "joined", "shape": shape, "bits": 8, "role": "output"})
        attributes = {"axis": 1}
        graph["operators"].append(
            {"name": "join", "kind": "Concat", "inputs": inputs, "outputs": ["joined"], "attributes": attributes}
        )
    return graph


def _leaves(facts: Facts, name: str) -> bool:
    return any(one.get("output") and name_of(facts, at + 1) == name for at, one in enumerate(facts["layers"]))


def random_scheduling_machine(chance: random.Random) -> Facts:
    """Return a machine as for stacks, with alignments, queues, set-ups, double buffers, and a selective top memory."""
    machine = random_machine(chance)
    machine["memories"] = machine["memories"][-3:]
    for memory in machine["memories"]:
        if chance.random() < 0.15:
            memory["double_buffered"] = True
    top = machine["memories"][-1]
    top["capacity"] = chance.choice((5, 8, 12, 16, 24, 40, 64, 200))
    if chance.random() < 0.2:
        top["alignment"] = chance.choice((2, 4))
    if chance.random() < 0.2:
        top["holds"] = chance.choice((["input", "output"], ["weight"], ["input", "weight"], ["output"]))
    if chance.random() < 0.4:
        machine["dma"] = {"queues": chance.choice((1, 2, 3)), "setup_cycles": chance.choice((0, 1, 7))}
    machine["dram"] |= {"read_energy_pj": chance.choice((0, 3, 20, 90)), "write_energy_pj": chance.choice((1, 25, 90))}
    return machine
