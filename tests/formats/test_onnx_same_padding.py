"""The windows of a graph with SAME padding are those that onnxruntime reads, negative pads included."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_node, make_opsetid

from onchip.ir.window import windows_of
from support.diamond import Program
from support.onnx_networks import model, read, value
from support.series import series
from support.small_schedules import schedule_check_and_run

ort = pytest.importorskip("onnxruntime")


def pool(kind: str, **attributes: object) -> dict[str, Any]:
    return {"kind": kind, "opset": 22, **attributes}


CASES = {
    "MaxPool with its places": pool("MaxPool", outputs=["y", "places"]),
    "MaxPool in column order": pool("MaxPool", storage_order=1),
    "MaxPool of bytes": pool("MaxPool", dtype=np.uint8),
    "AveragePool": pool("AveragePool"),
    "AveragePool that counts pads": pool("AveragePool", count_include_pad=1),
    "LpPool": pool("LpPool"),
    "QLinearAveragePool": pool("com.microsoft::QLinearAveragePool", dtype=np.uint8),
    "NhwcMaxPool": pool("com.microsoft::NhwcMaxPool", dtype=np.uint8),
    "Conv": pool("Conv"),
    "ConvInteger": pool("ConvInteger", dtype=np.uint8),
    "QLinearConv": pool("QLinearConv", dtype=np.uint8),
    "FusedConv": pool("com.microsoft::FusedConv", activation="Relu"),
}


def network(case: dict[str, Any], size: int, taps: int, window: dict[str, Any]) -> onnx.ModelProto:
    """Return a node whose windows slide along a row; all weights are one."""
    attributes = dict(case)
    kind, dtype, outputs = (
        attributes.pop("kind").split("::")[-1],
        attributes.pop("dtype", np.float32),
        attributes.pop("outputs", ["y"]),
    )
    domain = "com.microsoft" if "::" in case["kind"] else ""
    window = {name: [1, each] if isinstance(each, int) else each for name, each in window.items()}
    constants = {"w": np.ones((1, 1, 1, taps), dtype), "s": np.float32(1), "z": np.array(0, dtype)}
    operands = {"QLinearConv": "xszwszsz", "QLinearAveragePool": "xszsz"}
    read = operands.get(kind, "xw" if "Conv" in kind else "x")
    shape = [1, 1, size, 1] if kind == "NhwcMaxPool" else [1, 1, 1, size]
    opset = attributes.pop("opset")
    node = make_node(kind, list(read), outputs, domain=domain, kernel_shape=[1, taps], **window, **attributes)
    weights = [numpy_helper.from_array(np.asarray(constants[name]), name) for name in sorted({*read} - {"x"})]
    given = value("x", shape, TensorProto.UINT8 if dtype is np.uint8 else TensorProto.FLOAT)
    made = model([node], [given], outputs, weights, opset=opset)
    made.opset_import.append(make_opsetid("com.microsoft", 1))
    made.ir_version = 8
    return made


def elements_read(built_model: onnx.ModelProto, size: int) -> list[set[int]]:
    """Return for each output of a row the input elements on which it depends."""
    session = ort.InferenceSession(built_model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    dtype = np.uint8 if "uint8" in given.type else np.float32
    found: list[set[int]] = []
    nothing = session.run(["y"], {"x": np.zeros(given.shape, dtype)})[0].reshape(-1)
    for at in range(size):
        array = np.zeros(size, dtype)
        array[at] = 100
        changed = session.run(["y"], {"x": array.reshape(given.shape)})[0].reshape(-1) != nothing
        found = found or [set() for _ in changed]
        for place in np.flatnonzero(changed):
            found[place].add(at)
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_windows_are_those_that_onnxruntime_reads(case: dict[str, Any], tmp_path: Path) -> None:
    random, negative = Random(0), 0
    can_dilate = case["kind"] in ("AveragePool", "LpPool", "MaxPool")
    for _ in range(60):
        size, taps, stride = random.randint(2, 14), random.randint(1, 3), random.randint(1, 7)
        window: dict[str, Any] = {"strides": stride, "auto_pad": random.choice(("SAME_UPPER", "SAME_LOWER"))}
        dilation = random.choice((1, 1, 2)) if can_dilate else 1
        if dilation > 1:
            window["dilations"] = dilation
        made = network(case, size, taps, window)
        try:
            found = elements_read(made, size)
        except ort.capi.onnxruntime_pybind11_state.Fail:
            assert dilation > 1  # the window does not fit
            continue
        operator = read(made, tmp_path).operators[0]
        count = -(-size // stride)
        if len(found) != count:
            assert dilation > 1  # pads ignore the dilation, so the output is smaller than in the specification
            continue
        row = windows_of(operator, (1, taps), (1, size), (1, count))[1]
        negative += row.pad < 0
        seen = [
            {at for at in range(p * stride - row.pad, p * stride - row.pad + row.reach, dilation) if 0 <= at < size}
            for p in range(count)
        ]
        if case["kind"] == "AveragePool" and dilation > 1:  # it skips elements behind a negative pad
            seen = [each & one for each, one in zip(seen, found, strict=True)]
        assert found == seen, (size, taps, window)
    assert negative > 3


@pytest.mark.parametrize("kind", series(["MaxPool", "AveragePool", "Conv"], 1))
@pytest.mark.parametrize("padding", series(["SAME_UPPER", "SAME_LOWER"], 1))
def test_tiles_of_windows_that_begin_inside_give_the_right_values(
    kind: str, padding: str, onchip: Program, tmp_path: Path
) -> None:
    random, path = np.random.default_rng(0), tmp_path / "network.onnx"
    attributes: dict[str, Any] = {"storage_order": 1} if kind == "MaxPool" else {}
    nodes = [
        make_node("Conv", ["x", "w"], ["a"], "first"),
        make_node(
            kind,
            ["a", "v"] if kind == "Conv" else ["a"],
            ["b"],
            "windows",
            kernel_shape=[2, 1],
            strides=[1, 5],
            auto_pad=padding,
            **attributes,
        ),
        make_node("Conv", ["b", "w"], ["y"], "last"),
    ]
    shapes = {"w": (3, 3, 1, 1), "v": (3, 3, 2, 1)}
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype("float32"), name) for name, shape in shapes.items()
    ]
    onnx.save(model(nodes, [value("x", [1, 3, 8, 10])], ["y"], weights, opset=22), path)
    schedule_check_and_run(onchip, path, tmp_path, "simba", "--objective", "traffic", "--time-limit", "5")
    plan = tmp_path / "plan.json"
    assert onchip("plan", path, "--tiles", "auto", "--sram", "1KiB", "-o", plan).code == 0
    assert onchip("run", plan, path).code == 0
