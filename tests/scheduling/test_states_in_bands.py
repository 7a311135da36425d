"""State tensors of tiled operators: pairs of bands that are states, and the loss without such pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper
from typer.testing import CliRunner

from onchip.answer.document import Reading
from onchip.answer.problem import Problem
from onchip.api.plan import tiled_one_by_one
from onchip.arch.memory import Memory
from onchip.cli import app
from onchip.errors import UsageError
from onchip.ir.graph import Graph, State
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.capacity.bounds import greatest_need
from support.onnx_networks import make_node, model, value
from support.tiled import tiled_to_fit

MAP = (1, 4, 24, 6)
MAP_BYTES = 4 * 24 * 6


def tensor(name: str, role: Role, shape: tuple[int, ...] = MAP) -> Tensor:
    return Tensor.of_shape(name, shape, 8, role)


def network(*operators: Operator, old: tuple[int, ...] = MAP, in_place: bool = False) -> Graph:
    """Return a network with a state: `old` is read, `new` is written; `w` are weights of a 3 x 3 convolution."""
    tensors = [tensor("x", Role.INPUT), tensor("old", Role.INPUT, old), tensor("new", Role.OUTPUT)]
    tensors += [tensor("w", Role.PARAMETER, (4, 4, 3, 3))]
    written = {name for operator in operators for name in operator.outputs} - {"new"}
    tensors += [tensor(name, Role.OUTPUT if name == "z" else Role.ACTIVATION) for name in sorted(written)]
    return Graph("network", tuple(tensors), operators, (State("old", "new", in_place=in_place),))


def convolution(source: str, output: str) -> Operator:
    attributes: dict[str, AttributeValue] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    return Operator(f"conv {output}", "Conv", (source,), (output,), ("w",), attributes)


def in_tiles(graph: Graph, capacity_bytes: int, alignment_bytes: int = 1) -> Graph:
    problem = Problem(graph, (Memory("sram", capacity_bytes, alignment_bytes),))
    found = tiled_to_fit(problem)
    assert greatest_need(Problem(found, problem.memories)).need_bytes <= capacity_bytes
    return found


ADDED = network(Operator("add", "Add", ("x", "old"), ("new",)), convolution("new", "z"), in_place=True)
OTHERWISE = network(convolution("old", "z"), Operator("neg", "Neg", ("x",), ("new",)))


@pytest.mark.parametrize("graph", [ADDED, OTHERWISE])
@pytest.mark.parametrize("capacity_bytes", [300, 500, 800])
def test_bands_of_a_state_are_states_that_make_it_up(graph: Graph, capacity_bytes: int) -> None:
    found = in_tiles(graph, capacity_bytes)
    pairs = [(found.tensor[state.old], found.tensor[state.new]) for state in found.states]
    assert len(pairs) > 1
    assert all((old.part_of, new.part_of, old.region) == ("old", "new", new.region) for old, new in pairs)
    assert sum(old.size_bytes for old, _ in pairs) == graph.tensor["old"].size_bytes


def test_a_tile_overwrites_the_one_band_that_it_reads() -> None:
    alone = network(Operator("add", "Add", ("x", "old"), ("new",)), in_place=True)
    assert all(state.in_place for state in in_tiles(alone, 300).states)
    own = network(convolution("old", "new"), in_place=True)
    assert not any(state.in_place for state in in_tiles(own, 500).states)


def test_tensors_of_other_shapes_are_no_state_in_bands() -> None:
    flat = network(Operator("use", "Neg", ("old",), ("z",)), Operator("neg", "Neg", ("x",), ("new",)), old=(1, 576))
    flat = Graph(
        flat.name,
        tuple(tensor("z", Role.OUTPUT, (1, 576)) if one.name == "z" else one for one in flat.tensors),
        flat.operators,
        flat.states,
    )
    assert in_tiles(flat, 700).states == ()
    assert in_tiles(flat, 2000).states == flat.states


def test_runs_of_several_inferences_carry_a_state_in_bands_on_or_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime runs the models: pip install 'onchip[run]'")
    monkeypatch.chdir(tmp_path)
    weights = numpy_helper.from_array(np.ones((4, 4, 3, 3), np.float32), "w")
    for shape, kept in ((MAP, True), ((1, 4, 12, 12), False)):
        nodes = [
            make_node("Conv", ["old", "w"], ["z"], name="conv", pads=[1, 1, 1, 1]),
            make_node("Add", ["x", "x"], ["new"], name="add"),
        ]
        content = model(nodes, [value("x", MAP), value("old", shape)], ["z", "new"], [weights])
        Path("n.onnx").write_bytes(content.SerializeToString())
        planned = ["plan", "n.onnx", "--state", "old=new", "--tiles", "auto", "--sram", "1856", "-o", "p.json"]
        asked = CliRunner().invoke(app, planned)
        assert asked.exit_code == 0, asked.output
        several = CliRunner().invoke(app, ["run", "p.json", "n.onnx", "--steps", "3"])
        assert several.exit_code == 0 if kept else isinstance(several.exception, UsageError), several.output
        assert CliRunner().invoke(app, ["run", "p.json", "n.onnx"]).exit_code == 0


def test_operators_that_fit_with_their_state_in_place_are_not_cut() -> None:
    problem = Problem(ADDED, (Memory("sram", 2 * MAP_BYTES),))
    assert greatest_need(problem).need_bytes == 2 * MAP_BYTES
    assert tiled_one_by_one(problem, "network.json", Reading()).problem == problem
    smaller = Problem(ADDED, (Memory("sram", 2 * MAP_BYTES - 1),))
    assert tiled_one_by_one(smaller, "network.json", Reading()).problem != smaller
