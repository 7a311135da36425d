"""The combinations of splits of a tiny network, one per operator, with a check that all tiles fit: docs/tiling.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations, product
from math import prod
from typing import Any

from oracles.split import Box, Facts, Separable, Shape, Tile, separable, tile_sizes, tiles_of

Item = tuple[str, int]
"""An operand's kind and bytes."""
Scratchpad = tuple[int, int, tuple[str, ...]]
"""Capacity, alignment and the operand kinds that it holds."""
Choice = tuple[Shape | None, ...]
"""Tile sizes along each axis by operator; None leaves the operator whole."""


def fit_together(items: Sequence[Item], scratchpads: Sequence[Scratchpad]) -> bool:
    """Return True if all items fit at once, each in one scratchpad, by exhaustive search.

    In a scratchpad all sizes except the topmost are rounded up to the alignment.
    """
    states = {tuple((0, 0) for _ in scratchpads)}
    for kind, size in items:
        following = set()
        for state in states:
            for at, (capacity, alignment, holds) in enumerate(scratchpads):
                taken, padding = state[at]
                rounded = -(-size // alignment) * alignment
                own = (taken + rounded, max(padding, rounded - size))
                if kind in holds and own[0] - own[1] <= capacity:
                    following.add((*state[:at], own, *state[at + 1 :]))
        states = following
    return bool(states)


@dataclass(frozen=True)
class Space:
    """A network of a graph file, the scratchpads, and whether parameters are planned."""

    operators: Sequence[Facts]
    tensors: dict[str, Facts]
    scratchpads: Sequence[Scratchpad]
    counts_parameters: bool

    def counts(self, name: str) -> bool:
        """Return True if the tensor is planned."""
        return self.counts_parameters or self.tensors[name]["role"] != "parameter"

    def choices_of(self, operator: Facts) -> list[Shape | None]:
        """Return every way to cut an operator."""
        axes = self.axes_of(operator)
        if axes is None:
            return [None]
        return [None, *(sizes for sizes in product(*map(tile_sizes, axes.axes)) if sizes != axes.axes)]

    def axes_of(self, operator: Facts) -> Separable | None:
        """Return an operator's axes and its planned operands."""
        found = separable(operator, self.tensors)
        if found is None:
            return None
        reads = tuple(one for one in found.reads if self.counts(one.name))
        return Separable(found.axes, found.is_summed, reads, found.writes)

    @property
    def size(self) -> int:
        """Return the number of combinations."""
        return prod(len(self.choices_of(operator)) for operator in self.operators)

    def fits_whole(self, operator: Facts) -> bool:
        """Return True if an operator fits without any cuts."""
        return self._fits(operator, None, {})

    def some_choice_fits(self, staying_whole: Sequence[str] = ()) -> bool:
        """Return True if all tiles fit in some combination in which these operators stay whole."""
        options = [[None] if one["name"] in staying_whole else self.choices_of(one) for one in self.operators]
        return any(self.fits(choice) for choice in product(*options))

    def fits(self, choice: Choice) -> bool:
        """Return True if every tile of every operator fits, with the bands that all of them make."""
        cuts = self.cuts(choice)
        return all(self._fits(operator, sizes, cuts) for operator, sizes in zip(self.operators, choice, strict=True))

    def cuts(self, choice: Choice) -> dict[str, list[set[int]]]:
        """Return, along each dimension of each tensor, the positions at which a tile's region begins or ends."""
        cuts: dict[str, list[set[int]]] = {}
        for operator, sizes in zip(self.operators, choice, strict=True):
            found = self.axes_of(operator)
            if sizes is None or found is None:
                continue
            for tile in tiles_of(found.axes, sizes):
                for operand in (*found.reads, *found.writes):
                    lines = cuts.setdefault(operand.name, [set() for _ in operand.dimensions])
                    for at, one in enumerate(operand.dimensions):
                        if one.axis is not None:
                            lines[at] |= set(one.taken(tile[one.axis], found.axes[one.axis]))
        return cuts

    def _fits(self, operator: Facts, sizes: Shape | None, cuts: dict[str, list[set[int]]]) -> bool:
        found = self.axes_of(operator)
        if sizes is None or found is None:
            names = dict.fromkeys((*operator["inputs"], *operator.get("parameters", []), *operator["outputs"]))
            bands = {
                (name, band): self._item(name, name in operator["outputs"], band)
                for name in names
                if self.counts(name)
                for band in self._bands(name, cuts, None)
            }
            return fit_together(list(bands.values()), self.scratchpads)
        return any(
            all(fit_together(items, self.scratchpads) for items in self._tiles(found, run, cuts))
            for run in runs(found.axes, sizes)
        )

    def _tiles(self, found: Separable, run: Sequence[Tile], cuts: dict[str, list[set[int]]]) -> Iterator[list[Item]]:
        """Yield the operands of each tile.

        The first tile of a sum reads all, later ones the reduced operands and the sum.
        """
        is_cut = found.is_summed and any(tile[-1] != (0, found.axes[-1]) for tile in run)
        keys = [tile[:-1] if is_cut else tile for tile in run]
        for at, tile in enumerate(run):
            is_first, is_last = keys[at] not in keys[:at], keys[at] not in keys[at + 1 :]
            items = {}
            for operand in (*found.reads, *(found.writes if is_last else ())):
                depends = any(one.axis == len(found.axes) - 1 for one in operand.dimensions) or operand in found.writes
                box = operand.box(tile, found.axes)
                if box is not None and (is_first or depends or not is_cut):
                    for band in self._bands(operand.name, cuts, box):
                        items[operand.name, band] = self._item(operand.name, operand.kind == "output", band)
            whole = [found.writes[0].box(tile, found.axes)]
            for name, passes, is_output in (("read", not is_first, False), ("written", not is_last, True)):
                if passes and whole[0] is not None:
                    _, size = self._item(found.writes[0].name, True, whole[0])
                    items[name, whole[0]] = ("output" if is_output else "input", size)
            yield list(items.values())

    def _bands(self, name: str, cuts: dict[str, list[set[int]]], box: Box | None) -> Iterator[Box]:
        shape = self.tensors[name]["shape"]
        lines = [sorted({0, size} | own) for size, own in zip(shape, cuts.get(name, [set()] * len(shape)), strict=True)]
        for band in product(*(pairwise(each) for each in lines)):
            if box is None or all(a <= c and d <= b for (a, b), (c, d) in zip(box, band, strict=True)):
                yield band

    def _item(self, name: str, is_output: bool, band: Box) -> Item:
        tensor = self.tensors[name]
        kind = "output" if is_output else "weight" if tensor["role"] == "parameter" else "input"
        return kind, -(-prod(stop - start for start, stop in band) * tensor["bits"] // 8)


def runs(axes: Shape, sizes: Shape) -> Iterator[list[Tile]]:
    """Yield the tiles for every order of the cut axes; consecutive passes over an axis alternate direction."""
    pieces: list[list[Any]] = [
        [(start, min(start + step, size)) for start in range(0, size, step)]
        for size, step in zip(axes, sizes, strict=True)
    ]
    cut = [axis for axis, each in enumerate(pieces) if len(each) > 1]
    for order in permutations(cut):
        run: list[dict[int, Any]] = [{axis: each[0] for axis, each in enumerate(pieces) if len(each) == 1}]
        for axis in order:
            run = [
                {**outer, axis: piece}
                for turn, outer in enumerate(run)
                for piece in (pieces[axis], pieces[axis][::-1])[turn % 2]
            ]
        yield [tuple(tile[axis] for axis in range(len(axes))) for tile in run]
