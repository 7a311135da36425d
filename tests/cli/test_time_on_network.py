"""`onchip time --network-on-chip`: mappings on CoSA's mesh."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.diamond import Program

LAYER = "conv:n1k16c8p8q4"


@pytest.fixture
def mappings(onchip: Program, tmp_path: Path) -> Path:
    path = tmp_path / "mapping.yaml"
    typed = ("map", LAYER, "--accelerator", "simba", "--objective", "latency", "-o", path, "--method", "loma")
    assert onchip(*typed).code == 0
    return path


def test_a_mapping_takes_as_long_as_computing_at_least(onchip: Program, mappings: Path) -> None:
    found = onchip("time", mappings, LAYER, "--network-on-chip", "--json").json
    (only,) = found["mappings"]
    assert found["total_cycles"] == only["cycles"] > only["compute_cycles"] > 0
    assert only["rounds"] == only["rounds_simulated"]
    shown = onchip("time", mappings, LAYER, "--network-on-chip")
    assert shown.code == 0
    assert f"{only['cycles']:,} cycles on the network" in shown.out


def test_a_mapping_that_is_not_legal_is_not_simulated(onchip: Program, mappings: Path) -> None:
    other = "conv:n1k16c8p8q5"
    ended = onchip("time", mappings, other, "--network-on-chip", "--json")
    assert (ended.code, ended.json["mappings"]) == (1, None)
    assert "none was simulated" in onchip("time", mappings, other, "--network-on-chip").out


def test_a_file_of_no_mappings_is_bad_input(onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"format": "onchip-plan", "version": 1}')
    ended = onchip("time", path, LAYER, "--network-on-chip")
    assert ended.code == 2
    assert "onchip-mapping" in ended.err


def test_a_machine_without_elements_is_bad_input(onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "mapping.yaml"
    assert onchip("map", LAYER, "--accelerator", "meta-prototype-df", "-o", path, "--method", "loma").code == 0
    ended = onchip("time", path, LAYER, "--network-on-chip")
    assert ended.code == 2
    assert "one shared memory above all others" in ended.err
