"""ONNX file -> raw Graph: constants and views folded away, control flow unfolded, every shape static."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

from onchip.answer.bindings import Bindings
from onchip.errors import GraphError, NetworkWarning, errors_in_file
from onchip.ir.graph import Graph

if TYPE_CHECKING:
    import onnx


_TRIED_UNROLLED_NODES: Final = 2000
"""Of loops, where sizes are only tried to be suggested."""


def read_onnx(path: Path, bindings: Bindings = Bindings()) -> Graph:  # noqa: B008 (frozen)
    """Read the network at the granularity of its nodes; `bindings` stand for what the file leaves open.

    Weights are never needed: external data may be absent. Raises InputError for a file that is not a whole ONNX model,
    UsageError for bindings that are not of this network, OpenDimensionsError for inputs whose size stays open, and
    GraphError for a network that has no plan (shapes or loops that follow from values). Warns with NetworkWarning of
    declared shapes that were dropped, of branches of which either may run, and of shapes that are bounds.
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
    """The graph of a model without open dimensions, and what a user should know of it; raises GraphError."""
    from onchip.formats.onnx.control_flow import unfold
    from onchip.formats.onnx.graph import build_graph

    unfolded = unfold(model, *unrolled_nodes)
    graph = build_graph(unfolded.graph, unfolded.types, model.graph.name or name)
    if not graph.operators:
        raise GraphError("its outputs have no elements", expected="an output to compute, with --shape or --dim")
    return graph, unfolded.remarks
