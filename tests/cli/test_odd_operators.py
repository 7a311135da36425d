"""Operators without inputs, with too few inputs, or on scalars: an answer or one line, never a defect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.diamond import Program

MAP = (1, 4, 8, 8)
NOTHING, A_PARAMETER, A_SCALAR = "nothing", "a parameter", "a scalar"
VERBS = {
    "plan": "--sram m_r --count all --tiles auto",
    "map": "--accelerator simba --time-limit 0.5 --no-cache",
    "fuse": "--accelerator simba --time-limit 0.5 --no-cache",
    "schedule": "--accelerator simba --time-limit 0.5 --no-cache",
}
CASES = [
    ("RandomNormal", NOTHING, "fuse schedule"),
    ("MatMul", NOTHING, "fuse"),
    ("MaxPool", NOTHING, "fuse"),
    ("GlobalAveragePool", NOTHING, "fuse map schedule"),
    ("Einsum", NOTHING, "fuse"),
    ("Pad", NOTHING, "schedule"),
    ("LayerNormalization", A_PARAMETER, "map"),
    ("GlobalAveragePool", A_PARAMETER, "schedule"),
    ("HeadProducts", A_PARAMETER, "fuse"),
    ("BatchNormalization", A_PARAMETER, "fuse map schedule"),
    ("Pad", A_PARAMETER, "schedule"),
    ("Relu", A_SCALAR, "plan"),
    ("GlobalAveragePool", A_SCALAR, "plan"),
    ("HeadProducts", A_SCALAR, "fuse"),
    ("Concat", A_SCALAR, "fuse"),
    ("BatchNormalization", A_SCALAR, "fuse map schedule"),
]


def network_with(kind: str, reads: str) -> dict[str, object]:
    """Return a network of an operator of this kind, and the sum of the input and its output."""
    shape = [] if reads == A_SCALAR else list(MAP)
    roles = {"x": "input", "r": "activation", "y": "output"} | ({"p": "parameter"} if reads == A_PARAMETER else {})
    odd: dict[str, object] = {
        "name": "odd",
        "kind": kind,
        "inputs": ["x"] if reads == A_SCALAR else [],
        "outputs": ["r"],
    }
    if reads == A_PARAMETER:
        odd["parameters"] = ["p"]
    return {
        "format": "onchip-graph",
        "version": 1,
        "name": "odd",
        "tensors": [{"name": name, "shape": shape, "bits": 8, "role": role} for name, role in roles.items()],
        "operators": [odd, {"name": "sum", "kind": "Add", "inputs": ["x", "r"], "outputs": ["y"]}],
    }


@pytest.mark.parametrize(
    ("kind", "reads", "verb"), [(kind, reads, verb) for kind, reads, verbs in CASES for verb in verbs.split()]
)
def test_an_odd_operator_is_no_defect(onchip: Program, tmp_path: Path, kind: str, reads: str, verb: str) -> None:
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(network_with(kind, reads)))
    ended = onchip(verb, path, *VERBS[verb].split())

    assert ended.code in ((0, 2) if verb == "fuse" else (0,)), ended.err
    assert ended.err.count("\n") == (ended.code == 2)
