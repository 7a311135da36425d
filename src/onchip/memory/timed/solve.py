"""The plan of minimum latency: bounds, then slices and orders, each good one with addresses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, cycle
from math import inf
from random import Random
from typing import Final

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.answer.result import SearchResult, Status
from onchip.arch.memory import DRAM
from onchip.bounds.latency.latency_bounds import least_latency_bound
from onchip.bounds.latency.ways_to_run import WHOLE, WaysToRun
from onchip.errors import UsageError
from onchip.memory.decisions import PlanIncumbent
from onchip.memory.timed.homes import (
    Homes,
    HomesOfOperands,
    PlacedOrder,
    latency_bands,
    packed_then_placed,
    placed,
    placed_afterwards,
    placed_better,
    placed_by_repairs,
    placed_quickly,
    placed_somehow,
    placed_step_by_step,
    placed_while_timed,
)
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.timeline.plan_timeline import latency_of_plan
from onchip.native import LatencyBands, LatencyRoom, LatencyStay, LatencyTensor, StopToken
from onchip.search.budget.limits import Budget, Run
from onchip.search.strategy.interruptible import run_watched
from onchip.search.strategy.portfolio import Portfolio, Stepped
from onchip.transform.slices.emission import ChannelBands


@dataclass(slots=True)
class ProgramWriter:
    """Writes the program of a problem in slices; pieces of the search are operators of the graph, in order.

    Before each operator, in this order: stored or unused tensors leave, loads begin in the order of the queues, and
    outputs get their place.
    """

    problem: Problem
    placed: PlacedOrder
    _stays: Sequence[LatencyStay] = field(init=False)
    _instructions: list[Instruction] = field(default_factory=list)
    _leaving: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    _written: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self._stays = self.placed.timing.stays

    def plan(self) -> Plan:
        """Return the plan; stay i of the timing lies at offset i."""
        transfers = defaultdict(list)
        for transfer in self.placed.timing.transfers:
            transfers[transfer.position].append(transfer)
        for number, stay in enumerate(self._stays):
            self._leaving[stay.stop].append(number)
            if not stay.is_loaded:
                self._written[stay.start].append(number)
        operators = self.problem.graph.operators
        for step in range(len(self.placed.order) + 1):
            waiting = {one.stay for one in transfers[step] if one.is_store} & {*self._leaving[step]}
            self._free(number for number in self._leaving[step] if number not in waiting)
            for transfer in transfers[step]:
                self._begin(transfer.stay, is_store=transfer.is_store)
                if transfer.is_store and transfer.stay in waiting:
                    self._free((transfer.stay,))
            for number in self._written[step]:
                self._allocate(number)
            if step < len(self.placed.order):
                self._instructions.append(Compute(operators[self.placed.order[step]].name))
        return Plan(self.problem.memories, tuple(self._instructions), self.problem)

    def _begin(self, stay: int, *, is_store: bool) -> None:
        if not is_store:
            self._allocate(stay)
        memory = self._memory(stay)
        ends = (memory, DRAM) if is_store else (DRAM, memory)
        self._instructions.append(Copy(self._name(stay), *ends))

    def _allocate(self, stay: int) -> None:
        offset_bytes = self.placed.offsets_bytes[stay]
        self._instructions.append(Allocate(self._name(stay), self._memory(stay), offset_bytes))

    def _free(self, stays: Iterable[int]) -> None:
        self._instructions += (Free(self._name(stay), self._memory(stay)) for stay in stays)

    def _name(self, stay: int) -> str:
        number, same_as = self._stays[stay].tensor, self._tensor(stay).same_as
        return self.problem.counted_tensors[number if same_as < 0 else same_as].name

    def _memory(self, stay: int) -> str:
        return self.problem.memories[self._tensor(stay).memory].name

    def _tensor(self, stay: int) -> LatencyTensor:
        return self.placed.tensors[self._stays[stay].tensor]


METHOD: Final = "timed"


@dataclass(frozen=True, slots=True)
class LatencyParams:
    """Constants of the search for the minimum latency."""

    evaluations: int = 20_000
    """Orders that one round of annealing evaluates."""
    placed_work: int = 30_000_000
    """Orders with placed stays that one round evaluates without a time limit, by the square of the pieces."""
    hottest: tuple[float, float] = (0.01, 0.003)
    """Parts of the latency by which an order may be worse when annealing begins: in the first round, and later."""
    rounds_in_vain: int = 4
    """Rounds without a better order, after which a search ends."""
    rooms: tuple[float, ...] = (1.0, 0.95, 0.88, 0.8)
    """Parts of each scratchpad that orders may fill, while what packs ends `much_later` than what fills."""
    much_later: float = 1.03
    """Ratio of latencies."""
    rooms_afterwards: tuple[float, ...] = (0.98, 1.0, 0.99, 0.96)
    """Parts of each scratchpad that orders may fill whose stays are placed afterwards, again and again."""
    searches: int = 4
    """Searches that share the time left, if none ends by itself."""
    cut_pieces: int = 400
    """Pieces of an order above which no other slices are tried while stays are placed."""
    moves_of_homes: int = 400
    """Other scratchpads for operands that one round tries."""


PARAMS: Final = LatencyParams()


def solve_for_latency(problem: Problem, run: Run) -> SearchResult[Plan]:
    """Search for the plan that ends soonest, with operators in slices if files state their durations.

    The plan has a separate problem, whose graph is in slices. Each operator has each operand in one scratchpad; a
    transfer between scratchpads goes through DRAM. INFEASIBLE if an operator fits in no number of slices. Raises
    UsageError if no duration of an operator is known, or if an operator may fit only with slices of one operand in
    several scratchpads.
    """
    return _LatencyPlanner(problem, run).result()


class _LatencyPlanner:
    def __init__(self, problem: Problem, run: Run) -> None:
        self._problem, self._run = problem, run
        self._ways = WaysToRun(problem)
        self._incumbent = PlanIncumbent(IndexedProblem.of(problem), run)
        self._homes_of = HomesOfOperands(self._ways)
        self._random = Random(run.limits.seed)

    def result(self) -> SearchResult[Plan]:
        """Search, and return the best plan and bound found."""
        unfit = self._homes_of.unfit
        if unfit is not None:
            self._ensure_it_surely_does_not_fit(unfit)
            return SearchResult(Status.INFEASIBLE, None, None, 0, self._run.seconds, METHOD)
        self._take(self._homes_of.start(spreads=True))
        bound = least_latency_bound(self._problem)
        self._incumbent.raise_bound(bound.cycles)
        self._enough = bound.cycles
        strategies = [
            Stepped(name, self._incumbent, self._run, steps)
            for name, steps in (("full rooms", self._fill_rooms), ("places afterwards", self._go_on))
        ]
        Portfolio(self._incumbent, strategies, Budget(self._run)).solve()
        if not self._incumbent.is_proven and self._incumbent.value is not None:
            self._offer(placed_better(self._ways, self._search, self._run, self._incumbent.value))
        self._step_by_step(self._homes)
        # Bands that are aligned apart may need more room than the whole.
        self._step_by_step(self._homes_of.whole())
        self._incumbent.stopped_by = self._run.stop or self._incumbent.stopped_by
        space = f"any operator order, listed splits and transfers; bound by {bound.name}"
        return replace(self._incumbent.result(METHOD), space=space)

    def _step_by_step(self, homes: Homes | None) -> None:
        """Offer a plan in which nothing stays from step to step, if there is no plan yet."""
        if self._incumbent.value is not None or homes is None:
            return
        self._take(homes)
        if self._begin(1.0, self._run.limits.seed):
            self._offer(placed_step_by_step(self._ways, self._search))

    def _fill_rooms(self, _turn: Stepped) -> Iterator[None]:
        """Fill less and less of the scratchpad, while the packed plan ends much later than the timed order."""
        for share in PARAMS.rooms:
            ends_much_later = self._fills(share)
            yield
            if not ends_much_later:
                return

    def _fills(self, share: float) -> bool:
        """Search orders that fill a part of the scratchpad; return whether the packed plan ends much later."""
        if not self._begin(share, self._run.limits.seed):
            return False
        if self._incumbent.value is None:
            self._offer(placed_while_timed(self._search, self._run))
        if self._incumbent.value is None:
            self._offer(placed_somehow(self._ways, self._search, self._run))
        self._improve(self._part)
        latency = self._search.worth[0]
        self._offer(placed_while_timed(self._search, self._run))
        self._offer(packed_then_placed(self._ways, self._search, self._part))
        order = self._packed(self._part)
        if order is not None and (order.room.share, order.room.ahead_share) != (share, share):
            self._limit_room(order.room)
            self._improve(self._part)
            self._packed(self._part)
        self._offer(placed_better(self._ways, self._search, self._part, self._best))
        self._improve_placed(self._part)
        return self._incumbent.value is None or self._incumbent.value > PARAMS.much_later * latency

    def _packed(self, run: Run) -> PlacedOrder | None:
        """Offer the best order as what packs at once lets it end, and sooner as repairs of packings do."""

        def offered(way: Callable[[WaysToRun, LatencyBands, Run, float], PlacedOrder | None]) -> PlacedOrder | None:
            order = way(self._ways, self._search, run, self._best)
            self._offer(order)
            return order

        at_once = offered(placed_quickly)
        return offered(placed_by_repairs) or at_once or offered(placed)

    def _go_on(self, _turn: Stepped) -> Iterator[None]:
        """Bands and orders in bytes, all stays placed afterwards, again and again until that brings nothing."""
        in_vain, seeds = 0, count(self._run.limits.seed)
        for share in cycle(PARAMS.rooms_afterwards):
            before = self._best
            if in_vain == len(PARAMS.rooms_afterwards):
                return
            if self._begin(share, next(seeds)):
                self._improve(self._part)
                self._anneal(self._part)
                if self._search.worth[0] < before:
                    self._packed(self._part)
                    self._offer(placed_afterwards(self._search, self._part, share))
            in_vain = 0 if self._best < before else in_vain + 1
            yield

    def _anneal(self, run: Run) -> None:
        hottest = PARAMS.hottest[1] * self._search.worth[0]
        token = StopToken()
        run_watched(
            lambda: self._search.anneal(PARAMS.evaluations, hottest, self._enough, token), token.ask, run, self._report
        )

    def _begin(self, share: float, seed: int) -> bool:
        """Begin with the fewest slices that fit in a part of the scratchpads; return whether all operators fit."""
        parts = self._homes_of.fewest_parts_that_fit(self._homes, share)
        if parts is None:
            return False
        self._search.begin(parts, seed)
        self._limit_room(LatencyRoom(share, share))
        return True

    def _limit_room(self, room: LatencyRoom) -> None:
        self._room = room
        self._search.limit_room(room)

    def _take(self, homes: Homes) -> None:
        self._homes, self._search = homes, latency_bands(self._ways, homes)

    def _ensure_it_surely_does_not_fit(self, operator: int) -> None:
        """Raise UsageError if a plan may exist that lays bands of one tensor in several scratchpads."""
        operators = range(len(self._ways.operators))
        if len(self._problem.memories) == 1 or all(len(one.cycles) == 1 for one in self._ways.operators):
            return
        if not any(map(self._homes_of.never_fits, operators)):
            what = "its inputs would have to be split over several scratchpads, which latency plans do not support"
            name = self._problem.graph.operators[operator].name
            raise UsageError(what, place=f"operator {name!r}", expected="a larger scratchpad")

    def _improve_placed(self, run: Run) -> None:
        """Orders by when they end with all stays placed, from the best on."""
        start = placed_while_timed(self._search, self._run)
        if start is None or self._incumbent.is_proven:
            return
        self._limit_room(start.room)
        pieces = len(start.order)
        most = PARAMS.evaluations if self._run.deadline.is_set else PARAMS.placed_work // pieces**2
        evaluations = min(PARAMS.evaluations, most)
        self._improve(run, evaluations, tries_bands=pieces <= PARAMS.cut_pieces)
        self._offer(placed_while_timed(self._search, self._run))

    @property
    def _part(self) -> Run:
        """Return a run for one of the searches of a piece of work: they begin from nothing when they are cut off."""
        return self._run.within(self._run.seconds_left / PARAMS.searches)

    @property
    def _best(self) -> float:
        return inf if self._incumbent.value is None else self._incumbent.value

    def _improve(self, run: Run, evaluations: int = PARAMS.evaluations, *, tries_bands: bool = True) -> None:
        """Go on until several rounds in a row found nothing better."""
        token, enough = StopToken(), self._enough

        def watched(work: Callable[[], None]) -> None:
            run_watched(work, token.ask, run, self._report)

        def reorder(hottest: float) -> None:
            watched(lambda: self._search.reorder(evaluations, hottest * self._search.worth[0], enough, token))

        reorder(PARAMS.hottest[0])
        in_vain = rounds = 0
        while in_vain < PARAMS.rounds_in_vain and run.stop is None and self._search.worth[0] > enough:
            worth = self._search.worth
            if tries_bands:
                watched(lambda: self._search.cut_otherwise(enough, token))
            self._move_homes(run, enough)
            rounds += 1
            reorder(PARAMS.hottest[1] if rounds % 2 == 0 else 0.0)
            in_vain = 0 if self._search.worth < worth else in_vain + 1

    def _move_homes(self, run: Run, enough: int) -> None:
        """Try other scratchpads for operands, each once in any order, and go on from each that ends sooner."""
        if len(self._problem.memories) == 1:
            return
        moves = [*self._homes_of.moves(), *self._homes_of.swaps(self._homes)]
        self._random.shuffle(moves)
        for move in moves[: PARAMS.moves_of_homes]:
            if run.stop is not None or self._search.worth[0] <= enough:
                return
            homes, parts = self._homes_of.moved(self._homes, move), self._search.parts
            if homes == self._homes or not all(self._homes_of.fits(one, parts[one], homes) for one, _ in move):
                continue
            search = latency_bands(self._ways, homes)
            search.begin(parts, self._random.getrandbits(32), self._search.order)
            search.limit_room(self._room)
            if search.worth < self._search.worth:
                self._search, self._homes = search, homes

    def _report(self) -> None:
        latency, _, pieces = self._search.worth
        self._run.report(self._incumbent.value, self._incumbent.lower_bound, f"{pieces} pieces, {latency} cycles")

    def _offer(self, order: PlacedOrder | None) -> None:
        if order is None:
            return
        problem = self._in_bands(self._search.parts)
        plan = ProgramWriter(problem, order).plan()
        self._incumbent.keep(plan, latency_of_plan(problem, plan), "latency")

    def _in_bands(self, parts: list[int]) -> Problem:
        operators = self._problem.graph.operators
        named = {one.name: count for one, count in zip(operators, parts, strict=True) if count > WHOLE}
        return replace(self._problem, graph=ChannelBands(named)(self._problem.graph))
