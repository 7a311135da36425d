"""Operators that can be computed in parts of their reduced dimension, whose partial results add up.

Padding of a part is the neutral element: zero for a sum, the least number for a maximum.
"""

from __future__ import annotations

from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator

AFFINE: Final = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Sums of products, to which a bias may be added once."""
SUMMED: Final = frozenset({"ReduceSum", "ReduceMean", "ReduceL1", "ReduceSumSquare", "GlobalAveragePool"})
CONTINUED: Final = "ReduceSum"
"""The kind whose continued sum equals an uninterrupted one, since the partial sum is one of the summands."""
COMPARED: Final = frozenset({"ReduceMax", "ReduceMin"})
MULTIPLIED: Final = frozenset({"ReduceProd"})
GROUP_MEAN: Final = "GroupMean"
GROUP_VARIANCE: Final = "GroupVariance"
GROUP_MEAN_SQUARE: Final = "GroupMeanSquare"
ATTENTION_VALUES: Final = "AttentionValues"
STATISTICS: Final = frozenset({GROUP_MEAN, GROUP_VARIANCE, GROUP_MEAN_SQUARE})
"""Steps of a normalisation that compute a statistic over all elements normalised together."""
SUMS_OF_STEPS: Final = STATISTICS | {ATTENTION_VALUES}
"""Kinds of steps of larger operators (`scheduling/candidates/in_steps.py`), which read views as they are."""
REDUCTIONS: Final = (SUMMED | COMPARED | MULTIPLIED) - {"GlobalAveragePool"}
_LEAST_BITS: Final = 32
_MOST_INPUTS: Final = 3


def has_partial_results(operator: Operator, graph: Graph) -> bool:
    """Return True if a model's operator may be computed in parts: its sum is its result, and is wide enough."""
    written = graph.tensor[operator.outputs[0]]
    is_last = len(operator.members) < 2 and not operator.attributes.get("fused_activation")
    is_wide = (written.bits or 0) >= _LEAST_BITS
    is_known = operator.kind in AFFINE | SUMMED | COMPARED | MULTIPLIED | SUMS_OF_STEPS and len(operator.outputs) == 1
    return is_known and is_last and is_wide and len(operator.inputs) <= _MOST_INPUTS
