"""Lower bounds on the stored input positions that tiles cover along one axis.

A number of outputs and taps meets at least `outputs + taps - 1` different positions. A stride makes it more: taps whose
positions differ by no multiple of the stride share none. Padding removes at most the (output, tap) pairs that meet
nothing stored.
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
    """An input axis with its outputs and taps; those of a tile are neighbours unless they are spatially unrolled."""

    axis: Axis
    outputs: int
    taps: int
    taps_are_neighbours: bool = True
    all_are_neighbours: bool = False

    def moved(self, outputs: Along, taps: Along, *, taps_shared_out: bool) -> Along:
        """Return a lower bound on the positions of all tiles, given the maximum outputs and taps of a tile.

        If taps are shared out, each tap counts as if all parts were as long as its own, with the most padding of any
        tap.
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
        """Return the same bound for sets of tiles in which no tile counts more than `block` positions.

        Outputs and taps are partitioned among tiles: no two parts begin or end with the same one. So the tiles meet at
        most the padding of parts that begin with the first outputs and taps and end with the last.
        """
        parts = np.ceil(self.outputs / outputs)
        of_taps = np.maximum(self._streams_of_all_taps[taps.astype(np.int64) - 1], np.ceil(self.taps / taps))
        most = np.minimum(most_output_parts, self.outputs), np.minimum(most_tap_parts, self.taps)
        outside = self._outside_of_parts[most[0].astype(np.int64) - 1, most[1].astype(np.int64) - 1]
        found: Along = np.maximum(of_taps * (self.outputs - parts) + parts * self.taps - outside, 0.0)
        return found

    def blocks(self, outputs: int, taps: int) -> Sequence[tuple[int, int]]:
        """Return pairs of stored positions covered by a part of neighbours and the number of such parts, longest first.

        All parts but the last have `outputs` outputs and `taps` taps.
        """
        return _blocks(self.axis, (self.outputs, self.taps), (outputs, taps))

    def reach_as_neighbours(self, taps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return by taps True if parts meet at least the positions of equally large parts of neighbours.

        This holds if the first part has the first output and the last part the last, since no other output is cut off.
        All parts of taps but the last have `taps` (unless 0), and each is at least a stride long.
        """
        axis, each = self.axis, np.maximum(taps, 1)
        found: NDArray[np.bool_] = np.minimum(each, (self.taps - 1) % each + 1) >= axis.stride
        return found & (axis.dilation == 1 and axis.stride >= max(axis.padding, self._beyond))

    def in_blocks(self, taps: Along, most_blocks: Along, most_tap_parts: Along) -> Along:
        """Return a lower bound on the positions of all tiles if each is a union of at most `most_blocks` blocks.

        Outputs are partitioned among blocks; each block includes the positions between its adjacent outputs.
        """
        blocks = np.minimum(most_blocks, self.outputs)
        of_outputs = self.axis.stride * self.outputs - (self.axis.stride - 1) * blocks
        parts = np.minimum(most_tap_parts, self.taps)
        outside = self._outside_of_parts[blocks.astype(np.int64) - 1, parts.astype(np.int64) - 1]
        found: Along = np.maximum(np.ceil(self.taps / taps) * of_outputs - outside, 0.0)
        return found

    def block(self, outputs: Along, taps: Along) -> Along:
        """Return the maximum number of stored positions that neighbouring outputs and taps meet."""
        reach = (outputs - 1) * self.axis.stride + (taps - 1) * self.axis.dilation + 1
        met = max(self._met, default=0) - min(self._met, default=0) + 1
        found: Along = np.minimum(np.minimum(reach, outputs * taps), float(met))
        return found

    @property
    def _beyond(self) -> int:
        """Return the positions by which the last output's last tap exceeds the stored input; negative if inside."""
        axis = self.axis
        return (self.outputs - 1) * axis.stride + (self.taps - 1) * axis.dilation - axis.padding - axis.size + 1

    @cached_property
    def _outside_of_parts(self) -> NDArray[np.float64]:
        """Return the maximum number of padding positions met, by number of parts of outputs and of taps."""
        axis = self.axis
        output, tap = np.arange(self.outputs)[:, None] * axis.stride, np.arange(self.taps)[None] * axis.dilation
        first, last = np.maximum(axis.padding - output - tap, 0), np.maximum(self._beyond - output - tap, 0)
        found: NDArray[np.float64] = (first + last).cumsum(axis=0).cumsum(axis=1).astype(np.float64)
        return found

    def moved_but_at_the_end(self, outputs: Along, taps: Along, outputs_at_end: Along, taps_at_end: Along) -> Along:
        """Return the positions of tiles without the given shares of outputs and taps at their ends."""
        before = self.outputs * (1 - outputs_at_end)
        parts = before / outputs
        of_taps = self._streams_of_all_taps[taps.astype(np.int64) - 1]
        met = of_taps * (before - parts) + parts * self.taps
        return np.maximum(met * (1 - taps_at_end) - max(self._outside, self._most_outside), 0.0)

    def largest(self, outputs: Along, taps: Along, parts: Along) -> Along:
        """Return a lower bound on the positions of the largest tile; at least `parts` tiles have that many outputs.

        At least one tile has that many outputs, and at least one that many taps.
        """
        if self._outside == self.outputs * self.taps:
            return 0.0 * outputs * taps
        streams = self._streams[taps.astype(np.int64) - 1]
        found = np.maximum(streams * (outputs - 1) + taps - self._outside, 1.0)
        if self._outputs_amidst:
            found = np.maximum(found, streams * (self._amidst(outputs, parts) - 1) + taps)
        return found

    def _amidst(self, outputs: Along, parts: Along) -> Along:
        """Return a part's outputs whose taps are all stored: all of them if too few others exist for every part."""
        others = self.outputs - self._outputs_amidst
        found: Along = np.where(parts > others, outputs, np.maximum(outputs - others, 1.0))
        return found

    def largest_block(self, outputs: Along, taps: Along, parts: Along) -> Along:
        """Return the same bound for tiles of one instance, each a block from its first to its last position.

        Padding shortens the tile with the most outputs by at most the padding of both ends. A tile that contains
        outputs with all taps stored reaches from the first of these to the last.
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
        """Return by outputs and taps of a part a lower bound on the positions of the largest part, or of longer ones.

        All parts but the last have equal length. Up to the first part that begins with stored positions, parts get no
        shorter; after it, no longer. So for each part of taps one of two candidates is the largest.
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
        """Return the maximum number of positions of any tile with at most that many outputs and taps."""
        one_output = min(self.axis.size, (self.taps - 1) * self.axis.dilation + 1)
        several = np.where(outputs == 1, float(one_output), float(self.axis.size))
        found: Along = np.where((outputs == 1) & (taps == 1), 1.0, several)
        return found

    @property
    def all_are_stored(self) -> bool:
        """Return True if every output meets a stored position through every tap."""
        return self._outside == 0

    @cached_property
    def positions(self) -> int:
        """Return the number of different stored positions that the layer reads."""
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
        """Return the number of outputs for which every tap is stored."""
        axis = self.axis
        first = range(-axis.padding, (self.outputs - 1) * axis.stride - axis.padding + 1, axis.stride)
        reach = (self.taps - 1) * axis.dilation
        return sum(position >= 0 and position + reach < axis.size for position in first)

    @property
    def _most_outside(self) -> int:
        """Return the padding pairs of all taps if each equalled the worst tap."""
        return self.taps * max(self.outputs - one for one in self.stored_through_taps)

    @cached_property
    def stored_through_taps(self) -> list[int]:
        """Return by tap the number of outputs that meet a stored position through it."""
        return [len(AxisRows(self._seen_through(tap), self.outputs, 1)._met) for tap in range(self.taps)]

    @cached_property
    def _positions_of_taps(self) -> list[int]:
        """Return by tap the number of different stored positions that all outputs meet through it."""
        return [AxisRows(self._seen_through(tap), self.outputs, 1).positions for tap in range(self.taps)]

    @cached_property
    def first_through_taps(self) -> list[int]:
        """Return by tap the first output that meets no position before the stored ones."""
        axis = self.axis
        return [max(-((tap * axis.dilation - axis.padding) // axis.stride), 0) for tap in range(self.taps)]

    def _seen_through(self, tap: int) -> Axis:
        return replace(self.axis, padding=self.axis.padding - tap * self.axis.dilation)

    @cached_property
    def _streams(self) -> NDArray[np.float64]:
        """Return by number of taps a lower bound on the residue classes of their positions modulo the stride."""
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
        """Return by maximum taps of a tile a lower bound on their residue classes, summed over all tiles."""
        share = self._streams / np.arange(1, self.taps + 1)
        found: NDArray[np.float64] = np.minimum.accumulate(share) * self.taps
        return found


@lru_cache(maxsize=1 << 12)
def _blocks(axis: Axis, all_of_both: tuple[int, int], parts: tuple[int, int]) -> Sequence[tuple[int, int]]:
    """Return `AxisRows.blocks` for these totals and part sizes; cached."""
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
