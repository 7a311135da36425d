"""The layers of one tile, one after the other: where their operands lie, what is copied, by which mapping they run.

An output, and then an input, lies a level higher where the strategy has no mapping for it below (docs/fused.md,
sections 2 and 3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import dropwhile

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.memory import DRAM, Operand
from onchip.verify.stack.caches import AlikeTiles
from onchip.verify.stack.chip import ChipInUse
from onchip.verify.stack.copies import MovedPart, MovedTogether, moved_together
from onchip.verify.stack.mappings import MappingsOfStrategy, PricedTile
from onchip.verify.stack.parts import ComputedPart, LayerPart, SeenPart
from onchip.verify.stack.running import RunningStack

LEAST_BYTES = 1
"""What is left of a memory that others fill."""


class MappingMissingError(Exception):
    """No place of its operands has a mapping of a layer; its text names the layer."""


@dataclass(frozen=True, slots=True)
class LayerRunByMapping:
    """A layer that runs in a tile; no price where its mapping is not legal. `weights_are_maps`: it adds two maps."""

    priced: PricedTile | None
    weights_are_maps: bool
    macs: int


@dataclass(frozen=True, slots=True)
class StackOnChip:
    """A stack with its chip and mappings; `weights` say where each layer's lie once they have come from DRAM.

    With `as_defines` what waits takes no room, and what comes from outside gets into caches for free.
    """

    stack: RunningStack
    chip: ChipInUse
    mappings: MappingsOfStrategy
    weights: tuple[str, ...]
    as_defines: bool = False


class TileRunByMappings:
    """One tile of a stack; raises MappingMissingError where a layer has no mapping."""

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
        """Into the lowest place with room below where the whole map lies; else it stays there."""
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
        """Bring what the layer reads to `place`, with what the layer before leaves for caches."""
        parts = [*self._to_caches]
        for seen in part.seen:
            parts += self._brought(seen, place)
        self.copies.append(self._moved(parts))
        self._lies[part.made.map.name] = output
        self._to_caches = list(self._cached(part.made, output, Operand.OUTPUT, None))

    def _brought(self, seen: SeenPart, place: str) -> Iterator[MovedPart]:
        """What comes from outside may stay below the layer's input; what a layer has made is brought there."""
        bits, caches = seen.map.bits, self._tile.caches
        lies, was = self._lies.get(seen.map.name, place), Operand.OUTPUT
        if any(seen.map.name == one.name for one in self._stack.inputs):
            lies, was = self._chip.farther((lies, place)), Operand.INPUT
        yield MovedPart(seen.new * bits, lies, was, place, Operand.INPUT)
        for cache, elements in ((caches.columns_from, seen.from_columns), (caches.rows_from, seen.from_rows)):
            if cache is not None:
                yield MovedPart(elements * bits, cache, Operand.INPUT, place, Operand.INPUT)

    def _cached(self, made: ComputedPart, place: str, operand: Operand, home: str | None) -> Iterator[MovedPart]:
        """To the rows' cache, then to the columns'; the corner goes to that of the rows alone, if it goes there."""
        rows, columns, bits = self._tile.caches.rows_to, self._tile.caches.columns_to, made.map.bits
        elements = made.to_columns
        if rows is not None and rows not in (place, home):
            elements -= made.to_both
            yield MovedPart(made.to_rows * bits, place, operand, rows, operand)
        if columns is not None and columns not in (place, home):
            yield MovedPart(elements * bits, place, operand, columns, operand)

    def _input_places(self, at: int) -> list[str]:
        """From the lowest place with room up to the highest in which a map lies whole, which may have no more room.

        Parts of inner maps may lie in all.
        """
        part, chip, homes = self._tile.part.layers[at], self._chip, self._stack.input_homes
        top = max(chip.rank(homes.get(name, DRAM)) for name in part.sources)
        places = [one for one in chip.places(Operand.INPUT) if chip.rank(one) <= top]
        return [*dropwhile(lambda one: self._room(one, at) < part.seen_bits, places)] or [places[-1]]

    def _output_places(self, at: int, beside: str) -> list[str]:
        """From the lowest place with room, beside the input where that lies there; the last layer's is given."""
        part = self._tile.part.layers[at]
        if part.number == len(self._stack.layers) - 1:
            return [self._stack.output_home]
        needed = {beside: part.made.bits + part.seen_bits}
        places = self._chip.places(Operand.OUTPUT)
        return [*dropwhile(lambda one: self._room(one, at) < needed.get(one, part.made.bits), places)]

    def _room(self, memory: str, at: int) -> float:
        """Without parts of maps that wait there for later layers of the tile."""
        part, room = self._tile.part, self._chip.room_bits(memory)
        if self._on.as_defines:
            return room
        sources = part.layers[at].sources
        made = (*part.loaded, *(layer.made for layer in part.layers[:at]))
        later = (one for one in made if self._last_readers.get(one.map.name, at) > at and one.map.name not in sources)
        return room - sum(one.bits for one in later if self._lies[one.map.name] == memory)

    def _problem(self, part: LayerPart, place: str, output: str) -> LayerProblem | None:
        """None where a memory has no room for the operands that lie there whole."""
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
        """An addition's second map lies with its first; the first tile of all finds no weights on the chip."""
        if not part.nest.has_weight:
            return DRAM
        if part.layer.is_addition:
            return beside
        return DRAM if self._tile.is_first else self._on.weights[part.number]

    def _others_bits(self, part: LayerPart, place: str, output: str) -> Mapping[str, int]:
        """Whole maps, without the layer's own parts of them; weights of other layers where not all have found room."""
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
    """By how many places inputs and outputs lie higher than where they have room."""
    for more in range(most):
        yield from ((more, more), (more, more + 1), (more + 1, more))
