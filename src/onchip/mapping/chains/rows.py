"""How many stored positions of an axis of the input tiles reach over, at least.

So many outputs and taps meet at least `outputs + taps - 1` different positions, and more where a stride keeps taps
apart: taps whose positions differ by no multiple of the stride never meet each other's. What padding takes away are at
most the pairs of an output and a tap that meet nothing stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from onchip.ir.layer import Axis
from onchip.mapping.chains.lattice import Along


@dataclass(frozen=True)
class AxisRows:
    """One axis with so many outputs and taps; those of a tile are neighbours unless units stand beside each other."""

    axis: Axis
    outputs: int
    taps: int
    taps_are_neighbours: bool = True
    all_are_neighbours: bool = False

    def moved(self, outputs: Along, taps: Along, *, taps_shared_out: bool) -> Along:
        """Return positions of all tiles together that have at most so many outputs and taps.

        If taps are shared out, each counts as if all were in parts as long as its own; of padding it then bears as much
        as any tap does.
        """
        parts = np.ceil(self.outputs / outputs)
        of_taps = self._streams_of_all_taps[taps.astype(np.int64) - 1]
        if not taps_shared_out:
            of_taps = np.maximum(of_taps, np.ceil(self.taps / taps))
        met = of_taps * (self.outputs - parts) + parts * self.taps
        is_one_part = taps == self.taps if taps_shared_out else np.bool_(True)
        in_parts = np.maximum(met - self._most_outside, self.taps / taps * min(self._positions_of_taps))
        found: Along = np.where(is_one_part, np.maximum(met - self._outside, float(self.positions)), in_parts)
        return found

    def met(self, outputs: Along, taps: Along, most_output_parts: Along, most_tap_parts: Along) -> Along:
        """Return the same; of no tile more than `block` positions count.

        Outputs are parted among tiles, and taps: no two parts of either begin or end with the same. So of padding the
        tiles meet no more than as if parts began with the first outputs and taps, and ended with the last.
        """
        parts = np.ceil(self.outputs / outputs)
        of_taps = np.maximum(self._streams_of_all_taps[taps.astype(np.int64) - 1], np.ceil(self.taps / taps))
        most = np.minimum(most_output_parts, self.outputs), np.minimum(most_tap_parts, self.taps)
        outside = self._outside_of_parts[most[0].astype(np.int64) - 1, most[1].astype(np.int64) - 1]
        found: Along = np.maximum(of_taps * (self.outputs - parts) + parts * self.taps - outside, 0.0)
        return found

    def blocks(self, outputs: int, taps: int) -> Sequence[tuple[int, int]]:
        """Return how many stored positions a part of neighbours reaches over, and how many parts do, most first.

        All parts but the last have so many outputs, or taps.
        """
        return _blocks(self.axis, (self.outputs, self.taps), (outputs, taps))

    def reach_as_neighbours(self, taps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether parts meet no fewer positions than parts of neighbours with as many outputs would, by taps.

        If the first part has the first output and the last part the last one: no other output is cut off then. All
        parts of taps but the last have so many, where it is not 0, and each is as long as a stride.
        """
        axis, each = self.axis, np.maximum(taps, 1)
        found: NDArray[np.bool_] = np.minimum(each, (self.taps - 1) % each + 1) >= axis.stride
        return found & (axis.dilation == 1 and axis.stride >= max(axis.padding, self._beyond))

    def in_blocks(self, taps: Along, most_blocks: Along, most_tap_parts: Along) -> Along:
        """Return positions of all tiles together, if each is the union of blocks; of all there are at most so many.

        Outputs are parted among blocks, and each has what lies between any two that are next to each other in it.
        """
        blocks = np.minimum(most_blocks, self.outputs)
        of_outputs = self.axis.stride * self.outputs - (self.axis.stride - 1) * blocks
        parts = np.minimum(most_tap_parts, self.taps)
        outside = self._outside_of_parts[blocks.astype(np.int64) - 1, parts.astype(np.int64) - 1]
        found: Along = np.maximum(np.ceil(self.taps / taps) * of_outputs - outside, 0.0)
        return found

    def block(self, outputs: Along, taps: Along) -> Along:
        """Return how many stored positions so many neighbours meet at most."""
        reach = (outputs - 1) * self.axis.stride + (taps - 1) * self.axis.dilation + 1
        met = max(self._met, default=0) - min(self._met, default=0) + 1
        found: Along = np.minimum(np.minimum(reach, outputs * taps), float(met))
        return found

    @property
    def _beyond(self) -> int:
        """How many positions the last output's last tap is beyond what is stored; below zero if it is short of that."""
        axis = self.axis
        return (self.outputs - 1) * axis.stride + (self.taps - 1) * axis.dilation - axis.padding - axis.size + 1

    @cached_property
    def _outside_of_parts(self) -> NDArray[np.float64]:
        """By so many parts of outputs and of taps, positions outside that they meet at most."""
        axis = self.axis
        output, tap = np.arange(self.outputs)[:, None] * axis.stride, np.arange(self.taps)[None] * axis.dilation
        first, last = np.maximum(axis.padding - output - tap, 0), np.maximum(self._beyond - output - tap, 0)
        found: NDArray[np.float64] = (first + last).cumsum(axis=0).cumsum(axis=1).astype(np.float64)
        return found

    def moved_but_at_the_end(self, outputs: Along, taps: Along, outputs_at_end: Along, taps_at_end: Along) -> Along:
        """Return positions of tiles without those that lie in such parts of outputs and of taps at their ends."""
        before = self.outputs * (1 - outputs_at_end)
        parts = before / outputs
        of_taps = self._streams_of_all_taps[taps.astype(np.int64) - 1]
        met = of_taps * (before - parts) + parts * self.taps
        return np.maximum(met * (1 - taps_at_end) - max(self._outside, self._most_outside), 0.0)

    def largest(self, outputs: Along, taps: Along, parts: Along) -> Along:
        """Return positions of the largest tile, wherever it lies; so many `parts` have so many outputs, at least.

        One has in any case, and one so many taps.
        """
        if self._outside == self.outputs * self.taps:
            return 0.0 * outputs * taps
        streams = self._streams[taps.astype(np.int64) - 1]
        found = np.maximum(streams * (outputs - 1) + taps - self._outside, 1.0)
        if self._outputs_amidst:
            found = np.maximum(found, streams * (self._amidst(outputs, parts) - 1) + taps)
        return found

    def _amidst(self, outputs: Along, parts: Along) -> Along:
        """Return how many outputs of a part lie amidst what is stored: all, if of so many parts not each has others."""
        others = self.outputs - self._outputs_amidst
        found: Along = np.where(parts > others, outputs, np.maximum(outputs - others, 1.0))
        return found

    def largest_block(self, outputs: Along, taps: Along, parts: Along) -> Along:
        """Return the same of tiles in one instance: each is a block from its first position to its last.

        Of the tile with most outputs no more is cut off than lies outside of all; and a tile in which some outputs lie
        amidst what is stored reaches from the first of these to the last.
        """
        if self.all_are_neighbours:
            return self._largest_of_parts[outputs.astype(np.int64) - 1, taps.astype(np.int64) - 1]
        axis, found = self.axis, self.largest(outputs, taps, parts)
        if self._outside == self.outputs * self.taps:
            return found
        of_taps = (taps - 1) * axis.dilation + 1
        cut_off = max(axis.padding, 0) + max(self._beyond, 0)
        found = np.maximum(found, (outputs - 1) * axis.stride + of_taps - cut_off)
        if self._outputs_amidst:
            found = np.maximum(found, (self._amidst(outputs, parts) - 1) * axis.stride + of_taps)
        return found

    @cached_property
    def _largest_of_parts(self) -> NDArray[np.float64]:
        """By outputs and taps of a part, stored positions that the largest of parts as long or longer reaches over.

        All parts but the last are as long. Up to the first that begins with what is stored, they are no shorter the
        farther in they lie; from it on no longer. So one of two is the largest, of each part of taps.
        """
        axis, found = self.axis, np.zeros((self.outputs, self.taps))
        outputs, taps = np.arange(1, self.outputs + 1)[:, None], np.arange(1, self.taps + 1)[None]
        for part in range(self.taps):
            from_tap = part * taps * axis.dilation - axis.padding
            to_tap = np.minimum((part + 1) * taps, self.taps) * axis.dilation - axis.dilation - axis.padding
            inner = -(np.minimum(from_tap, 0) // (outputs * axis.stride))
            for at in (np.clip(inner - 1, 0, (self.outputs - 1) // outputs), inner):
                begin = at * outputs * axis.stride + from_tap
                end = np.minimum((at + 1) * outputs, self.outputs) * axis.stride - axis.stride + to_tap + 1
                length = np.minimum(end, axis.size) - np.maximum(begin, 0)
                is_there = (part * taps < self.taps) & (at * outputs < self.outputs)
                found = np.maximum(found, np.where(is_there, length, 0))
        for side in (0, 1):
            found = np.flip(np.minimum.accumulate(np.flip(found, side), side), side)
        return found

    def most(self, outputs: Along, taps: Along) -> Along:
        """Return how many positions any tile reaches over at most, that has at most so many outputs and taps."""
        one_output = min(self.axis.size, (self.taps - 1) * self.axis.dilation + 1)
        several = np.where(outputs == 1, float(one_output), float(self.axis.size))
        found: Along = np.where((outputs == 1) & (taps == 1), 1.0, several)
        return found

    @property
    def all_are_stored(self) -> bool:
        """Return whether every output meets something stored through every tap."""
        return self._outside == 0

    @cached_property
    def positions(self) -> int:
        """Return how many different stored positions the layer meets."""
        return len(set(self._met))

    @cached_property
    def _met(self) -> list[int]:
        axis = self.axis
        pairs = (
            output * axis.stride + tap * axis.dilation - axis.padding
            for output in range(self.outputs)
            for tap in range(self.taps)
        )
        return [position for position in pairs if 0 <= position < axis.size]

    @property
    def _outside(self) -> int:
        return self.outputs * self.taps - len(self._met)

    @cached_property
    def _outputs_amidst(self) -> int:
        """Of which every tap meets something stored."""
        axis = self.axis
        first = range(-axis.padding, (self.outputs - 1) * axis.stride - axis.padding + 1, axis.stride)
        reach = (self.taps - 1) * axis.dilation
        return sum(position >= 0 and position + reach < axis.size for position in first)

    @property
    def _most_outside(self) -> int:
        """If each tap had as many pairs that meet nothing as any has."""
        return self.taps * max(self.outputs - one for one in self.stored_through_taps)

    @cached_property
    def stored_through_taps(self) -> list[int]:
        """Return by tap how many outputs meet something stored through it."""
        return [len(AxisRows(self._seen_through(tap), self.outputs, 1)._met) for tap in range(self.taps)]

    @cached_property
    def _positions_of_taps(self) -> list[int]:
        """By tap, how many different stored positions all outputs meet through it."""
        return [AxisRows(self._seen_through(tap), self.outputs, 1).positions for tap in range(self.taps)]

    @cached_property
    def first_through_taps(self) -> list[int]:
        """Return by tap the first output that meets nothing before what is stored through it."""
        axis = self.axis
        return [max(-((tap * axis.dilation - axis.padding) // axis.stride), 0) for tap in range(self.taps)]

    def _seen_through(self, tap: int) -> Axis:
        return replace(self.axis, padding=self.axis.padding - tap * self.axis.dilation)

    @cached_property
    def _streams(self) -> NDArray[np.float64]:
        """By number of taps, at least how many of them differ by no multiple of the stride."""
        streams = [tap * self.axis.dilation % self.axis.stride for tap in range(self.taps)]
        if not self.taps_are_neighbours:
            most = max(streams.count(one) for one in set(streams))
            return np.ceil(np.arange(1, self.taps + 1) / most)
        found = [
            min(len(set(streams[start : start + taps])) for start in range(self.taps - taps + 1))
            for taps in range(1, self.taps + 1)
        ]
        return np.array(found, np.float64)

    @cached_property
    def _streams_of_all_taps(self) -> NDArray[np.float64]:
        """By most taps of a tile, streams of all tiles' taps together, at least."""
        share = self._streams / np.arange(1, self.taps + 1)
        found: NDArray[np.float64] = np.minimum.accumulate(share) * self.taps
        return found


@lru_cache(maxsize=1 << 12)
def _blocks(axis: Axis, all_of_both: tuple[int, int], parts: tuple[int, int]) -> Sequence[tuple[int, int]]:
    """As `AxisRows.blocks`, of so many outputs and taps in all."""
    (first, last), (first_tap, last_tap) = (
        (starts, np.minimum(starts + part, end) - 1)
        for end, part in zip(all_of_both, parts, strict=True)
        for starts in (np.arange(0, end, part),)
    )
    begin = first[:, None] * axis.stride + first_tap * axis.dilation - axis.padding
    end = last[:, None] * axis.stride + last_tap * axis.dilation - axis.padding + 1
    lengths = np.maximum(np.minimum(end, axis.size) - np.maximum(begin, 0), 0)
    found = zip(*np.unique(lengths, return_counts=True), strict=True)
    return [(int(length), int(count)) for length, count in found][::-1]
