"""Arrangements of spatial and temporal loop parts: each is listed, and the bounds over all hold for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from random import Random

import pytest

from onchip.bounds.layer.arrangements import arrangements_of, blocks_of_parts, inputs_of_turns
from onchip.ir.layer import Axis
from support.lines import Line, lines_of


@dataclass(frozen=True)
class _Case:
    """A line, with the spatial loops that an instance serves."""

    line: Line
    served: frozenset[int]
    any_is_idle: bool

    @property
    def in_time(self) -> list[int]:
        return [at for at, (_, is_beside) in enumerate(self.line.loops) if not is_beside]

    @property
    def apart(self) -> list[int]:
        return [at for at, (_, is_beside) in enumerate(self.line.loops) if is_beside and at not in self.served]

    @property
    def beside(self) -> tuple[tuple[int, bool], ...]:
        sizes = ((prod(self.line.loops[at][0] for at in own), own is self.served) for own in (self.served, self.apart))
        return tuple((size, is_served) for size, is_served in sizes if size > 1)

    @property
    def turns(self) -> list[int]:
        return sorted(self.line.sums(self.in_time))

    def instances(self, begins: list[int]) -> Iterator[list[int]]:
        """Yield the indices of each instance in a part of turns; `begins` are the indices of the first units."""
        whole = Line(1 << 30, self.line.loops)
        for apart in whole.sums(self.apart):
            each = (begin + apart + own for begin in begins for own in whole.sums(sorted(self.served)))
            yield sorted(one for one in each if one < self.line.bound)


def _cases(seed: int) -> Iterator[_Case]:
    random = Random(seed)
    for line in lines_of(seed):
        beside = [at for at, (_, is_beside) in enumerate(line.loops) if is_beside]
        if not beside:
            continue
        served = frozenset(at for at in beside if random.random() < 0.6)
        in_time = [at for at in range(len(line.loops)) if at not in beside]
        units = prod(line.loops[at][0] for at in beside)
        within = [[at for at in in_time if at < end] for end in range(len(line.loops) + 1)]
        met = [(len(line.sums(own)), len(line.sums(own + beside))) for own in within]
        yield _Case(line, served, any(reached not in (line.bound, inside * units) for inside, reached in met))


def _axis(random: Random, outputs: int, taps: int) -> Axis:
    stride, dilation, padding = random.randint(1, 3), random.randint(1, 2), random.randint(0, 2)
    size = (outputs - 1) * stride + (taps - 1) * dilation + 1 - padding - random.randint(0, 2)
    return Axis("P", "R", stride, dilation, padding, max(size, 1))


@pytest.mark.parametrize("seed", range(4))
def test_each_arrangement_is_among_those_of_its_turns(seed: int) -> None:
    idle = several = 0
    for case in _cases(seed):
        turns = case.turns
        found = arrangements_of(case.line.bound, len(turns), case.beside, any_is_idle=case.any_is_idle)
        if found is None:
            continue
        own = [list(case.instances([turn])) for turn in turns]
        listed = [
            [[sorted(index for index in part if index < one.bound) for part in turn] for turn in one.indices.tolist()]
            for one in found
        ]
        assert [sorted(turn) for turn in own] in [[sorted(turn) for turn in one] for one in listed], case.line
        idle, several = idle + case.any_is_idle, several + (len(found) > 1)
    assert idle > 3
    assert several > 20


@pytest.mark.parametrize("seed", range(4))
def test_parts_of_any_arrangement_reach_as_far_as_is_said(seed: int) -> None:
    """Compares the parts of instances by descending length; the inputs of turns match some arrangement."""
    random, seen, tight = Random(seed), 0, 0
    for case in _cases(seed):
        bound, turns, taps = case.line.bound, case.turns, random.randint(1, 4)
        axis, wide = _axis(random, bound, taps), random.randint(1, taps)
        groups = inputs_of_turns(axis, bound, taps, len(turns), case.beside, any_is_idle=case.any_is_idle)
        if groups is not None:
            own = [0] * groups.shape[1]
            for turn, tap in product(turns, range(taps)):
                for part in case.instances([turn]):
                    own[sum(0 <= _position(axis, one, tap) < axis.size for one in part)] += 1
            assert own in groups.tolist(), case.line
        for end in range(len(case.line.loops) + 1):
            within = len(case.line.sums([at for at in case.in_time if at < end]))
            said = blocks_of_parts(
                axis, bound, taps, len(turns), case.beside, (within, wide), any_is_idle=case.any_is_idle
            )
            if said is None:
                continue
            parts = [turns[start : start + within] for start in range(0, len(turns), within)]
            tap_parts = [range(start, min(start + wide, taps)) for start in range(0, taps, wide)]
            lengths = sorted(
                (_reach(axis, own, some) for part, some in product(parts, tap_parts) for own in case.instances(part)),
                reverse=True,
            )
            assert len(said) == len(lengths)
            assert all(one <= other for one, other in zip(said, lengths, strict=True)), case.line
            seen, tight = seen + 1, tight + (list(said) == lengths)
    assert seen > 50
    assert tight > 20


def _position(axis: Axis, output: int, tap: int) -> int:
    return output * axis.stride + tap * axis.dilation - axis.padding


def _reach(axis: Axis, outputs: list[int], taps: range) -> int:
    """Return the number of stored positions from the first to the last."""
    if not outputs:
        return 0
    last = min(_position(axis, outputs[-1], taps[-1]) + 1, axis.size)
    return max(last - max(_position(axis, outputs[0], taps[0]), 0), 0)
