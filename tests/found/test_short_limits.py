"""`map` of a strided convolution: at short limits the even optimum was called OPTIMAL, and stayed so in the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.diamond import Program

LAYER = "conv:n1k64c3p112q112r7s7:stride2:pad3"
MACHINE = Path(__file__).with_name("architect.yaml")
FOUND = 652_552
"""Cycles of a mapping that a search of 20 s finds."""


@pytest.mark.slow
def test_a_short_limit_claims_no_more_than_it_proves(
    onchip: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCHIP_CACHE", str(tmp_path))
    before = None
    for seconds in (0.3, 1.5):
        arguments = ("map", LAYER, "--accelerator", MACHINE, "--objective", "latency", "--time-limit", seconds)
        answer = onchip(*arguments, "--json").json
        assert answer["space"] == "mappings without bypass"
        assert answer["lower_bound_of_any"] <= answer["lower_bound"] <= FOUND
        assert answer["status"] == "FEASIBLE" or answer["objective_value"] <= FOUND
        assert before is None or answer["objective_value"] <= before["objective_value"]
        assert before is None or answer["lower_bound"] >= before["lower_bound"]
        before = answer
