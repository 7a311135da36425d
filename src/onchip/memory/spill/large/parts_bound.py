"""A bound on what any plan of any order pays: parts of an order, each a problem of its own, share what tensors cost.

Docs/search.md, *Bounds of any order*, has the proof. Shares move to where a tensor is paid for; then neighbours become
one part, where that bounds more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from typing import Final

from onchip.bounds.retention.sure_gaps import SureGap, groups_of_uses
from onchip.memory.spill.best_first.search import BestFirstSearch, TwoParts
from onchip.memory.spill.large.part_problem import WHOLE, PartProblem, UseGroup
from onchip.model.lifetimes.bit_masks import bits, mask_of
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.lifetimes.precedence import Precedence, uses_of
from onchip.search.budget.limits import Run
from onchip.search.strategy.stage import of_one_worker, without_figures

FIRST_SIZES: Final = (16, 30)
"""Fewest and most operators of a part, at first."""
STATES: Final = 100_000
TIMES_MORE_STATES: Final = 4
ROUNDS: Final = 4
"""In which shares are moved, before parts become wider."""
MERGERS: Final = 4
"""Without a time limit."""
SHARE_OF_A_PART: Final = 0.1
FIRST_MOVE: Final = 0.5


@dataclass(slots=True, eq=False)
class Part:
    """Operators that follow one another in some order, their share of each group, and what they are known to cost.

    `paid` is by group what its cheapest plans pay for it, were its share the whole: the mean of the last plan and of
    those before. Once it `is_solved`, `lower_bound` is what it costs. What is made of two has `halves`.
    """

    operators: tuple[int, ...]
    shares: dict[UseGroup, int]
    lower_bound: int = 0
    is_current: bool = False
    is_solved: bool = False
    paid: dict[UseGroup, float] = field(default_factory=dict)
    halves: tuple[Part, Part] | None = None


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
        """Go on until nothing is left to do or the run has to stop, and yield the bound now and then.

        A single worker yields after each part, so that other strategies may have their turn.
        """
        yield from self._move_and_solve(STATES, run)
        states = STATES
        for _ in count() if run.deadline.is_set else range(MERGERS):
            bound = self.lower_bound
            pairs = self._pairs()
            yield from self._merge(pairs, states, run)
            if not pairs and not run.deadline.is_set:
                return
            if not pairs:
                yield from self._move_and_solve(states, run)
                states *= TIMES_MORE_STATES
                yield from self._search_on(states, run)
            is_at_its_end = not pairs and self.lower_bound == bound and all(part.is_solved for part in self.parts)
            if run.stop is not None or is_at_its_end:
                return

    def _move_and_solve(self, states: int, run: Run) -> Iterator[int]:
        for number in range(ROUNDS + 1):
            for some in _in_batches(self.parts, 1 if run.limits.workers == 1 else len(self.parts)):
                yield self.lower_bound
                self._solve_parts(some, states, run)
            self._note(run)
            yield self.lower_bound
            moves = number < ROUNDS and run.stop is None and self._move_shares(FIRST_MOVE / (1 + number) ** 0.5)
            if not moves:
                break

    def is_between_groups(self, gap: SureGap) -> bool:
        """Whether a sure gap of one tensor is after all uses of some groups of it, and before those of all others."""
        uses = mask_of(uses_of(self._indexed, gap.family))
        if gap.befores | gap.afters != uses:
            return False
        return not any(group.uses & gap.befores and group.uses & gap.afters for group in self._groups_of[gap.family])

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

    def _solve_parts(self, parts: Iterable[Part], states: int, run: Run, share: float = SHARE_OF_A_PART) -> None:
        """Bound those that are not current, each in at most so many states and such a `share` of the time left."""
        open_parts = [part for part in parts if not part.is_current]
        alone = of_one_worker(without_figures(run))
        if run.limits.workers == 1:
            for part in open_parts:
                self._solve_part(part, states, alone, share)
        else:
            with ThreadPoolExecutor(run.limits.workers) as pool:
                list(pool.map(lambda part: self._solve_part(part, states, alone, share), open_parts))

    def _solve_part(self, part: Part, states: int, run: Run, share: float) -> None:
        """Bound a part, no lower than its halves."""
        if run.stop is not None:
            return
        known = 0 if part.halves is None else part.halves[0].lower_bound + part.halves[1].lower_bound
        problem = PartProblem.of(self._indexed, self._precedence, part.operators, part.shares)
        within = run.within(share * run.seconds_left)
        two_parts = self._halves_of(part, problem)
        found = BestFirstSearch(problem.problem, within, states, two_parts=two_parts).solve()
        part.lower_bound, part.is_current = max(known, found.lower_bound), True
        part.is_solved = found.moves is not None
        if found.moves is not None:
            paid = problem.paid(self._indexed, found.moves)
            before = part.paid or paid
            part.paid = {group: (before.get(group, 0) + paid.get(group, 0)) / 2 for group in before.keys() | paid}

    def _halves_of(self, part: Part, problem: PartProblem) -> TwoParts | None:
        if part.halves is None:
            return None
        first, second = part.halves
        return problem.divided(self._indexed, first.shares, (first.lower_bound, second.lower_bound))

    def _note(self, run: Run) -> None:
        if all(part.is_current or part.lower_bound == 0 for part in self.parts):
            self.lower_bound = max(self.lower_bound, sum(part.lower_bound for part in self.parts))
        run.report(None, 0, f"bound of any order, {len(self.parts)} parts")

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

    def _move(self, group: UseGroup, parts: Sequence[Part], paid: Sequence[float], how_far: float) -> bool:
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
                part.halves = None
        return True

    # Wider parts

    def _pairs(self) -> list[Part]:
        """Make one part of two neighbours that are solved, first where most bytes cross; each is in one at most."""
        pairs = [
            (first, second)
            for first, second in pairwise(self.parts)
            if first.is_solved and second.is_solved and first.is_current and second.is_current
        ]
        pairs.sort(key=lambda pair: -self._crossing_bytes[self._step_of[pair[1].operators[0]]])
        taken, merged = set[int](), list[Part]()
        for first, second in pairs:
            if taken.isdisjoint((id(first), id(second))):
                taken.update((id(first), id(second)))
                merged.append(_merged(first, second))
        return merged

    def _merge(self, pairs: Sequence[Part], states: int, run: Run) -> Iterator[int]:
        """Bound each pair, and put it in the place of its halves."""
        for some in _in_batches(pairs, run.limits.workers):
            self._solve_parts(some, states, run)
            for part in some:
                if part.is_current and part.halves is not None:
                    place = self.parts.index(part.halves[0])
                    self.parts[place : place + 2] = [part]
            self._note(run)
            yield self.lower_bound

    def _search_on(self, states: int, run: Run) -> Iterator[int]:
        """Search parts that are not solved for longer, all of them in most of the time that is left."""
        unsolved = [part for part in self.parts if not part.is_solved]
        batches = list(_in_batches(unsolved, run.limits.workers))
        for number, some in enumerate(batches):
            again = [replace(part, is_current=False) for part in some]
            self._solve_parts(again, states, run, max(SHARE_OF_A_PART, 1 / (1 + len(batches) - number)))
            for part, longer in zip(some, again, strict=True):
                if longer.is_current:
                    longer.lower_bound = max(part.lower_bound, longer.lower_bound)
                    self.parts[self.parts.index(part)] = longer
            self._note(run)
            yield self.lower_bound


def _merged(first: Part, second: Part) -> Part:
    shares = dict(first.shares)
    for group, share in second.shares.items():
        shares[group] = shares.get(group, 0) + share
    return Part((*first.operators, *second.operators), shares, halves=(first, second))


def _in_batches(parts: Sequence[Part], size: int) -> Iterator[list[Part]]:
    return (list(parts[begin : begin + size]) for begin in range(0, len(parts), size))
