"""Kinds of the steps in which larger operators are taken apart: statistics, what is normalised with them, attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from onchip.ops.contractions.contractions import kept_dimensions
from onchip.ops.derive.geometry import Geometry, Span, TileAxis
from onchip.ops.pointwise.partial_sums import ATTENTION_VALUES, STATISTICS
from onchip.ops.registry.outline import Outline, Shape, all_known

NORMALISED: Final = "Normalised"
"""The last step of a normalisation: its operands are the source, then its statistics, then scales and shifts."""
NORMALISES: Final = "normalises"
"""The attribute of such a step that names the kind of the operator."""
ATTENTION_SCORES: Final = "AttentionScores"
ATTENTION_WEIGHTS: Final = "AttentionWeights"
STATISTICS_OF: Final[Mapping[str, int]] = {
    "InstanceNormalization": 2,
    "GroupNormalization": 2,
    "LayerNormalization": 2,
    "RMSNormalization": 1,
}
"""By kind of a normalisation how many statistics there are: a mean and a variance, or the mean of squares."""
BY_CHANNEL: Final = frozenset({"InstanceNormalization", "GroupNormalization"})
"""Kinds that have a scale and a shift for each channel; those of others lie along the last dimensions."""
_KEYS: Final = 2
"""The axis of values along which they are summed up."""
_Spans: TypeAlias = tuple[Span, ...]


def summed_dimension(outline: Outline) -> int | None:
    """The longest dimension of what is put together of which a part can be read for itself; None where there is none.

    Through a view a part may be more as it is stored: a model's kernels tell which of it is the part.
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
    """Where ranges of a dimension of an operand as it is seen lie as it is stored; None if anywhere."""
    seen = tuple(Span(size, 0 if at == dimension else None) for at, size in enumerate(outline.shapes()[place]))
    return next((span for span in outline.as_stored(place, seen) if span.axis is not None), None)


def _statistic(outline: Outline) -> Geometry | None:
    """Of what is put together one dimension is cut; every part reads what was found before."""
    source, *found = outline.shapes()
    kept, at_once = kept_dimensions(outline.operator, source, outline.written), summed_dimension(outline)
    if kept is None or any(shape != outline.written for shape in found):
        return None
    outline.cut_along_output()
    summed = None if at_once is None else outline.reduce(source[at_once])
    again = Span(1) if summed is None else Span(1, summed, step=0)
    along = tuple(Span(size, summed if at == at_once else kept.get(at)) for at, size in enumerate(source))
    others = (
        tuple(again if at == at_once else Span(size, kept.get(at)) for at, size in enumerate(shape)) for shape in found
    )
    return outline.finish([along, *others])


def _is_exact(span: Span) -> bool:
    """Whether ranges of the axis that follow each other are ranges of the dimension that do."""
    return (span.per, span.offset, span.extent) == (1, 0, span.step)


def _normalised(outline: Outline) -> Geometry | None:
    """Element by element; a statistic is that of the group in which the element lies."""
    (source, *beside), written = outline.shapes(), outline.written
    kind = str(outline.operator.attributes.get(NORMALISES))
    count = STATISTICS_OF.get(kind, 0)
    if source != written or len(outline.operator.outputs) > 1:
        return None
    outline.cut_along_output()
    if kind in BY_CHANNEL:
        statistics = [_of_groups(shape, written) for shape in beside[:count]]
        others = [outline.along_channels(shape) for shape in beside[count:]]
    else:
        statistics = [outline.along_output(shape) for shape in beside[:count]]
        others = [outline.along_output(shape) for shape in beside[count:]]
    known, rest = all_known(statistics), outline.beside(beside[count:], others)
    along = tuple(Span(size, at) for at, size in enumerate(source))
    return None if known is None or rest is None else outline.finish([along, *known, *rest])


def _of_groups(shape: Shape, written: Shape) -> _Spans | None:
    """A statistic has samples, then groups of channels."""
    if shape[0] != written[0] or written[1] % shape[1]:
        return None
    return (Span(shape[0], 0), Span(shape[1], 1, per=written[1] // shape[1]), *map(Span, shape[2:]))


def _scores(outline: Outline) -> Geometry | None:
    """Every query meets every key of its head; a mask is spread over them as ONNX does."""
    queries, keys, *masks = outline.shapes()
    heads, shared = outline.written[1], keys[1]
    outline.cut_along_output()
    spread = all_known([outline.along_output(mask) for mask in masks])
    if spread is None:
        return None
    of_queries = (*(Span(size, at) for at, size in enumerate(queries[:3])), Span(queries[3]))
    of_keys = (Span(keys[0], 0), Span(shared, 1, per=heads // shared), Span(keys[2], 3), Span(keys[3]))
    return outline.finish([of_queries, of_keys, *spread])


def _weights(outline: Outline) -> Geometry:
    """A row of scores is in every tile as a whole."""
    *rows, keys = outline.written
    outline.axes = [*map(TileAxis, rows), TileAxis(1)]
    along = (*(Span(size, at) for at, size in enumerate(rows)), Span(keys))
    return outline.finish([along], [along])


def _values(outline: Outline) -> Geometry:
    """Sums over the keys; heads of queries may share those of values."""
    weights, values = outline.shapes()
    heads, shared = outline.written[1], values[1]
    outline.cut_along_output()
    keys = _as_stored(outline, 1, _KEYS)
    summed = outline.reduce(values[2]) if keys is not None and _is_exact(keys) else None
    of_weights = (*(Span(size, at) for at, size in enumerate(weights[:3])), Span(weights[3], summed))
    of_heads = (Span(values[0], 0), Span(shared, 1, per=heads // shared))
    return outline.finish([of_weights, (*of_heads, Span(values[2], summed), Span(values[3], 3))])


STEPS: Final[Mapping[str, Callable[[Outline], Geometry | None]]] = {
    **dict.fromkeys(STATISTICS, _statistic),
    NORMALISED: _normalised,
    ATTENTION_SCORES: _scores,
    ATTENTION_WEIGHTS: _weights,
    ATTENTION_VALUES: _values,
}
"""By kind its geometry; operators of these kinds are made by `scheduling/candidates/in_steps.py` alone."""
