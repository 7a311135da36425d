"""A workspace that an operator declares has an address while the operator runs, and counts as room everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onchip.answer.document import Reading
from onchip.api.networks import network_to_plan, read_network
from onchip.errors import GraphError
from support.diamond import Json, Program, diamond_fields


def with_workspace(operator: str, size_bytes: int) -> Json:
    fields = diamond_fields()
    next(one for one in fields["operators"] if one["name"] == operator)["workspace_bytes"] = size_bytes
    return fields


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Return a network: M_R is that of `left`, 60 + 50 + 25 bytes; without spills `right` needs 160 + 0."""
    path = tmp_path / "own.json"
    path.write_text(json.dumps(with_workspace("left", 25)))
    return path


def test_it_counts_in_what_an_operator_needs(onchip: Program, network: Path) -> None:
    found = onchip("info", network, "--json").json
    assert (found["required_bytes"], found["required_by"]) == (135, "left")
    assert found["compulsory_bytes"] == 70


def test_it_has_an_address_and_moves_nowhere(onchip: Program, network: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    found = onchip("plan", network, "--sram", "m_r", "--json", "-o", plan).json
    assert (found["status"], found["arena_bytes"]) == ("OPTIMAL", 135)
    instructions = json.loads(plan.read_text())["instructions"]
    of_it = [one for one in instructions if "left@workspace" in json.dumps(one)]
    assert [next(iter(one)) for one in of_it] == ["allocate", "free"]
    at = instructions.index(of_it[0])
    assert {"compute": "left"} in instructions[at : instructions.index(of_it[1])]
    assert onchip("check", plan, network).code == 0
    assert onchip("run", plan, network).code == 0


def test_what_is_too_small_for_it_is_infeasible(onchip: Program, network: Path) -> None:
    assert onchip("plan", network, "--sram", 134).code == 3


def test_the_network_itself_stays_as_it_is(network: Path) -> None:
    graph = read_network(str(network), Reading())
    assert graph.operator["left"].workspace_bytes == 25
    assert "left@workspace" not in graph.tensor
    assert network_to_plan(str(network), Reading()).tensor["left@workspace"].size_bytes == 25


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    fields = with_workspace("left", 25)
    text = json.dumps(fields).replace('"r"', '"left@workspace"')
    path = tmp_path / "taken.json"
    path.write_text(text)
    with pytest.raises(GraphError, match="2 tensors have this name"):
        network_to_plan(str(path), Reading())


def test_fewer_than_no_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "negative.json"
    path.write_text(json.dumps(with_workspace("join", -1)))
    with pytest.raises(GraphError, match=r"operators\[3\].*its workspace has -1 bytes"):
        read_network(str(path), Reading())
