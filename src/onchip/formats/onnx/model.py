"""ONNX file -> raw Graph: constants and views folded away, every shape static."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from onchip.errors import InputError
from onchip.ir.graph import Graph

_NO_DIMENSIONS: Mapping[str, int] = MappingProxyType({})


def read_onnx(path: Path, dims: Mapping[str, int] = _NO_DIMENSIONS) -> Graph:
    """Read the network at the granularity of its nodes; `dims` binds symbolic dimensions.

    Weights are never needed: external data may be absent. Raises InputError for a file that is not
    a whole ONNX model and GraphError for a network that has no plan (control flow, unknown shapes).
    """
    # onnx takes 0.15 s to import: only those who read an ONNX file pay for it.
    from onchip.formats.onnx.dimensions import bind_dimensions
    from onchip.formats.onnx.file import load_model
    from onchip.formats.onnx.graph import build_graph
    from onchip.formats.onnx.nodes import check_nodes
    from onchip.formats.onnx.shapes import infer_types

    try:
        model = load_model(path)
        check_nodes(model.graph)
        bind_dimensions(model.graph, dims)
        return build_graph(model.graph, infer_types(model), model.graph.name or path.stem)
    except InputError as error:
        raise error.in_file(str(path)) from None
