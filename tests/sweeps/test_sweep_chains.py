"""Points of a study that follow from others: only plans whose problem is the same at every capacity."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.sweeps.point import SweptMachine, SweptVerb
from onchip.sweeps.study import study_of, study_of_value
from onchip.sweeps.sweep import PointResolver, chains_of, follows_of_capacity
from support.swept_points import point_of
from support.toy_chip import CHIP

POINT = point_of("k")


@pytest.mark.parametrize("objective", ["traffic", "peak", "dma-cycles", "dma-energy", "recomputation"])
def test_plans_that_cost_the_same_in_any_memory_that_holds_them_follow(objective: str) -> None:
    assert follows_of_capacity(replace(POINT, objective=objective, machine=SweptMachine("chip", CHIP, "sha")))
    assert follows_of_capacity(replace(POINT, options={"order": "given", "bits": 8, "placement": "static"}))
    assert follows_of_capacity(replace(POINT, options={"recompute": "allowed", "recompute_price": 1.0}))


@pytest.mark.parametrize(
    "options", [{"method": "belady"}, {"tiles": "auto"}, {"cap_tensors": True}, {"order": "min-peak"}]
)
def test_plans_of_another_problem_at_another_capacity_do_not_follow(options: dict[str, object]) -> None:
    assert not follows_of_capacity(replace(POINT, options=options))


def test_answers_of_other_verbs_do_not_follow() -> None:
    for verb in (SweptVerb.MAP, SweptVerb.FUSE, SweptVerb.SCHEDULE):
        assert not follows_of_capacity(replace(POINT, verb=verb))


def test_least_latency_follows_where_operators_last_as_long_in_every_memory() -> None:
    timed = replace(POINT, objective="latency")
    assert follows_of_capacity(timed)
    assert follows_of_capacity(replace(timed, options={"time_limit": 5.0, "cost": "macs"}))
    assert not follows_of_capacity(replace(timed, options={"time_limit": 5.0}))
    assert not follows_of_capacity(replace(timed, options={"method": "another"}))


def test_plans_of_least_latency_are_chained_by_the_size_of_a_scratchpad_alone() -> None:
    sizes = {"path": "memories.buffer.capacity", "values": ["1MiB", "2MiB", "4MiB"]}
    rates = {"path": "dram.ports.0.bits_per_cycle", "values": [64, 128]}
    fields: dict[str, object] = {
        "networks": ["lenet5"],
        "accelerators": ["soma-edge"],
        "objectives": ["latency"],
        "parameters": {"size": sizes, "rate": rates},
    }
    study = study_of(study_of_value(fields), "timed")
    resolver = PointResolver(study)
    points = {point.key: point for point in resolver.points(resolver.questions())}

    chains = chains_of(study, points, prunes=True)

    parameters = [[tuple(points[key].parameters.values()) for key in chain] for chain in chains]
    mib = 2**20
    assert parameters == [[(mib, rate), (2 * mib, rate), (4 * mib, rate)] for rate in (64, 128)]
    assert [len(chain) for chain in chains_of(study, points, prunes=False)] == [1] * 6
