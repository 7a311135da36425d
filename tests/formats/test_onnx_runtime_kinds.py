"""Operators of onnxruntime's own domain have the shapes and types that onnxruntime infers for their outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import numpy_helper
from onnx.helper import make_node, make_opsetid, np_dtype_to_tensor_dtype

from onchip.answer.document import Reading
from onchip.api.networks import read_network
from onchip.errors import InputError
from onchip.formats.onnx.runtime_kinds import RUNTIME_DOMAIN
from support.onnx_networks import model, value
from support.onnx_runs import AS_IT_IS, run_model, saved

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime runs the models: pip install 'onchip[run]'")
Array = npt.NDArray[Any]


def ones(*shape: int, dtype: type = np.float32) -> Array:
    return np.ones(shape, dtype)


def zeros(*shape: int, dtype: type = np.float32) -> Array:
    return np.zeros(shape, dtype)


def numbers(*listed: int, dtype: type = np.int32) -> Array:
    return np.array(listed, dtype)


@dataclass(frozen=True)
class Case:
    """A node: the network's inputs, then parameters; an operand of None is omitted."""

    kind: str
    inputs: Sequence[Array | None]
    parameters: Sequence[Array | None] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    domain: str = RUNTIME_DOMAIN
    runs: bool = True
    """False if onnxruntime runs this only on a GPU; it infers the shapes anyway."""

    def __str__(self) -> str:
        given = (f"{one.dtype}{list(one.shape)}" for one in (*self.inputs, *self.parameters) if one is not None)
        return f"{self.kind}({', '.join(given)})"

    @property
    def given(self) -> dict[str, Array]:
        return {f"x{at}": one for at, one in enumerate(self.inputs) if one is not None}

    @property
    def names(self) -> list[str]:
        return [f"y{at}" for at in range(self.outputs)]

    def saved(self, folder: Path) -> Path:
        kept = {f"w{at}": one for at, one in enumerate(self.parameters) if one is not None}
        operands = [f"x{at}" if f"x{at}" in self.given else "" for at in range(len(self.inputs))]
        operands += [f"w{at}" if f"w{at}" in kept else "" for at in range(len(self.parameters))]
        node = make_node(self.kind, operands, self.names, name="op", domain=self.domain, **self.attributes)
        inputs = [value(name, one.shape, np_dtype_to_tensor_dtype(one.dtype)) for name, one in self.given.items()]
        weights = [numpy_helper.from_array(one, name) for name, one in kept.items()]
        network = model([node], inputs, self.names, weights, opset=17)
        network.opset_import.append(make_opsetid(RUNTIME_DOMAIN, 1))
        path = folder / "network.onnx"
        path.write_bytes(network.SerializeToString())
        return path


BYTE = np.uint8
SCALE, TINY, ZERO = (np.array(number, np.float32) for number in (0.1, 1 / 256, 0))
ZERO = ZERO.astype(BYTE)
Q = (SCALE, ZERO)
IMAGE, LAST, MATRIX = ones(1, 6, 8, 8, dtype=BYTE), ones(1, 8, 8, 6, dtype=BYTE), ones(5, 6, dtype=BYTE)
TOKENS = ones(2, 5, 8)
WINDOW = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]}
ROWS, PACKED = numbers(1, 0, 2, dtype=np.int64).reshape(1, 3), {"block_size": 32, "quantize_axis": 1}
CHANNELS_LAST = {"channels_last": 1}
BYTES, IDS, FIRST = ones(2, 5, 8, dtype=BYTE), zeros(2, 5, dtype=np.int32), numbers(0, dtype=np.int64)
TABLES: Sequence[Sequence[int]] = ((9, 8), (7, 8), (2, 8), (8,), (8,))
QUANTISED_TABLES = [ones(*shape, dtype=BYTE) for shape in TABLES]
BLOCKS = {"K": 64, "N": 24, "bits": 4, "block_size": 32}
HEADS: dict[str, Any] = {"num_heads": 2}
CAUSAL, PAST = {"unidirectional": 1}, ones(2, 2, 2, 3, 4)
PROJECTION = [ones(8, 24, dtype=BYTE), ones(24), SCALE, SCALE, None, ZERO, ZERO]
GROUPS = {"num_heads": 4, "kv_num_heads": 2}
LENGTHS, FIVE = [numbers(6), np.array(7, np.int32)], [numbers(4), np.array(5, np.int32)]
CASES = [
    Case("QLinearAdd", [IMAGE], [*Q, ones(8, dtype=BYTE), *Q, *Q]),
    Case("QLinearMul", [IMAGE], [*Q, ones(6, 1, 8, dtype=BYTE), *Q, *Q]),
    Case("QLinearSigmoid", [IMAGE], [*Q, *Q]),
    Case("QLinearLeakyRelu", [IMAGE], [*Q, *Q]),
    Case("QLinearSoftmax", [MATRIX], [*Q, TINY, ZERO], {"opset": 13, "axis": -1}),
    Case("QLinearAveragePool", [IMAGE], [*Q, *Q], WINDOW),
    Case("QLinearAveragePool", [LAST], [*Q, *Q], WINDOW | CHANNELS_LAST),
    Case("QLinearAveragePool", [LAST], [*Q, *Q], WINDOW | CHANNELS_LAST | {"ceil_mode": 1}),
    Case("QLinearGlobalAveragePool", [IMAGE], [*Q, *Q]),
    Case("QLinearGlobalAveragePool", [LAST], [*Q, *Q], CHANNELS_LAST),
    Case("QLinearConcat", [], [*Q, IMAGE, *Q, IMAGE, *Q], {"axis": 1}),
    Case("QLinearConv", [IMAGE], [*Q, ones(4, 6, 3, 2, dtype=BYTE), *Q, *Q], WINDOW),
    Case("QLinearConv", [LAST], [*Q, ones(4, 6, 3, 2, dtype=BYTE), *Q, *Q], WINDOW | CHANNELS_LAST),
    Case("QLinearWhere", [ones(5, 1, dtype=bool)], [MATRIX, *Q, MATRIX, *Q, *Q]),
    Case("QGemm", [MATRIX], [*Q, ones(4, 6, dtype=BYTE), *Q, None, *Q], {"transB": 1}),
    Case("QuantizeLinear", [ones(1, 6, 8)], [*Q]),
    Case("DequantizeLinear", [IMAGE], [*Q]),
    Case("MatMulIntegerToFloat", [MATRIX], [ones(6, 4, dtype=BYTE), SCALE, SCALE]),
    Case("DynamicQuantizeMatMul", [TOKENS], [ones(8, 3, dtype=BYTE), SCALE]),
    Case("MatMulInteger16", [ones(5, 6, dtype=np.int16)], [ones(6, 4, dtype=np.int16)]),
    Case("Gelu", [TOKENS]),
    Case("FastGelu", [TOKENS], [ones(8)]),
    Case("QuickGelu", [TOKENS]),
    Case("BiasGelu", [TOKENS], [ones(8)]),
    Case("Inverse", [ones(3, 1, 1)]),
    Case("Trilu", [ones(3, 4, 5)]),
    Case("FusedGemm", [ones(6, 5)], [ones(4, 6)], {"transA": 1, "transB": 1, "activation": "Relu"}),
    Case("FusedConv", [ones(1, 6, 8, 8)], [ones(4, 6, 3, 2)], WINDOW | {"activation": "Relu"}),
    Case("NhwcMaxPool", [LAST], [], WINDOW),
    Case("NhwcMaxPool", [LAST], [], WINDOW | {"ceil_mode": 1}),
    Case("FusedMatMul", [ones(2, 5, 8)], [ones(8, 3)], {"alpha": 0.5}),
    Case("FusedMatMul", [ones(2, 8, 5)], [ones(7, 1, 3, 8)], {"transA": 1, "transB": 1}),
    Case("FusedMatMul", [ones(5, 2, 8)], [ones(8, 2, 3)], {"transBatchA": 1, "transBatchB": 1}),
    Case("FusedMatMul", [ones(5, 2, 4, 8)], [ones(2, 4, 8, 3)], {"transBatchA": 1}),
    Case("FusedMatMul", [ones(8)], [ones(8, 3)]),
    Case("MatMulNBits", [ones(2, 3, 64)], [ones(24, 2, 16, dtype=BYTE), ones(48)], BLOCKS),
    Case("SkipLayerNormalization", [TOKENS, TOKENS], [ones(8)] * 3),
    Case("SkipLayerNormalization", [TOKENS, TOKENS], [ones(8)] * 2, outputs=4),
    Case("SkipSimplifiedLayerNormalization", [TOKENS, TOKENS], [ones(8)]),
    Case("SkipSimplifiedLayerNormalization", [TOKENS, TOKENS], [ones(8)], outputs=4),
    Case("SimplifiedLayerNormalization", [TOKENS], [ones(8)], domain=""),
    Case("SimplifiedLayerNormalization", [TOKENS], [ones(5, 8)], {"axis": 1}, 2, ""),
    Case("EmbedLayerNormalization", [IDS, IDS], [*(ones(*shape) for shape in TABLES), IDS + 1], outputs=3),
    Case("QEmbedLayerNormalization", [IDS, IDS], [*QUANTISED_TABLES, None, *[SCALE] * 5, *[ZERO] * 5], outputs=2),
    Case("RotaryEmbedding", [TOKENS, FIRST], [ones(6, 2)] * 2, {"num_heads": 2, "rotary_embedding_dim": 4}),
    Case("RotaryEmbedding", [ones(2, 2, 5, 4), FIRST], [ones(6, 2)] * 2),
    Case("Attention", [TOKENS], [ones(8, 24), ones(24)], HEADS),
    Case("Attention", [TOKENS], [ones(8, 28), ones(28)], HEADS | {"qkv_hidden_sizes": [8, 8, 12]}),
    Case("Attention", [TOKENS], [ones(8, 24), ones(24), None, PAST], HEADS | CAUSAL, 2),
    Case("QAttention", [BYTES], PROJECTION, HEADS),
    Case("QAttention", [BYTES], [*PROJECTION, PAST], HEADS | CAUSAL, 2),
    Case("MultiHeadAttention", [TOKENS, ones(2, 6, 8), ones(2, 6, 8)], [], HEADS),
    Case("MultiHeadAttention", [TOKENS, ones(2, 6, 8), ones(2, 6, 12)], [], HEADS),
    Case("MultiHeadAttention", [TOKENS, ones(2, 6, 8), ones(2, 6, 12)], [], HEADS, 3),
    Case("MultiHeadAttention", [TOKENS, ones(2, 2, 6, 4), ones(2, 2, 6, 4)], [], HEADS),
    Case("MultiHeadAttention", [ones(2, 5, 2, 3, 4), None, None], [], HEADS, runs=False),
    Case("MultiHeadAttention", [TOKENS, ones(2, 5, 2, 2, 4), None], [], HEADS, runs=False),
    Case("MultiHeadAttention", [*[TOKENS] * 3, *[None] * 3, *[ones(2, 2, 3, 4)] * 2], [], HEADS, 3),
    Case(
        "DecoderMaskedMultiHeadAttention",
        [*[ones(2, 1, 8)] * 3, None, None, *[ones(2, 2, 9, 4)] * 2],
        [numbers(3)],
        HEADS | {"past_present_share_buffer": 1},
        3,
    ),
    Case("GroupQueryAttention", [ones(1, 1, 32), *[ones(1, 1, 16)] * 2, *[ones(1, 2, 6, 8)] * 2], LENGTHS, GROUPS, 3),
    Case("GroupQueryAttention", [ones(1, 5, 64), None, None, *[ones(1, 2, 9, 8)] * 2], FIVE, GROUPS, 3),
    Case("GroupQueryAttention", [ones(1, 5, 32), *[ones(1, 5, 16)] * 2, None, None], FIVE, GROUPS, 3),
    Case(
        "DynamicQuantizeLSTM",
        [ones(7, 2, 6)],
        [ones(1, 6, 20, dtype=BYTE), ones(1, 5, 20, dtype=BYTE), *[None] * 5, *[ones(1), zeros(1, dtype=BYTE)] * 2],
        {"hidden_size": 5},
        3,
    ),
    Case("GatherBlockQuantized", [], [ones(9, 32, dtype=BYTE), ROWS, ones(9, 2)], PACKED | {"bits": 4}),
    Case("GatherBlockQuantized", [], [ones(9, 32, dtype=BYTE), ROWS, ones(9, 1)], PACKED | {"bits": 8}),
    Case("Pad", [TOKENS], [numbers(0, 1, 2, 3, 0, 1, dtype=np.int64)]),
    Case("GatherND", [TOKENS], [zeros(3, 2, 2, dtype=np.int64)]),
    Case("GridSample", [ones(1, 3, 5, 5), ones(1, 2, 4, 2)]),
    Case("GatedAdd", [TOKENS, TOKENS, ones(2, 5, 1)]),
    Case("ScaledSiLU", [TOKENS]),
    Case("MoE", [ones(5, 8), ones(5, 2)], [ones(2, 8, 8), None, ones(2, 8, 8)], {"k": 1}),
]


MAP, NORM = ones(1, 8, 8, 6), {"groups": 2, "activation": 0}
LONG = [ones(8, 24), ones(24), ones(1, 8), ones(8, 24), ones(24), zeros(1, 8, dtype=np.int32)]
NOT_ON_THE_CPU: list[tuple[Case, list[tuple[int, ...]]]] = [
    (Case("BiasAdd", [ones(2, 6, 8), ones(8), ones(2, 6, 8)]), [(2, 6, 8)]),
    (Case("BiasDropout", [TOKENS, ones(8)]), [(2, 5, 8)]),
    (Case("BiasSoftmax", [TOKENS, TOKENS], [], {"axis": 2, "is_inner_broadcast": 1}), [(2, 5, 8)]),
    (Case("GroupNorm", [MAP], [ones(6), ones(6)], NORM), [(1, 8, 8, 6)]),
    (Case("SkipGroupNorm", [MAP], [ones(6), ones(6), MAP], NORM, 2), [(1, 8, 8, 6)] * 2),
    (Case("QLinearReduceMean", [IMAGE], [*Q, *Q], {"axes": [2, 3], "keepdims": 0}), [(1, 6)]),
    (Case("LongformerAttention", [ones(1, 8, 8)], LONG, {"num_heads": 2, "window": 4}), [(1, 8, 8)]),
]


@pytest.mark.parametrize(("case", "shapes"), NOT_ON_THE_CPU, ids=str)
def test_kinds_without_a_kernel_for_the_cpu_have_their_documented_shapes(
    case: Case, shapes: list[tuple[int, ...]], tmp_path: Path
) -> None:
    found = read_network(str(case.saved(tmp_path))).tensor
    assert [found[name].shape for name in case.names] == shapes


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_inferred_is_what_the_runtime_makes(case: Case, tmp_path: Path) -> None:
    path = case.saved(tmp_path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = read_network(str(path)).tensor
    seen = [found.get(name) or found[f"{name}.output"] for name in case.names]
    if case.runs:
        made = session.run(None, case.given)
        assert [(one.shape, one.bits) for one in seen] == [(one.shape, one.dtype.itemsize * 8) for one in made]
    else:
        assert [one.shape for one in seen] == [tuple(one.shape) for one in session.get_outputs()]


@pytest.mark.parametrize("kind", sorted({case.kind for case in CASES if case.outputs > 1}))
def test_an_optional_output_that_nobody_reads_is_no_tensor(kind: str, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.kind == kind and case.outputs > 1)
    network = onnx.load(case.saved(tmp_path))
    del network.graph.output[1:]
    (operator,) = read_network(str(saved(network, tmp_path))).operators
    assert operator.outputs == ("y0",) or kind == "QEmbedLayerNormalization"  # required


@pytest.mark.parametrize(
    "kind", ["MatMulNBits", "MultiHeadAttention", "GroupQueryAttention", "SkipLayerNormalization", "FusedMatMul"]
)
def test_such_a_network_runs_as_the_runtime_runs_it(kind: str, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.kind == kind)
    assert run_model(case.saved(tmp_path), AS_IT_IS, None).relative_difference == 0


def test_an_unknown_length_is_named(tmp_path: Path) -> None:
    """The number of all tokens is a value that may be given."""
    case = next(case for case in CASES if case.kind == "GroupQueryAttention")
    network = onnx.load(case.saved(tmp_path))
    total = next(one for one in network.graph.initializer if one.name == "w1")
    network.graph.initializer.remove(total)
    network.graph.input.append(value("w1", [], onnx.TensorProto.INT32))
    path = saved(network, tmp_path)
    with pytest.raises(InputError, match="GroupQueryAttention needs more: the value of its input 'w1' is unknown"):
        read_network(str(path))
    found = read_network(str(path), Reading(values={"w1": (9,)}))
    assert found.tensor["y1"].shape == (1, 2, 9, 8)


@pytest.mark.parametrize(
    ("kind", "missing"), [("MatMulNBits", "its attribute 'N' is missing"), ("Attention", "its input 0 is omitted")]
)
def test_what_a_rule_lacks_is_named(kind: str, missing: str, tmp_path: Path) -> None:
    operands = ["x"] if kind == "MatMulNBits" else ["", "x"]
    node = make_node(kind, operands, ["y"], name="op", domain=RUNTIME_DOMAIN)
    network = model([node], [value("x", [2, 5, 8])], ["y"])
    with pytest.raises(InputError, match=rf"node 'op': .*com\.microsoft::{kind} needs more: {missing}"):
        read_network(str(saved(network, tmp_path)))


def test_a_kind_without_a_rule_is_named(tmp_path: Path) -> None:
    node = make_node("WordConvEmbedding", ["x", "x", "x", "x"], ["y"], domain=RUNTIME_DOMAIN)
    with pytest.raises(
        InputError, match=r"'com\.microsoft::WordConvEmbedding' and the file does not declare the shape"
    ):
        read_network(str(saved(model([node], [value("x", [4])], ["y"]), tmp_path)))
