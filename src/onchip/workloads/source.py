"""A network by its source: a bundled name, an .onnx file or a graph file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from onchip.errors import GraphError, InputError, UsageError
from onchip.frontends.fusion import fuse
from onchip.frontends.graph_json import read_graph
from onchip.frontends.sizes import GREATEST_TOTAL_BYTES
from onchip.ir.graph import Graph
from onchip.plan.document import Granularity, Reading, Split
from onchip.workloads.bundled import bundled_networks, load_network


def read_network(source: str, reading: Reading = Reading()) -> Graph:  # noqa: B008 (frozen)
    """Read a bundled network, an .onnx file or a graph file, as `reading` says."""
    if reading.split is not Split.NEVER:
        raise UsageError(f"operators are to be split: {reading.split}", place="split", expected=Split.NEVER)
    try:
        graph = _read_raw(source, reading.dims)
        if not graph.operators:
            raise GraphError("it has no operators", expected="at least one")
        sized = graph if reading.bits is None else graph.with_bits(reading.bits)
        _total_is_in_range(sized)
        return fuse(sized) if reading.granularity is Granularity.FUSED else sized
    except GraphError as error:
        raise error if error.file else error.in_file(source) from None


def _total_is_in_range(graph: Graph) -> None:
    total_bytes = sum(tensor.size_bytes for tensor in graph.tensors)
    if total_bytes > GREATEST_TOTAL_BYTES:
        raise GraphError(f"its tensors take {total_bytes} bytes together", expected=f"at most {GREATEST_TOTAL_BYTES}")


def _read_raw(source: str, dims: Mapping[str, int]) -> Graph:
    if source.endswith(".onnx"):
        from onchip.frontends.onnx_model import read_onnx

        return read_onnx(Path(source), dims)
    if dims:
        raise UsageError("it has no symbolic dimensions", file=source, place="--dim", expected="an .onnx file")
    if source.endswith((".json", ".json.gz")):
        return read_graph(Path(source))
    if source not in bundled_networks():
        raise InputError(
            "no such network", file=source, expected="an .onnx or .json file, or a name `onchip networks` lists"
        )
    return load_network(source)
