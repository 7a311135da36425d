"""Networks by source: a bundled name, a model file (.onnx, .tflite, .pt2) or a graph file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from onchip.answer.bindings import Bindings
from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Problem
from onchip.api.phases import phase
from onchip.arch.memory import Memory
from onchip.arch.sizes import GREATEST_TOTAL_BYTES
from onchip.errors import GraphError, InputError, UsageError, nearest_first
from onchip.formats.networks import read_tflite_network
from onchip.formats.own.graph_json import bundled_networks, layer_table, load_network, read_graph, weights_of_graph
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ops.layers_of import NetworkLayers, Precision, layers_of, with_elements_of
from onchip.plugins import PluginGroup
from onchip.transform.rewrite.activations import cap_tensors, fuse
from onchip.transform.rewrite.attention_apart import AttentionApart, RecurrenceApart, SplitsApart
from onchip.transform.rewrite.channel_orders import as_images
from onchip.transform.rewrite.key_slices import with_key_slices
from onchip.transform.rewrite.quantisation import DEQUANTISE, QuantisationFold
from onchip.transform.rewrite.shared_bytes import SharedBytes, declared_in, with_states, with_workspaces
from onchip.transform.slices.emission import ChannelBands, with_tiles
from onchip.without_collecting import without_collecting

if TYPE_CHECKING:
    from onchip.formats.tflite.tiles import MicroNetwork

MODEL_SUFFIXES: Final = (".onnx", ".tflite")
"""Suffixes of files whose operators a runtime can run."""
PROGRAM_SUFFIX: Final = ".pt2"
"""Suffix of files whose operators torch can run, but only whole."""
NETWORK_SUFFIXES: Final = (*MODEL_SUFFIXES, PROGRAM_SUFFIX)
"""Suffixes of network files of other tools."""
NETWORK_READERS: Final = PluginGroup[[Path, Mapping[str, int]], Graph]("onchip.readers", Graph)
"""Map from file suffix, without dot, to a function of the file and of the bound symbolic dimensions."""


Network: TypeAlias = str | Graph
"""A network: a bundled name, a file, or a graph, which is read as its graph file would be."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a graph, and the reading that it was read with."""

    source: str
    reading: Reading


def load_graph(source: str, reading: Reading) -> Graph:
    """Read a network that remembers its source, so that later requests may read it in another way.

    Raises InputError, PluginError.
    """
    graph = read_network(source, reading)
    object.__setattr__(graph, "origin", Origin(source, reading))
    return graph


def text_of(network: Network) -> str:
    """Return the name or file of a network; for a graph without a file, words that no file name equals."""
    if isinstance(network, str):
        return network
    return network.origin.source if isinstance(network.origin, Origin) else f"graph {network.name!r}"


@phase("reading")
def read_network(network: Network, reading: Reading = Reading()) -> Graph:  # noqa: B008 (frozen)
    """Read a network as `reading` says, without the scratchpad-dependent steps; raises InputError, PluginError."""
    if isinstance(network, Graph) and isinstance(network.origin, Origin):
        if network.origin.reading == _steps_of_reading(reading):
            return network
        network = network.origin.source
    source = text_of(network)
    try:
        graph = _read_raw(network, reading.bindings)
        if not graph.operators:
            raise GraphError("the network has no operators", expected="at least one")
        stateful = with_states(graph, reading.states, _listed_outputs(source)) if reading.states else graph
        sized = stateful if reading.bits is None else stateful.with_bits(reading.bits)
        _total_is_in_range(sized)
        is_fused = reading.granularity is Granularity.FUSED
        return _with_bytes_apart(sized, reading, lambda apart: _as_it_runs(apart, source) if is_fused else apart)
    except GraphError as error:
        raise error if error.file else error.in_file(source) from None


def _steps_of_reading(reading: Reading) -> Reading:
    """Return the part of a reading that `read_network` uses."""
    own = Reading.of(reading.bindings, reading.granularity)
    return replace(own, bits=reading.bits, states=reading.states, sharing=reading.sharing)


def _with_bytes_apart(graph: Graph, reading: Reading, change: Callable[[Graph], Graph]) -> Graph:
    """Apply `change` to the graph without byte sharing, then restore the sharing by kinds or as declared before."""
    changed = change(SharedBytes()(graph))
    return SharedBytes(reading.sharing, declared_in(graph, changed))(changed)


def _as_it_runs(graph: Graph, source: str) -> Graph:
    """Fuse activations and normalisations into preceding operators, and fold quantisation into integer operators.

    TFLite has integer kernels, and computes dequantised tensors in floating point. In other files an activation between
    a dequantisation and a quantisation becomes an integer operator, so it is not fused into the dequantisation first.
    """
    if source.endswith(".tflite"):
        return as_images(fuse(graph))
    return as_images(fuse(QuantisationFold()(fuse(graph, apart=DEQUANTISE))))


@phase("reading")
@without_collecting()
def network_to_plan(network: Network, reading: Reading) -> Graph:
    """Return the network as plans use it: as `read_network` reads it, with declared workspaces as tensors.

    Operators are split into the channel tiles of the reading. Raises InputError, PluginError.
    """
    try:
        return ChannelBands(reading.bands)(with_workspaces(read_network(network, reading)))
    except GraphError as error:
        raise error if error.file else error.in_file(text_of(network)) from None


@phase("reading")
@without_collecting()
def network_to_schedule(network: Network, reading: Reading) -> Graph:
    """Return the network as schedules use it: as read, with attention, recurrences and Splits decomposed.

    Softmaxes between two products run in the slices of the reading.
    """
    return with_key_slices(taken_apart(read_network(network, reading)), reading.key_slices)


def taken_apart(graph: Graph) -> Graph:
    """Return the network with attention, recurrences and Splits decomposed into simpler operators."""
    return SplitsApart()(RecurrenceApart()(AttentionApart()(graph)))


@phase("tiling operators")
def fitted_to_scratchpads(problem: Problem, network: Network, reading: Reading) -> Problem:
    """Return the problem with tensors capped at the largest scratchpad, or with operators in tiles, as requested."""
    if reading.runtime is not None:
        return replace(problem, graph=network_in_runtime(network, reading, problem).graph)
    if reading.cap_tensors:
        largest = max(memory.capacity_bytes for memory in problem.memories)
        graph = _with_bytes_apart(problem.graph, reading, lambda apart: cap_tensors(apart, largest))
    elif reading.tiles:
        graph = _with_bytes_apart(
            problem.graph,
            reading,
            lambda apart: with_tiles(replace(problem, graph=apart), reading.tiles, is_model=is_model(network)),
        )
    else:
        return problem
    return replace(problem, graph=graph)


def network_in_runtime(network: Network, reading: Reading, problem: Problem | None = None) -> MicroNetwork:
    """Return the network as the runtime of a reading runs it, in the tiles of the reading.

    `problem` is that of the whole network, if it is known. Raises GraphError for tiles that the runtime cannot run.
    """
    from onchip.formats.tflite.tiles import micro_network

    problem = problem or Problem(network_to_plan(network, reading), (Memory("unused", 1),))
    tiled = with_tiles(problem, reading.tiles, is_model=True) if reading.tiles else problem.graph
    return micro_network(read_tflite_network(Path(text_of(network))), problem.graph, tiled)


def _listed_outputs(source: str) -> frozenset[str] | None:
    """Return the output names of an ONNX file; None for other files, whose output names are all listed."""
    if not source.endswith(".onnx"):
        return None
    import onnx

    return frozenset(output.name for output in onnx.load(source, load_external_data=False).graph.output)


def _total_is_in_range(graph: Graph) -> None:
    total_bytes = sum(tensor.size_bytes for tensor in graph.tensors)
    if total_bytes > GREATEST_TOTAL_BYTES:
        raise GraphError(f"the tensors take {total_bytes} bytes together", expected=f"at most {GREATEST_TOTAL_BYTES}")


def is_model(network: Network) -> bool:
    """Return True if a runtime can run the network's operators."""
    return text_of(network).endswith(MODEL_SUFFIXES)


def model_of(network: Network) -> tuple[str, Reading | None] | None:
    """Return the model with a network's weights, and its reading if the network is a graph in tiles of the model.

    Returns None for a network without weights. Raises InputError if a graph file's model is missing or has changed.
    """
    source = text_of(network)
    if is_model(network):
        return source, None
    if (isinstance(network, Graph) and network.origin is None) or not source.endswith((".json", ".json.gz")):
        return None
    weights = weights_of_graph(Path(source))
    return None if weights is None else (str(weights.model), Reading.of(weights.bindings))


def _read_raw(network: Network, bindings: Bindings) -> Graph:
    source, suffix = text_of(network), Path(text_of(network)).suffix
    if isinstance(network, Graph):
        _ensure_bound_by((), bindings, source, f"{source} leaves no dimensions or values open", "no bindings")
        return network
    if suffix in NETWORK_SUFFIXES:
        from onchip.formats.networks import read_onnx, read_tflite, read_torch

        if suffix == ".tflite":
            what = "a TFLite file leaves shapes open alone"
            _ensure_bound_by(("shapes",), bindings, source, what, "`shapes`")
            return read_tflite(Path(source), bindings.shapes)
        return (read_onnx if suffix == ".onnx" else read_torch)(Path(source), bindings)
    is_graph_file = source.endswith((".json", ".json.gz"))
    if not is_graph_file and (read := NETWORK_READERS.find(suffix[1:])) is not None:
        what = "the plug-in of this suffix takes `dims` alone"
        _ensure_bound_by(("dims",), bindings, source, what, "an .onnx file")
        return read(Path(source), bindings.dims)
    what = "the network has no open dimensions or values"
    _ensure_bound_by((), bindings, source, what, "an .onnx file, or no such option")
    if is_graph_file:
        return read_graph(Path(source))
    if source not in bundled_networks():
        from onchip.formats.foreign_files import layer_file

        files = ", ".join((*NETWORK_SUFFIXES, *(f".{name}" for name in NETWORK_READERS.names)))
        name = nearest_first(source, bundled_networks()) or "a "
        expected = f"{name}name that `onchip networks` lists, or an {files} or .json file"
        what = "the file lists layers at most, which `onchip map` accepts" if layer_file(source) else "no such network"
        raise InputError(what, file=source, expected=expected)
    return load_network(source)


def _ensure_bound_by(allowed: Sequence[str], bindings: Bindings, source: str, what: str, expected: str) -> None:
    """Raise UsageError if bindings of another kind than those allowed are given."""
    for place in ("dims", "shapes", "values"):
        if getattr(bindings, place) and place not in allowed:
            raise UsageError(what, file=source, place=place, expected=expected)


def ensure_reading_is(reading: Reading, insisted: Mapping[str, object], file: str) -> None:
    """Raise UsageError if a field of `reading`, which comes from the file, differs from the insisted value."""
    for name, value in insisted.items():
        if value != (said := getattr(reading, name)):
            expected = "the data types of the model" if said is None else f"{said}"
            raise UsageError(f"{value} differs from the reading in the file", file=file, place=name, expected=expected)


TABLE: Final = "cosa:"
"""Prefix of the name of a layer table."""
TEXTS: Final = ("conv:", "gemm:")
"""Prefixes of a layer given by its geometry."""
_FILES: Final = (*NETWORK_SUFFIXES, ".json", ".json.gz")


def layers_named(source: Network | Layer, reading: Reading, precision: Precision) -> tuple[NetworkLayers, bool]:
    """Return the layers that `source` names, and True if it is one layer rather than a network.

    The forms are a layer, a graph, `conv:...`, `gemm:...`, `cosa:TABLE`, a bundled network or a file, and
    `cosa:TABLE:LAYER` or `NETWORK:LAYER` for one layer. Raises InputError for an unknown source.
    """
    if isinstance(source, Layer):
        return NetworkLayers(None, {source.text: precision.of(source)}), True
    if isinstance(source, Graph):
        return _layers_of(source, reading, precision), False
    if source.startswith(TEXTS):
        return NetworkLayers(None, {source: precision.of(Layer.of_text(source))}), True
    network, layer = _split(source)
    if network.startswith(TABLE):
        table = layer_table(network.removeprefix(TABLE))
        found = NetworkLayers(network, {name: precision.of(one) for name, one in table.items()})
    else:
        found = _layers_of(network, reading, precision)
    return (found, False) if layer is None else (found.only(layer), True)


def _layers_of(network: Network, reading: Reading, precision: Precision) -> NetworkLayers:
    return layers_of(with_elements_of(read_network(network, reading), precision.bits), precision)


def _split(source: str) -> tuple[str, str | None]:
    """Return the network and the requested layer; both names may contain colons."""
    if source.startswith(TABLE):
        table, _, layer = source.removeprefix(TABLE).partition(":")
        return f"{TABLE}{table}", layer or None
    parts = source.split(":")
    files = (*_FILES, *(f".{name}" for name in NETWORK_READERS.names))
    for count in range(len(parts), 0, -1):
        network = ":".join(parts[:count])
        if network in bundled_networks() or network.endswith(files):
            return network, ":".join(parts[count:]) or None
    expected = "conv:..., gemm:..., cosa:TABLE, a network, or NETWORK:LAYER"
    raise InputError("unknown layer or network", place=source, expected=expected)
