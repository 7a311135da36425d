"""The `sweep` use case: a study's questions resolved to points, answered by workers, kept in a store.

More capacity never costs more: a plan that fits a memory fits a larger one, and costs the same there. The cost at a
capacity between two others is therefore at most that of the smaller one, and at least the bound of the larger one. If
these are equal, all points between are settled. The computed points depend on values alone, not on the order of
answers: an interrupted chain continues as it would have.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from onchip.answer.operator_tiles import TilesOption
from onchip.answer.problem import Objective, Order
from onchip.api.networks import network_to_plan
from onchip.api.phases import phase
from onchip.api.plan import Request
from onchip.api.target import CapacityBudget, Target, TargetFinder, one_scratchpad
from onchip.arch.accelerator import Accelerator
from onchip.arch.sharing import Share
from onchip.errors import InputError, UsageError
from onchip.formats.files import canonical_sha256
from onchip.formats.foreign_files import load_any_accelerator
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml, accelerator_sha256
from onchip.search.budget.clock import Stopwatch
from onchip.search.budget.limits import Limits
from onchip.sweeps.point import (
    VERBS,
    NeighbourAnswers,
    Number,
    PointAnswer,
    PointStatus,
    SweepPoint,
    SweptMachine,
    SweptVerb,
    Value,
    number_of,
)
from onchip.sweeps.processes import (
    DaskCluster,
    LocalProcesses,
    answer_in_own_process,
    answer_point,
    network_sha256,
    prepare_for,
    reading_of,
)
from onchip.sweeps.store import Store, method_version
from onchip.sweeps.study import SRAM, PointLimits, Study, StudyQuestion, changed, machine_of

UNPROVEN = (PointStatus.FEASIBLE, PointStatus.UNKNOWN)


@dataclass(slots=True)
class Bisection:
    """A chain of points by key; `answers` are the known ones, `settled` those implied by others.

    `between` maps a computed point to the two points around it, whose answers are known then.
    """

    keys: Sequence[str]
    answers: dict[str, PointAnswer] = field(default_factory=dict)
    settled: dict[str, PointAnswer] = field(default_factory=dict)
    between: dict[str, tuple[str, str]] = field(default_factory=dict)
    _waiting: list[tuple[int, int]] = field(default_factory=list)
    _asked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._waiting.append((0, len(self.keys) - 1))

    def take(self, key: str, answer: PointAnswer) -> None:
        """Record the answer of a point."""
        self.answers[key] = answer

    def next_keys(self) -> Iterator[str]:
        """Yield the points to be computed next, each once; intervals with two known ends are bisected further."""
        waiting, self._waiting = self._waiting, []
        while waiting:
            low, high = waiting.pop()
            missing = [self.keys[end] for end in dict.fromkeys((low, high)) if self.keys[end] not in self.answers]
            if missing:
                self._waiting.append((low, high))
                yield from (key for key in missing if key not in self._asked)
                self._asked.update(missing)
            elif high - low > 1:
                waiting += self._parts(low, high)

    @property
    def is_over(self) -> bool:
        """Return True if every point has an answer, or is settled."""
        return not self._waiting

    def tightened(self) -> dict[str, PointAnswer]:
        """Return the answers improved by others of the chain: by a smaller memory's plan, or a larger one's bound."""
        best: tuple[str, PointAnswer] | None = None
        found: dict[str, PointAnswer] = {}
        bounds = self._bounds()
        for key in self.keys:
            answer = self.answers.get(key)
            if answer is None or answer.status not in UNPROVEN:
                best = _better(best, key, answer)
                continue
            tight = _with_bound(_with_plan(answer, best), bounds[key])
            if tight != answer:
                found[key] = self.answers[key] = tight
            best = _better(best, key, tight)
        return found

    def _bounds(self) -> dict[str, Number]:
        """Return for each point the greatest bound of it and all larger memories; 0 if nothing is proven."""
        bounds: dict[str, Number] = {}
        greatest: Number = 0
        for key in reversed(self.keys):
            answer = self.answers.get(key)
            if answer is not None and answer.lower_bound is not None:
                greatest = max(greatest, answer.lower_bound)
            bounds[key] = greatest
        return bounds

    def _parts(self, low: int, high: int) -> list[tuple[int, int]]:
        """Return the two halves of an interval; none if its ends settle the points between."""
        follows = answer_between(
            self.keys[low], self.answers[self.keys[low]], self.keys[high], self.answers[self.keys[high]]
        )
        if follows is None:
            middle = (low + high) // 2
            self.between[self.keys[middle]] = self.keys[low], self.keys[high]
            return [(low, middle), (middle, high)]
        for key in self.keys[low + 1 : high]:
            if key not in self.answers:
                self.answers[key] = self.settled[key] = follows
        return []


def _better(
    best: tuple[str, PointAnswer] | None, key: str, answer: PointAnswer | None
) -> tuple[str, PointAnswer] | None:
    """Return the plan of least value so far, the first of equals, with the key of its point."""
    if answer is None or answer.objective_value is None:
        return best
    if best is not None and best[1].objective_value is not None and best[1].objective_value <= answer.objective_value:
        return best
    return answer.settled_by or key, answer


def _with_plan(answer: PointAnswer, best: tuple[str, PointAnswer] | None) -> PointAnswer:
    """Return the answer, or a cheaper plan of a smaller memory with the answer's bound."""
    if best is None or best[1].objective_value is None:
        return answer
    key, plan = best
    if answer.objective_value is not None and answer.objective_value <= best[1].objective_value:
        return answer
    feasible = replace(plan, status=PointStatus.FEASIBLE, lower_bound=answer.lower_bound, seconds=answer.seconds)
    return replace(feasible, document=None, settled_by=key)


def _with_bound(answer: PointAnswer, bound: Number) -> PointAnswer:
    """Return the answer with the greater bound, as optimal if its value equals that bound."""
    if answer.status is PointStatus.INFEASIBLE:
        return answer
    greater = bound if answer.lower_bound is None else max(bound, answer.lower_bound)
    status = PointStatus.OPTIMAL if answer.objective_value == greater else answer.status
    return replace(answer, lower_bound=greater, status=status)


def answer_between(low_key: str, low: PointAnswer, high_key: str, high: PointAnswer) -> PointAnswer | None:
    """Return the answer at any capacity between two others if it is implied by their answers, else None."""
    if high.status is PointStatus.INFEASIBLE:
        return replace(high, seconds=0.0, document=None, settled_by=high.settled_by or high_key)
    if not low.has_value or high.lower_bound is None or low.objective_value != high.lower_bound:
        return None
    key = low.settled_by or low_key
    return replace(
        low, status=PointStatus.OPTIMAL, lower_bound=low.objective_value, seconds=0.0, document=None, settled_by=key
    )


RowT = TypeVar("RowT")


def front_of(rows: Sequence[RowT], records: Sequence[Mapping[str, Value]], names: Sequence[str]) -> tuple[RowT, ...]:
    """Return the rows that no other of the same network, verb and objective dominates in `names`.

    Of rows that are equal in all columns the first is kept; rows without a value are omitted.
    """
    groups: dict[Hashable, list[tuple[tuple[Number, ...], int]]] = {}
    for at, record in enumerate(records):
        values = tuple(value for name in names if isinstance(value := record.get(name), int | float))
        if len(values) == len(names):
            group = record.get("verb"), record.get("network"), record.get("objective")
            groups.setdefault(group, []).append((values, at))
    chosen: set[int] = set()
    for members in groups.values():
        best: list[tuple[Number, ...]] = []
        for values, at in sorted(members):
            if not any(_is_at_most(one, values) for one in best):
                best.append(values)
                chosen.add(at)
    return tuple(row for at, row in enumerate(rows) if at in chosen)


def _is_at_most(one: Sequence[Number], other: Sequence[Number]) -> bool:
    return all(mine <= theirs for mine, theirs in zip(one, other, strict=True))


def names_of_front(text: str) -> tuple[str, ...]:
    """Return the columns of a text such as `AREA,LATENCY`; raises UsageError for fewer than two."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if len(names) < 2:
        raise UsageError(
            f"{text!r} names fewer than two columns",
            place="pareto",
            expected="two columns or more: area,objective_value",
        )
    return names


def ensure_columns(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise UsageError for a column of a front that no row has."""
    for name in names:
        if name not in known:
            raise UsageError(f"there is no column {name!r}", place="pareto", expected=f"some of {', '.join(known)}")


SECONDS_BETWEEN_LOOKS = 0.2
"""Maximum wait for an answer before the next check for a stop."""
SECONDS_BETWEEN_WRITES = 0.25
"""Maximum age of an answer before it is stored, which limits the loss if the process is killed."""


class Workers(Protocol):
    """The workers that answer points: processes of this machine, or a cluster."""

    @property
    def room(self) -> int:
        """Return the number of points that can be submitted now."""

    def begin(self, points: int) -> None:
        """Prepare for that many points."""

    def submit(self, point: SweepPoint) -> None:
        """Submit a point to be answered."""

    def finished(self, seconds: float) -> Iterator[tuple[SweepPoint, PointAnswer]]:
        """Wait at most `seconds` for answers, and yield the available ones."""

    def close(self) -> None:
        """End the workers and all running points."""


@dataclass(slots=True)
class SweepProgress:
    """The number of distinct points, by state."""

    points: int = 0
    computed: int = 0
    failed: int = 0
    settled: int = 0
    kept_before: int = 0
    tightened: int = 0
    in_flight: int = 0
    watch: Stopwatch = field(default_factory=Stopwatch)

    @property
    def done(self) -> int:
        """Return the number of finished points."""
        return self.computed + self.failed + self.settled + self.kept_before

    @property
    def seconds_left(self) -> float | None:
        """Return the expected time for the other points at the pace so far; None before any point has finished."""
        over = self.computed + self.failed + self.settled
        return None if not over else self.watch.seconds / over * (self.points - self.done)


@dataclass(slots=True)
class Sweep:
    """Points in chains, whose ends may settle the points between, or alone.

    `tell` receives the progress, `is_stopped` returns True to abandon running points.
    """

    store: Store
    workers: Workers
    points: Mapping[str, SweepPoint]
    chains: Sequence[Bisection]
    progress: SweepProgress
    tell: Callable[[SweepProgress], None]
    is_stopped: Callable[[], bool]
    _chain_of: dict[str, Bisection] = field(default_factory=dict)
    _queue: list[str] = field(default_factory=list)
    _unkept: dict[str, PointAnswer] = field(default_factory=dict)
    _last_write: Stopwatch = field(default_factory=Stopwatch)

    def run(self, known: Mapping[str, PointAnswer]) -> bool:
        """Answer all points except the known ones; return True if all are finished. Closes the workers."""
        try:
            for chain in self.chains:
                self._chain_of |= dict.fromkeys(chain.keys, chain)
                for key in chain.keys:
                    if key in known:
                        chain.take(key, known[key])
                self._go_on(chain)
            self._queue.reverse()
            return self._loop()
        finally:
            self.workers.close()
            self._keep()

    def _loop(self) -> bool:
        while self._queue or self.progress.in_flight:
            if self.is_stopped():
                return False
            while self._queue and self.workers.room > 0:
                self.workers.submit(self._asked(self._queue.pop()))
                self.progress.in_flight += 1
            for point, answer in self.workers.finished(SECONDS_BETWEEN_LOOKS):
                self._take(point.key, answer)
            if self._last_write.seconds >= SECONDS_BETWEEN_WRITES:
                self._keep()
            self.tell(self.progress)
        return True

    def _asked(self, key: str) -> SweepPoint:
        """Return a point with its neighbours' answers, which determined it, so that a later sweep asks the same."""
        chain = self._chain_of[key]
        if key not in chain.between:
            return self.points[key]
        smaller, larger = chain.between[key]
        below, above = chain.answers[smaller], chain.answers[larger]
        document = None
        if below.has_value:
            origin = below.settled_by or smaller
            unkept = self._unkept.get(origin)
            document = below.document or (self.store.packed_document(origin) if unkept is None else unkept.document)
        said = NeighbourAnswers(document, below.objective_value, above.lower_bound or 0)
        return replace(self.points[key], neighbours=said)

    def _take(self, key: str, answer: PointAnswer) -> None:
        self.progress.in_flight -= 1
        if answer.status is PointStatus.FAILED:
            self.progress.failed += 1
        else:
            self.progress.computed += 1
        self._unkept[key] = answer
        chain = self._chain_of[key]
        chain.take(key, answer)
        self._go_on(chain)

    def _go_on(self, chain: Bisection) -> None:
        """Queue the next points of a chain, and keep the points that it settles or improves."""
        before = len(chain.settled)
        self._queue += chain.next_keys()
        if len(chain.settled) > before:
            new = dict(list(chain.settled.items())[before:])
            self.progress.settled += len(new)
            self._unkept |= new
        if chain.is_over and len(chain.keys) > 1:
            tighter = chain.tightened()  # the answers that the points of a complete chain improve
            self.progress.tightened += len(tighter)
            self._unkept |= tighter

    def _keep(self) -> None:
        unkept, self._unkept = self._unkept, {}
        if unkept:
            self.store.put(unkept, self.points)
        self._last_write = Stopwatch()


EXACT: Final = "exact"
TIMED: Final = "timed"
COSTS_OF_PLANS: Final = ("traffic", "peak", "dma-cycles", "dma-energy", "recomputation")
"""Objectives for which the value of a plan does not depend on the capacity, even with recomputation."""
SEARCHED_CYCLES: Final = "mapping"
"""Cycle model by searched mappings, whose search a time limit may interrupt at different points."""

MANY_POINTS: Final = 500
"""Number of points whose resolution takes as long as the start of the workers."""


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """The outcome of a study: its hash in the store, the state of its points, and whether it is finished."""

    study_sha256: str
    progress: SweepProgress
    is_over: bool


@phase("sweeping")
def run_sweep(
    study: Study,
    store_file: Path,
    tell: Callable[[SweepProgress], None] = lambda _: None,
    is_stopped: Callable[[], bool] = lambda: False,
    *,
    processes: int = 1,
    dask_address: str | None = None,
    prunes: bool = True,
    retries_failed: bool = False,
) -> SweepOutcome:
    """Answer every point of a study that its store does not contain, in processes or by the workers of a scheduler.

    Without `prunes` every point is computed; with `retries_failed` failed points are computed again.

    Raises InputError, before anything is computed, for unknown or unsuitable networks, machines and parameters, and for
    an unusable store.
    """
    resolver = PointResolver(study)
    questions = resolver.questions()
    workers = _workers(study, processes, dask_address)
    try:
        if len(questions) >= MANY_POINTS:
            workers.begin(len(questions))
        points = resolver.points(questions)
        distinct = {point.key: point for point in points}
        with Store.for_writing(store_file) as store:
            study_sha256 = store.add_study(study.name, points)
            known = store.known(distinct)
            if retries_failed:
                known = {key: answer for key, answer in known.items() if answer.status is not PointStatus.FAILED}
            progress = SweepProgress(len(distinct), kept_before=len(known))
            chains = [Bisection(keys) for keys in chains_of(study, distinct, prunes=prunes)]
            is_over = Sweep(store, workers, distinct, chains, progress, tell, is_stopped).run(known)
        return SweepOutcome(study_sha256, progress, is_over)
    finally:
        workers.close()


def _workers(study: Study, processes: int, dask_address: str | None) -> Workers:
    limits, prepare = study.limits, partial(prepare_for, study.verb)
    if dask_address is None:
        return LocalProcesses(answer_point, processes, limits, prepare)
    if limits == PointLimits():
        return DaskCluster.at(dask_address, answer_point)
    return DaskCluster.at(dask_address, partial(answer_in_own_process, answer_point, limits, prepare))


def chains_of(study: Study, points: Mapping[str, SweepPoint], *, prunes: bool) -> list[list[str]]:
    """Return the points in chains that differ only in one capacity, ascending; independent points are chains of one."""
    axes = [parameter for parameter in study.parameters if parameter.is_capacity]
    if not prunes or not axes:
        return [[key] for key in points]
    axis = max(axes, key=lambda one: len(one.values)).name
    chains: dict[str, list[SweepPoint]] = {}
    alone: list[list[str]] = []
    for key, point in points.items():
        if not follows_of_capacity(point):
            alone.append([key])
            continue
        others = {name: value for name, value in point.parameters.items() if name != axis}
        place = (point.network, point.accelerator, point.objective, point.options, others, _rest_of_machine(point))
        chains.setdefault(repr(place), []).append(point)
    chained = [sorted(chain, key=lambda one: number_of(one.parameters[axis])) for chain in chains.values()]
    return [*([point.key for point in chain] for chain in chained), *alone]


def follows_of_capacity(point: SweepPoint) -> bool:
    """Return True if more capacity never increases the cost of this point, and its bound holds for all answers.

    That holds for plans by a method that proves its bound, if the problem does not depend on the capacity. The network
    must not be tiled to fit, the order must not be one of minimum peak, and durations and access energies must be
    constant.
    """
    if point.verb is not SweptVerb.PLAN:
        return False
    if point.objective == Objective.DMA_ENERGY:
        machine = accelerator_from_yaml(point.machine.yaml, point.machine.name)
        if any(level.access is not None and level.access.laws is not None for level in machine.levels):
            return False
    options = {**VERBS[point.verb].defaults(point.objective), **point.options}
    if options["tiles"] != TilesOption.NEVER or options["cap_tensors"] or options["order"] == Order.MIN_PEAK:
        return False
    if point.objective == Objective.LATENCY:
        is_settled = options["time_limit"] is None or options["cost"] != SEARCHED_CYCLES
        return options["method"] == TIMED and is_settled
    return options["method"] == EXACT and point.objective in COSTS_OF_PLANS


def _rest_of_machine(point: SweepPoint) -> str:
    """Return a hash of the machine without its scratchpad sizes for latency; empty for other objectives."""
    if point.objective != Objective.LATENCY:
        return ""
    machine = accelerator_from_yaml(point.machine.yaml, point.machine.name)
    sized = tuple(
        replace(level, memory=replace(level.memory, capacity_bytes=1)) if level.is_scratchpad else level
        for level in machine.levels
    )
    scratchpads = tuple(level.memory for level in sized if level.is_scratchpad)
    return accelerator_sha256(replace(machine, levels=sized, scratchpads=scratchpads))


@dataclass(slots=True)
class PointResolver:
    """A resolver of a study's combinations to points; networks and machines are read once."""

    study: Study
    _accelerators: dict[str | None, Accelerator] = field(default_factory=dict)
    _machines: dict[tuple[object, ...], tuple[SweptMachine, int | None]] = field(default_factory=dict)
    _networks: dict[str, str] = field(default_factory=dict)
    _budgets: dict[str, int] = field(default_factory=dict)

    def questions(self) -> tuple[StudyQuestion, ...]:
        """Return all questions in the study's order; raises InputError if its constraints allow none."""
        with self._located():
            questions = tuple(self.study.combinations(self._size))
            if not questions:
                what = "the constraints allow no combination of the parameters"
                raise InputError(what, place="constraints", expected="at least one")
        return questions

    def _size(self, network: str, objective: str, said: Mapping[str, object], budget: CapacityBudget) -> int:
        """Return the size of a network's budget in bytes under a plan's options, cached."""
        options: dict[str, Any] = {**VERBS[SweptVerb.PLAN].defaults(objective), **said}
        place = repr((network, options, budget))
        if place not in self._budgets:
            share = None if options["share"] is None else Share(options["share"])
            asked = Request(network, reading_of(options), Target(budget, None, options["alignment"]), share=share)
            reading = asked.reading_as_shared
            finder = TargetFinder(network_to_plan(network, reading), reading.count, Limits(options["time_limit"]))
            accelerator, _ = finder.accelerator(asked.target, Objective(objective))
            self._budgets[place] = accelerator.scratchpads[0].capacity_bytes
        return self._budgets[place]

    def points(self, questions: tuple[StudyQuestion, ...]) -> tuple[SweepPoint, ...]:
        """Return the points of questions, in order; raises InputError for unreadable or unsuitable inputs."""
        with self._located():
            return tuple(self._point(one) for one in questions)

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Add file and line to an error of the study itself, if it has a file."""
        try:
            yield
        except InputError as error:
            if error.file is not None or self.study.located is None:
                raise
            names = {one.path: one.name for one in self.study.parameters}
            if error.place in names:
                error.place = f"parameters.{names[error.place]}"
            raise self.study.located(error) from None

    def _point(self, asked: StudyQuestion) -> SweepPoint:
        verb = self.study.verb
        machine, sram_bytes = self._machine(asked)
        defaults = VERBS[verb].defaults(asked.objective)
        options = {name: value for name, value in sorted(asked.options.items()) if value != defaults[name]}
        place = repr((asked.network, {**defaults, **options}))
        if place not in self._networks:
            self._networks[place] = network_sha256(verb, asked.network, {**defaults, **options})
        network = self._networks[place]
        decided = {
            "method_version": method_version(),
            "verb": str(verb),
            "network": network,
            "machine": machine.sha256,
            "objective": asked.objective,
            "options": options,
        }
        key = canonical_sha256(decided, InputError)
        return SweepPoint(
            key,
            verb,
            asked.network,
            network,
            asked.accelerator or SRAM,
            machine,
            sram_bytes,
            asked.objective,
            options,
            asked.parameters,
            asked.costs,
        )

    def _machine(self, asked: StudyQuestion) -> tuple[SweptMachine, int | None]:
        values = self.study.paths_of(asked)
        place = (asked.accelerator, *values.items())
        if place not in self._machines:
            if asked.accelerator not in self._accelerators:
                found = one_scratchpad(1) if asked.accelerator is None else load_any_accelerator(asked.accelerator)
                self._accelerators[asked.accelerator] = found
            machine = changed(self._accelerators[asked.accelerator], values)
            sram_bytes = machine.scratchpads[0].capacity_bytes if asked.accelerator is None else None
            self._machines[place] = machine_of(machine), sram_bytes
        return self._machines[place]
