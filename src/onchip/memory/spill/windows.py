"""Large-neighbourhood search: windows of a plan are planned again, in bytes or with addresses.

Tensors that cross an end of a window keep their residency, and with addresses their offset. Between two uses a tensor
stays, or is loaded for the second use. Windows with addresses are `native/layouts.hpp`; an equal layout replaces
the old one, as it leaves other gaps. The cost never rises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Final

from onchip.answer.result import Stop
from onchip.memory.allocate.residencies import layout_tensors
from onchip.memory.decisions import OperatorSchedule, PlannedResidency, SearchMove, schedule_of_moves
from onchip.memory.effort import STEP
from onchip.memory.spill.search import BestFirstSearch
from onchip.model.lifetimes.indexed import IndexedProblem, mask_of, uses_of
from onchip.native import LayoutOperator, LayoutStay, PlacedPlan, StopToken, WindowChoice
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import run_watched
from onchip.search.strategy.start import of_one_worker, without_figures


@dataclass(frozen=True, slots=True)
class WindowTensor:
    """A tensor that the steps of a window use, or that stays through them; `uses` are operators, in order.

    `before` is the last use before the window, and `within` has the uses in it. The tensor `comes` if it stays from
    before, and `goes` if it stays for later uses. It is `stored` if DRAM gets or has a copy anyway.
    """

    tensor: int
    before: int | None
    within: tuple[int, ...]
    comes: bool
    goes: bool
    stored: bool


@dataclass(frozen=True, slots=True)
class PlanWindow:
    """The steps [begin, begin + operators) as a separate problem, and their present cost.

    Operator 0 writes the tensors that stay from before, numbers from 1 on are the `operators`, and each tensor that
    stays for later has a reader behind them.
    """

    begin: int
    operators: tuple[int, ...]
    tensors: tuple[WindowTensor, ...]
    problem: IndexedProblem
    cost: int


class MovablePlan:
    """An order and its residencies, in one scratchpad in which nothing is overwritten."""

    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule) -> None:
        self.indexed = indexed
        self.order = list(schedule.order)
        self.step_of = [0] * len(self.order)
        for step, operator in enumerate(self.order):
            self.step_of[operator] = step
        self._stays = set[tuple[int, int]]()
        for residency in schedule.residencies:
            within = [
                use for use in self.uses(residency.tensor) if residency.start <= self.step_of[use] < residency.stop
            ]
            self._stays.update((residency.tensor, use) for use in within[:-1])
        self._swept = 0
        self._across = set[int]()

    @property
    def cost(self) -> int:
        """Return the cost of transfers beyond the compulsory ones."""
        return sum(self._cost_of(tensor) for tensor in range(len(self.indexed.tensors)))

    @property
    def schedule(self) -> OperatorSchedule:
        """The schedule of the current plan."""
        residencies = []
        for tensor in range(len(self.indexed.tensors)):
            uses = self.uses(tensor)
            begin = 0
            for number, use in enumerate(uses, 1):
                if (tensor, use) not in self._stays:
                    steps = self.step_of[uses[begin]], self.step_of[use] + 1
                    residencies.append(PlannedResidency(tensor, *steps))
                    begin = number
        return OperatorSchedule(tuple(self.order), tuple(sorted(residencies, key=lambda r: (r.start, r.tensor))))

    def window(self, begin: int, stop: int) -> PlanWindow:
        """Return the steps [begin, stop) as a window; residencies before and after them stay unchanged.

        If a window begins before the previous one, the sweep starts again at step 0.
        """
        operators = self.order[begin:stop]
        used = {tensor for operator in operators for tensor in self.indexed.operand_lists[operator]}
        self._sweep_to(begin)
        tensors = [self._window_tensor(tensor, begin, stop) for tensor in sorted(used | self._across)]
        cost = sum(self._cost_within(one) for one in tensors)
        return PlanWindow(begin, tuple(operators), tuple(tensors), _problem(self.indexed, operators, tensors), cost)

    def put(self, window: PlanWindow, moves: Sequence[SearchMove]) -> None:
        """Put moves of the problem of the window stated last in place of what there was."""
        self.follow(window, schedule_of_moves(window.problem, moves))

    def follow(self, window: PlanWindow, schedule: OperatorSchedule) -> None:
        """Do the same with a schedule of that problem."""
        count = len(window.operators)
        steps = [window.operators[number - 1] for number in schedule.order if 1 <= number <= count]
        for step, operator in enumerate(steps, window.begin):
            self.order[step], self.step_of[operator] = operator, step
        step_within = {number: step for step, number in enumerate(schedule.order)}
        at = {operator: step_within[number] for number, operator in enumerate(window.operators, 1)}
        residencies: list[list[PlannedResidency]] = [[] for _ in window.tensors]
        for residency in schedule.residencies:
            residencies[residency.tensor].append(residency)
        behind = count + 1
        for one, there in zip(window.tensors, residencies, strict=True):
            uses = [(use, at[use]) for use in sorted(one.within, key=lambda use: self.step_of[use])]
            if one.comes and one.before is not None:
                uses.insert(0, (one.before, 0))
            self._stays.difference_update((one.tensor, use) for use, _ in uses)
            if one.goes:
                uses.append((-1, step_within[behind]))
                behind += 1
            for (use, step), (_, following) in pairwise(uses):
                if any(residency.start <= step and following < residency.stop for residency in there):
                    self._stays.add((one.tensor, use))
            if one.comes and (one.tensor, one.before) not in self._stays:
                self._across.discard(one.tensor)

    def uses(self, tensor: int) -> list[int]:
        """Return the operators that use a tensor, in the current order."""
        return sorted(uses_of(self.indexed, tensor), key=lambda use: self.step_of[use])

    def _cost_of(self, tensor: int) -> int:
        missing = sum((tensor, use) not in self._stays for use in self.uses(tensor)[:-1])
        is_stored = missing and not self.indexed.backed >> tensor & 1
        return missing * self.indexed.load_costs[tensor] + (self.indexed.store_costs[tensor] if is_stored else 0)

    def _sweep_to(self, begin: int) -> None:
        """Find the tensors that stay between the step and the one before."""
        if begin < self._swept:
            self._swept, self._across = 0, set()
        for step in range(self._swept, begin):
            operator = self.order[step]
            for tensor in self.indexed.operand_lists[operator]:
                (self._across.add if (tensor, operator) in self._stays else self._across.discard)(tensor)
        self._swept = begin

    def _window_tensor(self, tensor: int, begin: int, stop: int) -> WindowTensor:
        uses = self.uses(tensor)
        before = [use for use in uses if self.step_of[use] < begin]
        within = tuple(use for use in uses if begin <= self.step_of[use] < stop)
        is_last = uses[-1] in within or not uses[len(before) + len(within) :]
        last = within[-1] if within else before[-1]
        comes = tensor in self._across
        goes = not is_last and (tensor, last) in self._stays
        inside = {*within, *(before[-1:] if comes else ())} - {*(() if goes else (last,))}
        is_stored = bool(self.indexed.backed >> tensor & 1) or any(
            (tensor, use) not in self._stays for use in uses[:-1] if use not in inside
        )
        return WindowTensor(tensor, before[-1] if before else None, within, comes, goes, is_stored)

    def _cost_within(self, one: WindowTensor) -> int:
        uses = [*((one.before,) if one.comes else ()), *one.within]
        ends = uses if one.goes else uses[:-1]
        missing = sum((one.tensor, use) not in self._stays for use in ends)
        store_cost = self.indexed.store_costs[one.tensor] if missing and not one.stored else 0
        return missing * self.indexed.load_costs[one.tensor] + store_cost


def _problem(indexed: IndexedProblem, operators: Sequence[int], tensors: Sequence[WindowTensor]) -> IndexedProblem:
    number = {one.tensor: place for place, one in enumerate(tensors)}
    at = {operator: place for place, operator in enumerate(operators, 1)}
    coming = tuple(place for place, one in enumerate(tensors) if one.comes)
    going = [place for place, one in enumerate(tensors) if one.goes]
    producer = tuple(0 if one.comes else at.get(indexed.producer[one.tensor], -1) for one in tensors)
    all_before = tuple(range(len(operators) + 1))

    def numbers(lists: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        return [tuple(number[tensor] for tensor in lists[operator]) for operator in operators]

    return replace(
        indexed,
        tensors=tuple(indexed.tensors[one.tensor] for one in tensors),
        read_lists=((), *numbers(indexed.read_lists), *((place,) for place in going)),
        write_lists=(coming, *numbers(indexed.write_lists), *(() for _ in going)),
        predecessor_lists=(
            (),
            *((0, *sorted(at[one] for one in indexed.predecessor_lists[o] if one in at)) for o in operators),
            *(all_before for _ in going),
        ),
        producer=producer,
        sizes_bytes=tuple(indexed.sizes_bytes[one.tensor] for one in tensors),
        load_costs=tuple(indexed.load_costs[one.tensor] for one in tensors),
        store_costs=tuple(indexed.store_costs[one.tensor] for one in tensors),
        backed=mask_of(place for place, one in enumerate(tensors) if one.stored or producer[place] < 0),
    )


@dataclass(frozen=True, slots=True)
class WindowParams:
    """Constants of windows; each begins in the middle of the one before."""

    widths: tuple[int, ...] = (10, 14, 20, 28, 40, 56)
    """Steps of windows planned in bytes, narrow ones first."""
    widest_before_addresses: int = 28
    """Steps of the widest windows in bytes if windows with addresses follow. For a thousand operators, wider ones take
    5 of 8 s to save 0.6 % of the cost in bytes."""
    least_gain: float = 1e-3
    """Part of a plan's cost. A pass that gains less is the last of its width."""
    placed_widths: tuple[int, ...] = (8, 12, 16, 20, 24, 28, 40)
    """Steps of windows planned with addresses, one width drawn for each pass."""
    layouts: tuple[int, ...] = (16, 32, 64, 128)
    """Widths of the beam over layouts: a narrow beam makes more passes, a wide one finds more."""
    soon: tuple[int, ...] = (4, 6, 8, 12, 16, 24)
    """Operators until the next use, from which a tensor counts as leaving earlier: other views find other plans."""
    passes: int = 12
    """Passes with addresses without a time limit."""


PARAMS: Final = WindowParams()


class WindowMoves:
    """Reorders windows of plans of one problem, and skips windows that an earlier search could not improve.

    Windows are the same if they have the same operators in the same order, and the same tensors come and go. Several
    workers search windows that have no step in common.
    """

    def __init__(self, widest: int = PARAMS.widths[-1]) -> None:
        self._at_their_best: set[object] = set()
        self._widest = widest
        self.begin_again()

    def begin_again(self) -> None:
        """Take note that the plan is another one: narrow windows come first again."""
        self._widths = [width for width in PARAMS.widths if width <= self._widest]

    def improve(self, plan: MovablePlan, run: Run) -> Iterator[None]:
        """Reorder each window, from narrow to wide ones, and yield after each width; the cost never rises.

        The next call goes on where the run ended.
        """
        while self._widths:
            width = self._widths[0]
            while True:
                cost = plan.cost
                self._go_over(plan, width, run)
                if run.stop is not None or width >= len(plan.order) + width // 2:
                    return
                if cost - plan.cost <= PARAMS.least_gain * cost:
                    break
            self._widths.pop(0)
            run.report(None, 0, f"orders within {width} steps")
            yield

    def _go_over(self, plan: MovablePlan, width: int, run: Run) -> None:
        alone = of_one_worker(without_figures(run))
        begins = range(0, max(1, len(plan.order) - width // 2), width // 2)
        with ThreadPoolExecutor(run.limits.workers) as pool:
            for some in _apart(begins, run.limits.workers):
                windows = [plan.window(begin, begin + width) for begin in some]
                if run.stop is not None:
                    return
                asked = [one for one in windows if one.cost and _key(one) not in self._at_their_best]
                found = pool.map(lambda one: self._searched(one, alone), asked)
                for window, moves in zip(asked, found, strict=True):
                    if moves is not None:
                        _put(plan, window, moves)

    def _searched(self, window: PlanWindow, run: Run) -> tuple[SearchMove, ...] | None:
        """Return moves that cost less than the window's own; None if the search finds none."""
        found = BestFirstSearch(window.problem, run, STEP.part_states, upper_bound=window.cost).solve()
        if found.moves is None and found.stop in (Stop.COMPLETED, Stop.NODE_LIMIT):
            self._at_their_best.add(_key(window))
        return found.moves


def _put(plan: MovablePlan, window: PlanWindow, moves: tuple[SearchMove, ...]) -> None:
    """Put moves in their place unless what comes to the window, or is stored, has changed since it was stated."""
    now = plan.window(window.begin, window.begin + len(window.operators))
    if _key(now) == _key(window):
        plan.put(now, moves)


def _key(window: PlanWindow) -> object:
    return window.operators, window.tensors, window.cost


def _apart(begins: Sequence[int], count: int) -> Iterator[Sequence[int]]:
    """Yield all windows one by one or, several at a time, first every other one: these have no step in common."""
    for own in (begins,) if count == 1 else (begins[::2], begins[1::2]):
        yield from (own[at : at + count] for at in range(0, len(own), count))


class AddressedPlan:
    """An order, its residencies and their addresses, in one scratchpad that `has_countable_layouts`."""

    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule, offsets_bytes: tuple[int, ...]) -> None:
        self.indexed = indexed
        self._plan = PlacedPlan(
            layout_tensors(indexed),
            layout_operators(indexed),
            schedule.order,
            [
                LayoutStay(tensor=one.tensor, start=one.start, stop=one.stop, offset_bytes=offset)
                for one, offset in zip(schedule.residencies, offsets_bytes, strict=True)
            ],
            capacity_bytes=indexed.memory.capacity_bytes,
            alignment_bytes=indexed.memory.alignment_bytes,
        )

    @property
    def cost(self) -> int:
        """Return the cost of transfers beyond the compulsory ones."""
        return self._plan.cost

    @property
    def answer(self) -> tuple[OperatorSchedule, tuple[int, ...]]:
        """The current schedule, with its offsets in bytes."""
        stays = self._plan.stays
        residencies = tuple(PlannedResidency(stay.tensor, stay.start, stay.stop) for stay in stays)
        return OperatorSchedule(tuple(self._plan.order), residencies), tuple(stay.offset_bytes for stay in stays)

    def plan_anew(self, windows: list[WindowChoice], layouts: int, run: Run) -> None:
        """Plan windows again, one after another, with a beam of `layouts`; fewer windows if the run has to stop."""
        token = StopToken()
        run_watched(lambda: self._plan.plan_anew(windows, layouts, token), token.ask, run)


def layout_operators(indexed: IndexedProblem) -> list[LayoutOperator]:
    """Return the operators as beams take them."""
    lists = zip(indexed.read_lists, indexed.write_lists, indexed.predecessor_lists, strict=True)
    return [LayoutOperator(reads=read, writes=written, predecessors=before) for read, written, before in lists]


def improve_in_placed_windows(placed: AddressedPlan, run: Run) -> Iterator[None]:
    """Go over the plan again and again, yielding after each pass, until the run has to stop or enough is done."""
    random, passes, steps = Random(run.limits.seed), 0, placed.indexed.operator_count
    while run.stop is None and (run.deadline.is_set or passes < PARAMS.passes):
        width = random.choice(PARAMS.placed_widths)
        begins = range(random.randrange(width // 2), max(1, steps - width // 2), width // 2)
        windows = [
            WindowChoice(
                begin=begin, stop=begin + width, seed=random.randrange(1 << 30), soon=random.choice(PARAMS.soon)
            )
            for begin in begins
        ]
        placed.plan_anew(windows, random.choice(PARAMS.layouts), run)
        passes += 1
        run.report(None, 0, f"windows of {width} steps with addresses")
        yield
