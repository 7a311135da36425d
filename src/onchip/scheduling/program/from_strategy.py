"""Places of the feature maps of fused stacks, as DeFiNES's rule chose for most of their tiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from onchip.answer.schedule import ScheduledStack
from onchip.arch.memory import DRAM
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.model.group.cost import StackCost
from onchip.ops.fusable import FusableNetwork
from onchip.scheduling.program.places import Places, StackMap
from onchip.transform.groups.stacks import StackChoice


def stacks_of_strategy(
    graph: Graph, network: FusableNetwork, choices: Sequence[StackChoice]
) -> tuple[ScheduledStack, ...]:
    """Return the stacks of a strategy; a view joins the layers that read it if they are all in one stack.

    A layer that is alone in one tile runs whole. So do its views and views that several stacks read.
    """
    number_of = _stacks_of_operators(graph, network, choices)
    left = Counter(number_of.values())
    waiting: dict[int, list[str]] = {}
    found: list[ScheduledStack] = []
    for operator in graph.operators:
        number = number_of.get(operator.name)
        if number is None or _is_whole(choices[number], network):
            found.append(ScheduledStack((operator.name,)))
            continue
        waiting.setdefault(number, []).append(operator.name)
        left[number] -= 1
        if not left[number]:
            found.append(ScheduledStack(tuple(waiting[number]), choices[number].tiling))
    return tuple(found)


def places_of_strategy(
    graph: Graph,
    stacks: Sequence[ScheduledStack],
    network: FusableNetwork,
    costs: Sequence[tuple[StackChoice, StackCost]],
) -> Places:
    """Return the places of inputs, outputs, weights and caches in most tiles of each stack.

    Unlisted tensors are in DRAM. `graph` may be a part of the network that `stacks` cover.
    """
    every = {name: at for at, stack in enumerate(stacks) for name in stack.operators}
    number_of = {operator.name: every[operator.name] for operator in graph.operators}
    layers = {layer.name for layer in network.layers}
    views = {name: number for name, number in number_of.items() if name not in layers}
    read: dict[StackMap, str] = {}
    written: dict[StackMap, str] = {}
    waiting: dict[StackMap, str | None] = {}
    for choice, cost in costs:
        by_times = sorted(cost.placed, key=lambda one: one.times)
        common = by_times[-1]
        # A layer may compute nothing in the most common tile; the most common one in which it does counts.
        levels_of = {one.name: one.levels for placed in by_times for one in placed.layers}
        for layer in network.layers[choice.span.start : choice.span.stop]:
            number, levels = number_of[layer.name], levels_of[layer.name]
            operator = graph.operator[layer.name]
            read |= {(number, name): levels.input for name in _seen_through(graph, operator.inputs, number, views)}
            written[number, layer.output.name] = levels.output
            if levels.weight is not None:
                read |= {(number, name): levels.weight for name in operator.parameters}
            if common.caches.rows_to is not None and layer.name != network.layers[choice.span.stop - 1].name:
                rows_to = common.caches.rows_to
                waiting[number, layer.output.name] = None if rows_to == DRAM else rows_to
    for view, number in views.items():
        for name in graph.operator[view].outputs:
            written |= {(number, name): read[number, name]} if (number, name) in read else {}
    return Places(_on_chip(read), _on_chip(written), waiting)


def _stacks_of_operators(graph: Graph, network: FusableNetwork, choices: Sequence[StackChoice]) -> Mapping[str, int]:
    """Map each layer, and each view that only the layers of one choice read, to the number of that choice."""
    found = {
        network.layers[at].name: number
        for number, choice in enumerate(choices)
        for at in range(choice.span.start, choice.span.stop)
    }
    for operator in reversed(graph.operators):
        readers = {found.get(reader.name) for name in operator.outputs for reader in graph.readers[name]}
        is_output = any(graph.tensor[name].role is Role.OUTPUT for name in operator.outputs)
        if operator.name not in found and len(readers) == 1 and not is_output:
            (number,) = readers
            if number is not None:
                found[operator.name] = number
    return found


def _is_whole(choice: StackChoice, network: FusableNetwork) -> bool:
    output = network.layers[choice.span.stop - 1].output
    is_one_tile = (choice.tiling.columns, choice.tiling.rows) == (output.columns, output.rows)
    return choice.span.length == 1 and is_one_tile


def _seen_through(graph: Graph, names: Iterable[str], number: int, views: Mapping[str, int]) -> Iterator[str]:
    """Yield the tensors that a layer reads, and those that it reads through views in its stack."""
    for name in names:
        yield name
        producer = graph.producer.get(name)
        if producer is not None and views.get(producer.name) == number:
            yield from _seen_through(graph, producer.inputs, number, views)


def _on_chip(places: Mapping[StackMap, str]) -> Mapping[StackMap, str]:
    return {key: memory for key, memory in places.items() if memory != DRAM}
