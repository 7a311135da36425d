"""Layers of a network searched by a local cluster of Dask: the same answers as locally, within the same limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from onchip import load_network, pareto
from onchip.answer.options.fusion_options import Placements
from onchip.answer.options.schedule_options import ScheduleOptions
from onchip.errors import InputError
from onchip.search.strategy.pool import DaskPool, dask_pool
from onchip.search.strategy.start import NoAnswerError
from support.diamond import Program
from support.small_schedules import chip, three

distributed = pytest.importorskip("distributed")

NOBODY = "tcp://127.0.0.1:1"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=60
    ) as started:
        yield started.scheduler_address


def doubled(number: int) -> int:
    if number < 0:
        raise ValueError(f"of {number}")
    return 2 * number


def slept(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_questions_are_answered_or_raise_what_they_raise(address: str) -> None:
    with dask_pool(address) as pool:
        assert pool is not None
        assert pool.room == 2
        pending = [pool.submit(doubled, number) for number in range(6)]
        assert [one.get() for one in pending] == [0, 2, 4, 6, 8, 10]
        with pytest.raises(ValueError, match="of -1"):
            pool.submit(doubled, -1).get()


@pytest.mark.slow
def test_waiting_for_an_answer_ends_in_time(address: str) -> None:
    with dask_pool(address) as pool:
        assert pool is not None
        one = pool.submit(slept, 0.4)
        one.wait(0.05)
        assert not one.ready()
        while not one.ready():
            one.wait(0.05)
        assert one.get() == 0.4


def test_a_scheduler_that_goes_away_is_said() -> None:
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None, silence_logs=60) as lost:
        client = distributed.Client(lost.scheduler_address, set_as_default=False)
        one = DaskPool(client).submit(slept, 0.0)
        one.get()
    client.close()
    with pytest.raises(NoAnswerError, match="the scheduler of Dask is gone"):
        one.ready()


@pytest.mark.parametrize("objective", ["energy", "latency"])
def test_map_finds_on_a_cluster_what_it_finds_here(address: str, onchip: Program, objective: str) -> None:
    how = ("--objective", objective, "--method", "exact-even", "--no-cache", "--json")
    asked = ("map", "lenet5", "--accelerator", "meta-prototype-df", *how)
    here, there, threads = onchip(*asked), onchip(*asked, "--dask", address), onchip(*asked, "--workers", "2")
    assert here.code == there.code == threads.code == 0
    assert _without_seconds(here.json) == _without_seconds(there.json) == _without_seconds(threads.json)


def _without_seconds(said: Any) -> Any:  # noqa: ANN401 (JSON)
    if isinstance(said, dict):
        return {key: _without_seconds(value) for key, value in said.items() if key != "seconds"}
    return [_without_seconds(one) for one in said] if isinstance(said, list) else said


@pytest.mark.slow
def test_a_time_limit_holds_on_a_cluster(address: str, onchip: Program) -> None:
    said = onchip(
        *("map", "lenet5", "--accelerator", "simba", "--no-cache", "--time-limit", "2", "--dask", address, "--json")
    )
    assert said.code == 0
    assert {layer["status"] for layer in said.json["layers"]} <= {"OPTIMAL", "FEASIBLE"}


def test_what_cannot_be_mapped_is_said_as_here(address: str, onchip: Program) -> None:
    asked = ("map", "gemm:m5040n720720k720720", "--accelerator", "simba", "--method", "exact-even")
    here, there = onchip(*asked), onchip(*asked, "--dask", address)
    assert (there.code, there.err) == (here.code, here.err) == (2, here.err)
    assert "tile shapes" in here.err


@pytest.mark.slow
def test_fuse_finds_on_a_cluster_what_it_finds_here(address: str, onchip: Program) -> None:
    asked = ("fuse", "lenet5", "--accelerator", "meta-prototype-df", "--no-cache", "--json")
    here, there = onchip(*asked), onchip(*asked, "--dask", address)
    assert here.code == there.code == 0
    for key in ("status", "objective_value", "lower_bound", "optimal_among", "bound_among", "stacks"):
        assert there.json[key] == here.json[key]


@pytest.mark.parametrize("verb", ["map", "fuse", "schedule"])
def test_a_scheduler_that_is_not_there_is_said_in_a_line(
    onchip: Program, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onchip.search.strategy.pool.SECONDS_TO_CONNECT", 0.3)
    said = onchip(verb, "minerva", "--accelerator", "meta-prototype-df", "--dask", NOBODY)
    assert said.code == 2
    assert said.out == ""
    assert "--dask: no scheduler of Dask answers" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_schedule_finds_on_a_cluster_what_it_finds_here(address: str, onchip: Program, objective: str) -> None:
    how = ("--objective", objective, "--groups", "layers", "--no-cache", "--json")
    asked = ("schedule", three(), "--accelerator", chip(), *how)
    here, there = onchip(*asked), onchip(*asked, "--dask", address)
    assert here.code == there.code == 0
    assert _without_seconds(here.json) == _without_seconds(there.json)


@pytest.mark.slow
def test_a_front_of_schedules_found_on_a_cluster_is_that_found_here(address: str, onchip: Program) -> None:
    how = ("--groups", "layers", "--placements", "dram", "--pareto", "energy,latency", "--no-cache", "--json")
    asked = ("schedule", three(), "--accelerator", chip(), *how)
    here, there = onchip(*asked), onchip(*asked, "--dask", address)
    assert here.code == there.code == 0
    assert _without_seconds(here.json) == _without_seconds(there.json)


@pytest.mark.slow
def test_the_library_finds_a_front_on_a_cluster_or_says_that_none_is_there(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ScheduleOptions(groups="layers", placements=Placements.DRAM)
    here, there = (pareto(load_network(three(), bits=8), chip(), options=options, workers=one) for one in (1, address))
    assert [one.figures for one in there.points] == [one.figures for one in here.points]
    monkeypatch.setattr("onchip.search.strategy.pool.SECONDS_TO_CONNECT", 0.3)
    with pytest.raises(InputError, match="no scheduler of Dask answers"):
        pareto(three(), chip(), options=options, workers=NOBODY)


@pytest.mark.slow
def test_a_time_limit_of_a_schedule_holds_on_a_cluster(address: str, onchip: Program) -> None:
    asked = ("schedule", "lenet5", "--accelerator", "edge-tpu-like", "--no-cache", "--time-limit", "1", "--json")
    said = onchip(*asked, "--dask", address)
    assert said.code == 0
    assert said.json["status"] == "FEASIBLE"
