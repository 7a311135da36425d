"""Mapping searches of layers, one after another or in parallel on workers, within one time limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import Final, TypeAlias

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status, Stop
from onchip.errors import InputError, UsageError
from onchip.mapping.methods.cache import MappingCache
from onchip.mapping.methods.registry import method_named
from onchip.model.accounting.accounting import AccountingName
from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.budget.limits import Limits, Progress, Run
from onchip.search.strategy.pool import Pending, TaskPool

COSA, LOMA, UNEVEN = "cosa", "loma", "uneven"
EXACT, EVEN = "exact", "exact-even"
SECONDS_BETWEEN_LOOKS: Final = 0.05
SECONDS_ON_THE_WAY: Final = 0.3
"""Part of a time limit reserved for sending tasks to workers and answers back."""
Solver = Callable[[LayerProblem, MappingObjective, Run], SearchResult[LayerMapping]]
SearchedLayer: TypeAlias = SearchResult[LayerMapping] | InputError
"""The result of a search, or the reason why the layer cannot be mapped."""


@dataclass(frozen=True, slots=True)
class LayerSearch:
    """The search of each layer: method, objective, and accounting."""

    method: str
    objective: MappingObjective
    use_cache: bool = True
    accounting: AccountingName = AccountingName.INTERPRETER

    def __call__(self, question: tuple[LayerProblem, Run | Limits]) -> SearchedLayer:
        """Search one layer within limits that begin now; return the error of a layer that cannot be mapped."""
        problem, given = question
        run = given if isinstance(given, Run) else Run(given)
        try:
            return self.solver()(problem, self.objective, run)
        except InputError as error:
            return error

    def load(self, _worker: int) -> None:
        """Import the modules of a search, which takes longer than many a layer."""
        self.solver()
        if self.method == EXACT:
            import_module("onchip.mapping.prove.wide")

    def solver(self) -> Solver:
        """Return the method; raises UsageError if it does not support the other options."""
        if self.method == UNEVEN or self.accounting is not AccountingName.INTERPRETER:
            return self._accounted_solver()
        method = method_named(self.method)
        if method.name == COSA:
            return method.solve  # its own capacity model may admit illegal mappings
        cache = MappingCache.opened() if self.use_cache else None
        return method if cache is None else partial(cache.solve, method)

    def _accounted_solver(self) -> Solver:
        """Return a method with another accounting, without caching; raises UsageError for conflicting options."""
        if self.method not in (LOMA, UNEVEN):
            expected = f"`method='{LOMA}'` or {UNEVEN}"
            raise UsageError(f"`method='{self.method}'` has its own", place="accounting", expected=expected)
        if self.accounting is AccountingName.INTERPRETER:
            raise UsageError(f"`method='{UNEVEN}'` needs another", place="accounting", expected="zigzag or defines")
        from onchip.mapping.baselines.loma import solve_as_loma
        from onchip.mapping.tile_search.uneven import solve_uneven

        solve = solve_as_loma if self.method == LOMA else solve_uneven
        return partial(solve, accounting=self.accounting.accounting, has_stored_room=True)


@dataclass(frozen=True, slots=True)
class LayerSearches:
    """The problems of all layers by name, in the network's order, with a common run."""

    search: LayerSearch
    problems: Mapping[str, LayerProblem]
    progress: LayerProgress
    run: Run

    def found(self, pool: TaskPool | None) -> Iterator[SearchedLayer]:
        """Yield the result of each layer in order, or the error of a layer that cannot be mapped."""
        return self._one_by_one() if pool is None else _Together(self, pool).found()

    def _one_by_one(self) -> Iterator[SearchedLayer]:
        """Search the layers in order, each with an equal share of the time left."""
        for place, (name, problem) in enumerate(self.problems.items()):
            found = self.searched(problem, self.progress.run_of_next(name))
            if isinstance(found, SearchResult):
                self.progress.take(place, found)
            yield found

    def searched(self, problem: LayerProblem, run: Run) -> SearchedLayer:
        """Search one layer in this process, unless the run was interrupted."""
        if run.interrupt.is_set():
            return SearchResult(Status.UNKNOWN, None, None, 0, 0.0, self.search.method, Stop.INTERRUPTED)
        return self.search((problem, run))


@dataclass(slots=True)
class _Together:
    """Layers searched by workers; layers without an answer in time are searched here for a moment."""

    asked: LayerSearches
    pool: TaskPool
    answers: dict[int, SearchedLayer] = field(default_factory=dict)
    pending: dict[int, Pending[SearchedLayer]] = field(default_factory=dict)

    def found(self) -> Iterator[SearchedLayer]:
        """Yield the result of each layer in the network's order, regardless of completion order."""
        problems, run = list(self.asked.problems.values()), self.asked.run
        self._let_workers_begin()
        waiting = list(enumerate(problems))
        while (waiting or self.pending) and not self._is_over:
            while waiting and len(self.pending) < self.pool.room and run.stop is None:
                own = self._run_of_next(len(waiting))
                place, problem = waiting.pop(0)
                question = problem, own if self.pool.is_here else own.limits_left
                self.pending[place] = self.pool.submit(self.asked.search, question)
            self._take()
        for place, problem in enumerate(problems):
            yield self.answers[place] if place in self.answers else self.asked.searched(problem, run.within(0.0))

    def _let_workers_begin(self) -> None:
        """Wait until the workers have loaded their modules, so that this time does not count against a layer."""
        if self.pool.is_here or not self.asked.run.deadline.is_set:
            return
        loading = [self.pool.submit(self.asked.search.load, number) for number in range(self.pool.room)]
        while not all(one.ready() for one in loading) and self.asked.run.stop is None:
            self._tell(loading[0])

    @property
    def _is_over(self) -> bool:
        """Return True if the wait is over; local searches stop at the end of the run themselves."""
        run = self.asked.run
        if self.pool.is_here:
            return run.stop is not None and not self.pending
        return run.interrupt.is_set() or run.seconds_left < -SECONDS_ON_THE_WAY

    def _run_of_next(self, waiting: int) -> Run:
        """Return the run of the next of `waiting` layers, with its share of the common time."""
        run, room = self.asked.run, self.pool.room
        workers = max(1, run.limits.workers // min(room, len(self.asked.problems))) if self.pool.is_here else 1
        left = run.seconds_left - (0.0 if self.pool.is_here else SECONDS_ON_THE_WAY)
        deadline = Deadline.after(max(0.0, left) * min(1.0, room / waiting))
        return Run(replace(run.limits, workers=workers), interrupt=run.interrupt, deadline=deadline)

    def _take(self) -> None:
        """Collect the available answers, waiting a moment for one."""
        for place in [place for place, one in self.pending.items() if one.ready()]:
            answer = self.answers[place] = self.pending.pop(place).get()
            if isinstance(answer, SearchResult):
                self.asked.progress.take(place, answer)
        for one in [*self.pending.values()][:1]:
            self._tell(one)

    def _tell(self, waited_for: Pending[object]) -> None:
        self.asked.progress.tell(f"{self.pool.room} at a time")
        waited_for.wait(SECONDS_BETWEEN_LOOKS)


@dataclass(slots=True)
class LayerProgress:
    """The progress of all layers; `times` is the number of repetitions of each distinct layer, in mapping order.

    If objective values do not add up, as products of energy and latency do not, only the phase is reported.
    """

    run: Run
    times: Sequence[int]
    adds_up: bool
    _done: int = 0
    _value: int | None = 0
    _lower_bound: int = 0

    def run_of_next(self, name: str) -> Run:
        """Return a run with its own clock and an equal share of the time left, ended by the same interrupt."""
        run, left = self.run, len(self.times) - self._done
        phase = f"layer {self._done + 1} of {len(self.times)}, {name}"

        def listen(heard: Progress) -> None:
            told = f"{phase}: {heard.phase}" if heard.phase else phase
            run.listener(Progress(run.seconds, *self._of_all(heard.best, heard.lower_bound), told))

        listen(Progress(0.0, None, 0, ""))
        share = max(0.0, run.seconds_left) / left
        return replace(run, listener=listen, deadline=Deadline.after(share), watch=Stopwatch())

    def tell(self, how: str) -> None:
        """Report the number of mapped layers while several are searched in parallel."""
        value = self._value if self.adds_up and self._done == len(self.times) else None
        phase = f"{self._done} of {len(self.times)} layers, {how}"
        self.run.listener(Progress(self.run.seconds, value, self._lower_bound if self.adds_up else 0, phase))

    def take(self, place: int, result: SearchResult[LayerMapping]) -> None:
        """Add the result of the layer at index `place`.

        A layer without a mapping leaves the network without an answer.
        """
        times, value = self.times[place], result.objective_value
        self._value = None if self._value is None or value is None else self._value + times * value
        self._lower_bound += times * result.lower_bound
        self._done += 1

    def _of_all(self, best: int | None, lower_bound: int) -> tuple[int | None, int]:
        """Return the value of all layers, known only with the last of them, and a lower bound on it."""
        times, is_last = self.times[self._done], self._done + 1 == len(self.times)
        if not self.adds_up:
            return (best, lower_bound) if len(self.times) == 1 else (None, 0)
        value = None if best is None or self._value is None or not is_last else self._value + times * best
        return value, self._lower_bound + times * lower_bound
