"""Mandatory idle intervals: tensors that wait while an operator runs, in every order, for a later reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from onchip.bounds.retention.descent import Descent, no_descent
from onchip.model.lifetimes.indexed import IndexedProblem, bits, mask_of
from onchip.model.lifetimes.precedence import Precedence, uses_of


@dataclass(frozen=True, slots=True)
class SureGap:
    """An interval of operators (a mask) during which, in every order, a tensor of a *line* (`tensors`) waits.

    The first of the tensors has readers `afters` (a mask) that surely run later; it is made from the second, and so on
    (bounds/retention/descent.py). None of the `operators` uses any of them. Of all uses of the family, `befores` (a
    mask) surely run earlier, or are the only operator; at least one of the earlier ones uses the line.
    """

    tensors: tuple[int, ...]
    befores: int
    afters: int
    operators: int

    @property
    def family(self) -> int:
        """Return the tensor that identifies the family."""
        return self.tensors[-1]


def sure_gaps(indexed: IndexedProblem, precedence: Precedence, descent: Descent | None = None) -> Iterator[SureGap]:
    """Yield the sure gaps of all lines, or of all tensors without a descent.

    An operator is in at most one gap of each line.
    """
    known = no_descent(indexed) if descent is None else descent
    for family in known.families:
        uses = sorted({use for tensor in family for use in uses_of(indexed, tensor)})
        for tensor in family:
            yield from _gaps_of(indexed, precedence, known.line(tensor), uses)


def _gaps_of(
    indexed: IndexedProblem, precedence: Precedence, line: tuple[int, ...], uses_of_family: Sequence[int]
) -> Iterator[SureGap]:
    readers, own = indexed.reader_lists[line[0]], mask_of(use for tensor in line for use in uses_of(indexed, tensor))
    begun = awaited = 0
    for use in bits(own):
        begun |= precedence.after[use]
    for reader in readers:
        awaited |= precedence.before[reader]
    classes, no_later = [begun & awaited & ~own], {use: precedence.after[use] | 1 << use for use in uses_of_family}
    for use in uses_of_family:
        classes = _split(_split(classes, no_later[use]), precedence.before[use])
    for operators in classes:
        befores = mask_of(use for use in uses_of_family if not operators & ~no_later[use])
        afters = mask_of(reader for reader in readers if not operators & ~precedence.before[reader])
        yield SureGap(line, befores, afters, operators)


def _split(classes: Iterable[int], mask: int) -> list[int]:
    return [part for whole in classes for part in (whole & mask, whole & ~mask) if part]


def groups_of_uses(
    uses: Sequence[int], step_of: Sequence[int], precedence: Precedence, most_idle_steps: int
) -> list[int]:
    """Return the uses of a tensor in groups (masks), each surely running after all uses of the group before.

    Consecutive uses at most `most_idle_steps` apart in the given order are in one group.
    """
    groups: list[int] = []
    last_step = -1
    for use in sorted(uses, key=lambda one: step_of[one]):
        if groups and step_of[use] - last_step <= most_idle_steps:
            groups[-1] |= 1 << use
        else:
            groups.append(1 << use)
        last_step = step_of[use]
        while len(groups) > 1 and not _is_after(groups[-1], groups[-2], precedence):
            last = groups.pop()
            groups[-1] |= last
    return groups


def _is_after(group: int, earlier: int, precedence: Precedence) -> bool:
    return all(precedence.before[use] & earlier == earlier for use in bits(group))
