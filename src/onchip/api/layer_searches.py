"""Mapping searches of layers, one after another or in parallel threads, within one time limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.pool import AsyncResult, ThreadPool
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
from onchip.search.budget.limits import Progress, Run

COSA, LOMA, UNEVEN = "cosa", "loma", "uneven"
EXACT, EVEN = "exact", "exact-even"
SECONDS_BETWEEN_LOOKS: Final = 0.05
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

    def __call__(self, question: tuple[LayerProblem, Run]) -> SearchedLayer:
        """Search one layer; return the error of a layer that cannot be mapped."""
        problem, run = question
        try:
            return self.solver()(problem, self.objective, run)
        except InputError as error:
            return error

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

    def found(self, threads: int) -> Iterator[SearchedLayer]:
        """Yield the result of each layer in order, or the error of a layer that cannot be mapped."""
        return self._one_by_one() if threads == 1 else _Together(self, threads).found()

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
    """Layers searched by threads; layers that no thread begins in time are searched here for a moment."""

    asked: LayerSearches
    room: int
    answers: dict[int, SearchedLayer] = field(default_factory=dict)
    pending: dict[int, AsyncResult[SearchedLayer]] = field(default_factory=dict)

    def found(self) -> Iterator[SearchedLayer]:
        """Yield the result of each layer in the network's order, regardless of completion order."""
        problems, run = list(self.asked.problems.values()), self.asked.run
        waiting = list(enumerate(problems))
        with ThreadPool(self.room) as pool:
            while self.pending or (waiting and run.stop is None):
                while waiting and len(self.pending) < self.room and run.stop is None:
                    own = self._run_of_next(len(waiting))
                    place, problem = waiting.pop(0)
                    self.pending[place] = pool.apply_async(self.asked.search, ((problem, own),))
                self._take()
        for place, problem in enumerate(problems):
            yield self.answers[place] if place in self.answers else self.asked.searched(problem, run.within(0.0))

    def _run_of_next(self, waiting: int) -> Run:
        """Return the run of the next of `waiting` layers, with its share of the common time."""
        run = self.asked.run
        workers = max(1, run.limits.workers // self.room)
        deadline = Deadline.after(max(0.0, run.seconds_left) * min(1.0, self.room / waiting))
        return Run(replace(run.limits, workers=workers), interrupt=run.interrupt, deadline=deadline)

    def _take(self) -> None:
        """Collect the available answers, waiting a moment for one."""
        for place in [place for place, one in self.pending.items() if one.ready()]:
            answer = self.answers[place] = self.pending.pop(place).get()
            if isinstance(answer, SearchResult):
                self.asked.progress.take(place, answer)
        for one in [*self.pending.values()][:1]:
            self.asked.progress.tell(f"{self.room} at a time")
            one.wait(SECONDS_BETWEEN_LOOKS)


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
