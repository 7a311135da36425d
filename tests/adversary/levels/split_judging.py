"""A check of tile graphs against their network: bands partition tensors, tiles partition operators and windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

from adversary.frame import Facts
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from oracles.split import Box, Separable, Tile, separable
from oracles.split_space import Space, fit_together


def fault_in_tiles(network: Facts, graph: Graph, space: Space) -> str | None:
    """Return the first fault of the tile graph; None if there is none."""
    tensors = {tensor["name"]: tensor for tensor in network["tensors"]}
    fault = _fault_in_bands(graph, tensors) or _fault_in_room(graph, space)
    for operator in network["operators"]:
        fault = fault or _fault_in_operator(operator, tensors, graph, space)
    return fault


def _fault_in_bands(graph: Graph, tensors: dict[str, Facts]) -> str | None:
    """Return a fault unless each tensor is whole, or its bands partition it; partial sums belong to no tensor."""
    for name, tensor in tensors.items():
        bands = [one for one in graph.tensors if one.part_of == name]
        if name in graph.tensor:
            if bands:
                return f"whole and in bands: {name}"
            continue
        counted = Counter(
            element for band in bands for element in product(*(range(*each) for each in band.region or ()))
        )
        if set(counted.values()) != {1} or len(counted) != len(list(product(*map(range, tensor["shape"])))):
            return f"bands do not partition: {name}"
        if {(band.role.value, band.bits) for band in bands} != {(tensor["role"], tensor["bits"])}:
            return f"bands of another kind: {name}"
    return None


def _fault_in_room(graph: Graph, space: Space) -> str | None:
    for operator in graph.operators:
        items = []
        for name in dict.fromkeys((*operator.reads, *operator.outputs)):
            tensor = graph.tensor[name]
            kind = "output" if name in operator.outputs else "weight" if tensor.role == "parameter" else "input"
            if space.counts_parameters or tensor.role != "parameter":
                items.append((kind, tensor.size_bytes))
        if not fit_together(items, space.scratchpads):
            return f"a tile that does not fit: {operator.name}"
    return None


def _fault_in_operator(operator: Facts, tensors: dict[str, Facts], graph: Graph, space: Space) -> str | None:
    name = operator["name"]
    if name in graph.operator:
        return _fault_in_whole(operator, graph)
    emitted = [one for one in graph.operators if one.tile is not None and one.tile.operator == name]
    found = separable(operator, tensors)
    if found is None or not emitted:
        return f"cannot be in tiles: {name}"
    tiles = [_tile(found, one) for one in emitted]
    cells = Counter(cell for tile in tiles for cell in product(*(range(*each) for each in tile)))
    if set(cells.values()) != {1} or len(cells) != len(list(product(*map(range, found.axes)))):
        return f"tiles do not partition: {name}"
    sums: dict[Tile, str] = {}
    for one, tile in zip(emitted, tiles, strict=True):
        fault = _fault_in_tile(found, one, tile, graph, sums, space)
        if fault is not None:
            return f"{fault}: {one.name}"
    return None


def _fault_in_whole(operator: Facts, graph: Graph) -> str | None:
    """Return a fault unless the operator lists all bands of each operand."""
    one = graph.operator[operator["name"]]
    for named, listed in (("inputs", one.inputs), ("parameters", one.parameters), ("outputs", one.outputs)):
        bases = {graph.tensor[each].part_of or each for each in listed}
        if bases != set(operator.get(named, [])):
            return f"other {named}: {one.name}"
        if set(listed) != {each.name for each in graph.tensors if (each.part_of or each.name) in bases}:
            return f"not all bands: {one.name}"
    return None


def _tile(found: Separable, one: Operator) -> Tile:
    """Return the range of each axis, from the regions that the tile writes and reduces."""
    assert one.tile is not None
    region = one.tile.regions[0]
    ranges = [(0, size) for size in found.axes]
    for at, dimension in enumerate(found.writes[0].dimensions):
        if dimension.axis is not None:
            ranges[dimension.axis] = (region[at][0], region[at][1])
    if one.tile.reduction is not None:
        ranges[-1] = one.tile.reduction
    return tuple(ranges)


def _fault_in_tile(
    found: Separable, one: Operator, tile: Tile, graph: Graph, sums: dict[Tile, str], space: Space
) -> str | None:
    """Return a fault unless the tile reads the bands of its window, and these contain its actual inputs."""
    assert one.tile is not None
    part = one.tile.part
    key, adds, is_last = tile[:-1], part in ("middle", "end"), part in ("whole", "end")
    passed = {sums[key]} if adds and key in sums else set[str]()
    for name in dict.fromkeys(operand.name for operand in found.reads):
        boxes, needed = [], set()
        for operand in found.reads:
            depends = any(each.axis == len(found.axes) - 1 for each in operand.dimensions)
            if operand.name == name and (depends or not adds):
                boxes.append(operand.box(tile, found.axes))
                needed |= operand.elements(tile)
        if not space.counts(name):
            continue
        fault = _fault_in_reads(graph, name, one.reads, [box for box in boxes if box is not None], needed)
        if fault is not None:
            return fault
    if (not adds and part != "whole" and key in sums) or (adds and key not in sums):
        return "a sum that does not begin or follow"
    if not passed <= set(one.inputs):
        return "a sum that is forgotten"
    if not is_last:
        sums[key] = one.outputs[0]
        return None if len(one.outputs) == 1 and graph.tensor[one.outputs[0]].part_of is None else "a sum in bands"
    for operand in found.writes:
        box = operand.box(tile, found.axes)
        fault = _fault_in_reads(graph, operand.name, one.outputs, [box] if box else [], set())
        if fault is not None:
            return fault
    return None


def _fault_in_reads(
    graph: Graph, name: str, listed: Sequence[str], boxes: Sequence[Box], needed: set[tuple[int, ...]]
) -> str | None:
    """`listed` are among others the bands of a tensor that are read or written: exactly those in the boxes."""
    if name in graph.tensor:
        return None if (name in listed) is bool(boxes) else f"reads or leaves {name} without reason"
    bands = [graph.tensor[each] for each in listed if graph.tensor[each].part_of == name]
    elements = [element for band in bands for element in product(*(range(*each) for each in band.region or ()))]
    expected = {element for box in boxes for element in product(*(range(*each) for each in box))}
    if set(elements) != expected:
        return f"reads or writes another region of {name}"
    return None if needed <= expected else f"lacks what it needs of {name}"
