"""Kinds of the steps that larger operators are decomposed into: statistics, normalisation, attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from onchip.ops.contractions.contractions import kept_dimensions
from onchip.ops.derive.geometry import Span
from onchip.ops.pointwise.partial_sums import ATTENTION_VALUES, STATISTICS
from onchip.ops.pointwise.placed_kinds import placed
from onchip.ops.registry.entry import AffineDimension, OperatorEntry, along, lone_loops, per_channel, spread, unknown
from onchip.ops.registry.outline import Outline, Shape

NORMALISED: Final = "Normalised"
"""The last step of a normalisation: its operands are the source, then its statistics, then scales and shifts."""
NORMALISES: Final = "normalises"
"""The attribute of such a step that names the kind of the decomposed operator."""
ATTENTION_SCORES: Final = "AttentionScores"
ATTENTION_WEIGHTS: Final = "AttentionWeights"
STATISTICS_OF: Final[Mapping[str, int]] = {
    "InstanceNormalization": 2,
    "GroupNormalization": 2,
    "LayerNormalization": 2,
    "RMSNormalization": 1,
}
"""Number of statistics by kind of normalisation: a mean and a variance, or the mean of squares."""
BY_CHANNEL: Final = frozenset({"InstanceNormalization", "GroupNormalization"})
"""Kinds with a scale and a shift per channel; those of other kinds are along the last dimensions."""
_KEYS: Final = 2
"""The axis of values that is reduced."""
Dimensions: TypeAlias = tuple[AffineDimension, ...]


def summed_dimension(outline: Outline) -> int | None:
    """Return the longest reduced dimension whose parts can be read separately; None if there is none.

    Through a view, a part may cover more elements as stored; a model's kernels then select the part's own.
    """
    source = outline.shapes()[0]
    kept = kept_dimensions(outline.operator, source, outline.written)
    if kept is None:
        return None
    longest_first = sorted(
        (at for at, size in enumerate(source) if size > 1 and at not in kept), key=lambda at: -source[at]
    )
    stored = {at: _as_stored(outline, 0, at) for at in longest_first}
    exact = (at for at, span in stored.items() if span is not None and _is_exact(span))
    usable = (at for at, span in stored.items() if span is not None and outline.is_model)
    return next(exact, next(usable, None))


def _as_stored(outline: Outline, place: int, dimension: int) -> Span | None:
    """Return the stored span that a range of a viewed dimension needs; None if it may need any element."""
    seen = tuple(Span(size, 0 if at == dimension else None) for at, size in enumerate(outline.shapes()[place]))
    return next((span for span in outline.as_stored(place, seen) if span.axis is not None), None)


def _statistic(outline: Outline) -> OperatorEntry | None:
    """Return the entry of a statistic, with one reduced dimension cut; every part reads the earlier statistics."""
    source, *found = outline.shapes()
    kept, at_once = kept_dimensions(outline.operator, source, outline.written), summed_dimension(outline)
    if kept is None or any(shape != outline.written or len(shape) != len(source) for shape in found):
        return None
    write, loops = along(outline.written), {} if at_once is None else {"C": source[at_once]}

    def lies(shape: Shape, times: int) -> Dimensions:
        cut = ["C" if at == at_once else f"P{kept[at]}" if at in kept else "" for at in range(len(shape))]
        terms = ({loop: times if loop == "C" else 1} if loop else {} for loop in cut)
        return tuple(map(AffineDimension, shape, terms))

    operands = {0: write, 1: lies(source, 1), **{at: lies(shape, 0) for at, shape in enumerate(found, 2)}}
    return OperatorEntry(lone_loops({0: write}) | loops, operands, summed="C" if loops else "")


def _is_exact(span: Span) -> bool:
    """Return True if consecutive ranges of the axis are consecutive ranges of the dimension."""
    return (span.per, span.offset, span.extent) == (1, 0, span.step)


def _normalised(outline: Outline) -> OperatorEntry | None:
    """Return the element-wise entry of a normalisation; a statistic is that of the element's group, or broadcast."""
    (source, *beside), kind = outline.shapes(), str(outline.operator.attributes.get(NORMALISES))
    count, by_channel = STATISTICS_OF.get(kind, 0), kind in BY_CHANNEL
    if source != outline.written:
        return None
    write, loops = in_groups(source, beside[0][1]) if by_channel else (along(source), {})
    operands = {0: write, 1: write}
    for place, shape in enumerate(beside, 2):
        is_statistic = place - 2 < count
        if by_channel:
            lies = _of_groups(shape, write, loops) if is_statistic else per_channel(write, shape)
        else:
            lies = spread(write, shape)
        if lies is None and is_statistic:
            return None
        operands |= {} if lies is None else {place: lies}
    return OperatorEntry(lone_loops({0: write}) | loops, operands)


def in_groups(shape: Shape, groups: int) -> tuple[Dimensions, dict[str, int]]:
    """Return dimensions with the second one split into groups along loop P1, and the loops of that dimension."""
    batch, heads, *others = along(shape)
    each = heads.size // groups
    return (batch, AffineDimension(heads.size, {"P1": each, "Q1": 1}), *others), {"P1": groups, "Q1": each}


def _of_groups(shape: Shape, write: Dimensions, loops: Mapping[str, int]) -> Dimensions | None:
    """Return the dimensions of a statistic: samples, then groups of channels."""
    if shape[:2] != (write[0].size, loops["P1"]) or write[1].size % shape[1]:
        return None
    return (write[0], AffineDimension(shape[1], {"P1": 1}), *unknown(shape[2:]))


def _scores(outline: Outline) -> OperatorEntry | None:
    """Return the entry of scores: every query meets every key of its head; a mask is broadcast as in ONNX."""
    queries, keys, *masks = outline.shapes()
    write, loops = in_groups(outline.written, keys[1])
    spreads = {at: lies for at, mask in enumerate(masks, 3) if (lies := spread(write, mask)) is not None}
    if len(spreads) < len(masks):
        return None
    of_keys = (write[0], AffineDimension(keys[1], {"P1": 1}), write[3], *unknown(keys[3:]))
    operands = {0: write, 1: (*write[:3], *unknown(queries[3:])), 2: of_keys, **spreads}
    return OperatorEntry(lone_loops({0: write}) | loops, operands)


def _weights(outline: Outline) -> OperatorEntry:
    """Return the entry of the attention weights, whose rows of scores are never cut."""
    return placed(outline, along(outline.written), uncut=[len(outline.written) - 1])


def _values(outline: Outline) -> OperatorEntry:
    """Return the entry of the weighted sums over the keys; query heads may share the heads of values."""
    _, values = outline.shapes()
    write, loops = in_groups(outline.written, values[1])
    keys, stored = AffineDimension(values[2], {"C": 1}), _as_stored(outline, 1, _KEYS)
    operands = {0: write, 1: (*write[:3], keys), 2: (write[0], AffineDimension(values[1], {"P1": 1}), keys, write[3])}
    is_exact = stored is not None and _is_exact(stored)
    loops |= lone_loops({0: write}) | {"C": keys.size}
    return OperatorEntry(loops, operands, summed="C" if is_exact else "")


STEPS: Final[Mapping[str, Callable[[Outline], OperatorEntry | None]]] = {
    **dict.fromkeys(STATISTICS, _statistic),
    NORMALISED: _normalised,
    ATTENTION_SCORES: _scores,
    ATTENTION_WEIGHTS: _weights,
    ATTENTION_VALUES: _values,
}
"""Entry functions by kind; only `scheduling/candidates/in_steps.py` creates operators of these kinds."""
