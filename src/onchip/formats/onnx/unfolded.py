"""A model with control flow -> one without, and the types of all its tensors."""

from __future__ import annotations

import onnx

from onchip.errors import GraphError
from onchip.formats.onnx.control_flow import CONTROL_FLOW
from onchip.formats.onnx.nodes import check_nodes
from onchip.formats.onnx.unfolding import UnfoldedModel, Unfolding
from onchip.formats.unrolling import GREATEST_UNROLLED_NODES


def unfold(model: onnx.ModelProto, greatest_unrolled: int = GREATEST_UNROLLED_NODES) -> UnfoldedModel:
    """Unfold control flow and infer all types; raises GraphError where ONNX says that a node is wrong.

    A shape that the file declares where nothing can be inferred, and with which a later node is wrong, is dropped.
    """
    check_nodes(model.graph)
    first = Unfolding(model, frozenset(), CONTROL_FLOW, greatest_unrolled)
    try:
        return first.run()
    except GraphError:
        if not first.inference.assumed:
            raise
        return Unfolding(model, first.inference.assumed, CONTROL_FLOW, greatest_unrolled).run()
