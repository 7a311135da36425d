"""onnxruntime reads the plan back from the model without knowing its format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from onchip.answer.document import Claim, PlanDocument, Reading, Source
from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute
from onchip.api.networks import read_network
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory, Operand
from onchip.errors import InputError
from onchip.formats.onnx.metadata import metadata_of, model_with_metadata
from onchip.ir.graph import Graph
from support.onnx_networks import make_node, model, value
from support.tiled import tiled_to_fit

onnxruntime = pytest.importorskip("onnxruntime")

SHAPE = [4, 4]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Save a model with an unnamed node, two fused nodes, a weight, and metadata of a third party."""
    nodes = [
        make_node("MatMul", ["x", "w"], ["a"], name="multiply"),
        make_node("Relu", ["a"], ["b"], name="activate"),
        make_node("Neg", ["x"], ["c"]),
        make_node("Add", ["b", "c"], ["y"], name="join"),
    ]
    weight = numpy_helper.from_array(np.arange(16, dtype=np.float32).reshape(SHAPE), "w")
    network = model(nodes, [value("x", SHAPE)], [value("y", SHAPE)], [weight], opset=17)
    network.ir_version = 8
    network.metadata_props.add(key="author", value="somebody")
    file = tmp_path / "model.onnx"
    onnx.save(network, file)
    return file


def document_for(path: Path) -> tuple[PlanDocument, Graph]:
    graph = read_network(str(path))
    problem = Problem(graph, (Memory("sram", 4 * 64, 16),))
    result = plan_problem(problem)
    assert result.answer is not None
    assert result.objective_value is not None
    claim = Claim(result.method, result.status, problem.objective, result.objective_value, result.lower_bound)
    return PlanDocument(Source(graph.name), Source("sram"), Reading(), result.answer, claim), graph


def export(path: Path, target: Path) -> PlanDocument:
    document, graph = document_for(path)
    target.write_bytes(model_with_metadata(path, metadata_of(document, graph), target))
    return document


def metadata_in(path: Path) -> dict[str, str]:
    """Return the metadata that onnxruntime gives to its caller."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found: dict[str, str] = session.get_modelmeta().custom_metadata_map
    return found


def run(path: Path) -> npt.NDArray[np.float32]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": np.linspace(-1, 1, 16, dtype=np.float32).reshape(SHAPE)})
    return np.asarray(result, np.float32)


def test_offsets_and_order_are_read_back_from_the_runtime(path: Path, tmp_path: Path) -> None:
    document = export(path, tmp_path / "planned.onnx")
    found = metadata_in(tmp_path / "planned.onnx")

    residencies = json.loads(found["onchip.residencies"])
    allocates = [line for line in document.answer.instructions if isinstance(line, Allocate)]
    assert [Allocate(one["tensor"], one["memory"], one["offset_bytes"]) for one in residencies] == allocates
    order = json.loads(found["onchip.order"])
    computes = [line.operator for line in document.answer.instructions if isinstance(line, Compute)]
    assert [step["operator"] for step in order] == computes
    memories = tuple(Memory(**memory) for memory in json.loads(found["onchip.memories"]))
    assert memories == document.answer.memories
    for step, operator in enumerate(order):
        operands = {*read_network(str(path)).operator[operator["operator"]].outputs}
        resident = {one["tensor"] for one in residencies if one["start_step"] <= step < one["stop_step"]}
        assert operands <= resident


def test_all_else_in_the_model_is_as_it_was(path: Path, tmp_path: Path) -> None:
    export(path, tmp_path / "planned.onnx")
    before, after = onnx.load(path), onnx.load(tmp_path / "planned.onnx")

    assert metadata_in(tmp_path / "planned.onnx")["author"] == "somebody"
    assert after.ir_version == 8
    del before.metadata_props[:], after.metadata_props[:]
    for place in (*after.graph.node, *after.graph.input, *after.graph.output):
        del place.metadata_props[:]
    assert after == before
    np.testing.assert_array_equal(run(path), run(tmp_path / "planned.onnx"))


@pytest.fixture
def external(path: Path) -> Path:
    """Save the same model with its weight in a separate file."""
    file = path.with_name("external.onnx")
    network = onnx.load(path)
    onnx.save(network, file, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert network.graph.initializer[0].data_location == TensorProto.EXTERNAL
    return file


def test_external_data_stay_where_they_are(path: Path, external: Path, tmp_path: Path) -> None:
    weights = tmp_path / "weights.bin"
    before = (weights.read_bytes(), weights.stat().st_mtime_ns)
    export(external, tmp_path / "planned.onnx")

    (initializer,) = onnx.load(tmp_path / "planned.onnx", load_external_data=False).graph.initializer
    assert initializer.data_location == TensorProto.EXTERNAL
    assert not initializer.raw_data
    assert (weights.read_bytes(), weights.stat().st_mtime_ns) == before
    np.testing.assert_array_equal(run(path), run(tmp_path / "planned.onnx"))


def test_a_model_that_would_not_find_its_external_data_is_refused(external: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(InputError, match=r"'weights\.bin' would not be beside it") as refused:
        export(external, tmp_path / "elsewhere" / "planned.onnx")
    assert refused.value.file == str(tmp_path / "elsewhere" / "planned.onnx")

    (tmp_path / "elsewhere" / "weights.bin").symlink_to(tmp_path / "weights.bin")
    export(external, tmp_path / "elsewhere" / "planned.onnx")


def test_tiles_name_the_nodes_of_their_operator_and_the_region_that_each_writes(path: Path, tmp_path: Path) -> None:
    whole = read_network(str(path))
    memory = Memory("sram", 2 * 64 + 48, holds=(Operand.OUTPUT, Operand.INPUT))
    graph = tiled_to_fit(Problem(whole, (memory,)), is_model=True)
    result = plan_problem(Problem(graph, (memory,)))
    assert result.answer is not None
    document = PlanDocument(Source(graph.name), Source("sram"), Reading(), result.answer)
    found = metadata_of(document, graph)

    steps = [step for step in json.loads(found["onchip.order"]) if step["operator"].startswith("join#")]
    assert len(steps) > 1
    assert {tuple(step["nodes"]) for step in steps} == {("join",)}
    written = [step["regions"]["y"] for step in steps]
    elements = {(row, column) for rows, columns in written for row in range(*rows) for column in range(*columns)}
    assert len(elements) == sum((rows[1] - rows[0]) * (columns[1] - columns[0]) for rows, columns in written) == 16
    assert [memory["holds"] for memory in json.loads(found["onchip.memories"])] == [["output", "input"]]
