"""`plan --tiles` with an operator that fits in no tiling: proven infeasible, and named with its smallest tile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onchip.commands.show import code_of_refusal
from onchip.errors import UntiledError
from support.diamond import Program


def network(folder: Path, kind: str, shape: list[int]) -> Path:
    fields = {
        "format": "onchip-graph",
        "version": 1,
        "name": "single",
        "tensors": [
            {"name": "x", "shape": shape, "bits": 8, "role": "input"},
            {"name": "y", "shape": shape, "bits": 8, "role": "output"},
        ],
        "operators": [{"name": "op", "kind": kind, "inputs": ["x"], "outputs": ["y"], "attributes": {"axis": -1}}],
    }
    path = folder / "network.json"
    path.write_text(json.dumps(fields))
    return path


@pytest.mark.parametrize(("kind", "smallest"), [("Softmax", 20), ("NonMaxSuppression", 80)])
def test_an_operator_of_which_no_part_fits_is_infeasible(
    kind: str, smallest: int, onchip: Program, tmp_path: Path
) -> None:
    asked = ("plan", network(tmp_path, kind, [4, 10]), "--sram", str(smallest - 1), "--tiles", "auto", "--json")
    ended = onchip(*asked)
    assert ended.code == 3
    assert ended.json["status"] == "INFEASIBLE"
    found = [ended.json[f"{name}_bytes"] for name in ("need", "smallest_part", "capacity", "excess")]
    assert found == [80, smallest, smallest - 1, 1]
    assert ended.json["operator"] == "op"
    assert len(ended.err.strip().splitlines()) == 1
    roomier = ("plan", asked[1], "--sram", str(smallest), "--tiles", "auto", "--json")
    assert onchip(*roomier).code == 0


@pytest.mark.parametrize(("is_proven", "code"), [(True, 3), (False, 4)])
def test_what_was_not_found_is_not_called_infeasible(is_proven: bool, code: int) -> None:
    error = UntiledError(
        "none was found",
        operator="op",
        need_bytes=8,
        smallest_part_bytes=2,
        capacity_bytes=4,
        is_proven=is_proven,
        expected="room",
    )
    assert code_of_refusal(error) == code
    assert error.excess_bytes == 0
