"""The layers of one tile in order: their operands' memories, the copies, and the mapping of each.

If the strategy has no mapping for the lowest memories, the output and then the input move one level up (docs/fused.md,
sections 2 and 3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import dropwhile

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.memory import DRAM, Operand
from onchip.verify.stack.caches import AlikeTiles, RunningStack
from onchip.verify.stack.chip import ChipInUse, MappingsOfStrategy, MovedPart, MovedTogether, PricedTile, moved_together
from onchip.verify.stack.strips import ComputedPart, LayerPart, SeenPart

LEAST_BYTES = 1
"""Bytes left to tiles in a memory that other data fill."""


class MappingMissingError(Exception):
    """Raised if a layer has no mapping for any placement of its operands; its text names the layer."""


@dataclass(frozen=True, slots=True)
class LayerRunByMapping:
    """A layer that runs in a tile; `priced` is None if its mapping is illegal.

    `weights_are_maps` is True for an addition, whose weight operand is a second map.
    """

    priced: PricedTile | None
    weights_are_maps: bool
    macs: int


@dataclass(frozen=True, slots=True)
class StackOnChip:
    """A stack with its chip and mappings; `weights` gives the memory of each layer's weights once loaded from DRAM.

    With `as_defines` waiting maps take no capacity, and maps from outside enter caches at no cost.
    """

    stack: RunningStack
    chip: ChipInUse
    mappings: MappingsOfStrategy
    weights: tuple[str, ...]
    as_defines: bool


class TileRunByMappings:
    """A tile of a stack, run by the strategy's mappings; raises MappingMissingError if a layer has no mapping."""

    def __init__(self, on_chip: StackOnChip, tile: AlikeTiles) -> None:
        self._on = on_chip
        self._stack, self._chip = on_chip.stack, on_chip.chip
        self._tile = tile
        self._last_readers = {name: at for at, layer in enumerate(tile.part.layers) for name in layer.sources}
        self._lies: dict[str, str] = {}
        self._to_caches: list[MovedPart] = []
        self.copies: list[MovedTogether] = [self._load(one) for one in tile.part.loaded]
        self.layers = [self._run(at) for at in range(len(tile.part.layers))]

    def _load(self, made: ComputedPart) -> MovedTogether:
        """Load a map into the lowest memory with capacity below its home; otherwise it stays in its home."""
        chip, home = self._chip, self._stack.input_homes.get(made.map.name, DRAM)
        place = self._lies[made.map.name] = chip.nearer((chip.lowest(Operand.INPUT, made.bits), home))
        if not self._on.as_defines:
            self._to_caches += self._cached(made, place, Operand.INPUT, home)
        moved = MovedPart(made.bits, home, Operand.INPUT, place, Operand.INPUT)
        return self._moved([moved])

    def _moved(self, parts: list[MovedPart]) -> MovedTogether:
        return moved_together([part for part in parts if part.bits], self._chip)

    def _run(self, at: int) -> LayerRunByMapping:
        part = self._tile.part.layers[at]
        inputs = self._input_places(at)
        outputs = self._output_places(at, inputs[0])
        for higher_input, higher_output in _attempts(len(inputs) + len(outputs)):
            place = inputs[min(higher_input, len(inputs) - 1)]
            output = outputs[min(higher_output, len(outputs) - 1)]
            problem = self._problem(part, place, output)
            if problem is not None and self._on.mappings.has(self._stack.number, part.layer.name, problem):
                self._settle(part, place, output)
                priced = self._on.mappings.run(self._stack.number, part.layer.name, problem)
                return LayerRunByMapping(priced, part.layer.is_addition, part.nest.macs)
        raise MappingMissingError(part.layer.name)

    def _settle(self, part: LayerPart, place: str, output: str) -> None:
        """Copy the layer's inputs to `place`, together with the previous layer's writes to caches."""
        parts = [*self._to_caches]
        for seen in part.seen:
            parts += self._brought(seen, place)
        self.copies.append(self._moved(parts))
        self._lies[part.made.map.name] = output
        self._to_caches = list(self._cached(part.made, output, Operand.OUTPUT, None))

    def _brought(self, seen: SeenPart, place: str) -> Iterator[MovedPart]:
        """Yield the copies of an input to `place`.

        Maps from outside may stay below the layer's input; maps made in the stack are moved to it.
        """
        bits, caches = seen.map.bits, self._tile.caches
        lies, was = self._lies.get(seen.map.name, place), Operand.OUTPUT
        if any(seen.map.name == one.name for one in self._stack.inputs):
            lies, was = self._chip.farther((lies, place)), Operand.INPUT
        yield MovedPart(seen.new * bits, lies, was, place, Operand.INPUT)
        for cache, elements in ((caches.columns_from, seen.from_columns), (caches.rows_from, seen.from_rows)):
            if cache is not None:
                yield MovedPart(elements * bits, cache, Operand.INPUT, place, Operand.INPUT)

    def _cached(self, made: ComputedPart, place: str, operand: Operand, home: str | None) -> Iterator[MovedPart]:
        """Yield the writes to the row cache, then to the column cache.

        Pixels in both go to the row cache only, if there is one.
        """
        rows, columns, bits = self._tile.caches.rows_to, self._tile.caches.columns_to, made.map.bits
        elements = made.to_columns
        if rows is not None and rows not in (place, home):
            elements -= made.to_both
            yield MovedPart(made.to_rows * bits, place, operand, rows, operand)
        if columns is not None and columns not in (place, home):
            yield MovedPart(elements * bits, place, operand, columns, operand)

    def _input_places(self, at: int) -> list[str]:
        """Return the memories for the input: from the lowest with capacity up to the highest home of an input map.

        That home may have no capacity left. Parts of maps made in the stack may be in any memory.
        """
        part, chip, homes = self._tile.part.layers[at], self._chip, self._stack.input_homes
        top = max(chip.rank(homes.get(name, DRAM)) for name in part.sources)
        places = [one for one in chip.places(Operand.INPUT) if chip.rank(one) <= top]
        return [*dropwhile(lambda one: self._room(one, at) < part.seen_bits, places)] or [places[-1]]

    def _output_places(self, at: int, beside: str) -> list[str]:
        """Return the memories for the output, from the lowest with capacity; the last layer's output home is given.

        If input and output are in the same memory, both must fit. Maps that lie there whole are already counted.
        """
        part, homes = self._tile.part.layers[at], self._stack.input_homes
        if part.number == len(self._stack.layers) - 1:
            return [self._stack.output_home]
        seen_bits = sum(one.elements * one.map.bits for one in part.seen if homes.get(one.map.name) != beside)
        needed = {beside: part.made.bits + seen_bits}
        places = self._chip.places(Operand.OUTPUT)
        return [*dropwhile(lambda one: self._room(one, at) < needed.get(one, part.made.bits), places)]

    def _room(self, memory: str, at: int) -> float:
        """Return the bits free in a memory, less parts of maps that wait there for later layers of the tile."""
        part, room = self._tile.part, self._chip.room_bits(memory)
        if self._on.as_defines:
            return room
        sources = part.layers[at].sources
        made = (*part.loaded, *(layer.made for layer in part.layers[:at]))
        later = (one for one in made if self._last_readers.get(one.map.name, at) > at and one.map.name not in sources)
        return room - sum(one.bits for one in later if self._lies[one.map.name] == memory)

    def _problem(self, part: LayerPart, place: str, output: str) -> LayerProblem | None:
        """Return the mapping problem of the layer; None if operands that are whole in a memory exceed its capacity."""
        weight = self._weight_place(part, place)
        homes = Homes(*(None if one == DRAM else one for one in (place, weight, output)))
        whole = LayerProblem(part.nest, self._chip.accelerator, homes, weight_is_an_input=part.layer.is_addition)
        others, room = self._others_bits(part, place, output), dict[str, int]()
        for level in self._chip.levels:
            name, capacity_bytes = level.memory.name, level.memory.capacity_bytes
            left_bytes = capacity_bytes
            if others.get(name):
                left_bytes = max(capacity_bytes - -(-others[name] // 8), LEAST_BYTES)
            room[name] = min((8 * left_bytes - whole.resident_bits(name)) // 8, capacity_bytes)
            if room[name] < 0:
                return None
        return LayerProblem(part.nest, self._chip.accelerator, homes, room, part.layer.is_addition)

    def _weight_place(self, part: LayerPart, beside: str) -> str:
        """Return the memory of the weights: an addition's second map is with its first.

        The first tile loads weights from DRAM.
        """
        if not part.nest.has_weight:
            return DRAM
        if part.layer.is_addition:
            return beside
        return DRAM if self._tile.is_first else self._on.weights[part.number]

    def _others_bits(self, part: LayerPart, place: str, output: str) -> Mapping[str, int]:
        """Return the bits taken in each memory by whole maps and by other layers' weights that stay on chip.

        Parts of maps that the layer itself reads or writes are excluded. Weights count only if some layer's weights did
        not fit.
        """
        homes, weights = self._stack.input_homes, self._on.weights
        taken = dict(self._chip.taken_bits)
        for seen in part.seen:
            if homes.get(seen.map.name) == place:
                taken[place] -= seen.taken * seen.map.bits
        if output in taken and part.number == len(self._stack.layers) - 1:
            taken[output] -= part.made.bits
        if any(one != weights[0] for one in weights):
            for number, layer in enumerate(self._stack.layers):
                if number != part.number:
                    taken[weights[number]] = taken.get(weights[number], 0) + layer.weight_bits
        return taken


def _attempts(most: int) -> Iterator[tuple[int, int]]:
    """Yield by how many levels the input and the output are raised above the lowest memories with capacity."""
    for more in range(most):
        yield from ((more, more), (more, more + 1), (more + 1, more))
