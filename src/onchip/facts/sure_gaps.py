"""Which tensors are awaited while an operator runs, whatever the order: used before it, and read again after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from onchip.facts.bit_masks import bits, mask_of
from onchip.facts.indexed import IndexedProblem
from onchip.facts.sure_needs import surely_after, surely_before


@dataclass(frozen=True, slots=True)
class SureGap:
    """In every order all `operators` run after each of `befores`, which use the tensor, and before each of `afters`.

    All three are masks of operators. `befores` may write or read the tensor, `afters` read it, `operators` do neither;
    of each there is at least one.
    """

    tensor: int
    befores: int
    afters: int
    operators: int


class Precedence:
    """What runs before what in every order: masks of operators, by operator."""

    def __init__(self, indexed: IndexedProblem) -> None:
        self.before = surely_before(indexed)
        self.after = surely_after(indexed)

    def first_of(self, operators: int) -> Iterator[int]:
        """Yield those of a mask of operators that surely run before none of the others are known to have."""
        return (one for one in bits(operators) if not self.before[one] & operators)

    def last_of(self, operators: int) -> Iterator[int]:
        """Yield those of a mask of operators after which surely none of the others runs."""
        return (one for one in bits(operators) if not self.after[one] & operators)


def sure_gaps(indexed: IndexedProblem, precedence: Precedence) -> Iterator[SureGap]:
    """Yield the sure gaps of all tensors; an operator is in at most one of each tensor."""
    for tensor in range(len(indexed.tensors)):
        yield from _gaps_of(indexed, precedence, tensor)


def _gaps_of(indexed: IndexedProblem, precedence: Precedence, tensor: int) -> Iterator[SureGap]:
    readers, uses = indexed.reader_lists[tensor], uses_of(indexed, tensor)
    begun = awaited = 0
    for use in uses:
        begun |= precedence.after[use]
    for reader in readers:
        awaited |= precedence.before[reader]
    classes = [begun & awaited & ~mask_of(uses)]
    for use in uses:
        classes = _split(_split(classes, precedence.after[use]), precedence.before[use])
    for operators in classes:
        befores = mask_of(use for use in uses if not operators & ~precedence.after[use])
        afters = mask_of(reader for reader in readers if not operators & ~precedence.before[reader])
        yield SureGap(tensor, befores, afters, operators)


def uses_of(indexed: IndexedProblem, tensor: int) -> tuple[int, ...]:
    """Return the operators that write or read a tensor, the writer first."""
    writer, readers = indexed.producer[tensor], indexed.reader_lists[tensor]
    return readers if writer < 0 else (writer, *readers)


def _split(classes: Iterable[int], mask: int) -> list[int]:
    return [part for whole in classes for part in (whole & mask, whole & ~mask) if part]


def groups_of_uses(
    uses: Sequence[int], step_of: Sequence[int], precedence: Precedence, most_idle_steps: int
) -> list[int]:
    """Return the uses of a tensor in groups (masks), each of which runs after all of the one before in every order.

    Uses that follow one another within so many steps of an order are in one group.
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
