"""Negative padding crops the input: no loop nest contains the cropped elements."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from support.diamond import Program
from support.series import series
from support.small_schedules import schedule_check_and_run

FOLDER = Path(__file__).parent


def network(random: Random) -> dict[str, Any]:
    """Return a convolution, a pool or a transposed convolution with any padding, and a convolution that reads it."""
    rows, columns, kernel, stride = (
        random.randint(5, 8),
        random.randint(5, 8),
        random.randint(1, 3),
        random.randint(1, 2),
    )
    pads = [random.randint(-2, kernel - 1) for _ in range(4)]
    kind = random.choice(("Conv", "MaxPool", "ConvTranspose"))
    sizes = [
        (size - 1) * stride + kernel - pads[at] - pads[at + 2]
        if kind == "ConvTranspose"
        else (size + pads[at] + pads[at + 2] - kernel) // stride + 1
        for at, size in enumerate((rows, columns))
    ]
    attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads}
    first = {"name": "first", "kind": kind, "inputs": ["x"], "outputs": ["a"], "attributes": attributes}
    first |= {} if kind == "MaxPool" else {"parameters": ["w"]}
    second = {"name": "second", "kind": "Conv", "inputs": ["a"], "parameters": ["v"], "outputs": ["y"]}
    shapes = {"x": [1, 2, rows, columns], "a": [1, 2, *sizes], "w": [2, 2, kernel, kernel], "v": [3, 2, 1, 1]}
    roles = {"x": "input", "a": "activation", "w": "parameter", "v": "parameter", "y": "output"}
    shapes["y"] = [1, 3, *sizes]
    tensors = [{"name": name, "shape": shapes[name], "bits": 8, "role": role} for name, role in roles.items()]
    tensors = [one for one in tensors if kind != "MaxPool" or one["name"] != "w"]
    document = {"format": "onchip-graph", "version": 1, "name": "cut", "tensors": tensors}
    return {**document, "operators": [first, {**second, "attributes": {"kernel_shape": [1, 1]}}]}


@pytest.mark.parametrize("stacks", ["layers", "optimal"])
def test_a_convolution_with_negative_padding_is_scheduled(stacks: str, onchip: Program, tmp_path: Path) -> None:
    path = FOLDER / "schedules" / "negative-pads.graph.json"
    schedule_check_and_run(onchip, path, tmp_path, "simba", "--objective", "traffic", "--groups", stacks)


@pytest.mark.parametrize("seed", series(range(10), 1))
def test_windows_with_any_padding_are_scheduled(seed: int, onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "network.json"
    path.write_text(json.dumps(network(Random(seed))))
    objective = ("traffic", "energy", "latency")[seed % 3]
    schedule_check_and_run(onchip, path, tmp_path, "simba", "--objective", objective)
