"""Search for a combination of splits, one per operator, in which every tile fits given all operators' cuts.

docs/tiling.md lists the combinations and the order in which they are tried.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from onchip.answer.problem import Problem
from onchip.ir.operator import Operator
from onchip.model.capacity.bounds import packed_bytes
from onchip.model.capacity.room import Item, SplitRoom, items_of
from onchip.ops.slicing import Geometry, TileAxis
from onchip.scheduling.candidates.choice import Chooser
from onchip.transform.slices.emission import operands_of_tiles
from onchip.transform.slices.tile_choice import TileChoice, cut

Option = tuple[TileChoice | None, ...]
"""Splits with equal cuts and different orders of tiles; (None,) leaves the operator whole."""
WHOLE: Option = (None,)
_Lines = tuple[frozenset[int], ...]
_MOST_OPTIONS = 4096
_MOST_WORK = 200_000


class OutOfWorkError(Exception):
    """The search has exhausted its work limit, a count that makes every run end alike."""


@dataclass
class CombinationSearch:
    """A backtracking search over the operators near a misfit, then their neighbours, and finally all connected ones.

    `chosen` has the initial option of each operator. Operators that fit stay whole if `leaves_whole`. `is_complete` is
    True while no option of any operator has been omitted.
    """

    problem: Problem
    geometries: Mapping[str, Geometry | None]
    chooser: Chooser
    chosen: dict[str, Option]
    leaves_whole: bool
    is_complete: bool = True
    _work_left: int = field(default_factory=lambda: _MOST_WORK)
    _options: dict[str, Sequence[Option]] = field(default_factory=dict)
    _known: dict[tuple[object, ...], Option] = field(default_factory=dict)
    _lines: dict[tuple[str, tuple[int, ...]], Mapping[str, _Lines]] = field(default_factory=dict)

    def find(self, misfits: Collection[str]) -> dict[str, TileChoice] | None:
        """Return the splits of a combination in which every tile fits, or None if there is none.

        `misfits` are the operators that do not fit in the initial combination. Raises OutOfWorkError.
        """
        if not all(map(self.may_fit_alone, misfits)):
            return None
        region = self._and_neighbours(misfits)
        while not self._place(self._in_turn(region)):
            wider = self._and_neighbours(region)
            if wider == region:
                return None
            region = wider
        return {
            operator.name: split
            for operator in self.problem.graph.operators
            for split in self._taken(operator)
            if split is not None
        }

    def _taken(self, operator: Operator) -> Option:
        chosen = self.chosen[operator.name]
        return chosen if len(chosen) == 1 else self._fitting(operator)

    # The region

    @cached_property
    def _touching(self) -> Mapping[str, Sequence[Operator]]:
        """Return the operators that read or write each tensor."""
        touching: dict[str, list[Operator]] = {}
        for operator in self.problem.graph.operators:
            for tensor in self.problem.operands(operator):
                touching.setdefault(tensor.name, []).append(operator)
        return touching

    def _neighbours(self, name: str) -> Iterator[Operator]:
        """Yield the operators that share a tensor with an operator, itself first."""
        operator = self.problem.graph.operator[name]
        yield operator
        found = {name}
        for tensor in self.problem.operands(operator):
            for other in self._touching[tensor.name]:
                if other.name not in found:
                    found.add(other.name)
                    yield other

    def _and_neighbours(self, names: Collection[str]) -> frozenset[str]:
        return frozenset(other.name for name in names for other in self._neighbours(name))

    def _in_turn(self, region: Collection[str]) -> list[str]:
        """Return the region's operators, those without a choice first, so that the others respect their cuts."""
        names = [operator.name for operator in self.problem.graph.operators if operator.name in region]
        return sorted(names, key=lambda name: len(self._options_of(name)) > 1)

    # The options

    def _options_of(self, name: str) -> Sequence[Option]:
        """Return the options of an operator; whole is first if it fits, else last if others' cuts may make it fit."""
        if name not in self._options:
            self._options[name] = self._made_options(name)
        return self._options[name]

    def _made_options(self, name: str) -> Sequence[Option]:
        fits = self._room.holds(items_of(self.problem, self.problem.graph.operator[name]))
        geometry = self.geometries[name]
        if geometry is None or (fits and self.leaves_whole):
            return (WHOLE,)
        splits, are_all = self.chooser.variants_of_splits(geometry, self._room, _MOST_OPTIONS)
        self.is_complete &= are_all
        return (WHOLE, *splits) if fits else splits if self._is_monotone else (*splits, WHOLE)

    @cached_property
    def _room(self) -> SplitRoom:
        return SplitRoom.of(self.problem.memories)

    @property
    def _is_monotone(self) -> bool:
        """Return True if a further cut never makes operands fit, that is, with a single scratchpad."""
        return len(self.problem.memories) == 1

    # The search

    def _place(self, names: Sequence[str]) -> bool:
        """Choose an option for each operator; restore the earlier choices if that fails."""
        before = {name: self.chosen.pop(name) for name in names}
        if self._place_from(0, names):
            return True
        self.chosen |= before
        return False

    def _place_from(self, index: int, names: Sequence[str]) -> bool:
        if index == len(names):
            return True
        name = names[index]
        for option in self._options_of(name):
            self.chosen[name] = option
            if self._all_fit_around(name) and self._place_from(index + 1, names):
                return True
        del self.chosen[name]
        return False

    def _all_fit_around(self, name: str) -> bool:
        """Return True if the operator and its neighbours may still fit; undetermined operators are skipped."""
        return all(
            self._fitting(other) != ()
            for other in self._neighbours(name)
            if other.name in self.chosen and (self._is_monotone or self._is_settled(other.name))
        )

    def _is_settled(self, name: str) -> bool:
        """Return True if every operator that cuts this operator's operands has a choice."""
        return all(other.name in self.chosen for other in self._neighbours(name))

    def _fitting(self, operator: Operator) -> Option:
        """Return the first of the chosen splits that fits with the cuts chosen so far; () if none does."""
        cuts = {tensor.name: self._cuts_of(tensor.name) for tensor in self.problem.operands(operator)}
        option = self.chosen[operator.name]
        key = (operator.name, _sizes(option), *cuts.values())
        if key not in self._known:
            fitting = (split for split in option if self._fits(operator, split, cuts))
            self._known[key] = next(((split,) for split in fitting), ())
        return self._known[key]

    def _fits(self, operator: Operator, split: TileChoice | None, cuts: Mapping[str, _Lines]) -> bool:
        return all(self._room.holds(items) for items in self._tiles(operator, split, cuts))

    def _tiles(self, operator: Operator, split: TileChoice | None, cuts: Mapping[str, _Lines]) -> Iterator[list[Item]]:
        if split is not None and prod(map(_tiles_along, split.geometry.axes, split.sizes)) > self._work_left:
            raise OutOfWorkError  # stop before listing all tiles
        uncounted = {name: self._uncut(name) for name in operator.parameters if name not in cuts}
        for items in operands_of_tiles(self.problem, operator, split, {**uncounted, **cuts}):
            self._work_left -= len(items)
            if self._work_left < 0:
                raise OutOfWorkError
            yield items

    # Why nothing fits

    def may_fit_alone(self, name: str) -> bool:
        """Return True if an option may fit without cuts by other operators, or if that is unknown."""
        if not self._is_monotone:
            return True
        before, self.chosen = self.chosen, {}
        try:
            return any(self._fits_as(name, option) for option in self._options_of(name))
        except OutOfWorkError:
            return True
        finally:
            self.chosen = before

    def _fits_as(self, name: str, option: Option) -> bool:
        self.chosen[name] = option
        return self._fitting(self.problem.graph.operator[name]) != ()

    def need_in_bands(self, name: str) -> int | None:
        """Return the bytes of the operator's largest tile in the chosen option; None above the work limit."""
        try:
            return self._need(name, self.chosen[name])
        except OutOfWorkError:
            return None

    def _need(self, name: str, option: Option) -> int:
        operator, alignment_bytes = self.problem.graph.operator[name], self.problem.memories[0].alignment_bytes
        self.chosen[name] = option
        cuts = {tensor.name: self._cuts_of(tensor.name) for tensor in self.problem.operands(operator)}
        return min(
            max(packed_bytes((size for _, size in items), alignment_bytes) for items in tiles)
            for tiles in (self._tiles(operator, split, cuts) for split in option)
        )

    def _cuts_of(self, tensor: str) -> _Lines:
        """Return the tensor's cuts along each dimension by the options chosen so far."""
        chosen = [
            self._lines_of(other.name).get(tensor) for other in self._touching[tensor] if other.name in self.chosen
        ]
        lines = [each for each in chosen if each is not None]
        return tuple(frozenset().union(*each) for each in zip(self._uncut(tensor), *lines, strict=True))

    def _lines_of(self, name: str) -> Mapping[str, _Lines]:
        """Return the cuts of an operator's operands by its chosen option."""
        split = self.chosen[name][0]
        if split is None:
            return {}
        key = (name, split.sizes)
        if key not in self._lines:
            accesses = (*split.geometry.reads, *split.geometry.writes)
            made = {access.tensor: [set[int]() for _ in access.spans] for access in accesses}
            cut(made, split)
            self._lines[key] = {tensor: tuple(frozenset(lines) for lines in each) for tensor, each in made.items()}
        return self._lines[key]

    def _uncut(self, tensor: str) -> _Lines:
        return tuple(frozenset[int]() for _ in self.problem.graph.tensor[tensor].shape or ())


def _tiles_along(axis: TileAxis, size: int) -> int:
    return -(-axis.size // size)


def _sizes(option: Option) -> tuple[int, ...] | None:
    """Return the key that distinguishes an operator's options."""
    return None if option[0] is None else option[0].sizes
