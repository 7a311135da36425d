"""A network scheduled, checked and run through the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.diamond import Program


def schedule_check_and_run(
    onchip: Program, network: Path, folder: Path, accelerator: str | Path, *options: object
) -> dict[str, Any]:
    """Return the output of `schedule --json`, after checking its bound, its legality and its run's values."""
    answer = folder / "schedule.json"
    ended = onchip("schedule", network, "--accelerator", accelerator, "--no-cache", "--json", "-o", answer, *options)
    assert ended.code == 0, ended.err
    found: dict[str, Any] = ended.json
    assert found["lower_bound"] <= found["objective_value"]
    checked = onchip("check", answer, network)
    assert checked.code == 0, checked.out
    run = onchip("run", answer, network)
    assert run.code == 0, run.out + run.err
    return found
