"""Which points of a study follow from others: plans whose problem is the same at every capacity, and no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.app.sweep import follows_of_capacity
from onchip.sweeps.verbs import SweptVerb
from support.swept_points import point_of

POINT = point_of("k")


@pytest.mark.parametrize("objective", ["traffic", "peak", "dma-cycles", "dma-energy"])
def test_plans_that_cost_the_same_in_any_memory_that_holds_them_follow(objective: str) -> None:
    assert follows_of_capacity(replace(POINT, objective=objective))
    assert follows_of_capacity(replace(POINT, options={"order": "given", "bits": 8, "placement": "static"}))


@pytest.mark.parametrize(
    "options", [{"method": "belady"}, {"split": "auto"}, {"cap_tensors": True}, {"order": "min-peak"}]
)
def test_plans_of_another_problem_at_another_capacity_do_not_follow(options: dict[str, object]) -> None:
    assert not follows_of_capacity(replace(POINT, options=options))


def test_answers_of_other_verbs_and_least_latency_do_not_follow() -> None:
    for verb in (SweptVerb.MAP, SweptVerb.FUSE, SweptVerb.SCHEDULE):
        assert not follows_of_capacity(replace(POINT, verb=verb))
    assert not follows_of_capacity(replace(POINT, objective="latency"))
