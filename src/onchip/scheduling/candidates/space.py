"""The search space of fusion strategies: cuts into groups, their tilings, and the homes of maps between them.

A node of the search graph is a cut together with the home of each live feature map; docs/fusion.md proves that this
suffices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, TypeAlias

from onchip.answer.stacks import Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.ops.fusable import FeatureMap, FusableNetwork
from onchip.scheduling.choice.ways import Arc, ensure_time
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import FEW_TILINGS, Homes, LayerSpan, StackChoice, TileBox, choice_of

TilingsOf: TypeAlias = Callable[[LayerSpan], Sequence[Tiling | TileBox]]
MOST_HOMES: Final = 256
"""Maximum number of home assignments of the maps live at a cut; it multiplies the number of nodes."""


@dataclass(frozen=True, slots=True)
class StackSpace:
    """The fused groups from `spans`, each in its candidate tilings.

    With `may_stay` a map between groups may reside in any single-instance memory that holds inputs and outputs and has
    capacity for it and the other maps there. Network outputs are in DRAM, even if they are read. So are the maps
    that wait longest, if otherwise the maps live at a cut had more than `most_homes` assignments.
    """

    network: FusableNetwork
    accelerator: Accelerator
    spans: Sequence[LayerSpan]
    tilings: TilingsOf
    may_stay: bool = True
    most_homes: int = MOST_HOMES
    in_dram: frozenset[str] = field(init=False, repr=False, compare=False)
    """Maps that would fit on the chip, but are in DRAM because too many others are live."""
    _alive: dict[int, list[FeatureMap]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _homes: dict[int, list[Homes]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _room_bits: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """Capacity of the memories that may hold maps, the lowest first."""

    def __post_init__(self) -> None:
        homes = [level.memory for level in self.accelerator.levels if is_home(level, self.accelerator)]
        object.__setattr__(self, "_room_bits", {memory.name: memory.capacity_bytes * 8 for memory in homes})
        ways = {one.output.name: len(self._homes_with_room(one.output)) for one in self.network.layers}
        object.__setattr__(self, "in_dram", waiting_longest(self.network, ways, self.most_homes))

    def arcs(self, run: Run | None = None) -> tuple[list[Arc[StackChoice]], int]:
        """Return the arcs from the start of the network (node 0) to its end, and the end node.

        Raises NoBoundError if the run stops first.
        """
        places = [(cut, homes) for cut in range(len(self.network.layers) + 1) for homes in self._homes_at(cut)]
        numbers = {place: number for number, place in enumerate(places)}
        arcs = []
        for span in self.spans:
            if run is not None:
                ensure_time(run)
            tilings = tuple(self.tilings(span))
            for homes in self._homes_at(span.start):
                for home in self._homes_of_output(span):
                    after = self._after(span, homes, home)
                    if after is None or (span.stop, after) not in numbers:
                        continue
                    choices = tuple(choice_of(span, tiling, homes, home) for tiling in tilings)
                    arcs.append(Arc(numbers[span.start, homes], numbers[span.stop, after], choices))
        return arcs, len(places) - 1

    def in_all_tiles(self, choice: StackChoice) -> Iterator[StackChoice]:
        """Yield a choice's group in each candidate tiling, except for long lists."""
        for tiling in self.tilings(choice.span):
            if isinstance(tiling, Tiling) or tiling.count <= FEW_TILINGS:
                yield from choice_of(choice.span, tiling, choice.homes, choice.output_home).singly()

    def _alive_at(self, cut: int) -> list[FeatureMap]:
        """Return the maps that layers before the cut write and layers after it read."""
        if cut not in self._alive:
            outputs, until = (layer.output for layer in self.network.layers[:cut]), self.network.last_readers
            self._alive[cut] = [one for one in outputs if until.get(one.name, 0) >= cut]
        return self._alive[cut]

    def _homes_at(self, cut: int) -> list[Homes]:
        if cut not in self._homes:
            self._homes[cut] = list(self._all_homes_of(self._alive_at(cut)))
        return self._homes[cut]

    def _all_homes_of(self, alive: Sequence[FeatureMap]) -> Iterator[Homes]:
        for memories in product(*(self._memories_for(one) for one in alive)):
            homes = [(one, memory) for one, memory in zip(alive, memories, strict=True) if memory != DRAM]
            if self._have_room(homes):
                yield tuple((one.name, memory) for one, memory in homes)

    def _homes_of_output(self, span: LayerSpan) -> list[str]:
        output = self.network.layers[span.stop - 1].output
        return self._memories_for(output) if output in self._alive_at(span.stop) else [DRAM]

    def _after(self, span: LayerSpan, homes: Homes, output_home: str) -> Homes | None:
        """Return the homes of live maps after the group; None if its output does not fit together with earlier ones."""
        maps, output = self.network.maps, self.network.layers[span.stop - 1].output
        own = [(output, output_home)] if output_home != DRAM else []
        if not self._have_room([*((maps[name], memory) for name, memory in homes), *own]):
            return None
        alive = [one.name for one in self._alive_at(span.stop)]
        where = {**dict(homes), output.name: output_home}
        return tuple((name, where[name]) for name in alive if where.get(name, DRAM) != DRAM)

    def _memories_for(self, feature_map: FeatureMap) -> list[str]:
        return [DRAM] if feature_map.name in self.in_dram else self._homes_with_room(feature_map)

    def _homes_with_room(self, feature_map: FeatureMap) -> list[str]:
        if not self.may_stay or feature_map.name in self.network.outputs:
            return [DRAM]
        fitting = [name for name, room in self._room_bits.items() if feature_map.size_bits <= room]
        return [*fitting, DRAM]

    def _have_room(self, homes: Sequence[tuple[FeatureMap, str]]) -> bool:
        taken = dict.fromkeys(self._room_bits, 0)
        for one, memory in homes:
            taken[memory] += one.size_bits
        return all(bits <= room for bits, room in zip(taken.values(), self._room_bits.values(), strict=True))


def waiting_longest(network: FusableNetwork, ways: Mapping[str, int], most: int) -> frozenset[str]:
    """Return maps to exclude so that the maps live at any cut have at most `most` assignments.

    Maps that wait longest are excluded first, later ones in a tie; others stay while the limit allows.
    """
    until = network.last_readers
    waits = [(until.get(one.output.name, at) - at, at, one.output.name) for at, one in enumerate(network.layers)]
    together = [1] * (len(network.layers) + 1)
    left_out = []
    for wait, at, name in sorted(waits):
        cuts = range(at + 1, at + wait + 1)
        if all(together[cut] * ways[name] <= most for cut in cuts):
            for cut in cuts:
                together[cut] *= ways[name]
        else:
            left_out.append(name)
    return frozenset(name for name in left_out if ways[name] > 1)


def is_home(level: MemoryLevel, accelerator: Accelerator) -> bool:
    """Return True if feature maps may reside whole in a memory: single-instance, for inputs and outputs."""
    dimensions = accelerator.array.dimensions if accelerator.array else {}
    is_one = level.serves is None or set(dimensions) <= set(level.serves)
    return is_one and {Operand.INPUT, Operand.OUTPUT} <= set(level.memory.holds)
