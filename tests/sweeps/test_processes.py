"""Points in processes and on Dask's workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from onchip.errors import InputError
from onchip.search.strategy.start import NoAnswerError
from onchip.sweeps import processes
from onchip.sweeps.point import PointAnswer, PointStatus, SweepPoint
from onchip.sweeps.processes import OUT_OF_MEMORY, DaskCluster, LocalProcesses, answer_in_own_process, connected
from onchip.sweeps.study import PointLimits
from support.diamond import Program
from support.series import series
from support.swept_points import after_a_while, as_its_key_says, at_once, point_of

# Workers on this machine: the end of one point never ends another


MEMORY_BYTES = 2**31


def answers_of(
    keys: list[str],
    answer_point: Callable[[SweepPoint], PointAnswer],
    limits: PointLimits = PointLimits(),  # noqa: B008 (frozen)
    count: int = 2,
) -> dict[str, PointAnswer]:
    workers, waiting, found = LocalProcesses(answer_point, count, limits), keys[::-1], dict[str, PointAnswer]()
    try:
        while len(found) < len(keys):
            while waiting and workers.room:
                workers.submit(point_of(waiting.pop()))
            for point, answer in workers.finished(0.1):
                assert point.key not in found
                found[point.key] = answer
    finally:
        workers.close()
    return found


def test_every_point_is_answered_once() -> None:
    keys = [f"k{at}" for at in range(50)]
    assert answers_of(keys, at_once) == {key: at_once(point_of(key)) for key in keys}


@pytest.mark.slow
def test_a_point_that_fails_leaves_the_others_alone() -> None:
    keys = ["a", "dies", "b", "memory", "c", "raises", "d", "slow", "e", "dies 2", "f"]

    found = answers_of(keys, as_its_key_says, PointLimits(MEMORY_BYTES, 2.0))

    failed = {key: answer.reason for key, answer in found.items() if answer.status is PointStatus.FAILED}
    assert set(found) == set(keys)
    assert set(failed) == {"dies", "dies 2", "memory", "raises", "slow"}
    assert "killed" in str(failed["dies"])
    assert "memory" in str(failed["memory"])
    assert failed["raises"] == "ValueError: of this point"
    assert failed["slow"] == "the point exceeds its time limit of 2 s"


@pytest.mark.slow
def test_a_point_that_may_take_less_than_its_worker_has_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    found = answers_of(["memory 1", "memory 2"], as_its_key_says, PointLimits(memory_bytes=1))

    assert [answer.reason for answer in found.values()] == [OUT_OF_MEMORY] * 2
    assert capfd.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the system ends workers there")
def test_workers_die_with_a_killed_process() -> None:
    program = (
        "import time\nfrom onchip.sweeps.processes import LocalProcesses\nfrom onchip.sweeps.study import PointLimits\n"
        "from support.swept_points import as_its_key_says, point_of\n"
        "workers = LocalProcesses(as_its_key_says, 2, PointLimits())\n"
        "for key in ('slow 1', 'slow 2'): workers.submit(point_of(key))\n"
        "print(*(worker.process.pid for worker in workers._workers), flush=True)\ntime.sleep(60)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as killed:
        assert killed.stdout is not None
        pids = [int(pid) for pid in killed.stdout.readline().split()]
        time.sleep(1.0)
        killed.kill()
    assert len(pids) == 2
    for _ in range(100):
        if not any(is_running(pid) for pid in pids):
            return
        time.sleep(0.1)
    raise AssertionError("a worker outlives its sweep")


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 (of the system)
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_of_points_that_are_sent_together_the_one_that_ends_its_worker_fails() -> None:
    keys = [f"dies {at}" if at % 97 == 96 else f"k{at}" for at in range(500)]

    found = answers_of(keys, as_its_key_says, PointLimits(seconds=5.0))

    failed = {key for key, answer in found.items() if answer.status is PointStatus.FAILED}
    assert set(found) == set(keys)
    assert failed == {key for key in keys if key.startswith("dies")}


@pytest.mark.slow
def test_a_limit_is_of_one_point_and_not_of_those_that_are_sent_together() -> None:
    keys = [f"k{at}" for at in range(40)]

    found = answers_of(keys, after_a_while, PointLimits(seconds=0.6), count=1)

    assert {answer.status for answer in found.values()} == {PointStatus.OPTIMAL}
    assert sum(1 for _ in found) == 40


# Addresses that no scheduler can have: refused before any connection, so that no process is left to end


distributed = pytest.importorskip("distributed")


@pytest.mark.parametrize("address", ["", "localhost", "::1", "http://10.0.0.1:1", "tcp://10.0.0.1:port"])
def test_no_client_is_made_of_what_is_no_address(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: object, **__: object) -> None:
        raise AssertionError("a client that cannot connect hangs when the process ends")

    monkeypatch.setattr(distributed, "Client", made)
    with pytest.raises(InputError, match="no scheduler of Dask answers"):
        connected(address)


# A real local cluster of Dask: every point is answered once, even if workers die


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
