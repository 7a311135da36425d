"""A real local cluster of Dask: every point is answered once, even if workers die."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from onchip.errors import InputError
from onchip.search.strategy.start import NoAnswerError
from onchip.sweeps import processes
from onchip.sweeps.point import PointAnswer, PointStatus
from onchip.sweeps.processes import DaskCluster, answer_in_own_process
from onchip.sweeps.study import PointLimits
from support.diamond import Program
from support.series import series
from support.swept_points import after_a_while, as_its_key_says, point_of

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=4, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=60
    ) as started:
        yield started


@pytest.mark.slow
def test_all_points_are_answered_once_though_a_worker_is_killed(cluster: Any) -> None:  # noqa: ANN401 (without types)
    workers = DaskCluster.at(cluster.scheduler_address, after_a_while)
    waiting = [f"k{at}" for at in range(80)]
    answers: Counter[str] = Counter()
    pids = list(workers.client.run(os.getpid).values())
    try:
        while sum(answers.values()) < 80:
            while waiting and workers.room > 0:
                workers.submit(point_of(waiting.pop()))
            for point, answer in workers.finished(0.1):
                assert answer.status is PointStatus.OPTIMAL
                answers[point.key] += 1
                if sum(answers.values()) == 20:
                    os.kill(pids[0], signal.SIGKILL)
    finally:
        workers.close()

    assert len(pids) == 4
    assert set(answers.values()) == {1}
    assert len(answers) == 80


@pytest.mark.slow
def test_a_point_that_kills_every_worker_fails_alone(cluster: Any) -> None:  # noqa: ANN401 (without types)
    workers = DaskCluster.at(cluster.scheduler_address, as_its_key_says)
    found: dict[str, PointAnswer] = {}
    try:
        for key in ("dies", "raises", "a"):
            workers.submit(point_of(key))
        while len(found) < 3:
            found |= {point.key: answer for point, answer in workers.finished(0.5)}
    finally:
        workers.close()
    assert found["a"].status is PointStatus.OPTIMAL
    assert found["raises"].reason == "ValueError: of this point"
    assert found["dies"].status is PointStatus.FAILED


@pytest.mark.slow
def test_limits_of_a_point_hold_on_a_cluster(cluster: Any) -> None:  # noqa: ANN401 (without types)
    limited = partial(answer_in_own_process, as_its_key_says, PointLimits(2**31, 2.0), nothing)
    workers = DaskCluster.at(cluster.scheduler_address, limited)
    found: dict[str, PointAnswer] = {}
    try:
        for key in ("dies", "memory", "slow", "a", "b"):
            workers.submit(point_of(key))
        while len(found) < 5:
            found |= {point.key: answer for point, answer in workers.finished(0.5)}
    finally:
        workers.close()
    assert {key for key, answer in found.items() if answer.status is PointStatus.FAILED} == {"dies", "memory", "slow"}
    assert found["slow"].reason == "the point exceeds its time limit of 2 s"
    assert "memory" in str(found["memory"].reason)


def nothing() -> None:
    """Do nothing: no prior state is needed."""


def drain(workers: DaskCluster) -> None:
    for _ in range(600):
        for _, answer in workers.finished(0.2):
            assert answer.status is PointStatus.OPTIMAL


def test_a_sweep_on_a_cluster_finds_what_processes_find(cluster: Any, onchip: Program, tmp_path: Path) -> None:  # noqa: ANN401
    asked = ("sweep", "lenet5", "densenet121", "--sram", "1MiB..2MiB", "--steps", "6", "--option", "bits=8", "--json")
    there = onchip(*asked, "--store", tmp_path / "there.db", "--dask", cluster.scheduler_address).json
    here = onchip(*asked, "--store", tmp_path / "here.db").json

    assert there["is_over"]
    assert there["failed"] == 0
    known = [[{**row, "seconds": 0} for row in found["rows"]] for found in (there, here)]
    assert known[0] == known[1]


@pytest.fixture
def soon_tired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the wait for a scheduler to two seconds."""
    monkeypatch.setattr(processes, "SECONDS_TO_CONNECT", 2)


@pytest.mark.slow
@pytest.mark.usefixtures("soon_tired")
def test_a_scheduler_that_goes_away_ends_the_sweep_in_a_line() -> None:
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None, silence_logs=60) as lost:
        workers = DaskCluster.at(lost.scheduler_address, after_a_while)
        for at in range(40):
            workers.submit(point_of(f"k{at}"))
    with pytest.raises(NoAnswerError, match="the scheduler of Dask is gone"):
        drain(workers)
    workers.close()


@pytest.mark.slow
@pytest.mark.usefixtures("soon_tired")
@pytest.mark.parametrize("address", series(["tcp://127.0.0.1:1", "nonsense://x"], 1))
def test_a_scheduler_that_is_not_there_is_said(address: str) -> None:
    with pytest.raises(InputError, match="no scheduler of Dask answers"):
        DaskCluster.at(address, after_a_while)
