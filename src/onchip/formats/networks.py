"""Read networks of ONNX, TFLite and torch as graphs, and arrays for their inputs.

onnx, tflite and torch take 0.15 to 2 s to import, so they are imported when a file of theirs is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from onchip.answer.bindings import Bindings
from onchip.errors import GraphError, InputError, NetworkWarning, UsageError, errors_in_file
from onchip.formats.states_and_loops import NEXT
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role

if TYPE_CHECKING:
    import numpy.typing as npt
    import onnx
    import torch

    from onchip.formats.tflite.file import ModelFile
    from onchip.formats.tflite.graph import ReadNetwork


def warn_of_states(path: Path, states: Sequence[str]) -> None:
    """Warn with NetworkWarning how the states of a file are planned, unless it has none."""
    if states:
        more = f" and {len(states) - 1} more" if len(states) > 1 else ""
        what = f"state between inferences, modelled as an input and as the output NAME{NEXT}"
        warnings.warn(f"{path}: tensor {states[0]!r}{more}: {what}", NetworkWarning, stacklevel=3)


def read_arrays(given: Sequence[str], graph: Graph) -> Mapping[str, npt.NDArray[Any]]:
    """Return a map from network input to array, read from `x.npy` or `NAME=x.npy`; raises InputError."""
    import numpy as np

    names = list(dict.fromkeys(tensor.part_of or tensor.name for tensor in graph.with_role(Role.INPUT)))
    arrays: dict[str, npt.NDArray[Any]] = {}
    for one in given:
        name, _, file = one.rpartition("=")
        if not name and len(names) == 1:
            name = names[0]
        if name not in names or name in arrays:
            what = f"{one!r} is for no network input, or for one that has a value"
            raise UsageError(what, "inputs", f"NAME=FILE.npy, each once, with {', '.join(names)}")
        expected = "an array in a .npy file"
        try:
            arrays[name] = np.load(Path(file), allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"it cannot be read ({reason})", file=file, expected=expected) from None
        if not isinstance(arrays[name], np.ndarray) or arrays[name].dtype.hasobject:
            raise InputError("it is no array of numbers", file=file, expected=expected)
    return arrays


_TRIED_UNROLLED_NODES: Final = 2000
"""Limit on unrolled nodes while sizes are only tried for a suggestion."""


def read_onnx(path: Path, bindings: Bindings = Bindings()) -> Graph:  # noqa: B008 (frozen)
    """Read the network at the granularity of its nodes; `bindings` close its open dimensions.

    Weights are never needed: external data may be absent. Raises InputError for a file that is not a whole ONNX model,
    UsageError for bindings that do not belong to the network, OpenDimensionsError for inputs whose size stays open, and
    GraphError for a network that has no plan (shapes or loops that follow from values). Warns with NetworkWarning of
    dropped declared shapes, of undecided branches, and of shapes that are bounds.
    """
    # onnx takes 0.15 s to import: only those who read an ONNX file pay for it.
    from onchip.formats.onnx.dimensions import bind, open_dimensions_error
    from onchip.formats.onnx.file import load_model

    with errors_in_file(str(path)):
        model = load_model(path)
        if still_open := bind(model.graph, bindings):
            raise open_dimensions_error(
                model, still_open, lambda closed: _graph_of(closed, path.stem, _TRIED_UNROLLED_NODES)
            )
        graph, remarks = _graph_of(model, path.stem)
    for remark in remarks:
        warnings.warn(f"{path}: {remark}", NetworkWarning, stacklevel=2)
    return graph


def _graph_of(model: onnx.ModelProto, name: str, *unrolled_nodes: int) -> tuple[Graph, tuple[str, ...]]:
    """Return the graph of a model without open dimensions, and remarks for the user; raises GraphError."""
    from onchip.formats.onnx.control_flow import unfold
    from onchip.formats.onnx.graph import build_graph

    unfolded = unfold(model, *unrolled_nodes)
    graph = build_graph(unfolded.graph, unfolded.types, model.graph.name or name)
    if not graph.operators:
        raise GraphError("its outputs have no elements", expected="an output to compute, with `shapes` or `dims`")
    return graph, unfolded.remarks


_NO_SHAPES: Mapping[str, tuple[int, ...]] = MappingProxyType({})


def read_tflite(path: Path, shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES) -> Graph:
    """Read the network at the granularity of its operators; `shapes` are those of network inputs, by name.

    The file's own shapes hold for other inputs, also for dimensions that it leaves open. Raises InputError for a file
    that is not a whole TFLite model, GraphError for a network without a plan, UsageError for an impossible shape. Warns
    with NetworkWarning of states, which become inputs and outputs.
    """
    read = read_tflite_network(path, shapes)
    warn_of_states(path, read.states)
    for remark in read.network.remarks:
        warnings.warn(f"{path}: {remark}", NetworkWarning, stacklevel=2)
    return read.graph


def read_tflite_network(path: Path, shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES) -> ReadNetwork:
    """Return the graph with its sources; raises as `read_tflite` does."""
    # tflite takes 0.2 s to import: only those who read a TFLite file pay for it.
    from onchip.formats.tflite.file import load_model_file

    with errors_in_file(str(path)):
        return network_of_file(load_model_file(path), path.stem, shapes)


def network_of_file(file: ModelFile, name: str, shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES) -> ReadNetwork:
    """Return the graph of a file's tables; `name` is used if the file has none. Raises as `read_tflite` does."""
    from onchip.formats.tflite.graph import build_network
    from onchip.formats.tflite.inlining import flat_network
    from onchip.formats.tflite.network import resized

    network = resized(file, flat_network(file), shapes)
    return build_network(file, network, network.name or name)


@contextmanager
def _torch_needed(what: str, file: str | None = None) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UsageError(what, file=file, expected="pip install 'onchip[torch]'") from None


def graph_from_torch(
    module: torch.nn.Module | torch.export.ExportedProgram,
    example_inputs: Sequence[object] = (),
    name: str | None = None,
    *,
    expand_attention: bool = False,
    as_onnx: bool = False,
    bindings: Bindings = Bindings(),  # noqa: B008 (frozen)
) -> Graph:
    """Return the raw graph of a `torch.nn.Module` in inference mode, or of an `ExportedProgram`.

    `example_inputs` set the shapes; an `ExportedProgram` has its own, whose symbols `bindings` bind. A module made
    under `torch.device("meta")` needs no memory for its weights; its example inputs may lie on any device. With
    `expand_attention`, scaled-dot-product attention becomes MatMul, (Add of a mask,) Softmax, MatMul. With `as_onnx`,
    permutations of maps become Transposes and results of parameters alone become parameters, as for `.pt2` files.

    Raises UsageError without torch and for foreign bindings, OpenDimensionsError for unbound symbols, GraphError for
    programs that `torch.export` or onchip does not support.
    """
    with _torch_needed("PyTorch is not installed"):
        from onchip.formats.torch.program import exported, graph_of_program
        from onchip.formats.torch.replay import ReplayOptions
    options = ReplayOptions(expand_attention=expand_attention, as_onnx=as_onnx)
    return graph_of_program(exported(module, example_inputs), name or type(module).__name__, bindings, options)


def read_torch(path: Path, bindings: Bindings = Bindings()) -> Graph:  # noqa: B008 (frozen)
    """Read the network at the granularity of its operators; `bindings` bind its symbols.

    Weights are never read, and no code in the file is run. Raises InputError for a file that is not a whole exported
    program, UsageError without torch and for foreign bindings, OpenDimensionsError for unbound symbols, GraphError for
    a network without a plan. Warns with NetworkWarning of states.
    """
    # torch takes 2 s to import: only those who read its files pay for it.
    with _torch_needed("PyTorch is not installed, which reads it", str(path)):
        from onchip.formats.torch.program import graph_of_program, load_program, refused_if_damaged
        from onchip.formats.torch.replay import ReplayOptions
    with errors_in_file(str(path)):
        program = load_program(path)
        with refused_if_damaged():
            graph = graph_of_program(program, path.stem, bindings, ReplayOptions(as_onnx=True))
    outputs = [name for tensor in graph.with_role(Role.OUTPUT) for name in (tensor.name, *tensor.aliases)]
    warn_of_states(path, [name.rstrip("_").removesuffix(NEXT) for name in outputs if name.rstrip("_").endswith(NEXT)])
    return graph
