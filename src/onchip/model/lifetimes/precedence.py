"""Precedence of operators in every order, and the users of a tensor."""

from __future__ import annotations

from collections.abc import Iterator

from onchip.model.lifetimes.bit_masks import bits
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.lifetimes.sure_needs import surely_after, surely_before


class Precedence:
    """The precedence relation over all orders: by operator, the masks of operators before and after."""

    def __init__(self, indexed: IndexedProblem) -> None:
        self.before = surely_before(indexed)
        self.after = surely_after(indexed)

    def first_of(self, operators: int) -> Iterator[int]:
        """Yield the operators of a mask that have no certain predecessor in it."""
        return (one for one in bits(operators) if not self.before[one] & operators)

    def last_of(self, operators: int) -> Iterator[int]:
        """Yield the operators of a mask that have no certain successor in it."""
        return (one for one in bits(operators) if not self.after[one] & operators)


def uses_of(indexed: IndexedProblem, tensor: int) -> tuple[int, ...]:
    """Return the operators that write or read a tensor, the writer first."""
    writer, readers = indexed.producer[tensor], indexed.reader_lists[tensor]
    return readers if writer < 0 else (writer, *readers)
