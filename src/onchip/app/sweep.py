"""Sweeps on one page: a study's questions resolved to points, answered by workers, kept in a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from onchip.answer.problem import Order
from onchip.app.phases import phase
from onchip.app.point_answer import answer_point, prepare_for
from onchip.app.point_networks import network_sha256
from onchip.app.target import one_scratchpad
from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError, UsageError
from onchip.formats.canonical import canonical_sha256
from onchip.formats.foreign_files import load_any_accelerator
from onchip.sweeps.bisection import Bisection
from onchip.sweeps.engine import Sweep, SweepProgress, Workers
from onchip.sweeps.front import SoughtFront
from onchip.sweeps.machine import changed, machine_of
from onchip.sweeps.method_version import method_version
from onchip.sweeps.point import PointStatus, SweepPoint, SweptMachine
from onchip.sweeps.processes import LocalProcesses
from onchip.sweeps.store import Store
from onchip.sweeps.study import SRAM, PointLimits, Study, StudyQuestion
from onchip.sweeps.values import Scalar, number_of
from onchip.sweeps.verbs import VERBS, SweptVerb

EXACT: Final = "exact"
COSTS_OF_TRANSFERS: Final = ("traffic", "peak", "dma-cycles", "dma-energy")
"""Objectives whose value for a plan does not depend on the capacity in which it is."""
NEVER_SPLIT: Final = ("never", False)
"""Of a plan's `split` and `cap_tensors`: what is planned does not depend on the capacity."""


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """A study, the store that keeps it, and who computes it.

    `workers` are processes of this machine, unless there is a scheduler of Dask at `dask_address`. Without `prunes`
    every point is computed; with `retries_failed` those, too, that failed before. With `front_of`, a cost of the study,
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
    """What became of a study, which has this hash in its store: what of its points, and whether it is over."""

    study_sha256: str
    progress: SweepProgress
    is_over: bool


def _never() -> bool:
    """Nobody stops it."""
    return False


def _told_to_nobody(progress: SweepProgress) -> None:
    """Report to nobody."""


@phase("sweeping")
def run_sweep(
    request: SweepRequest,
    tell: Callable[[SweepProgress], None] = _told_to_nobody,
    is_stopped: Callable[[], bool] = _never,
) -> SweepOutcome:
    """Answer every point of a study that its store does not know.

    Raises InputError for networks, machines and parameters that do not exist or fit, and for a store that cannot be
    used: before anything is computed.
    """
    points = PointResolver(request.study).points()
    distinct = {point.key: point for point in points}
    with Store.for_writing(request.store) as store:
        study_sha256 = store.add_study(request.study.name, points)
        known = store.known(distinct)
        if request.retries_failed:
            known = {key: answer for key, answer in known.items() if answer.status is not PointStatus.FAILED}
        progress = SweepProgress(len(distinct), kept_before=len(known))
        front = _sought_front(request, distinct)
        is_beyond = None if front is None else front.is_beyond
        chains = [Bisection(keys, is_beyond) for keys in _chains(request, distinct)]
        sweep = Sweep(store, _workers(request), distinct, chains, progress, tell, is_stopped, front)
        is_over = sweep.run(known)
    return SweepOutcome(study_sha256, progress, is_over)


@dataclass(slots=True)
class PointResolver:
    """Turns a study's combinations into points; networks and machines are read once."""

    study: Study
    _accelerators: dict[str | None, Accelerator] = field(default_factory=dict)
    _machines: dict[tuple[object, ...], tuple[SweptMachine, int | None]] = field(default_factory=dict)
    _networks: dict[str, str] = field(default_factory=dict)

    def points(self) -> tuple[SweepPoint, ...]:
        """All points in the study's order; raises InputError for what cannot be read or does not fit."""
        combinations = list(self.study.combinations())
        if not combinations:
            raise InputError(
                "no combination of its parameters is allowed", place="constraints", expected="at least one"
            )
        return tuple(self._point(one) for one in combinations)

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
            self._accelerators[accelerator] = load_any_accelerator(accelerator, None)
        return machine_of(changed(self._accelerators[accelerator], values)), None


def _sought_front(request: SweepRequest, points: dict[str, SweepPoint]) -> SoughtFront | None:
    if request.front_of is None:
        return None
    if request.front_of not in request.study.costs:
        expected = f"a cost of the study: {', '.join(request.study.costs) or 'it has none'}"
        raise UsageError(f"{request.front_of!r} is none", place="--pareto", expected=expected)
    return SoughtFront(request.front_of, points)


def _chains(request: SweepRequest, points: dict[str, SweepPoint]) -> list[list[str]]:
    """The points in chains that differ in one capacity alone, least first; each alone where nothing follows of it."""
    axis = _capacity_axis(request.study) if request.prunes else None
    if axis is None:
        return [[key] for key in points]
    chains: dict[str, list[SweepPoint]] = {}
    for point in points.values():
        others = {name: value for name, value in point.parameters.items() if name != axis}
        place = repr((point.network, point.accelerator, point.objective, point.options, others))
        chains.setdefault(place, []).append(point)
    chained = [sorted(chain, key=lambda one: number_of(one.parameters[axis])) for chain in chains.values()]
    return [
        [point.key for point in part]
        for chain in chained
        for part in ([chain] if follows_of_capacity(chain[0]) else [[point] for point in chain])
    ]


def _capacity_axis(study: Study) -> str | None:
    """The capacity with the most values; None where the study has none."""
    axes = [parameter for parameter in study.parameters if parameter.is_capacity]
    return max(axes, key=lambda one: len(one.values)).name if axes else None


def follows_of_capacity(point: SweepPoint) -> bool:
    """Whether more capacity never makes this point's answer dearer, and its bound holds for all answers.

    That is so of plans by a method that proves its bound, of a problem that does not depend on the capacity: its
    network is not split to fit, and its order is not one of those that are found for it.
    """
    options = point.options
    splits = options.get("split", NEVER_SPLIT[0]), options.get("cap_tensors", NEVER_SPLIT[1])
    has_own_problem = splits == NEVER_SPLIT and options.get("order") != Order.MIN_PEAK
    if point.objective not in COSTS_OF_TRANSFERS:
        return False
    return point.verb is SweptVerb.PLAN and options.get("method", EXACT) == EXACT and has_own_problem


def _workers(request: SweepRequest) -> Workers:
    limits = request.study.limits
    if request.dask_address is None:
        return LocalProcesses(answer_point, request.workers, limits, partial(prepare_for, request.study.verb))
    if limits != PointLimits():
        expected = "limits of Dask's own workers"
        raise UsageError("the workers of a cluster are not ours to limit", place="--dask", expected=expected)
    from onchip.sweeps.dask_cluster import DaskCluster

    return DaskCluster.at(request.dask_address, answer_point)
