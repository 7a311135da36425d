"""docs/bundled.md lists the bundled networks and machines, with correct figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from onchip.formats.own.accelerator_yaml import bundled_accelerators
from onchip.formats.own.graph_json import bundled_networks, load_network
from onchip.transform.rewrite.activations import fuse

PAGE = (Path(__file__).parents[2] / "docs" / "bundled.md").read_text(encoding="utf-8")
WITH_FIGURES = [line for line in PAGE.splitlines() if line.startswith("| `") and line.count("|") == 7]


def test_every_bundled_name_is_listed() -> None:
    for name in (*bundled_networks(), *bundled_accelerators()):
        assert f"`{name}`" in PAGE, name


@pytest.mark.parametrize("line", WITH_FIGURES, ids=lambda line: line.split("`")[1])
def test_the_operators_in_the_table_are_the_networks(line: str) -> None:
    raw = load_network(line.split("`")[1])
    assert f"| {len(raw.operators)} / {len(fuse(raw).operators)} |" in line


def test_the_table_has_eight_networks() -> None:
    assert len(WITH_FIGURES) == 8
