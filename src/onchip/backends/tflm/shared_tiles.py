"""Tiles, slices and concatenations of a tiled model that share bytes, so that copies between them move nothing.

Tensors that hold regions of one tensor of the original file may lie as they do there: a slice within its source, parts
within their concatenation. Where two of them are needed at once, their common bytes have equal values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from math import prod

from onchip.backends.tflm.tiled_model import HeldRegion
from onchip.formats.tflite.arena import (
    ALIGNMENT_BYTES,
    ArenaContents,
    arena_lives,
    arena_size_bytes,
    contents_of_groups,
)
from onchip.formats.tflite.graph import ReadNetwork


@dataclass(frozen=True, slots=True)
class _Bytes:
    """The bytes [start, stop) of the whole original tensor that a tensor stands for; those in `valid` are its values.

    It is needed during the steps [first, last).
    """

    index: int
    start: int
    stop: int
    valid: tuple[int, int]
    first: int
    last: int

    def agrees_with(self, other: _Bytes) -> bool:
        """Return True if both may lie at their places of one copy of the original."""
        if self.last <= other.first or other.last <= self.first:
            return True
        start, stop = max(self.start, other.start), min(self.stop, other.stop)
        return start >= stop or all(one.valid[0] <= start and stop <= one.valid[1] for one in (self, other))


@dataclass
class SharedTiles:
    """Groups of tensors that share bytes in a tiled model whose operators run in the order of the file."""

    read: ReadNetwork
    held: Mapping[str, HeldRegion]
    groups: dict[int, list[int]] = field(default_factory=dict)
    """By tensor, the list of its group, which its members have in common."""
    spans: dict[int, _Bytes] = field(default_factory=dict)

    def contents(self) -> tuple[ArenaContents, dict[int, int]]:
        """Return the contents of the arena by groups, and the offset of each tensor in its group in bytes."""
        network, order = self.read.network, range(len(self.read.network.operators))
        lives = arena_lives(self.read, order)
        for index in lives:
            self.groups[index] = [index]
            span = self._span(index, lives[index])
            if span is not None:
                self.spans[index] = span
        readers: dict[int, list[str]] = {}
        for operator in network.operators:
            for index in operator.inputs:
                readers.setdefault(index, []).append(operator.kind)
        for operator in network.operators:
            output = operator.outputs[0]
            if operator.kind == "CONCATENATION":
                for index in operator.inputs:
                    if len(readers[index]) == 1:
                        self._join(index, output)
        for operator in network.operators:
            output = operator.outputs[0]
            if operator.kind == "SLICE":
                source = operator.inputs[0]
                is_transient = all(kind == "SLICE" for kind in readers[source]) and readers.get(output) == [
                    "CONCATENATION"
                ]
                if is_transient or (source in lives and lives[output][1] <= lives[source][1]):
                    self._join(output, source)
        groups = list({id(group): group for group in self.groups.values()}.values())
        shifts = dict.fromkeys(lives, 0)
        for group in groups:
            if len(group) > 1:
                lowest = min(self.spans[index].start for index in group)
                shifts |= {index: self.spans[index].start - lowest for index in group}
        return contents_of_groups(self.read, order, groups, shifts), shifts

    def _span(self, index: int, life: tuple[int, int]) -> _Bytes | None:
        """Return the bytes for which a tensor stands; None if it is not contiguous in the original."""
        tensor = self.read.network.tensors[index]
        held = self.held.get(tensor.name)
        if held is None:
            return None
        cut = [at for at, size in enumerate(held.shape) if held.region[at] != (0, size)]
        axis = cut[0] if cut else next((at for at, size in enumerate(tensor.shape) if size > 1), 0)
        if len(cut) > 1 or prod(tensor.shape[:axis]) != 1:
            return None
        row = arena_size_bytes(tensor) // tensor.shape[axis]
        start, stop = (end * row for end in held.region[axis])
        first, last = held.valid[axis]
        return _Bytes(held.index, start, stop, (first * row, last * row), *life)

    def _join(self, one: int, other: int) -> None:
        """Put two groups together if all their members may share bytes at aligned places."""
        if one not in self.spans or other not in self.spans or self.groups[one] is self.groups[other]:
            return
        members = [*self.groups[one], *self.groups[other]]
        spans = [self.spans[index] for index in members]
        lowest = min(span.start for span in spans)
        if len({span.index for span in spans}) > 1 or any((span.start - lowest) % ALIGNMENT_BYTES for span in spans):
            return
        if all(first.agrees_with(second) for first, second in combinations(spans, 2)):
            for index in members:
                self.groups[index] = members
