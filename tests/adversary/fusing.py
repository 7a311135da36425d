"""Tiny networks of layers and machines, odd on purpose: at random, as files, and as the oracle has them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from math import prod
from typing import Final

from adversary.frame import Facts, Json
from oracles.fusion import Layer, Network, Window

KINDS = ("Conv", "Conv", "Conv", "Depthwise", "MaxPool", "Add", "Add", "Exp", "Scale", "Gemm")
ODD_KINDS = (*KINDS, "Gate", "Gate", "Spread", "Spread", "Softmax", "Concat", "Concat", "Part", "Part", "Grow", "Grow")
"""Kinds with maps of one pixel or one channel as gates, operators outside all stacks, concatenations that some layers
see through, and layers that read some channels of a map, or repeated pixels.
"""
SEES_A_PART = ("Conv", "Conv", "Depthwise", "MaxPool", "Exp", "Scale")
SEES_JOINED_MAPS = ("Conv", "Depthwise", "MaxPool", "Exp", "Scale", "Gemm")


def random_network(chance: random.Random, kinds: tuple[str, ...] = KINDS) -> Facts:
    """Return one to four layers over a small map: odd strides, large pads, dilation, branches, inner outputs."""
    most = chance.choice((2, 3, 4, 5, 7))
    shape = [chance.choice((1, 1, 2, 3)), chance.randint(1, most), chance.randint(1, most)]
    made = Made([shape])
    count = chance.choice((1, 2, 2, 2, 3, 3, 4))
    while len(made.layers) < count:
        is_last = len(made.layers) == count - 1
        source = len(made.shapes) - 1 if chance.random() < 0.75 else chance.randrange(len(made.shapes))
        layer = _random_layer(chance, source, made, kinds, is_last=is_last)
        if not made.add(layer):
            made.add({"kind": "Conv", "from": [source], "channels": chance.randint(1, 2)})
    return {"input": shape, "layers": made.layers}


def _random_layer(chance: random.Random, source: int, made: Made, kinds: tuple[str, ...], *, is_last: bool) -> Facts:
    kind = chance.choice(kinds)
    is_output = chance.random() < 0.15
    part = grow = None
    if kind in ("Part", "Grow"):
        is_joined = source > 0 and made.layers[source - 1]["kind"] == "Concat"
        part = None if kind == "Grow" or is_joined else _random_part(chance, source, made)
        grow = None if kind == "Part" or is_joined else [chance.randint(1, 3), chance.randint(1, 2)]
        kind = chance.choice(SEES_A_PART)
    if kind == "Gemm" and not is_last:
        kind = "Conv"
    layer: Facts = {"kind": kind, "from": [source]}
    if is_output:
        layer["output"] = True
    if part is not None:
        layer["part"] = part
    if grow is not None and max(grow) > 1:
        layer["grow"] = grow
    if kind in ("Conv", "Depthwise", "MaxPool"):
        layer["kernel"] = [chance.choice((1, 1, 2, 3)) for _ in range(2)]
        layer["stride"] = [chance.choice((1, 1, 1, 2, 3))] * 2 if chance.random() < 0.8 else [1, 2]
        layer["pads"] = [chance.choice((0, 0, 1, 2)) for _ in range(4)]
    if kind in ("Conv", "Depthwise"):
        layer["dilation"] = [chance.choice((1, 1, 1, 2))] * 2
    if kind in ("Conv", "Gemm"):
        layer["channels"] = chance.choice((1, 1, 2, 3))
    if kind == "Concat":
        sizes = made.shapes[source][1:]
        beside = [at for at, shape in enumerate(made.shapes) if shape[1:] == sizes]
        return {"kind": kind, "from": [source, chance.choice(beside)]}
    if kind in ("Gate", "Spread"):
        return _random_gate(chance, kind, source, made) | ({"output": True} if is_output else {})
    if kind == "Add":
        others = [at for at, shape in enumerate(made.shapes) if shape == made.shapes[source]]
        wider = [at for at, shape in enumerate(made.shapes) if _is_wider(shape, made.shapes[source])]
        layer["from"] = [source, chance.choice(wider if wider and chance.random() < 0.5 else others)]
        layer["crop"] = [
            chance.randint(0, one - own)
            for one, own in zip(made.shapes[layer["from"][1]][1:], made.shapes[source][1:], strict=True)
        ]
    return layer


def _random_part(chance: random.Random, source: int, made: Made) -> list[int] | None:
    """Return the first channel and the number of channels; None if there are too few."""
    channels = made.shapes[source][0]
    if channels == 1:
        return None
    count = chance.randint(1, channels - 1)
    return [chance.randint(0, channels - count), count]


def _seen_shape(layer: Facts, shapes: list[list[int]]) -> list[int]:
    """Return the shape of a layer's first input, of the part of it that the layer reads, or of its repeated pixels."""
    channels, *sizes = shapes[layer["from"][0]]
    times = layer.get("grow", [1, 1])
    return [layer["part"][1] if "part" in layer else channels, sizes[0] * times[0], sizes[1] * times[1]]


def _random_gate(chance: random.Random, kind: str, source: int, made: Made) -> Facts:
    """Return a layer that multiplies a map by a map of one pixel or one channel.

    Returns a layer that computes such a map if none exists.
    """
    channels, rows, columns = made.shapes[source]
    wanted = [channels, 1, 1] if kind == "Gate" else [1, rows, columns]
    gates = [at for at, shape in enumerate(made.shapes) if shape == wanted]
    if gates and wanted != made.shapes[source] and prod(wanted) > 1 < channels:
        return {"kind": kind, "from": [source, chance.choice(gates)], "is_first": chance.random() < 0.5}
    if kind == "Gate":
        return {"kind": "MaxPool", "from": [source], "kernel": [rows, columns]}
    return {"kind": "Conv", "from": [source], "channels": 1}


def _is_wider(shape: list[int], own: list[int]) -> bool:
    return shape[0] == own[0] and shape != own and all(map(int.__ge__, shape, own))


@dataclass(slots=True)
class Made:
    """A network under construction: shapes (channels, rows, columns) of the input and of each layer's output."""

    shapes: list[list[int]]
    layers: list[Facts] = field(default_factory=list)

    def add(self, layer: Facts) -> bool:
        """Append the layer; return False if it is invalid or has an empty output."""
        shape = shape_after(layer, self.shapes)
        if shape is None:
            return False
        self.layers.append(layer)
        self.shapes.append(shape)
        return True


def shape_after(layer: Facts, shapes: list[list[int]]) -> list[int] | None:
    """Return the shape of a layer's output; None if the layer is invalid."""
    sources = [shapes[at] for at in layer["from"]]
    channels, *sizes = _seen_shape(layer, shapes)
    kind = layer["kind"]
    if kind == "Gemm":
        return [layer["channels"], 1, 1]
    if kind == "Concat":
        return [channels + sources[1][0], *sizes] if sources[1][1:] == sizes else None
    if kind == "Add" and not _lies_within(layer, sources):
        return None
    if kind in ("Gate", "Spread"):
        wanted = [channels, 1, 1] if kind == "Gate" else [1, *sizes]
        return sources[0] if sources[1] == wanted != sources[0] and prod(wanted) > 1 < channels else None
    kernel, stride, dilation, pads = _sliding(layer)
    if kind == "MaxPool" and any(pads[at] >= kernel[at % 2] for at in range(4)):
        return None
    after = [
        (size + pads[at] + pads[at + 2] - (kernel[at] - 1) * dilation[at] - 1) // stride[at] + 1
        for at, size in enumerate(sizes)
    ]
    return [layer["channels"] if kind == "Conv" else channels, *after] if min(after) > 0 else None


def reads_less_than_its_padding(facts: Facts) -> bool:
    """Return True if some layer's windows span at most its pads, so that it cannot be fused."""
    shapes = shapes_of(facts)
    for layer, (_, *after) in zip(facts["layers"], shapes[1:], strict=True):
        kernel, stride, dilation, pads = _sliding(layer)
        spans = [(after[at] - 1) * stride[at] + (kernel[at] - 1) * dilation[at] + 1 for at in range(2)]
        if any(spans[at] <= pads[at] + pads[at + 2] for at in range(2)):
            return True
    return False


def _lies_within(layer: Facts, sources: list[list[int]]) -> bool:
    offsets = layer.get("crop", [0, 0])
    one, other = sources
    return one[0] == other[0] and all(own + offsets[at] <= other[1 + at] for at, own in enumerate(one[1:]))


def _sliding(layer: Facts) -> tuple[list[int], list[int], list[int], list[int]]:
    ones = [1, 1]
    return (
        layer.get("kernel", ones),
        layer.get("stride", ones),
        layer.get("dilation", ones),
        layer.get("pads", [0] * 4),
    )


def shapes_of(facts: Facts) -> list[list[int]]:
    """Return the shapes of the input and of each output; raises ValueError for facts of no network."""
    shapes = [facts["input"]]
    for layer in facts["layers"]:
        shape = shape_after(layer, shapes)
        if shape is None:
            raise ValueError(f"{layer} leaves nothing")
        shapes.append(shape)
    return shapes


def name_of(facts: Facts, at: int) -> str:
    """Return the name of a map: 0 is the input; `names` may say others."""
    names = facts.get("names")
    if names:
        return str(names[at])
    return "x" if at == 0 else f"m{at - 1}"


def layer_name(facts: Facts, at: int) -> str:
    """Return the name of a layer by number."""
    return f"layer_{name_of(facts, at + 1)}"


def oracle_network(facts: Facts) -> Network:
    """Return the network as the oracle has it."""
    shapes, layers = shapes_of(facts), list[Layer]()
    channels, height, width = facts["input"]
    inputs, behind = {name_of(facts, 0): (channels, height, width)}, {name_of(facts, 0): ""}
    for at, layer in enumerate(facts["layers"]):
        order = [one.output for one in layers]
        read = [behind[name_of(facts, one)] for one in layer["from"]]
        waits = [order.index(name) for name in read if name]
        if layer["kind"] == "Concat" and not is_moved(facts, at):
            behind[name_of(facts, at + 1)] = order[max(waits)] if waits else ""
            continue
        if is_moved(facts, at):
            inputs[name_of(facts, at + 1)] = (shapes[at + 1][0], shapes[at + 1][1], shapes[at + 1][2])
            behind[name_of(facts, at + 1)] = order[max(waits)] if waits else ""
            continue
        behind[name_of(facts, at + 1)] = name_of(facts, at + 1)
        channels, *size = shapes[at + 1]
        source = _seen_shape(layer, shapes)
        kernel, stride, dilation, pads = _sliding(layer)
        if layer["kind"] == "Gemm":
            kernel = source[1:]
        times = layer.get("grow", [1, 1])
        rows, columns = (Window(kernel[one], stride[one], dilation[one], pads[one], times[one]) for one in range(2))
        reads = [(name, (rows, columns)) for name in _maps_seen(facts, layer["from"][0])]
        if layer["kind"] == "Add":
            above, beside = layer.get("crop", [0, 0])
            reads.append((name_of(facts, layer["from"][1]), (Window(pad=-above), Window(pad=-beside))))
        if layer["kind"] in ("Gate", "Spread"):
            window = Window(1, 0) if layer["kind"] == "Gate" else Window()
            reads.append((name_of(facts, layer["from"][1]), (window, window)))
        depth = source[0] if layer["kind"] in ("Conv", "Gemm") else 1
        taps = kernel[0] * kernel[1]
        weighs = {"Conv": channels * depth * taps, "Gemm": channels * depth * taps, "Depthwise": channels * taps}
        is_constant = channels == 1 and size[0] * size[1] > 1
        weighs["Scale"] = 0 if is_constant else channels
        layers.append(
            Layer(
                layer_name(facts, at),
                name_of(facts, at + 1),
                tuple(reads),
                channels,
                (size[0], size[1]),
                channels * depth * taps,
                weighs.get(layer["kind"], 0),
                is_output(facts, at) or _is_read_outside(facts, at + 1),
                part=(layer["part"][0], layer["part"][1]) if "part" in layer else None,
            )
        )
    return Network(inputs, tuple(layers))


def is_moved(facts: Facts, at: int) -> bool:
    """Return True if an operator is outside all stacks: a softmax, or a concatenation that a reader needs whole."""
    layers = facts["layers"]
    if layers[at]["kind"] != "Concat":
        return bool(layers[at]["kind"] == "Softmax")
    joins_maps = all(
        one == 0 or layers[one - 1]["kind"] != "Concat" or is_moved(facts, one - 1) for one in layers[at]["from"]
    )
    readers = [layer["kind"] for layer in layers if at + 1 in layer["from"]]
    return is_output(facts, at) or not joins_maps or not all(kind in SEES_JOINED_MAPS for kind in readers)


def _maps_seen(facts: Facts, at: int) -> list[str]:
    """Return the map, or the maps that are concatenated to it."""
    if at == 0 or facts["layers"][at - 1]["kind"] != "Concat" or is_moved(facts, at - 1):
        return [name_of(facts, at)]
    return [name_of(facts, one) for one in facts["layers"][at - 1]["from"]]


def _is_read_outside(facts: Facts, at: int) -> bool:
    return any(at in layer["from"] and is_moved(facts, number) for number, layer in enumerate(facts["layers"]))


def moved_elements(facts: Facts) -> list[tuple[list[int], int]]:
    """Return, for each operator outside of all stacks, the elements read of each map and the elements written."""
    shapes, every = shapes_of(facts), enumerate(facts["layers"])
    return [
        ([prod(shapes[one]) for one in dict.fromkeys(layer["from"])], prod(shapes[at + 1]))
        for at, layer in every
        if is_moved(facts, at)
    ]


def is_output(facts: Facts, at: int) -> bool:
    """Return True if a layer's output leaves the network, as stated or because it has no reader."""
    is_read = any(at + 1 in other["from"] for other in facts["layers"])
    return bool(facts["layers"][at].get("output")) or not is_read


def graph_file(facts: Facts) -> Json:
    """Return the network as a graph file; views are separate operators."""
    shapes = shapes_of(facts)
    tensors = [_tensor(name_of(facts, 0), [1, *shapes[0]], "input")]
    operators: list[Json] = []
    for at, layer in enumerate(facts["layers"]):
        inputs = [name_of(facts, one) for one in layer["from"]]
        output, name = name_of(facts, at + 1), layer_name(facts, at)
        shape = [1, *shapes[at + 1]]
        source = [1, *_seen_shape(layer, shapes)]
        if "grow" in layer:
            inputs[0] = f"{output}_grown"
            tensors.append(_tensor(inputs[0], source, "activation"))
            operators.append(_grown(name_of(facts, layer["from"][0]), inputs[0]))
        if "part" in layer:
            inputs[0] = f"{output}_part"
            tensors.append(_tensor(inputs[0], source, "activation"))
            operators.append(_part(layer, name_of(facts, layer["from"][0]), inputs[0]))
        if layer["kind"] == "Add" and shapes[layer["from"][1]] != shapes[layer["from"][0]]:
            inputs[1] = f"{output}_crop"
            tensors.append(_tensor(inputs[1], source, "activation"))
            operators.append(_crop(layer, name_of(facts, layer["from"][1]), inputs[1], source))
        if layer.get("is_first"):
            inputs.reverse()
        if layer["kind"] == "Gemm":
            flat = f"{output}_flat"
            tensors.append(_tensor(flat, [1, source[1] * source[2] * source[3]], "activation"))
            operators.append({"name": f"view_{flat}", "kind": "Flatten", "inputs": inputs, "outputs": [flat]})
            inputs, shape = [flat], shape[:2]
        weight = _weight_shape(layer, source, shape)
        tensors += [_tensor(f"{output}_w", weight, "parameter")] if weight else []
        tensors.append(_tensor(output, shape, "output" if is_output(facts, at) else "activation"))
        operators.append(
            {
                "name": name,
                "kind": {"Depthwise": "Conv", "Scale": "Mul", "Gate": "Mul", "Spread": "Mul"}.get(
                    layer["kind"], layer["kind"]
                ),
                "inputs": inputs,
                "outputs": [output],
                "parameters": [f"{output}_w"] if weight else [],
                "attributes": _attributes(layer, source),
            }
        )
    return {"format": "onchip-graph", "version": 1, "name": "tiny", "tensors": tensors, "operators": operators}


def _tensor(name: str, shape: list[int], role: str) -> Json:
    return {"name": name, "shape": shape, "bits": 8, "role": role}


def _grown(source: str, view: str) -> Json:
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return {"name": f"view_{view}", "kind": "Resize", "inputs": [source], "outputs": [view], "attributes": attributes}


def _part(layer: Facts, source: str, view: str) -> Json:
    first, count = layer["part"]
    attributes = {"axes": [1], "starts": [first], "ends": [first + count]}
    return {"name": f"view_{view}", "kind": "Slice", "inputs": [source], "outputs": [view], "attributes": attributes}


def _crop(layer: Facts, source: str, view: str, shape: list[int]) -> Json:
    starts = layer["crop"]
    ends = [start + size for start, size in zip(starts, shape[2:], strict=True)]
    attributes = {"axes": [2, 3], "starts": starts, "ends": ends, "steps": [1, 1]}
    return {"name": f"view_{view}", "kind": "Slice", "inputs": [source], "outputs": [view], "attributes": attributes}


def _weight_shape(layer: Facts, source: list[int], shape: list[int]) -> list[int] | None:
    kernel = layer.get("kernel", [1, 1])
    match layer["kind"]:
        case "Conv":
            return [shape[1], source[1], *kernel]
        case "Depthwise":
            return [shape[1], 1, *kernel]
        case "Gemm":
            return [shape[1], source[1] * source[2] * source[3]]
        case "Scale":
            return [source[1], 1, 1]
    return None


def _attributes(layer: Facts, source: list[int]) -> Json:
    if layer["kind"] == "Concat":
        return {"axis": 1}
    if layer["kind"] not in ("Conv", "Depthwise", "MaxPool"):
        return {}
    kernel, stride, dilation, pads = _sliding(layer)
    own = {"kernel_shape": kernel, "strides": stride, "pads": pads}
    if layer["kind"] == "MaxPool":
        return own
    return {**own, "dilations": dilation, "group": source[1] if layer["kind"] == "Depthwise" else 1}


DIMENSIONS: Final = ("K", "C", "OX", "OY", "FX")
CAPACITIES: Final = (1, 2, 3, 5, 8, 13, 20, 31, 48, 64, 97, 150, 400, 2000)
OPERANDS: Final = ("input", "weight", "output")
ROOMY_BYTES: Final = 1 << 16


def random_machine(chance: random.Random) -> Facts:
    """Return one to four on-chip memories, some replicated, slow or tiny; the outermost memory holds all operands."""
    names = chance.sample(DIMENSIONS[:4], chance.randint(1, 3)) + chance.choice(([], [], [], ["FX"]))
    dimensions = {name: chance.choice((1, 2, 2, 3)) for name in names}
    served = sorted(chance.randint(0, len(names)) for _ in range(chance.choice((0, 0, 1, 1, 2, 3))))
    memories = [_memory(chance, f"near{at}", names[:count]) for at, count in enumerate(served)]
    top = {"name": "top", "capacity": chance.choice(CAPACITIES[5:]), "scratchpad": True, **_access(chance)}
    return _file({"dimensions": dimensions, "mac_energy_pj": chance.choice((0, 0.1, 2))}, [*memories, top], chance)


def roomy_machine(chance: random.Random) -> Facts:
    """Return a machine with one memory that holds everything, and DRAM so dear that each byte comes from it once."""
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


MOST_MACS: Final = 100
"""Most MACs of one layer: the mapspaces of larger layers are too large to list."""


def random_scheduling_network(chance: random.Random) -> Facts:
    """Return two to four operators; sometimes an operator is a softmax, or the last operator joins two maps."""
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
