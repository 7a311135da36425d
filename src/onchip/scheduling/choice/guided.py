"""Heuristic search for a good path early: estimates scale bounds by the ratios of costs to bounds seen so far.

The cheapest path by estimates is found and costed, until it has no estimated choice left. Then estimates are lowered
step by step towards the bounds, where `search` continues with the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from onchip.answer.options.fusion_objective import Criteria
from onchip.scheduling.choice.ways import (
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
"""Factors on the estimates, in order: values below 1 find paths that estimates overrate."""
FIRST_RATIO: Final = 1.3
"""Ratio of cost to bound of a kind without costs; an underestimated choice is costed, and its cost is then known."""
CLOSE: Final = "close"
"""The kind of all choices whose bound has been tightened."""
MOST_ROUNDS: Final = 8
"""Maximum number of consecutive tightening rounds before a path is costed; most paths are then estimated lower."""
NEWS: Final = 0.125
"""Ratios are updated when this share of all costs is new."""


@dataclass(slots=True)
class Estimates(Generic[ChoiceT]):
    """Estimates of choices: the cost if known, else the bound times the ratio of its kind."""

    ledger: Ledger[ChoiceT]
    kind_of: Callable[[ChoiceT], Hashable]
    share: float = 1.0
    _ratios: dict[Hashable, tuple[float, ...]] = field(default_factory=dict)

    def learn(self) -> None:
        """Update the ratios from all known costs; tightened bounds are a separate kind."""
        sums: dict[Hashable, list[list[int]]] = {}
        for choice, cost in self.ledger.known.items():
            kinds: list[tuple[Criteria | None, Hashable]] = [(self.ledger.cheap_bound(choice), self.kind_of(choice))]
            if self.ledger.is_close(choice):
                kinds.append((self.ledger.bound(choice), CLOSE))
            for bound, kind in kinds:
                if cost is not None and bound is not None:
                    own = sums.setdefault(kind, [[1, 1] for _ in cost])
                    for both, more, less in zip(own, cost, bound, strict=True):
                        both[0] += more
                        both[1] += less
        self._ratios = {kind: tuple(more / less for more, less in own) for kind, own in sums.items()}

    def of(self, choice: ChoiceT) -> Criteria | None:
        """Return the estimate of a choice, or None if it is infeasible."""
        bound = self.ledger.at_least(choice)
        if bound is None or choice in self.ledger.known:
            return bound
        rough = self.ledger.rough.get(choice)
        if rough is not None:
            return tuple(max(part, int(own * self.share)) for part, own in zip(bound, rough, strict=True))
        kind = CLOSE if self.ledger.is_close(choice) else self.kind_of(choice)
        ratios = self._ratios.get(kind) or (FIRST_RATIO,) * len(bound)
        return tuple(max(part, int(part * ratio * self.share)) for part, ratio in zip(bound, ratios, strict=True))


@dataclass(slots=True)
class _Waiting(Generic[ChoiceT]):
    """An uncosted choice from a group of choices, and an iterator over the others, least bound first."""

    first: ChoiceT | None
    others: Iterator[ChoiceT]


@dataclass(slots=True)
class GuidedSearch(Generic[ChoiceT]):
    """A search for paths from node 0 to `last` that begin with the cost `begun`.

    Up to `ahead` choices are costed at a time. Of a group of choices only the uncosted one of least bound is examined.
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
    """Front of the costed choices by arc."""
    _leading: list[tuple[ChoiceT, ...]] = field(init=False)
    _waiting: list[list[_Waiting[ChoiceT]]] = field(init=False)
    _seen: list[list[ChoiceT]] = field(init=False)
    _arcs_of: dict[ChoiceT, set[int]] = field(default_factory=dict)

    def improve(self, run: Run, phase: str) -> PathToPlace[ChoiceT] | None:
        """Return the best costed path among `best` and those found."""
        self._fronts = [() for _ in self.arcs]
        self._known = [() for _ in self.arcs]
        self._leading = [() for _ in self.arcs]
        self._waiting = [[] for _ in self.arcs]
        self._seen = [[] for _ in self.arcs]
        with suppress(NoBoundError):  # an early stop leaves a valid answer
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
        """Cost paths until none is cheaper by estimates than the best, or the run stops."""
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
        """Return the arcs of these choices, after updating their leading choices."""
        concerned = {at for choice in choices for at in self._arcs_of[choice]}
        for at in concerned:
            self._lead(at)
        return concerned

    def _look_again(self, choices: Sequence[ChoiceT], run: Run) -> None:
        self._look_at(self._led_on(choices), run)

    def _take_best_of_known(self) -> None:
        """Update the best path with the cheapest over all costed choices."""
        at_most = self.best.value if self.best else None
        found = cheapest_way(self.arcs, self._known, self.last, self.begun, at_most)
        if found is not None and (self.best is None or found.value < self.best.value):
            self.best = found

    def _look_at(self, some: Iterable[int] | None, run: Run) -> None:
        """Update the fronts of these arcs or, with new ratios, of all, until the run stops."""
        if some is None:
            self.estimates.learn()
        for at in range(len(self.arcs)) if some is None else some:
            if run.stop is not None:
                return
            self._fronts[at] = front_of(self._leading[at], self.estimates.of)

    def _lead(self, at: int) -> None:
        """Keep the known choices of an arc and, for each kind, the unknown ones of least bound."""
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
