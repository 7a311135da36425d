"""`.pt2` files: their contents, the requests for missing facts, and no execution of pickled code."""

from __future__ import annotations

import io
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from onchip.answer.bindings import Bindings
from onchip.api.networks import read_network
from onchip.errors import InputError, NetworkWarning, OpenDimensionsError, UsageError
from onchip.formats.networks import graph_from_torch, read_torch
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role

torch = pytest.importorskip("torch", reason="torch is not installed (extra `torch`)")
programs = pytest.importorskip("support.small_programs")
pytestmark = pytest.mark.torch
Small, Cached, QuantisedNetwork = programs.Small, programs.Cached, programs.QuantisedNetwork
saved, dynamic_file = programs.saved, programs.dynamic_file

Value: TypeAlias = Any
"""A torch tensor, module or program."""
Module: Value = torch.nn.Module


def told(graph: Graph) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return [(operator.kind, operator.inputs, operator.outputs) for operator in graph.operators]


def roles(graph: Graph, role: Role) -> list[tuple[str, tuple[int, ...] | None]]:
    return [(tensor.name, tensor.shape) for tensor in graph.with_role(role)]


def test_a_file_gives_the_graph_of_its_program(tmp_path: Path) -> None:
    program = saved(tmp_path / "small.pt2", Small(), torch.zeros(1, 3, 8, 8))
    assert read_torch(tmp_path / "small.pt2") == graph_from_torch(program, (), "small")


@pytest.mark.slow
def test_open_dimensions_are_asked_for_at_once_and_what_is_suggested_reads_it(tmp_path: Path) -> None:
    path = dynamic_file(tmp_path / "dynamic.pt2")
    with pytest.raises(OpenDimensionsError) as raised:
        read_torch(path)
    assert [(one.input, one.axis) for one in raised.value.open_dimensions] == [("x", 0), ("x", 2)]
    graph = read_torch(path, Bindings(raised.value.suggested.dims))
    shape = graph.tensor["x"].shape
    assert shape is not None
    assert (shape[0], shape[1], shape[3]) == (1, 3, 16)
    assert shape[2] == 2 * raised.value.suggested.dims[str(raised.value.open_dimensions[1].symbol)]


@pytest.mark.parametrize(
    ("bindings", "line"),
    [
        (Bindings(shapes={"x": (3, 3, 17, 16)}), "axis 2 is .* 17 is not"),
        (Bindings(shapes={"x": (3, 4, 16, 16)}), "shapes x: axis 1 is 3 in the file"),
        (Bindings(shapes={"x": (3, 3, 16)}), "expected 4 sizes of at least 1"),
        (Bindings(shapes={"x": (3, 3, 300, 16)}), "is 150"),
        (Bindings(shapes={"y": (1,)}), "no network input has this name"),
        (Bindings({"q": 1}), "dims q: no input has this symbol"),
        (Bindings(values={"x": (1,)}), "values: an exported program has no inputs of one value"),
    ],
)
def test_sizes_that_cannot_be_are_refused(tmp_path: Path, bindings: Bindings, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        read_torch(dynamic_file(tmp_path / "dynamic.pt2"), bindings)


def test_a_symbol_has_one_size_wherever_it_stands(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch")
    add = torch.nn.Module()
    add.forward = lambda x, y: x + y
    saved(
        tmp_path / "a.pt2", add, torch.zeros(4, 8), torch.zeros(4, 8), dynamic_shapes={"x": {0: batch}, "y": {0: batch}}
    )
    with pytest.raises(UsageError, match=r"shapes y: axis 0 is 3 with s\d+ = 3"):
        read_torch(tmp_path / "a.pt2", Bindings(shapes={"x": (3, 8), "y": (2, 8)}))


@pytest.mark.parametrize("is_functional", [False, True])
def test_a_buffer_that_is_written_is_a_state(tmp_path: Path, is_functional: bool) -> None:
    program = saved(tmp_path / "cached.pt2", Cached(), torch.zeros(1, 1, 8), torch.zeros(1, dtype=torch.int64))
    if is_functional:
        torch.export.save(program.run_decompositions({}), tmp_path / "cached.pt2")
    with pytest.warns(NetworkWarning, match="tensor 'keys': state between inferences"):
        graph = read_torch(tmp_path / "cached.pt2")
    assert roles(graph, Role.INPUT) == [("keys", (1, 16, 8)), ("x", (1, 1, 8)), ("at", (1,))]
    assert ("keys@next", (1, 16, 8)) in roles(graph, Role.OUTPUT)
    assert ("index_copy", ("keys", "at", "query"), ("keys@next",)) in told(graph)
    assert ("Transpose", ("keys@next",), ("index_copy.transpose",)) in told(graph)


def test_a_state_that_becomes_an_input_is_copied() -> None:
    class Delayed(Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("last", torch.zeros(4))

        def forward(self, x: Value) -> Value:
            difference = x - self.last
            self.last.copy_(x)
            return difference

    program = torch.export.export(Delayed().eval(), (torch.zeros(4),)).run_decompositions({})
    graph = graph_from_torch(program, (), "delayed")
    written = next(operator for operator in graph.operators if "last@next" in operator.outputs)
    assert written.inputs == ("x",)
    assert graph.tensor["last@next"].role is Role.OUTPUT
    assert graph.tensor["last"].role is Role.INPUT


@pytest.fixture
def quantised_file(tmp_path: Path) -> Path:
    saved(tmp_path / "quantised.pt2", QuantisedNetwork(), torch.zeros(1, 8, 4, 4))
    return tmp_path / "quantised.pt2"


def test_a_quantised_program_runs_over_integers(quantised_file: Path) -> None:
    graph = read_network(str(quantised_file))
    assert [operator.kind for operator in graph.operators] == [
        "QuantizeLinear",
        "Conv",
        "Conv",
        "Add",
        "DequantizeLinear",
    ]
    assert {tensor.bits for tensor in graph.with_role(Role.ACTIVATION)} == {8}
    assert graph.operators[1].parameters == ("weight", "scales", "zeros")
    assert graph.tensor["weight"].size_bytes == 8 * 8 * 9


def permuted(forward: Callable[[Value], Value], shape: tuple[int, ...]) -> Graph:
    module = torch.nn.Module()
    module.forward = forward
    return graph_from_torch(torch.export.export(module, (torch.zeros(shape),)), (), "permuted", as_onnx=True)


def test_a_permuted_map_that_is_read_is_made_by_a_transpose_once() -> None:
    graph = permuted(lambda x: torch.relu(x).t() * 2 + torch.relu(x).t(), (2, 8))
    assert [operator.kind for operator in graph.operators] == ["Relu", "Transpose", "Mul", "Relu", "Transpose", "Add"]
    graph = permuted(lambda x: (lambda y: y.t() * y.t())(torch.relu(x)), (2, 8))
    assert [operator.kind for operator in graph.operators] == ["Relu", "Transpose", "Mul"]
    assert graph.operators[1].attributes == {"perm": [1, 0]}
    assert graph.tensor["relu.transpose"].shape == (8, 2)


def test_what_is_computed_of_parameters_alone_is_a_parameter_but_for_random_numbers() -> None:
    graph = permuted(lambda x: x + torch.arange(8) * 2 + torch.rand(8), (2, 8))
    assert [operator.kind for operator in graph.operators] == ["Add", "rand", "Add"]
    assert graph.operators[0].parameters == ("mul",)


def test_without_torch_one_line_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path / "small.pt2", Small(), torch.zeros(1, 3, 8, 8))
    for name in ("archive", "program", "replay"):
        monkeypatch.delitem(sys.modules, f"onchip.formats.torch.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match=r"small.pt2: PyTorch is not installed.*pip install 'onchip\[torch\]'"):
        read_torch(tmp_path / "small.pt2")


class Trap:
    """An object that creates a file when it is unpickled."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.made,)


def changed(source: Path, target: Path, change: Callable[[str, bytes], bytes]) -> Path:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name.replace(source.stem, target.stem, 1), change(name, old.read(name)))
    return target


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    saved(tmp_path / "small.pt2", Small(), torch.zeros(1, 3, 8, 8))
    trap = pickle.dumps(Trap(tmp_path / "made"))

    def with_trap(name: str, content: bytes) -> bytes:
        return trap if "sample_inputs" in name or name.rpartition("/")[2].startswith("weight_") else content

    path = changed(tmp_path / "small.pt2", tmp_path / "trapped.pt2", with_trap)
    assert len(read_torch(path).operators) == len(read_torch(tmp_path / "small.pt2").operators)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "torch.ops.aten.relu.default",
            "torch.serialization.os.abort",
            "a node of it runs 'torch.serialization.os.abort'",
        ),
        ("torch.ops.aten.relu.default", "torch.ops.load_library", "a node of it runs 'torch.ops.load_library'"),
        ("torch.ops.aten.relu.default", "_operator.call", "not an allowed operator"),
        ("torch.ops.aten.relu.default", "torch.ops.no.such", "torch.ops.no.such"),
        ('{"name": "x"}', '{"name": "x=print()"}', r"a name in it is 'x=print\(\)'"),
        ("Symbol('", "Symbol(print() or '", "a size in it is"),
        ("Mul(Integer(2)", "Pow(Integer(9999999)", "a size in it is"),
    ],
)
def test_a_file_that_would_run_something_is_refused(tmp_path: Path, old: str, new: str, line: str) -> None:
    path = dynamic_file(tmp_path / "small.pt2")

    def with_other(name: str, content: bytes) -> bytes:
        return content.replace(old.encode(), new.encode()) if name.endswith("model.json") else content

    with pytest.raises(InputError, match=f"^[^\\n]*{line}[^\\n]*$"):
        read_torch(changed(path, tmp_path / "other.pt2", with_other), Bindings(shapes={"x": (2, 3, 16, 16)}))


def test_a_file_that_is_none_is_refused_in_one_line(tmp_path: Path) -> None:
    saved(tmp_path / "small.pt2", Small(), torch.zeros(1, 3, 8, 8))
    whole = (tmp_path / "small.pt2").read_bytes()
    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()
    old = io.BytesIO()
    with zipfile.ZipFile(old, "w") as archive:
        archive.writestr("serialized_exported_program.json", "{}")
    contents = {b"": "damaged", whole[:2000]: "damaged", b"x" * 1000: "damaged", empty.getvalue(): "holds 0 exported"}
    for content, line in {**contents, old.getvalue(): "saved by a torch before 2.8"}.items():
        (tmp_path / "bad.pt2").write_bytes(content)
        with pytest.raises(InputError, match=f"^[^\\n]*bad.pt2[^\\n]*{line}[^\\n]*$"):
            read_torch(tmp_path / "bad.pt2")
    with pytest.raises(InputError, match=r"absent\.pt2"):
        read_torch(tmp_path / "absent.pt2")
