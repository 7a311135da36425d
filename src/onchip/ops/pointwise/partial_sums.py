"""Which operators of a model are computed in parts of what they sum up: run on a part of it, their results add up.

What they read beside that part is then the neutral element: zero of a sum, the least number of a maximum.
"""

from __future__ import annotations

from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator

AFFINE: Final = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Sums of products, to which a bias may be added once."""
SUMMED: Final = frozenset({"ReduceSum", "ReduceMean", "ReduceL1", "ReduceSumSquare", "GlobalAveragePool"})
CONTINUED: Final = "ReduceSum"
"""The kind of which a sum that goes on is the same as if it had not been interrupted: it is one of the summands."""
COMPARED: Final = frozenset({"ReduceMax", "ReduceMin"})
MULTIPLIED: Final = frozenset({"ReduceProd"})
GROUP_MEAN: Final = "GroupMean"
GROUP_VARIANCE: Final = "GroupVariance"
GROUP_MEAN_SQUARE: Final = "GroupMeanSquare"
ATTENTION_VALUES: Final = "AttentionValues"
STATISTICS: Final = frozenset({GROUP_MEAN, GROUP_VARIANCE, GROUP_MEAN_SQUARE})
"""What a step of a normalisation finds of all the elements that it normalises together."""
SUMS_OF_STEPS: Final = STATISTICS | {ATTENTION_VALUES}
"""Kinds of steps of larger operators (`scheduling/candidates/in_steps.py`), which see their parts as they are."""
REDUCTIONS: Final = (SUMMED | COMPARED | MULTIPLIED) - {"GlobalAveragePool"}
_LEAST_BITS: Final = 32
_MOST_INPUTS: Final = 3


def has_partial_results(operator: Operator, graph: Graph) -> bool:
    """Whether a model's operator may be computed in parts: nothing follows its sum, which is not of few bits."""
    written = graph.tensor[operator.outputs[0]]
    is_last = len(operator.members) < 2 and not operator.attributes.get("fused_activation")
    is_wide = (written.bits or 0) >= _LEAST_BITS
    is_known = operator.kind in AFFINE | SUMMED | COMPARED | MULTIPLIED | SUMS_OF_STEPS and len(operator.outputs) == 1
    return is_known and is_last and is_wide and len(operator.inputs) <= _MOST_INPUTS
