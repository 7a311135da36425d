"""Sweeps on one page: a study's questions resolved to points, answered by workers, kept in a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from onchip.api.phases import phase
from onchip.errors import UsageError
from onchip.sweeps.bisection import Bisection
from onchip.sweeps.engine import Sweep, SweepProgress, Workers
from onchip.sweeps.front import SoughtFront
from onchip.sweeps.point import PointStatus, SweepPoint
from onchip.sweeps.point_answer import answer_point, prepare_for
from onchip.sweeps.processes import LocalProcesses, answer_in_own_process
from onchip.sweeps.store import Store
from onchip.sweeps.study import PointLimits, Study
from onchip.sweeps.sweep_chains import chains_of
from onchip.sweeps.sweep_points import PointResolver

MANY_POINTS: Final = 500
"""Resolving so many takes as long as it takes workers to begin."""


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
        raise UsageError(f"{request.front_of!r} is none", place="--pareto", expected=expected)
    return SoughtFront(request.front_of, points)


def _workers(request: SweepRequest) -> Workers:
    limits = request.study.limits
    if request.dask_address is None:
        return LocalProcesses(answer_point, request.workers, limits, partial(prepare_for, request.study.verb))
    from onchip.sweeps.dask_cluster import DaskCluster

    if limits == PointLimits():
        return DaskCluster.at(request.dask_address, answer_point)
    in_own_process = partial(answer_in_own_process, answer_point, limits, partial(prepare_for, request.study.verb))
    return DaskCluster.at(request.dask_address, in_own_process)
