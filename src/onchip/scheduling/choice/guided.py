"""A good way early: by estimates of what choices cost, above their bounds by as much as others turned out to be.

The cheapest way by estimates is found and costed, and so on until it has nothing left that is only estimated. Then
estimates are lowered, step by step down to the bounds: from there on `search` goes on and proves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from onchip.answer.options.fusion_objective import Criteria
from onchip.scheduling.choice.ways import (
    SECONDS_OF_A_LOOK,
    Arc,
    NoBoundError,
    PathToPlace,
    cheapest_way,
    ensure_time,
    front_of,
)
from onchip.scheduling.fronts.cost_table import Ledger
from onchip.search.budget.limits import Run

ChoiceT = TypeVar("ChoiceT", bound=Hashable)

SHARES: Final = (1.0, 0.95, 0.9, 0.85)
"""Of the estimates, one after the other: below 1 for ways that estimates are too high for."""
FIRST_RATIO: Final = 1.3
"""Of cost to bound where nothing is known; what is taken for too low is costed, and then known."""
SECONDS_OF_AN_ESTIMATE: Final = 1e-5
"""Of a choice on an arc, where work is counted."""
CLOSE: Final = "close"
"""The kind of all choices of which the bound has been brought closer."""
MOST_ROUNDS: Final = 8
"""So often in succession bounds are brought closer before a way is costed: others are mostly estimated lower then."""
NEWS: Final = 0.125
"""Ratios change when so large a part of all costs is new."""


@dataclass(slots=True)
class Estimates(Generic[ChoiceT]):
    """Of a choice: its cost, or its bound times what choices of its kind cost more than theirs."""

    ledger: Ledger[ChoiceT]
    kind_of: Callable[[ChoiceT], Hashable]
    share: float = 1.0
    _ratios: dict[Hashable, tuple[float, ...]] = field(default_factory=dict)

    def learn(self) -> None:
        """Estimate anew, by all costs that are known by now; closer bounds are a kind of their own."""
        sums: dict[Hashable, list[list[int]]] = {}
        for choice, cost in self.ledger.known.items():
            kinds: list[tuple[Criteria | None, tuple[Hashable, ...]]] = [
                (self.ledger.cheap_bound(choice), (self.kind_of(choice), None))
            ]
            if self.ledger.is_close(choice):
                kinds.append((self.ledger.bound(choice), (CLOSE,)))
            for bound, own_kinds in kinds:
                if cost is not None and bound is not None:
                    for kind in own_kinds:
                        own = sums.setdefault(kind, [[1, 1] for _ in cost])
                        for both, more, less in zip(own, cost, bound, strict=True):
                            both[0] += more
                            both[1] += less
        self._ratios = {kind: tuple(more / less for more, less in own) for kind, own in sums.items()}

    def of(self, choice: ChoiceT) -> Criteria | None:
        """None if it cannot be."""
        bound = self.ledger.at_least(choice)
        if bound is None or choice in self.ledger.known:
            return bound
        rough = self.ledger.rough.get(choice)
        if rough is not None:
            return tuple(max(part, int(own * self.share)) for part, own in zip(bound, rough, strict=True))
        kind = CLOSE if self.ledger.is_close(choice) else self.kind_of(choice)
        ratios = self._ratios.get(kind) or self._ratios.get(None) or (FIRST_RATIO,) * len(bound)
        return tuple(max(part, int(part * ratio * self.share)) for part, ratio in zip(bound, ratios, strict=True))


@dataclass(slots=True)
class _Waiting(Generic[ChoiceT]):
    """What one choice stands for and is not costed, the least bound first."""

    first: ChoiceT | None
    others: Iterator[ChoiceT]


@dataclass(slots=True)
class GuidedSearch(Generic[ChoiceT]):
    """Ways from place 0 to `last`, which begin with the cost `begun`.

    So many choices are costed at a time (`ahead`), where there are as many. Of those for which one stands only the one
    of least bound that is not costed is looked at.
    """

    arcs: Sequence[Arc[ChoiceT]]
    last: int
    begun: Criteria
    estimates: Estimates[ChoiceT]
    ahead: int = 1
    best: PathToPlace[ChoiceT] | None = None
    shares: Sequence[float] = SHARES
    _fronts: list[tuple[PathToPlace[ChoiceT], ...]] = field(init=False)
    _known: list[tuple[PathToPlace[ChoiceT], ...]] = field(init=False)
    """By arc the front of the choices that are costed."""
    _leading: list[tuple[ChoiceT, ...]] = field(init=False)
    _waiting: list[list[_Waiting[ChoiceT]]] = field(init=False)
    _seen: list[list[ChoiceT]] = field(init=False)
    _arcs_of: dict[ChoiceT, set[int]] = field(default_factory=dict)

    def improve(self, run: Run, phase: str) -> PathToPlace[ChoiceT] | None:
        """The best way that is costed, of those given as `best` and those that are looked at."""
        self._fronts = [() for _ in self.arcs]
        self._known = [() for _ in self.arcs]
        self._leading = [() for _ in self.arcs]
        self._waiting = [[] for _ in self.arcs]
        self._seen = [[] for _ in self.arcs]
        with suppress(NoBoundError):  # what is found until then is an answer
            for at, arc in enumerate(self.arcs):
                ensure_time(run)
                in_order = (self.estimates.ledger.costs.by_bound(choice) for choice in arc.choices)
                self._waiting[at] = [_Waiting(next(one, None), one) for one in in_order]
                self._lead(at)
            for share in self.shares:
                self.estimates.share = share
                self._descend(run, phase)
        return self.best

    def _descend(self, run: Run, phase: str) -> None:
        """Until no way is cheaper by estimates than the best, or the run has to stop."""
        self._look_at(None, run)
        costed = rounds = 0
        while run.stop is None:
            run.report(self.best.value if self.best else None, 0, phase)
            at_most = self.best.value if self.best else None
            way = cheapest_way(self.arcs, self._fronts, self.last, self.begun, at_most, run)
            known = self.estimates.ledger.known
            unknown = [choice for choice in way.choices if choice not in known] if way else []
            if way is None or not unknown:
                self._take_best_of_known()
                return
            if rounds < MOST_ROUNDS and self.estimates.ledger.bring_closer(unknown, run):
                rounds += 1
                self._look_again(unknown, run)
                continue
            rounds = 0
            for at in range(0, len(unknown), self.ahead):
                self.estimates.ledger.learn(unknown[at : at + self.ahead])
            costed += len(unknown)
            concerned = self._led_on(unknown)
            if costed >= NEWS * len(known):
                costed = 0
                self._look_at(None, run)
            else:
                self._look_at(concerned, run)
            self._take_best_of_known()

    def _led_on(self, choices: Sequence[ChoiceT]) -> set[int]:
        """Return the arcs of choices of which more is known, others of which lead now."""
        concerned = {at for choice in choices for at in self._arcs_of[choice]}
        for at in concerned:
            self._lead(at)
        return concerned

    def _look_again(self, choices: Sequence[ChoiceT], run: Run) -> None:
        self._look_at(self._led_on(choices), run)

    def _take_best_of_known(self) -> None:
        """Take the cheapest way over choices that are costed, whichever ways they were costed for."""
        at_most = self.best.value if self.best else None
        found = cheapest_way(self.arcs, self._known, self.last, self.begun, at_most)
        if found is not None and (self.best is None or found.value < self.best.value):
            self.best = found

    def _look_at(self, some: Iterable[int] | None, run: Run) -> None:
        """At these arcs or, with ratios as they are now, at all, as long as the run does not have to stop."""
        if some is None:
            self.estimates.learn()
        for at in range(len(self.arcs)) if some is None else some:
            if run.stop is not None:
                return
            run.spend(SECONDS_OF_A_LOOK + SECONDS_OF_AN_ESTIMATE * len(self._leading[at]))
            self._fronts[at] = front_of(self._leading[at], self.estimates.of)

    def _lead(self, at: int) -> None:
        """Of the choices of an arc keep those that are known and, of each kind, those of least bound."""
        ledger, kinds = self.estimates.ledger, dict[Hashable, list[ChoiceT]]()
        for waiting in self._waiting[at]:
            while waiting.first is not None and (waiting.first in ledger.known or ledger.is_close(waiting.first)):
                self._seen[at].append(waiting.first)
                waiting.first = next(waiting.others, None)
            if waiting.first is not None:
                kinds.setdefault(self.estimates.kind_of(waiting.first), []).append(waiting.first)
        fronts = [front_of(choices, ledger.bound) for choices in kinds.values()]
        unknown = [choice for front in fronts for way in front for choice in way.choices]
        for choice in unknown:
            self._arcs_of.setdefault(choice, set()).add(at)
        for choice in self._seen[at]:
            self._arcs_of.setdefault(choice, set()).add(at)
        self._leading[at] = (*self._seen[at], *unknown)
        self._known[at] = front_of(self._seen[at], ledger.true)
