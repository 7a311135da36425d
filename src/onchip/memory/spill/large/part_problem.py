"""A part of a network as a problem of its own: some operators, and of the others what they do to the same tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from onchip.memory.decisions.compose import SearchMove, schedule_of_moves
from onchip.memory.spill.best_first.search import TwoParts
from onchip.model.lifetimes.bit_masks import bits, mask_of
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.lifetimes.precedence import Precedence

WHOLE: Final = 1 << 20
"""Shares of a cost are counted in so many parts of it."""


@dataclass(frozen=True, slots=True, eq=False)
class UseGroup:
    """Uses of a tensor (a mask of operators) between the first and last of which its loads are charged.

    All other uses of the tensor are before or after all of these, in every order. `stores` says that storing it is
    charged here, too.
    """

    tensor: int
    uses: int
    stores: bool


@dataclass(frozen=True, slots=True)
class PartProblem:
    """Operators of a part, and others where they use tensors of which the part is charged a share.

    What those others use beside is left out. Each of the `groups` is a tensor of its own in the problem, by its place.
    """

    problem: IndexedProblem
    groups: tuple[UseGroup, ...]

    @classmethod
    def of(
        cls, indexed: IndexedProblem, precedence: Precedence, operators: Sequence[int], shares: Mapping[UseGroup, int]
    ) -> PartProblem:
        """State a part by its operators and its share, in parts of `WHOLE`, of each group that they have a use of.

        Of what it has no share of it knows its own uses only, which then cost nothing.
        """
        own = mask_of(operators)
        known = {group: group.uses if share else group.uses & own for group, share in shares.items()}
        everyone = own
        for uses in known.values():
            everyone |= uses
        at = {operator: place for place, operator in enumerate(bits(everyone))}
        reads, writes = [list[int]() for _ in at], [list[int]() for _ in at]
        producer = [-1] * len(known)
        for number, (group, uses) in enumerate(known.items()):
            for use in bits(uses):
                if use == indexed.producer[group.tensor]:
                    writes[at[use]].append(number)
                    producer[number] = at[use]
                else:
                    reads[at[use]].append(number)
        befores = (sorted(map(at.__getitem__, precedence.last_of(precedence.before[o] & everyone))) for o in at)
        problem = replace(
            _costs(indexed, shares, producer),
            read_lists=tuple(map(tuple, reads)),
            write_lists=tuple(map(tuple, writes)),
            predecessor_lists=tuple(map(tuple, befores)),
            producer=tuple(producer),
        )
        return cls(problem, tuple(known))

    def divided(self, indexed: IndexedProblem, first: Mapping[UseGroup, int], least: tuple[int, int]) -> TwoParts:
        """Say what a first part with such shares pays, of which and of the rest it is known what they cost at least."""
        costs = [_costs_of(indexed, group, first.get(group, 0)) for group in self.groups]
        return TwoParts(tuple(load for load, _ in costs), tuple(store for _, store in costs), *least)

    def paid(self, indexed: IndexedProblem, moves: Sequence[SearchMove]) -> dict[UseGroup, int]:
        """Return what moves of the part pay for each group that costs something, were its share the whole."""
        residencies = [0] * len(self.groups)
        for one in schedule_of_moves(self.problem, moves).residencies:
            residencies[one.tensor] += 1
        paid: dict[UseGroup, int] = {}
        for number, (group, count) in enumerate(zip(self.groups, residencies, strict=True)):
            if count > 1:
                is_stored = group.stores and not self.problem.backed >> number & 1
                store_cost = indexed.store_costs[group.tensor] if is_stored else 0
                paid[group] = indexed.load_costs[group.tensor] * (count - 1) + store_cost
        return paid


def _costs(indexed: IndexedProblem, shares: Mapping[UseGroup, int], producer: Sequence[int]) -> IndexedProblem:
    """Return the problem with each group as a tensor; storing it costs nothing where it is not charged."""
    groups = list(shares)
    costs = [_costs_of(indexed, group, share) for group, share in shares.items()]
    return replace(
        indexed,
        tensors=tuple(indexed.tensors[group.tensor] for group in groups),
        sizes_bytes=tuple(indexed.sizes_bytes[group.tensor] for group in groups),
        load_costs=tuple(load for load, _ in costs),
        store_costs=tuple(store for _, store in costs),
        backed=mask_of(
            number for number, group in enumerate(groups) if indexed.backed >> group.tensor & 1 or producer[number] < 0
        ),
    )


def _costs_of(indexed: IndexedProblem, group: UseGroup, share: int) -> tuple[int, int]:
    """Return what loading and storing cost of a share; storing costs nothing where it is not charged."""
    store_cost = indexed.store_costs[group.tensor] if group.stores else 0
    return indexed.load_costs[group.tensor] * share // WHOLE, store_cost * share // WHOLE
