"""A problem without spills as the compiled search takes it: whole, or some of its operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import PeakOperator, PeakSearch, peak_needs


@dataclass(frozen=True, slots=True)
class PeakProgram:
    """Operators with their tensors, by numbers of their own."""

    operators: tuple[PeakOperator, ...]
    sizes_bytes: tuple[int, ...]
    alignment_bytes: int

    @classmethod
    def of(cls, indexed: IndexedProblem) -> PeakProgram:
        """State all operators, as they are numbered."""
        return cls.part(indexed, range(indexed.operator_count))

    @classmethod
    def part(cls, indexed: IndexedProblem, numbers: Sequence[int]) -> PeakProgram:
        """State operators that follow one another in some order; number k is that of `numbers[k]`.

        A tensor is known of from its first use among them to its last, so no order of the whole needs less than the
        best one of the part: what of a whole order is in the part is an order of it, of which no step needs more.
        """
        place = places_of(indexed, numbers)
        sizes_bytes = tuple(indexed.sizes_bytes[tensor] for tensor in place)
        return cls(tuple(operators_of(indexed, numbers, place, 0)), sizes_bytes, indexed.room.alignment_bytes)

    def search(self, least_bytes: int, most_bytes: int, most_memory_bytes: int) -> PeakSearch:
        """Return a search for an order between these peaks."""
        return PeakSearch(
            self.sizes_bytes,
            self.operators,
            alignment_bytes=self.alignment_bytes,
            least_bytes=least_bytes,
            most_bytes=most_bytes,
            most_memory_bytes=most_memory_bytes,
        )

    def needs_bytes(self, order: Sequence[int]) -> list[int]:
        """Return what each step of an order needs; raises ValueError for what is no order."""
        return peak_needs(self.sizes_bytes, self.operators, self.alignment_bytes, order)


def places_of(indexed: IndexedProblem, numbers: Sequence[int]) -> dict[int, int]:
    """Return the tensors that operators use, ascending, with numbers of their own."""
    tensors = sorted({tensor for number in numbers for tensor in indexed.operand_lists[number]})
    return {tensor: at for at, tensor in enumerate(tensors)}


def operators_of(
    indexed: IndexedProblem, numbers: Sequence[int], place: Mapping[int, int], behind: int
) -> list[PeakOperator]:
    """State operators behind so many others, all of which run before."""
    at = {number: index + behind for index, number in enumerate(numbers)}
    return [
        PeakOperator(
            reads=[place[tensor] for tensor in indexed.read_lists[number]],
            writes=[place[tensor] for tensor in indexed.write_lists[number]],
            predecessors=[*range(behind), *sorted(at[one] for one in indexed.predecessor_lists[number] if one in at)],
            overwritables=[
                (place[one.tensor], one.group, [place[tensor] for tensor in one.inside])
                for one in indexed.overwritable_lists[number]
            ],
        )
        for number in numbers
    ]
