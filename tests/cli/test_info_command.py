from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from support.diamond import Program

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def test_the_diamond_is_described_as_worked_out_by_hand(onchip: Program, diamond: Path) -> None:
    ended = onchip("info", diamond, "--json")

    assert ended.code == 0
    assert ended.json["operators"] == 4
    assert ended.json["tensors"]["activation"] == {"count": 3, "bytes": 160}
    assert (ended.json["required_bytes"], ended.json["required_by"]) == (130, "join")
    assert ended.json["min_peak_bytes"] == 160
    assert ended.json["compulsory_bytes"] == 70
    assert ended.json["largest_tensors"][0] == {"name": "s", "role": "activation", "shape": [1, 60], "bytes": 60}


def test_a_person_reads_the_same(onchip: Program, diamond: Path) -> None:
    out = onchip("info", diamond).out

    assert "130 bytes, set by join" in out
    assert "160 bytes" in out
    assert "1x60" in out


def test_resnet50_of_the_onnx_wheel_is_what_its_paper_says(onchip: Program) -> None:
    """53 convolutions, 16 additions, 2 poolings, a fully connected layer and a softmax, each with its activation."""
    found = onchip("info", LIGHT / "light_resnet50.onnx", "--bits", "8", "--json").json

    assert found["operators"] == 53 + 16 + 2 + 1 + 1
    assert found["tensors"]["input"] == {"count": 1, "bytes": 3 * 224 * 224}
    assert found["tensors"]["output"] == {"count": 1, "bytes": 1000}
    assert found["largest_tensors"][0]["bytes"] == 64 * 112 * 112
    assert found["required_bytes"] == 3 * 256 * 56 * 56


@pytest.mark.parametrize("verb", ["networks", "accelerators"])
def test_what_is_bundled_is_listed(onchip: Program, verb: str) -> None:
    ended = onchip(verb, "--json")

    assert ended.code == 0
    assert ended.json[verb]
    first = ended.json[verb][0]
    assert (first if isinstance(first, str) else first["name"]) in onchip(verb).out


def test_a_bundled_network_can_be_described(onchip: Program) -> None:
    name = onchip("networks", "--json").json["networks"][0]

    assert onchip("info", name, "--time-limit", "0.5", "--json").code == 0


def test_the_version_is_told(onchip: Program) -> None:
    ended = onchip("--version")

    assert ended.code == 0
    assert ended.out.startswith("onchip 0.")
