"""What is known of choices: bounds of all, true costs of those that have been costed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from onchip.answer.options.fusion_objective import Criteria, value_of
from onchip.errors import InternalError
from onchip.scheduling.choice.ways import ensure_time
from onchip.search.budget.limits import Run

ChoiceT = TypeVar("ChoiceT", bound=Hashable)

SECONDS_OF_A_CLOSER_LOOK: Final = 0.012
"""At a stack in its tiles, with floors of its mappings, where work is counted."""


class ChoiceCosts(Protocol[ChoiceT]):
    """What says the costs of choices; all have equally many criteria."""

    def bound(self, choice: ChoiceT, /) -> Criteria | None:
        """At most the cost, in each criterion; cheap. None for a choice that cannot be."""

    def closer(self, choice: ChoiceT, /) -> Criteria | None:
        """A bound nearer the cost of a single choice, not as cheap; None for a choice that cannot be.

        Raises UnsureError where none is known.
        """

    def least(self, choices: Sequence[ChoiceT], /) -> Criteria:
        """At most the cost of each choice of an arc, by what bounds of others have shown so far; known at once."""

    def parts(self, choice: ChoiceT, /) -> Sequence[ChoiceT]:
        """What it stands for, if that is several choices, of each of which it has a bound: these are never costed."""

    def by_bound(self, choice: ChoiceT, /) -> Iterator[ChoiceT]:
        """Itself, or each single one that it stands for: that of least bound first, by the product of criteria."""

    def costs(self, choices: Sequence[ChoiceT], /) -> Sequence[Criteria | None]:
        """The true ones; None for a choice that cannot be. Raises CostingStoppedError where the run has to stop."""


class CostingStoppedError(Exception):
    """A cost has not been found in time."""


class UnsureError(Exception):
    """Nothing is known of a choice beyond its cheap bound."""


@dataclass(slots=True)
class Ledger(Generic[ChoiceT]):
    """Every choice is costed at most once."""

    costs: ChoiceCosts[ChoiceT]
    known: dict[ChoiceT, Criteria | None] = field(default_factory=dict)
    rough: Mapping[ChoiceT, Criteria | None] = field(default_factory=dict)
    """Costs by a quicker mapper, for estimates."""
    _bounds: dict[ChoiceT, Criteria | None] = field(default_factory=dict)
    _closer: dict[ChoiceT, Criteria] = field(default_factory=dict)
    _closer_by: dict[ChoiceT, int] = field(default_factory=dict)
    """How many had been costed when a closer bound was looked for."""
    _costed: int = 0

    def bound(self, choice: ChoiceT) -> Criteria | None:
        """Of its cost, the closest so far; None if it is known to be impossible."""
        return self._closer.get(choice) or self.cheap_bound(choice)

    def is_close(self, choice: ChoiceT) -> bool:
        """Whether its bound has been brought nearer its cost."""
        return choice in self._closer

    def bring_closer(self, choices: Sequence[ChoiceT], run: Run) -> bool:
        """Look for closer bounds of those that are not costed, unless nothing has been costed since that was done.

        Return whether any is known to be close, or closer, or impossible, now. Raises NoBoundError where the run has to
        stop.
        """
        is_any = False
        for choice in dict.fromkeys(choices):
            if choice not in self.known and self._closer_by.get(choice) != self._costed:
                ensure_time(run)
                run.spend(SECONDS_OF_A_CLOSER_LOOK)
                self._closer_by[choice] = self._costed
                is_any |= self._is_closer_now(choice)
        return is_any

    def _is_closer_now(self, choice: ChoiceT) -> bool:
        try:
            found = self.costs.closer(choice)
        except UnsureError:
            return False
        before, is_first = self.bound(choice), choice not in self._closer
        if found is None or before is None:
            self.known[choice] = None
            return True
        self._closer[choice] = tuple(map(max, found, before))
        return is_first or self._closer[choice] != before

    def cheap_bound(self, choice: ChoiceT) -> Criteria | None:
        """Of its cost, without looking closer; None if it is known to be impossible."""
        if choice not in self._bounds:
            self._bounds[choice] = self.costs.bound(choice)
        return self._bounds[choice]

    def at_least(self, choice: ChoiceT) -> Criteria | None:
        """Its cost, or else its bound; None if it cannot be."""
        return self.known[choice] if choice in self.known else self.bound(choice)

    def true(self, choice: ChoiceT) -> Criteria | None:
        """Its cost, if it is known and can be."""
        return self.known.get(choice)

    def values(self) -> dict[ChoiceT, tuple[int, bool]]:
        """Of every choice that has been looked at and can be: its value, or a bound of it, and whether it is costed."""
        found = {}
        for choice in self._bounds:
            criteria = self.at_least(choice)
            if criteria is not None:
                found[choice] = value_of(criteria), choice in self.known
        return found

    def learn(self, choices: Sequence[ChoiceT]) -> None:
        """Cost those that have not been, if there is time; raises InternalError for one cheaper than its bound."""
        unknown = [choice for choice in dict.fromkeys(choices) if choice not in self.known]
        try:
            costs = self.costs.costs(unknown)
        except CostingStoppedError:
            return
        for choice, cost in zip(unknown, costs, strict=True):
            bound = self.bound(choice)
            if cost is not None and (bound is None or any(map(int.__lt__, cost, bound))):
                raise InternalError(f"it costs {cost}, and its bound is {bound}", place=f"{choice}", expected="no less")
            self.known[choice] = cost
            self._costed += 1
