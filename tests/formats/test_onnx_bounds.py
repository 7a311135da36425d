"""Shapes that depend on values: planned at their largest size, and run at their real size."""

from __future__ import annotations

import warnings
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto
from onnx.helper import make_node, make_tensor

from onchip.errors import InputError, NetworkWarning
from onchip.formats.networks import read_onnx
from onchip.ir.graph import Graph
from support.onnx_networks import integers, model, value
from support.onnx_runs import AS_IT_IS, run_model, saved

X = value("x", [3, 4])
BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64


def read_model(network: onnx.ModelProto, folder: Path) -> Graph:
    return read_onnx(saved(network, folder))


BOXES = [value("boxes", [2, 6, 4]), value("scores", [2, 3, 6])]
LARGEST: dict[str, tuple[onnx.ModelProto, tuple[int, ...]]] = {
    "NonZero": (model([make_node("NonZero", ["x"], ["y"])], [X], ["y"]), (2, 12)),
    "Unique": (model([make_node("Unique", ["x"], ["y"])], [X], ["y"]), (12,)),
    "Unique along an axis": (model([make_node("Unique", ["x"], ["y"], axis=-1)], [X], ["y"]), (3, 4)),
    "Compress": (model([make_node("Compress", ["x", "c"], ["y"])], [X, value("c", [5], BOOL)], ["y"]), (5,)),
    "Compress along an axis": (
        model([make_node("Compress", ["x", "c"], ["y"], axis=1)], [X, value("c", [2], BOOL)], ["y"]),
        (3, 2),
    ),
    "NonMaxSuppression": (
        model(
            [make_node("NonMaxSuppression", ["boxes", "scores", "most"], ["y"])], BOXES, ["y"], [integers("most", [2])]
        ),
        (12, 3),
    ),
    "NonMaxSuppression of a limit that is an input": (
        model(
            [make_node("NonMaxSuppression", ["boxes", "scores", "most"], ["y"])],
            [*BOXES, value("most", [1], INT64)],
            ["y"],
        ),
        (36, 3),
    ),
    "TopK": (model([make_node("TopK", ["x", "k"], ["y", "i"])], [X, value("k", [1], INT64)], ["y"]), (3, 4)),
    "Slice": (
        model(
            [make_node("Slice", ["x", "zero", "stop"], ["y"])],
            [X, value("stop", [1], INT64)],
            ["y"],
            [integers("zero", [0])],
        ),
        (3, 4),
    ),
}


@pytest.mark.parametrize("name", LARGEST)
def test_a_shape_that_follows_from_values_is_planned_at_its_largest(name: str, tmp_path: Path) -> None:
    network, shape = LARGEST[name]
    with pytest.warns(NetworkWarning, match=r"node 'y': the shape of its output follows from values: 'y' "):
        graph = read_model(network, tmp_path)
    assert graph.tensor["y"].shape == shape
    assert graph.operators[-1].attributes["upper_bound"] in (["y"], ["y", "i"])


def test_what_is_made_of_the_shape_of_such_a_tensor_has_a_bound(tmp_path: Path) -> None:
    """A tensor made from the bound instead of the size would have a wrong size at run time."""
    nodes = [
        make_node("NonZero", ["x"], ["n"]),
        make_node("Shape", ["n"], ["s"]),
        make_node("ConstantOfShape", ["s"], ["z"], name="room", value=make_tensor("v", INT64, [1], [1])),
        make_node("Relu", ["x"], ["y"]),
        make_node("Add", ["n", "z"], ["t"]),
    ]
    path = saved(model(nodes, [X], ["y", "t"]), tmp_path)
    with pytest.warns(NetworkWarning):
        graph = read_onnx(path)
    assert graph.tensor["t"].shape == (2, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run_model(path, AS_IT_IS, None).relative_difference == 0


def test_a_size_that_falls_as_others_grow_is_refused(tmp_path: Path) -> None:
    nodes = [
        make_node("NonZero", ["x"], ["n"]),
        make_node("Size", ["n"], ["s"]),
        make_node("Sub", ["many", "s"], ["left"]),
        make_node("ConstantOfShape", ["left"], ["z"], name="room"),
        make_node("Relu", ["z"], ["y"]),
    ]
    with pytest.raises(InputError, match="node 'room': the shape of its output 'z' is unknown"):
        read_model(model(nodes, [X], ["y"], [integers("many", [100])]), tmp_path)


def test_a_slice_may_be_longer_of_a_shorter_tensor(tmp_path: Path) -> None:
    """The slice from the third last position to the second has two of three columns, but none of twelve."""
    nodes = [make_node("NonZero", ["x"], ["n"]), make_node("Slice", ["n", "a", "b", "c"], ["s"], name="cut")]
    nodes.append(make_node("Neg", ["s"], ["y"]))
    constants = [integers("a", [-3]), integers("b", [2]), integers("c", [1])]
    with pytest.warns(NetworkWarning):
        assert read_model(model(nodes, [X], ["y"], constants), tmp_path).tensor["y"].shape == (2, 2)


@pytest.mark.parametrize("kind", ["Col2Im", "Resize"])
def test_an_operator_of_which_no_largest_output_is_known_is_refused(kind: str, tmp_path: Path) -> None:
    """A smaller axis makes another one larger if the aspect ratio is kept."""
    last = make_node("Resize", ["f", "", "", "size"], ["y"], name="last", keep_aspect_ratio_policy="not_larger")
    if kind == "Col2Im":
        last = make_node("Col2Im", ["f", "size", "size"], ["y"], name="last")
    nodes = [make_node("NonZero", ["x"], ["n"]), make_node("Cast", ["n"], ["f"], to=1), last]
    with pytest.raises(InputError, match="node 'last': the shape of its input 'f' follows from values"):
        read_model(model(nodes, [X], ["y"], [integers("size", [4, 4])]), tmp_path)
