"""Reasons why kinds of operators have no loop nest; these are costed as data movement and element operations."""

from __future__ import annotations

from typing import Final

_MOVING: Final = frozenset(
    {
        "Appended",
        "Cast",
        "Concat",
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
    }
    | {"Pad", "Reshape", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile"}
    | {"Transpose", "Unsqueeze", "CONCATENATION", "GATHER", "EMBEDDING_LOOKUP"}
)
_OF_WHOLE_ROWS: Final = frozenset(
    {"Softmax", "LogSoftmax", "LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization"}
    | {"MeanVarianceNormalization", "LpNormalization", "SimplifiedLayerNormalization"}
    | {"com.microsoft::SkipLayerNormalization", "com.microsoft::SkipSimplifiedLayerNormalization"}
)
_CHOOSING: Final = frozenset(
    {"And", "ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "NonMaxSuppression"}
    | {"NonZero", "Not", "Or", "TopK", "Where", "Xor"}
)
_OF_COMPUTED_FACTORS: Final = frozenset({"DFT", "Resize", "STFT", "Upsample"})
_REASONS: Final = (
    (_MOVING, "it moves elements"),
    (_OF_WHOLE_ROWS, "each element waits for sums over all of its row, which are no tensors"),
    (_CHOOSING, "it compares or chooses elements"),
    (_OF_COMPUTED_FACTORS, "the factors of its products are no operand"),
)

WITHOUT_NEST: Final = frozenset().union(*(kinds for kinds, _ in _REASONS))
"""Kinds that are never a loop nest."""


def why_without_nest(kind: str) -> str:
    """Return the reason in one phrase."""
    what = "its kind is no loop nest of multiply-accumulates"
    return next((f"{what}: {reason}" for kinds, reason in _REASONS if kind in kinds), what)
