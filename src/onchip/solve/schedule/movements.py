"""From places to what moves when: the program of a tile graph without addresses and workspaces.

Tile operators run in the graph's order. What an operator reads on the chip is brought there before it runs, from the
nearest memory that has it; what nobody reads any more is freed, a network output written to DRAM before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from onchip.answer.program import Compute, Copy, Free
from onchip.arch.memory import DRAM, MemoryLevel
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.lower.schedule.tile_graph import TileGraph
from onchip.solve.schedule.places import Places


@dataclass(frozen=True, slots=True)
class Begin:
    """A residency of `tensor` in `memory` begins; its address is chosen later."""

    tensor: str
    memory: str


Movement = Begin | Copy | Compute | Free


@dataclass(frozen=True, slots=True)
class TiledNetwork:
    """A tile graph, and of each tile operator the number of its stack and of its tile; `ranks` order the memories.

    `ranks` are 0 for the addressed memory nearest the MACs, DRAM's is the greatest.
    """

    graph: Graph
    stacks: Mapping[str, int]
    tiles: Mapping[str, int]
    ranks: Mapping[str, int]

    @classmethod
    def of(cls, tiles: TileGraph, levels: Sequence[MemoryLevel]) -> TiledNetwork:
        """The tile graph on an accelerator whose addressed levels are `levels`, nearest the MACs first."""
        names = [level.memory.name for level in levels]
        stacks = {name: origin.stack for name, origin in tiles.operators.items()}
        numbers = {name: _tile_number(name, origin.operator) for name, origin in tiles.operators.items()}
        return cls(tiles.graph, stacks, numbers, {name: rank for rank, name in enumerate([*names, DRAM])})


@dataclass(slots=True)
class _Walk:
    """`resident`: for each tensor on the chip, the memories that have it; `uses`: the steps in which it is read."""

    network: TiledNetwork
    places: Places
    uses: Mapping[str, Sequence[int]]
    resident: dict[str, list[str]] = field(default_factory=dict)
    in_dram: set[str] = field(default_factory=set)

    def movements(self) -> Iterator[Movement]:
        graph = self.network.graph
        self.in_dram |= {one.name for one in graph.tensors if one.role in (Role.INPUT, Role.PARAMETER)}
        for step, operator in enumerate(graph.operators):
            stack = self.network.stacks[operator.name]
            for name in operator.reads:
                yield from self._bring(graph.tensor[name], self.places.read.get((stack, _base(graph.tensor[name]))))
            for name in operator.outputs:
                yield from self._make_room(graph.tensor[name], stack)
            yield Compute(operator.name)
            for name in dict.fromkeys((*operator.reads, *operator.outputs)):
                yield from self._settle(graph.tensor[name], step, operator)

    def _bring(self, tensor: Tensor, memory: str | None) -> Iterator[Movement]:
        """To the memory in which it is read; to DRAM, if it is streamed and not there."""
        held = self.resident.get(tensor.name, [])
        if memory is None:
            if tensor.name not in self.in_dram:
                yield from self._copied(tensor, held[0], DRAM)
        elif memory not in held:
            source = min(held, key=lambda name: self._distance(name, memory), default=DRAM)
            yield Begin(tensor.name, memory)
            yield Copy(tensor.name, source, memory)
            self.resident.setdefault(tensor.name, []).append(memory)

    def _make_room(self, tensor: Tensor, stack: int) -> Iterator[Movement]:
        memory = self.places.written.get((stack, _base(tensor)))
        if memory is None:
            self.in_dram.add(tensor.name)
        else:
            self.resident[tensor.name] = [memory]
            yield Begin(tensor.name, memory)

    def _settle(self, tensor: Tensor, step: int, operator: Operator) -> Iterator[Movement]:
        """After a step that used it: it stays, waits elsewhere, or leaves."""
        held = self.resident.get(tensor.name)
        if held is None:
            return
        next_use = self._next_use(tensor.name, step)
        if next_use is None:
            if tensor.role is Role.OUTPUT and tensor.name not in self.in_dram:
                yield from self._copied(tensor, held[0], DRAM)
            yield from self._freed(tensor, tuple(held))
            return
        key = self.network.stacks[operator.name], _base(tensor)
        if not self.places.waits_elsewhere(key) or self._is_soon(operator, next_use):
            return
        memory = self.places.waiting[key]
        if memory is None:
            if tensor.name not in self.in_dram:
                yield from self._copied(tensor, held[0], DRAM)
        elif memory not in held:
            yield Begin(tensor.name, memory)
            yield Copy(tensor.name, held[0], memory)
            held.append(memory)
        yield from self._freed(tensor, tuple(one for one in held if one != memory))

    def _is_soon(self, operator: Operator, next_use: int) -> bool:
        """In the same tile of the same stack, or the next one."""
        reader = self.network.graph.operators[next_use].name
        same_stack = self.network.stacks[reader] == self.network.stacks[operator.name]
        return same_stack and self.network.tiles[reader] <= self.network.tiles[operator.name] + 1

    def _copied(self, tensor: Tensor, source: str, target: str) -> Iterator[Movement]:
        yield Copy(tensor.name, source, target)
        self.in_dram.add(tensor.name)

    def _freed(self, tensor: Tensor, memories: Sequence[str]) -> Iterator[Movement]:
        for memory in memories:
            yield Free(tensor.name, memory)
            self.resident[tensor.name].remove(memory)
        if not self.resident[tensor.name]:
            del self.resident[tensor.name]

    def _next_use(self, tensor: str, step: int) -> int | None:
        steps = self.uses.get(tensor, ())
        at = bisect_right(steps, step)
        return steps[at] if at < len(steps) else None

    def _distance(self, source: str, target: str) -> int:
        return abs(self.network.ranks[source] - self.network.ranks[target])


def movements_of(network: TiledNetwork, places: Places) -> tuple[Movement, ...]:
    """Return what happens when every tensor lies where `places` says, in the order in which it happens."""
    uses: dict[str, list[int]] = {}
    for step, operator in enumerate(network.graph.operators):
        for name in operator.reads:
            uses.setdefault(name, []).append(step)
    return tuple(_Walk(network, places, uses).movements())


def _tile_number(name: str, original: str) -> int:
    """Of `conv1#12` or a view's `slice1#12.1`; an operator that stands as it is runs in the first tile."""
    return 0 if name == original else int(name.removeprefix(f"{original}#").partition(".")[0])


def _base(tensor: Tensor) -> str:
    return tensor.part_of or tensor.name
