"""Workers on this machine: the end of one point never ends another."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from onchip.sweeps.point import PointAnswer, PointStatus, SweepPoint
from onchip.sweeps.processes import OUT_OF_MEMORY, LocalProcesses
from onchip.sweeps.study import PointLimits
from support.swept_points import after_a_while, as_its_key_says, at_once, point_of

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
