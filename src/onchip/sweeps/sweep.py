"""The `sweep` use case: a study's questions resolved to points, answered by workers, kept in a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from onchip.answer.operator_tiles import TilesOption
from onchip.answer.problem import Objective, Order
from onchip.api.budgets import CapacityBudget
from onchip.api.networks import network_to_plan
from onchip.api.phases import phase
from onchip.api.plan import Request
from onchip.api.target import Target, TargetFinder, one_scratchpad
from onchip.arch.accelerator import Accelerator
from onchip.arch.sharing import Share
from onchip.errors import InputError, UsageError
from onchip.formats.files import canonical_sha256
from onchip.formats.foreign_files import load_any_accelerator
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml, accelerator_sha256
from onchip.search.budget.limits import Limits
from onchip.sweeps.engine import Bisection, SoughtFront, Sweep, SweepProgress, Workers
from onchip.sweeps.point import VERBS, PointStatus, Scalar, SweepPoint, SweptMachine, SweptVerb, number_of
from onchip.sweeps.point_answer import answer_point, network_sha256, prepare_for, reading_of
from onchip.sweeps.processes import LocalProcesses, answer_in_own_process
from onchip.sweeps.store import Store, method_version
from onchip.sweeps.study import SRAM, PointLimits, Study, StudyQuestion, changed, machine_of

EXACT: Final = "exact"
TIMED: Final = "timed"
COSTS_OF_PLANS: Final = ("traffic", "peak", "dma-cycles", "dma-energy", "recomputation")
"""Objectives for which the value of a plan does not depend on the capacity, even with recomputation."""
SEARCHED_CYCLES: Final = "mapping"
"""Cycle model by searched mappings, whose search a time limit may interrupt at different points."""

MANY_POINTS: Final = 500
"""Number of points whose resolution takes as long as the start of the workers."""


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """A study, its store, and the workers that compute it.

    `workers` are processes of this machine, unless there is a Dask scheduler at `dask_address`. Without `prunes` every
    point is computed; with `retries_failed` failed points are computed again. With `front_of`, a cost of the study,
    points are spared that cannot be on the front of that cost against the objective's value.
    """

    study: Study
    store: Path
    workers: int = 1
    prunes: bool = True
    retries_failed: bool = False
    front_of: str | None = None
    dask_address: str | None = None


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """The outcome of a study: its hash in the store, the state of its points, and whether it is finished."""

    study_sha256: str
    progress: SweepProgress
    is_over: bool


def _never() -> bool:
    """Return False: the sweep is never stopped."""
    return False


def _told_to_nobody(progress: SweepProgress) -> None:
    """Ignore the progress."""


@phase("sweeping")
def run_sweep(
    request: SweepRequest,
    tell: Callable[[SweepProgress], None] = _told_to_nobody,
    is_stopped: Callable[[], bool] = _never,
) -> SweepOutcome:
    """Answer every point of a study that its store does not contain.

    Raises InputError, before anything is computed, for unknown or unsuitable networks, machines and parameters, and for
    an unusable store.
    """
    resolver = PointResolver(request.study)
    questions = resolver.questions()
    workers = _workers(request)
    try:
        if len(questions) >= MANY_POINTS:
            workers.begin(len(questions))
        return _swept(request, resolver.points(questions), workers, tell, is_stopped)
    finally:
        workers.close()


def _swept(
    request: SweepRequest,
    points: tuple[SweepPoint, ...],
    workers: Workers,
    tell: Callable[[SweepProgress], None],
    is_stopped: Callable[[], bool],
) -> SweepOutcome:
    distinct = {point.key: point for point in points}
    with Store.for_writing(request.store) as store:
        study_sha256 = store.add_study(request.study.name, points)
        known = store.known(distinct)
        if request.retries_failed:
            known = {key: answer for key, answer in known.items() if answer.status is not PointStatus.FAILED}
        progress = SweepProgress(len(distinct), kept_before=len(known))
        front = _sought_front(request, distinct)
        is_beyond = None if front is None else front.is_beyond
        chains = [Bisection(keys, is_beyond) for keys in chains_of(request.study, distinct, prunes=request.prunes)]
        sweep = Sweep(store, workers, distinct, chains, progress, tell, is_stopped, front)
        is_over = sweep.run(known)
    return SweepOutcome(study_sha256, progress, is_over)


def _sought_front(request: SweepRequest, points: dict[str, SweepPoint]) -> SoughtFront | None:
    if request.front_of is None:
        return None
    if request.front_of not in request.study.costs:
        expected = f"a cost of the study: {', '.join(request.study.costs) or 'it has none'}"
        raise UsageError(f"the study has no cost {request.front_of!r}", place="pareto", expected=expected)
    return SoughtFront(request.front_of, points)


def _workers(request: SweepRequest) -> Workers:
    limits = request.study.limits
    if request.dask_address is None:
        return LocalProcesses(answer_point, request.workers, limits, partial(prepare_for, request.study.verb))
    from onchip.sweeps.processes import DaskCluster

    if limits == PointLimits():
        return DaskCluster.at(request.dask_address, answer_point)
    in_own_process = partial(answer_in_own_process, answer_point, limits, partial(prepare_for, request.study.verb))
    return DaskCluster.at(request.dask_address, in_own_process)


def chains_of(study: Study, points: Mapping[str, SweepPoint], *, prunes: bool) -> list[list[str]]:
    """Return the points in chains that differ only in one capacity, ascending; independent points are chains of one."""
    axis = _capacity_axis(study) if prunes else None
    if axis is None:
        return [[key] for key in points]
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


def _capacity_axis(study: Study) -> str | None:
    """Return the capacity with the most values; None if the study has none."""
    axes = [parameter for parameter in study.parameters if parameter.is_capacity]
    return max(axes, key=lambda one: len(one.values)).name if axes else None


def follows_of_capacity(point: SweepPoint) -> bool:
    """Return True if more capacity never increases the cost of this point, and its bound holds for all answers.

    That holds for plans by a method that proves its bound, if the problem does not depend on the capacity. The network
    must not be tiled to fit, the order must not be one of minimum peak, and durations and access energies must be
    constant.
    """
    if point.verb is not SweptVerb.PLAN:
        return False
    if point.objective == Objective.DMA_ENERGY and _has_energy_laws(point):
        return False
    options = {**VERBS[point.verb].defaults(point.objective), **point.options}
    if options["tiles"] != TilesOption.NEVER or options["cap_tensors"] or options["order"] == Order.MIN_PEAK:
        return False
    if point.objective == Objective.LATENCY:
        is_settled = options["time_limit"] is None or options["cost"] != SEARCHED_CYCLES
        return options["method"] == TIMED and is_settled
    return options["method"] == EXACT and point.objective in COSTS_OF_PLANS


def _has_energy_laws(point: SweepPoint) -> bool:
    machine = accelerator_from_yaml(point.machine.yaml, point.machine.name)
    return any(level.access is not None and level.access.laws is not None for level in machine.levels)


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
        network = self._network(verb, asked.network, {**defaults, **options})
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

    def _network(self, verb: SweptVerb, network: str, options: dict[str, Any]) -> str:
        place = repr((network, options))
        if place not in self._networks:
            self._networks[place] = network_sha256(verb, network, options)
        return self._networks[place]

    def _machine(self, asked: StudyQuestion) -> tuple[SweptMachine, int | None]:
        values = self.study.paths_of(asked)
        place = (asked.accelerator, *values.items())
        if place not in self._machines:
            self._machines[place] = self._made(asked.accelerator, values)
        return self._machines[place]

    def _made(self, accelerator: str | None, values: dict[str, Scalar]) -> tuple[SweptMachine, int | None]:
        if accelerator is None:
            sized = changed(one_scratchpad(1), values)
            return machine_of(sized), sized.scratchpads[0].capacity_bytes
        if accelerator not in self._accelerators:
            self._accelerators[accelerator] = load_any_accelerator(accelerator)
        return machine_of(changed(self._accelerators[accelerator], values)), None
