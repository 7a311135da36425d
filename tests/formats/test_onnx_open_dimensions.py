from __future__ import annotations

import re
import shlex
import warnings
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

from onchip.answer.bindings import Bindings
from onchip.commands.arguments import bindings_of, options_of
from onchip.errors import InputError, NetworkWarning, OpenDimension, OpenDimensionsError, UsageError
from onchip.formats.networks import read_onnx
from onchip.ir.graph import Graph
from support.onnx_networks import integers, make_node, model, value, weight


def read_bound(network: onnx.ModelProto, folder: Path, bindings: Bindings) -> Graph:
    path = folder / "network.onnx"
    path.write_bytes(network.SerializeToString())
    return read_onnx(path, bindings)


def bound_by(options: str) -> Bindings:
    """Return the bindings of a command line with these options."""
    words = shlex.split(options)
    given: dict[str, list[str]] = {"--dim": [], "--shape": [], "--value": []}
    for option, text in zip(words[::2], words[1::2], strict=True):
        given[option].append(text)
    return Bindings(*(bindings_of(option, given[option]) for option in ("--dim", "--shape", "--value")))


def question(network: onnx.ModelProto, folder: Path, bindings: Bindings) -> OpenDimensionsError:
    with pytest.raises(OpenDimensionsError) as caught:
        read_bound(network, folder, bindings)
    return caught.value


def network_of(*inputs: onnx.ValueInfoProto) -> onnx.ModelProto:
    """Return a chain of one Relu for each input."""
    nodes = [make_node("Relu", [one.name], [f"{one.name}.out"]) for one in inputs]
    return model(nodes, inputs, [f"{one.name}.out" for one in inputs])


def test_one_error_names_every_open_dimension_of_every_input(tmp_path: Path) -> None:
    inputs = [value("x", ["batch", 3, -1, None]), value("state", [2, "batch"]), value("z", None), value("w", [4, -2])]
    error = question(network_of(*inputs), tmp_path, Bindings())
    assert error.open_dimensions == (
        OpenDimension("x", 0, "batch"),
        OpenDimension("x", 2, None),
        OpenDimension("x", 3, None),
        OpenDimension("state", 1, "batch"),
        OpenDimension("z", None, None),
        OpenDimension("w", 1, None),
    )
    line = str(error)
    assert "inputs have 6 open dimensions: symbol 'batch' (axis 0 of 'x'), axis 2 of 'x'" in line
    assert "the shape of 'z'" in line
    assert read_bound(network_of(*inputs), tmp_path, bound_by(options_of(error.suggested))).operators


def test_what_is_bound_already_is_no_question(tmp_path: Path) -> None:
    network = network_of(value("x", ["batch", "time"]), value("z", [None]))
    error = question(network, tmp_path, Bindings({"batch": 2}))
    assert [one.symbol for one in error.open_dimensions] == ["time", None]
    assert "batch" not in options_of(error.suggested)


def test_the_options_of_the_error_are_tried_before_they_are_shown(tmp_path: Path) -> None:
    """A matrix fits one length only."""
    network = model([make_node("MatMul", ["x", "w"], ["y"])], [value("x", ["n", "k"])], ["y"], [weight("w", [576, 2])])
    error = question(network, tmp_path, Bindings())
    assert "k=576" in options_of(error.suggested)
    assert read_bound(network, tmp_path, bound_by(options_of(error.suggested))).tensor["y"].shape == (1, 2)


def test_a_shape_binds_the_symbols_in_it_everywhere(tmp_path: Path) -> None:
    inputs = [value("x", ["n", None]), value("z", ["n", 4])]
    graph = read_bound(network_of(*inputs), tmp_path, Bindings(shapes={"x": (5, 7)}))
    assert (graph.tensor["x"].shape, graph.tensor["z"].shape) == ((5, 7), (5, 4))


@pytest.mark.parametrize(
    ("bindings", "place", "what"),
    [
        (Bindings(shapes={"ghost": (1,)}), "shapes ghost", "no such input"),
        (Bindings(shapes={"x": (1, 2, 3)}), "shapes x", "gives 3 dimensions"),
        (Bindings(shapes={"x": (2, 4)}), "shapes x", "dimension 1 is 3 in the file"),
        (Bindings(shapes={"x": (-1, 3)}), "shapes x", "its shape is [-1, 3]"),
        (Bindings({"n": 1}, {"x": (2, 3)}), "shapes x", "symbol 'n' is 2 here and 1 by dims n"),
        (Bindings(shapes={"x": (2, 3), "z": (4,)}), "shapes z", "symbol 'n' is 4 here and 2 by shapes x"),
        (Bindings({"m": 1}), "dims m", "no tensor has this dimension"),
        (Bindings(values={"ghost": (1,)}), "values ghost", "no such input"),
        (Bindings(values={"x": (1, 2)}), "values x", "2 numbers for an input of shape [1, 3]"),
        (Bindings({"n": 2000}, values={"x": (1,)}), "values x", "1 numbers for an input of shape [2000, 3]"),
        (Bindings(values={"i": (0.5,)}), "values i", "0.5 is no INT64"),
        (Bindings(values={"i": (2**70,)}), "values i", "is no INT64"),
        (Bindings(values={"x": (1e300,)}), "values x", "is no FLOAT"),
        (Bindings(values={"s": (1,)}), "values s", "its elements are STRING"),
    ],
)
def test_a_binding_that_cannot_be_is_refused(bindings: Bindings, place: str, what: str, tmp_path: Path) -> None:
    inputs = [value("x", ["n", 3]), value("z", ["n"]), value("i", [], TensorProto.INT64)]
    inputs.append(value("s", [1], TensorProto.STRING))
    with pytest.raises(UsageError, match=re.escape(what)) as caught:
        read_bound(network_of(*inputs), tmp_path, bindings)
    assert caught.value.place == place
    assert caught.value.expected


def test_a_value_makes_an_input_a_constant_and_folds_what_hangs_on_it(tmp_path: Path) -> None:
    nodes = [
        make_node("Mul", ["n", "two"], ["m"]),
        make_node("Expand", ["x", "m"], ["e"]),
        make_node("Relu", ["e"], ["y"]),
    ]
    network = model(nodes, [value("x", [1]), value("n", [1], TensorProto.INT64)], ["y"], [integers("two", [2])])
    graph = read_bound(network, tmp_path, Bindings(values={"n": (8,)}))
    assert [tensor.name for tensor in graph.tensors if tensor.role == "input"] == ["x"]
    assert [operator.kind for operator in graph.operators] == ["Expand", "Relu"]
    assert graph.tensor["y"].shape == (16,)


def test_a_declared_shape_that_contradicts_what_is_found_is_dropped_with_a_warning(tmp_path: Path) -> None:
    nodes = [make_node("Relu", ["x"], ["a"]), make_node("Flatten", ["a"], ["b"]), make_node("Relu", ["b"], ["y"])]
    declared = [value("a", [1, 3, 8]), value("b", [1, 24])]
    network = model(nodes, [value("x", ["n", 3, 4])], [value("y", [2, 12])], declared=declared)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        graph = read_bound(network, tmp_path, Bindings({"n": 2}))
    assert graph.tensor["y"].shape == (2, 12)
    (warning,) = (one for one in caught if issubclass(one.category, NetworkWarning))
    assert "2 declared shapes contradict" in str(warning.message)
    assert "'a' is declared [1, 3, 8] and is [2, 3, 4]; 'b' is declared [1, 24] and is [2, 12]" in str(warning.message)


def test_a_declared_size_of_zero_or_less_is_no_size(tmp_path: Path) -> None:
    nodes = [make_node("Relu", ["x"], ["a"]), make_node("Relu", ["a"], ["y"])]
    network = model(nodes, [value("x", [2])], [value("y", [-1])], declared=[value("a", [0])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_bound(network, tmp_path, Bindings()).tensor["y"].shape == (2,)


def test_a_declared_shape_with_which_a_later_node_is_wrong_is_dropped(tmp_path: Path) -> None:
    """Only the declaration states the shape of the unknown operator's output, and no later node may need it."""
    nodes = [make_node("Twist", ["x"], ["t"], domain="custom", name="turn"), make_node("MatMul", ["t", "w"], ["y"])]
    network = model(nodes, [value("x", [2])], ["y"], [weight("w", [5, 2])], declared=[value("t", [2, 6])])
    with pytest.raises(InputError, match="node 'turn': onnx knows no operator"):
        read_bound(network, tmp_path, Bindings())
