"""The tensors that a plan counts by default."""

from __future__ import annotations

import pytest

from onchip.answer.problem import Count, Objective
from onchip.api.target import Target


@pytest.mark.parametrize(
    ("accelerator", "expected"),
    [(None, Count.ALL), ("simba", Count.ACTIVATIONS), ("nvdla-like", Count.ALL), ("h100-like", Count.ALL)],
)
def test_a_latency_counts_parameters_where_a_scratchpad_holds_weights(accelerator: str | None, expected: Count) -> None:
    assert Target(accelerator=accelerator).counted(Objective.LATENCY) is expected


@pytest.mark.parametrize("accelerator", [None, "simba", "nvdla-like"])
def test_traffic_counts_activations(accelerator: str | None) -> None:
    assert Target(accelerator=accelerator).counted(Objective.TRAFFIC) is Count.ACTIVATIONS
