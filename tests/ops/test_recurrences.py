"""Recurrent operators as loop nests: executed product by product they give the runtime's values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.document import Reading
from onchip.api.networks import read_network
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import NetworkLayers, layers_of
from oracles.loop_nest import PlainNest
from support.recurrent_cells import Case, Values, cases


def sigmoid(values: Values) -> Values:
    return 1 / (1 + np.exp(-values))


def executed(case: Case, layers: NetworkLayers, values: dict[str, Values], nest: PlainNest) -> Values:
    """Return the output [steps, directions, batch, state], with every product computed by the layers."""
    x = values["x"].swapaxes(0, 1) if case.layout else values["x"]
    of_inputs = layers.layers["cell (inputs)"]
    weights = values["w"].reshape(1, -1, case.features).transpose(0, 2, 1)
    gates = nest.product(of_inputs, x.reshape(1, -1, case.features), weights)
    gates = gates.reshape(case.steps, case.batch, case.directions, case.rows).transpose(0, 2, 1, 3)
    zeros = np.zeros((case.directions, case.batch, case.state))
    start = values.get("h0", zeros)
    h = start.swapaxes(0, 1) if case.layout and case.has_state else start
    matrices, state, made, has_state = values["r"].transpose(0, 2, 1), zeros, [], case.has_state
    for step in range(case.steps):
        seen = np.stack([gates[step if way == 0 else case.steps - 1 - step, way] for way in range(case.directions)])
        h, state = _step(case, layers, nest, seen, h, state, matrices, has_state=has_state)
        made.append(h)
        has_state = True
    ways = [[one[way] for one in made] for way in range(case.directions)]
    return np.stack([np.stack(one if way == 0 else one[::-1]) for way, one in enumerate(ways)], axis=1)


def _step(
    case: Case,
    layers: NetworkLayers,
    nest: PlainNest,
    seen: Values,
    h: Values,
    state: Values,
    matrices: Values,
    *,
    has_state: bool,
) -> tuple[Values, Values]:
    def times(name: str, rows: Values, columns: Values) -> Values:
        if not has_state:
            return np.zeros((*rows.shape[:2], columns.shape[2]))
        return nest.product(layers.layers[f"cell ({name})"], rows, columns)

    size = case.state
    if case.kind == "GRU" and not case.is_reset_late:
        z, r = np.split(sigmoid(seen[..., : 2 * size] + times("state", h, matrices[..., : 2 * size])), 2, -1)
        candidate = np.tanh(seen[..., 2 * size :] + times("candidate", r * h, matrices[..., 2 * size :]))
        return (1 - z) * candidate + z * h, state
    added = times("state", h, matrices)
    if case.kind == "RNN":
        return np.tanh(seen + added), state
    if case.kind == "GRU":
        z, r = np.split(sigmoid(seen[..., : 2 * size] + added[..., : 2 * size]), 2, -1)
        return (1 - z) * np.tanh(seen[..., 2 * size :] + r * added[..., 2 * size :]) + z * h, state
    i, o, f, c = np.split(seen + added, 4, -1)
    state = sigmoid(f) * state + sigmoid(i) * np.tanh(c)
    return sigmoid(o) * np.tanh(state), state


@given(cases, st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_the_nests_compute_what_the_runtime_computes(case: Case, seed: int) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra `onnxruntime`)")
    values = case.values(seed)
    serialized = case.model(values)
    layers = _layers(serialized)
    nest = PlainNest()
    made = executed(case, layers, values, nest)
    fed = {name: array.astype(np.float32) for name, array in values.items() if name in ("x", "h0")}
    (expected,) = runtime.InferenceSession(serialized).run(None, fed)

    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)
    assert nest.multiplied == layers.macs


def _layers(serialized: bytes) -> NetworkLayers:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cell.onnx"
        path.write_bytes(serialized)
        return layers_of(read_network(str(path), Reading()))


@given(cases)
@settings(max_examples=60, deadline=None)
def test_multiply_accumulates_are_those_of_the_definition(case: Case) -> None:
    """An element of a gate takes one product per feature and, with a previous state, one per state element."""
    products = 0
    for _way in range(case.directions):
        for step in range(case.steps):
            for _gate_element in range(case.batch * case.rows):
                products += case.features
                products += case.state if step or case.has_state else 0
    assert _layers(case.model(case.values(0))).macs == products


def test_with_the_batch_first_steps_are_the_second_axis() -> None:
    case = Case("LSTM", steps=5, batch=2, features=3, state=4, layout=1)
    layers = _layers(case.model(case.values(0)))

    assert layers.layers["cell (inputs)"] == Layer(n=10, c=3, k=16)
    assert layers.layers["cell (state)"] == Layer(n=2, c=4, k=16)
    assert layers.times == {"cell (state)": 5}


def test_one_step_without_a_state_has_no_product_of_it() -> None:
    case = Case("GRU", steps=1, batch=2, features=3, state=4, has_state=False)
    assert list(_layers(case.model(case.values(0))).layers) == ["cell (inputs)"]


def graph_of(kind: str, inputs: Sequence[tuple[int, ...]], matrices: Sequence[tuple[int, ...]], output: tuple[int, ...],
             **attributes: AttributeValue) -> Graph:  # fmt: skip
    """Return a graph of one operator named `cell`, with vectors as biases after its matrices."""
    shapes = {f"x{at}": shape for at, shape in enumerate(inputs)}
    kept = {f"w{at}": shape for at, shape in enumerate([*matrices, (7,)])}
    tensors = [Tensor.of_shape(name, shape, 8, Role.INPUT) for name, shape in shapes.items()]
    tensors += [Tensor.of_shape(name, shape, 8, Role.PARAMETER) for name, shape in kept.items()]
    operator = Operator("cell", kind, tuple(shapes), ("y",), tuple(kept), attributes)
    return Graph("one", (*tensors, Tensor.of_shape("y", output, 8, Role.OUTPUT)), (operator,))


@pytest.mark.parametrize(("is_time_major", "source"), [(False, (2, 5, 3)), (True, (5, 2, 3))])
def test_the_gates_of_tflite_are_matrices_of_their_own(is_time_major: bool, source: tuple[int, ...]) -> None:
    matrices = [(4, 3)] * 4 + [(4, 4)] * 4
    graph = graph_of(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", [source, (2, 4), (2, 4)], matrices, (2, 5, 4), time_major=is_time_major
    )
    found = layers_of(graph)

    assert found.layers == {"cell (inputs)": Layer(n=10, c=3, k=16), "cell (state)": Layer(n=2, c=4, k=16)}
    assert found.times == {"cell (state)": 5}
    assert found.macs == sum(5 * 2 * rows * columns for rows, columns in matrices)


def test_a_projection_makes_another_state() -> None:
    matrices = [(4, 3)] * 3 + [(4, 2)] * 3 + [(2, 4)]
    found = layers_of(graph_of("UNIDIRECTIONAL_SEQUENCE_LSTM", [(1, 6, 3), (1, 2), (1, 4)], matrices, (1, 6, 2)))

    assert found.layers["cell (projection)"] == Layer(n=1, c=4, k=2)
    assert found.macs == sum(6 * rows * columns for rows, columns in matrices)


def test_both_directions_of_tflite_have_products_of_their_own() -> None:
    matrices = ([(4, 3)] * 4 + [(4, 4)] * 4) * 2
    found = layers_of(graph_of("BIDIRECTIONAL_SEQUENCE_LSTM", [(1, 6, 3), (1, 4), (1, 4)], matrices, (1, 6, 4)))

    assert found.macs == sum(6 * rows * columns for rows, columns in matrices)


def test_the_layers_of_pytorch_follow_each_other() -> None:
    """Two layers of both directions: the second reads the states of both directions of the first."""
    matrices = [(16, 3), (16, 4)] * 2 + [(16, 8), (16, 4)] * 2
    found = layers_of(graph_of("LSTM", [(6, 2, 3), (4, 2, 4), (4, 2, 4)], matrices, (6, 2, 8)))

    assert found.macs == sum(6 * 2 * rows * columns for rows, columns in matrices)


def test_filters_over_features_and_over_time() -> None:
    """SVDF by its definition: every filter visits every feature, then its own results of ten steps."""
    found = layers_of(graph_of("SVDF", [(2, 5), (2, 80)], [(8, 5), (8, 10)], (2, 4)))

    assert found.macs == 2 * 8 * 5 + 2 * 8 * 10
    assert found.times == {}


@pytest.mark.parametrize(
    ("kind", "inputs", "matrices", "why"),
    [
        ("UNIDIRECTIONAL_SEQUENCE_LSTM", [(1, 6, 3)], [(4, 3)] * 4, "no matrix for each gate"),
        ("UNIDIRECTIONAL_SEQUENCE_LSTM", [(1, 6, 3)], [(4, 5)] * 4 + [(4, 4)] * 4, "do not fit its input"),
        ("LSTM", [(6, 2, 3)], [(16, 3), (16, 4)], "cut into steps"),
        ("SVDF", [(2, 5)], [(8, 4), (8, 10)], "do not fit its input"),
    ],
)
def test_weights_that_do_not_fit_are_said(
    kind: str, inputs: Sequence[tuple[int, ...]], matrices: Sequence[tuple[int, ...]], why: str
) -> None:
    (left_out,) = layers_of(graph_of(kind, inputs, matrices, (1, 4))).left_out
    assert why in left_out.why


def test_the_lstm_of_tflite_micro_is_all_products() -> None:
    found = layers_of(read_network(str(Path(__file__).parent.parent / "data/tflite/trained_lstm_int8.tflite")))
    assert {name: found.times.get(name, 1) for name in found.layers} == {
        "tfl.unidirectional_sequence_lstm (inputs)": 1,
        "tfl.unidirectional_sequence_lstm (state)": 28,
        "model/sequential/output/MatMul;model/sequential/output/BiasAdd": 1,
    }
