"""A bound on what any plan of any order pays: parts of an order, each a problem of its own, share what tensors cost.

Docs/search.md, *Bounds of any order*, has the proof. Shares move to where a tensor is paid for; then neighbours become
one part, where that bounds more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from onchip.facts.bit_masks import bits, mask_of
from onchip.facts.indexed import IndexedProblem
from onchip.facts.sure_gaps import Precedence, SureGap, groups_of_uses, uses_of
from onchip.solve.joint.part_problem import WHOLE, PartProblem, UseGroup
from onchip.solve.joint.search import BestFirstSearch
from onchip.solve.run.limits import Run
from onchip.solve.run.stage import without_figures

FIRST_SIZES: Final = (16, 30)
"""Fewest and most operators of a part, at first."""
STATES: Final = 100_000
ROUNDS: Final = 4
"""In which shares are moved, before parts become wider."""
MERGERS: Final = 3
SHARE_OF_A_PART: Final = 0.1
FIRST_MOVE: Final = 0.5


@dataclass(slots=True, eq=False)
class Part:
    """Operators that follow one another in some order, their share of each group, and what they are known to cost.

    `paid` is by group what the cheapest plan of the part pays for it, were its share the whole.
    """

    operators: tuple[int, ...]
    shares: dict[UseGroup, int]
    lower_bound: int = 0
    is_current: bool = False
    paid: dict[UseGroup, int] = field(default_factory=dict)


class PartsBound:
    """One scratchpad in which nothing is overwritten; `lower_bound` is the best so far.

    Nothing is charged of what `sure_gaps` may charge: loads between two groups of a tensor, and storing a tensor that
    has several groups.
    """

    def __init__(
        self,
        indexed: IndexedProblem,
        precedence: Precedence,
        order: Sequence[int],
        sizes: tuple[int, int] = FIRST_SIZES,
    ) -> None:
        self.lower_bound = 0
        self._indexed = indexed
        self._precedence = precedence
        self._step_of = [0] * len(order)
        for step, operator in enumerate(order):
            self._step_of[operator] = step
        self.groups = list(self._groups(sizes[1]))
        self._groups_of: list[list[UseGroup]] = [[] for _ in indexed.tensors]
        for group in self.groups:
            self._groups_of[group.tensor].append(group)
        self._crossing_bytes = self._bytes_across_steps()
        self.parts = self._cut(order, *sizes)
        self._share_out()

    def solve(self, run: Run) -> Iterator[int]:
        """Go on round by round, and yield the bound after each, until nothing is left to do or the run has to stop."""
        for merger in range(MERGERS + 1):
            for number in range(ROUNDS):
                self._solve_parts(self.parts, run)
                self._note(run, f"{len(self.parts)} parts")
                yield self.lower_bound
                if run.stop is not None or not self._move_shares(FIRST_MOVE / (1 + number + merger)):
                    break
            self._solve_parts(self.parts, run)
            self._note(run, f"{len(self.parts)} parts")
            yield self.lower_bound
            if run.stop is not None or len(self.parts) < 2 or merger == MERGERS:
                return
            self._merge(run)
            self._note(run, f"{len(self.parts)} parts")
            yield self.lower_bound

    def is_between_groups(self, gap: SureGap) -> bool:
        """Whether a sure gap lies after all uses of some groups of its tensor, and before those of all others."""
        uses = mask_of(uses_of(self._indexed, gap.tensor))
        if gap.befores | gap.afters != uses:
            return False
        return not any(group.uses & gap.befores and group.uses & gap.afters for group in self._groups_of[gap.tensor])

    def _groups(self, most_idle_steps: int) -> Iterator[UseGroup]:
        for tensor in range(len(self._indexed.tensors)):
            uses = uses_of(self._indexed, tensor)
            groups = groups_of_uses(uses, self._step_of, self._precedence, most_idle_steps)
            yield from (UseGroup(tensor, group, stores=len(groups) == 1) for group in groups)

    def _bytes_across_steps(self) -> list[int]:
        """Return for each step the bytes that groups have between it and the one before."""
        across = [0] * (len(self._step_of) + 1)
        for group in self.groups:
            steps = [self._step_of[use] for use in bits(group.uses)]
            for step in range(min(steps) + 1, max(steps) + 1):
                across[step] += self._indexed.sizes_bytes[group.tensor]
        return across

    def _cut(self, order: Sequence[int], narrowest: int, widest: int) -> list[Part]:
        """Cut the order where the fewest bytes cross, into parts of no more and no fewer operators if that can be."""
        count, far = len(order), 1 << 62
        least, cut_before = [0] + [far] * count, [0] * (count + 1)
        for stop in range(1, count + 1):
            is_last = stop == count
            for begin in range(max(0, stop - widest), stop if is_last else max(0, stop - narrowest + 1)):
                cost = least[begin] + (0 if is_last else self._crossing_bytes[stop])
                if cost < least[stop]:
                    least[stop], cut_before[stop] = cost, begin
        parts, stop = [], count
        while stop:
            parts.append(Part(tuple(order[cut_before[stop] : stop]), {}))
            stop = cut_before[stop]
        return parts[::-1]

    def _share_out(self) -> None:
        """Share each group equally among the parts that use it."""
        part_of = {operator: part for part in self.parts for operator in part.operators}
        for group in self.groups:
            parts = list(dict.fromkeys(part_of[use] for use in bits(group.uses)))
            for part in parts:
                part.shares[group] = WHOLE // len(parts)

    # Solve

    def _solve_parts(self, parts: Iterable[Part], run: Run) -> None:
        open_parts = [part for part in parts if not part.is_current]
        alone = replace(without_figures(run), limits=replace(run.limits, workers=1))
        if run.limits.workers == 1:
            for part in open_parts:
                self._solve_part(part, alone)
        else:
            with ThreadPoolExecutor(run.limits.workers) as pool:
                list(pool.map(lambda part: self._solve_part(part, alone), open_parts))

    def _solve_part(self, part: Part, run: Run) -> None:
        if run.stop is not None:
            return
        problem = PartProblem.of(self._indexed, self._precedence, part.operators, part.shares)
        within = run.within(SHARE_OF_A_PART * run.seconds_left)
        found = BestFirstSearch(problem.problem, within, STATES).solve()
        part.lower_bound, part.is_current = found.lower_bound, True
        part.paid = {} if found.moves is None else problem.paid(self._indexed, found.moves)

    def _note(self, run: Run, phase: str) -> None:
        if all(part.is_current or part.lower_bound == 0 for part in self.parts):
            self.lower_bound = max(self.lower_bound, sum(part.lower_bound for part in self.parts))
        run.report(None, 0, f"bound of any order, {phase}")

    # Shares

    def _move_shares(self, how_far: float) -> bool:
        """Move shares of each group towards the parts that pay for it; return whether there were any to move."""
        parts_of: dict[UseGroup, list[Part]] = {}
        for part in self.parts:
            for group in part.shares:
                parts_of.setdefault(group, []).append(part)
        has_moved = False
        for group, parts in parts_of.items():
            paid = [part.paid.get(group, 0) for part in parts]
            if len(parts) > 1 and min(paid) < max(paid):
                has_moved = self._move(group, parts, paid, how_far) or has_moved
        return has_moved

    def _move(self, group: UseGroup, parts: Sequence[Part], paid: Sequence[int], how_far: float) -> bool:
        indexed = self._indexed
        whole = indexed.load_costs[group.tensor] + (indexed.store_costs[group.tensor] if group.stores else 0)
        if not whole:
            return False
        mean = sum(paid) / len(paid)
        wanted = [
            max(0.0, part.shares[group] + how_far * WHOLE * (one - mean) / whole)
            for part, one in zip(parts, paid, strict=True)
        ]
        shares = [int(WHOLE * one / sum(wanted)) for one in wanted]
        excess = max(0, sum(shares) - WHOLE)
        for part, share in zip(parts, shares, strict=True):
            taken = min(excess, share)
            excess -= taken
            if share - taken != part.shares[group]:
                part.shares[group], part.is_current = share - taken, False
        return True

    # Wider parts

    def _merge(self, run: Run) -> None:
        """Make one part of two neighbours, first where most bytes cross, if its bound is known to be no less."""
        merged: list[Part | None] = list(self.parts)
        pairs = sorted(range(len(merged) - 1), key=lambda first: -self._crossing_bytes[self._begin_of(first + 1)])
        taken = set[int]()
        chosen = []
        for first in pairs:
            if taken.isdisjoint((first, first + 1)):
                taken.update((first, first + 1))
                chosen.append(first)
        both = [_merged(self.parts[first], self.parts[first + 1]) for first in chosen]
        self._solve_parts(both, run)
        for first, part in zip(chosen, both, strict=True):
            if (
                part.is_current
                and part.lower_bound >= self.parts[first].lower_bound + self.parts[first + 1].lower_bound
            ):
                merged[first], merged[first + 1] = part, None
        self.parts = [part for part in merged if part is not None]

    def _begin_of(self, place: int) -> int:
        return self._step_of[self.parts[place].operators[0]]


def _merged(first: Part, second: Part) -> Part:
    shares = dict(first.shares)
    for group, share in second.shares.items():
        shares[group] = shares.get(group, 0) + share
    return Part((*first.operators, *second.operators), shares)
