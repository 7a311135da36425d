"""Small input files for the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.diamond import Program, diamond_fields
from support.fused_files import CHIP, three_convolutions


@pytest.fixture
def diamond(tmp_path: Path) -> Path:
    path = tmp_path / "diamond.json"
    path.write_text(json.dumps(diamond_fields()))
    return path


@pytest.fixture
def chip(tmp_path: Path) -> Path:
    """Write a small machine for fused layers."""
    path = tmp_path / "chip.yaml"
    path.write_text(CHIP)
    return path


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Write a network of three convolutions for the small machine."""
    path = tmp_path / "three.json"
    path.write_text(three_convolutions())
    return path


@pytest.fixture
def planned(onchip: Program, diamond: Path, tmp_path: Path) -> Path:
    """Write a plan file for the diamond at M_R."""
    path = tmp_path / "plan.json"
    assert onchip("plan", diamond, "--sram", "130", "-o", path).code == 0
    return path
