"""The table of known costs of choices: lower bounds for all, true costs for the costed ones."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from onchip.answer.options.fusion_objective import Criteria, value_of
from onchip.errors import InternalError
from onchip.scheduling.choice.ways import ensure_time
from onchip.search.budget.limits import Run

ChoiceT = TypeVar("ChoiceT", bound=Hashable)


class ChoiceCosts(Protocol[ChoiceT]):
    """The cost oracle of choices; all costs have equally many criteria."""

    def bound(self, choice: ChoiceT, /) -> Criteria | None:
        """Return a cheap lower bound in each criterion, or None for an infeasible choice."""

    def closer(self, choice: ChoiceT, /) -> Criteria | None:
        """Return a tighter, more expensive bound of a single choice; None for an infeasible choice.

        Raises UnsureError if no bound is known.
        """

    def least(self, choices: Sequence[ChoiceT], /) -> Criteria:
        """Return a lower bound over all choices of an arc, from bounds known so far; fast."""

    def parts(self, choice: ChoiceT, /) -> Sequence[ChoiceT]:
        """Return the parts of a group of choices, each with a bound; groups are never costed."""

    def by_bound(self, choice: ChoiceT, /) -> Iterator[ChoiceT]:
        """Yield the choice, or the single choices of a group, least bound first (by the product of criteria)."""

    def costs(self, choices: Sequence[ChoiceT], /) -> Sequence[Criteria | None]:
        """Return the true costs, None for an infeasible choice; raises CostingStoppedError if the run must stop."""


class CostingStoppedError(Exception):
    """The time ran out before a cost was found."""


class UnsureError(Exception):
    """The cheap bound is the only knowledge about a choice."""


@dataclass(slots=True)
class Ledger(Generic[ChoiceT]):
    """The ledger of bounds and costs; every choice is costed at most once."""

    costs: ChoiceCosts[ChoiceT]
    known: dict[ChoiceT, Criteria | None] = field(default_factory=dict)
    rough: Mapping[ChoiceT, Criteria | None] = field(default_factory=dict)
    """Costs by a quicker mapper, for estimates."""
    _bounds: dict[ChoiceT, Criteria | None] = field(default_factory=dict)
    _closer: dict[ChoiceT, Criteria] = field(default_factory=dict)
    _closer_by: dict[ChoiceT, int] = field(default_factory=dict)
    """Number of costed choices at the last attempt to tighten the bound."""
    _costed: int = 0

    def bound(self, choice: ChoiceT) -> Criteria | None:
        """Return the tightest bound so far, or None if the choice is infeasible."""
        return self._closer.get(choice) or self.cheap_bound(choice)

    def is_close(self, choice: ChoiceT) -> bool:
        """Return True if the choice has a tightened bound."""
        return choice in self._closer

    def bring_closer(self, choices: Sequence[ChoiceT], run: Run) -> bool:
        """Tighten the bounds of uncosted choices, unless nothing was costed since the last attempt.

        Returns True if a choice has its first tightened bound, a higher one, or is infeasible. Raises NoBoundError if
        the run must stop.
        """
        is_any = False
        for choice in dict.fromkeys(choices):
            if choice not in self.known and self._closer_by.get(choice) != self._costed:
                ensure_time(run)
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
        """Return the cheap bound, or None if the choice is infeasible."""
        if choice not in self._bounds:
            self._bounds[choice] = self.costs.bound(choice)
        return self._bounds[choice]

    def at_least(self, choice: ChoiceT) -> Criteria | None:
        """Return the cost if known, else the bound; None if the choice is infeasible."""
        return self.known[choice] if choice in self.known else self.bound(choice)

    def true(self, choice: ChoiceT) -> Criteria | None:
        """Return the cost if it is known and the choice is feasible."""
        return self.known.get(choice)

    def values(self) -> dict[ChoiceT, tuple[int, bool]]:
        """Return for every examined feasible choice its value or a bound, and True if it is costed."""
        found = {}
        for choice in self._bounds:
            criteria = self.at_least(choice)
            if criteria is not None:
                found[choice] = value_of(criteria), choice in self.known
        return found

    def learn(self, choices: Sequence[ChoiceT]) -> None:
        """Cost the uncosted choices, if there is time; raises InternalError for a cost below its bound."""
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
