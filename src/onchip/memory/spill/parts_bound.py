"""A lower bound for all orders: parts of one order are separate problems and share the cost of each tensor.

Docs/search.md, *Bounds of any order*, has the proof. Shares move to the parts that pay; then neighbours merge where
that raises the bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from typing import Final

from onchip.bounds.retention.sure_gaps import SureGap, groups_of_uses
from onchip.memory.decisions import SearchMove, schedule_of_moves
from onchip.memory.effort import STEP
from onchip.memory.spill.search import BestFirstSearch
from onchip.model.lifetimes.indexed import IndexedProblem, Precedence, bits, mask_of, uses_of
from onchip.search.budget.limits import Run
from onchip.search.strategy.start import of_one_worker, without_figures

WHOLE: Final = 1 << 20
"""Shares of a cost are counted in so many parts of it."""


@dataclass(frozen=True, slots=True, eq=False)
class UseGroup:
    """Uses of a tensor (a mask of operators); its loads between the first and last of them are charged.

    All other uses of the tensor are before or after all of these, in every order. `stores` says that storing it is
    charged here, too.
    """

    tensor: int
    uses: int
    stores: bool


@dataclass(frozen=True, slots=True)
class PartProblem:
    """Operators of a part, and other operators that use tensors whose cost the part shares.

    Other operands of these operators are left out. Each of the `groups` is a tensor of the problem, by its place.
    """

    problem: IndexedProblem
    groups: tuple[UseGroup, ...]

    @classmethod
    def of(
        cls, indexed: IndexedProblem, precedence: Precedence, operators: Sequence[int], shares: Mapping[UseGroup, int]
    ) -> PartProblem:
        """State a part by its operators and its share of each group, in parts of `WHOLE`.

        A group without a share has only its uses in the part, which cost nothing.
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

    def paid(self, indexed: IndexedProblem, moves: Sequence[SearchMove]) -> dict[UseGroup, int]:
        """Return the cost that the part's moves pay for each group, at full share; groups without cost are left out."""
        residencies = [0] * len(self.groups)
        for one in schedule_of_moves(self.problem, moves).residencies:
            residencies[one.tensor] += 1
        paid: dict[UseGroup, int] = {}
        for number, (group, begun) in enumerate(zip(self.groups, residencies, strict=True)):
            if begun > 1:
                is_stored = group.stores and not self.problem.backed >> number & 1
                store_cost = indexed.store_costs[group.tensor] if is_stored else 0
                paid[group] = indexed.load_costs[group.tensor] * (begun - 1) + store_cost
        return paid


def _costs(indexed: IndexedProblem, shares: Mapping[UseGroup, int], producer: Sequence[int]) -> IndexedProblem:
    """Return the problem with each group as a tensor; storing it costs nothing if it is not charged."""
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
    """Return the load and store costs of a share; storing costs nothing if it is not charged."""
    store_cost = indexed.store_costs[group.tensor] if group.stores else 0
    return indexed.load_costs[group.tensor] * share // WHOLE, store_cost * share // WHOLE


@dataclass(frozen=True, slots=True)
class PartsParams:
    """Constants of the bound by parts."""

    sizes: tuple[int, int] = (16, 30)
    """Least and greatest number of operators of a part at first: milliseconds for each."""
    states: int = 100_000
    """States of the search of a part: about a second."""
    rounds: int = 4
    """Rounds in which shares move before parts become wider, and, without a time limit, in which parts become wider."""
    first_move: float = 0.5
    """Part of the difference by which shares move in the first round; it falls with the root of the round."""


PARAMS: Final = PartsParams()


@dataclass(slots=True, eq=False)
class Part:
    """Operators that follow one another in some order, their share of each group, and a lower bound on their cost.

    `paid` is the mean cost of each group in the last plan and those before, if its share were the whole. A part that
    `is_solved` costs `lower_bound`. A merged part has `halves`.
    """

    operators: tuple[int, ...]
    shares: dict[UseGroup, int]
    lower_bound: int = 0
    is_current: bool = False
    is_solved: bool = False
    paid: dict[UseGroup, float] = field(default_factory=dict)
    halves: tuple[Part, Part] | None = None


class PartsBound:
    """Bound for one scratchpad without overwriting; `lower_bound` is the best so far.

    Costs that `sure_gaps` may charge are left out: loads between two groups of a tensor, and storing a tensor that has
    several groups.
    """

    def __init__(
        self,
        indexed: IndexedProblem,
        precedence: Precedence,
        order: Sequence[int],
        sizes: tuple[int, int] = PARAMS.sizes,
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
        yield from self._move_and_solve(PARAMS.states, run)
        states = PARAMS.states
        for _ in count() if run.deadline.is_set else range(PARAMS.rounds):
            bound = self.lower_bound
            pairs = self._pairs()
            yield from self._merge(pairs, states, run)
            if not pairs and not run.deadline.is_set:
                return
            if not pairs:
                yield from self._move_and_solve(states, run)
                states *= STEP.node_growth
                yield from self._search_on(states, run)
            is_at_its_end = not pairs and self.lower_bound == bound and all(part.is_solved for part in self.parts)
            if run.stop is not None or is_at_its_end:
                return

    def _move_and_solve(self, states: int, run: Run) -> Iterator[int]:
        for number in range(PARAMS.rounds + 1):
            for some in _in_batches(self.parts, 1 if run.limits.workers == 1 else len(self.parts)):
                yield self.lower_bound
                self._solve_parts(some, states, run)
            self._note(run)
            yield self.lower_bound
            moves = (
                number < PARAMS.rounds
                and run.stop is None
                and self._move_shares(PARAMS.first_move / (1 + number) ** 0.5)
            )
            if not moves:
                break

    def is_between_groups(self, gap: SureGap) -> bool:
        """True if a sure gap of one tensor is after all uses of some groups of it, and before those of all others."""
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

    def _solve_parts(self, parts: Iterable[Part], states: int, run: Run, share: float = STEP.share) -> None:
        """Bound the parts that are not current, each within `states` and a `share` of the time left."""
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
        found = BestFirstSearch(problem.problem, within, states).solve()
        part.lower_bound, part.is_current = max(known, found.lower_bound), True
        part.is_solved = found.moves is not None
        if found.moves is not None:
            paid = problem.paid(self._indexed, found.moves)
            before = part.paid or paid
            part.paid = {group: (before.get(group, 0) + paid.get(group, 0)) / 2 for group in before.keys() | paid}

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
        """Search the unsolved parts for longer, all of them in most of the time left."""
        unsolved = [part for part in self.parts if not part.is_solved]
        batches = list(_in_batches(unsolved, run.limits.workers))
        for number, some in enumerate(batches):
            again = [replace(part, is_current=False) for part in some]
            self._solve_parts(again, states, run, max(STEP.share, 1 / (1 + len(batches) - number)))
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
