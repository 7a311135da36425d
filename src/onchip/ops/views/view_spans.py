"""The stored elements that a range of a view needs.

A view has a tensor's elements in their order, in dimensions of other sizes. Both shapes are divided into runs of
dimensions with equally many elements. The part of a run that a range of an axis needs follows from its outermost
dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from onchip.ops.derive.geometry import Span


def spans_as_stored(
    spans: Sequence[Span], stored: Sequence[int], order: Sequence[int] | None = None
) -> tuple[Span, ...]:
    """Return the least span of each dimension of `stored` that ranges of the axes need; `spans` are of the view.

    `order` lists the stored dimensions by descending stride; by default they are in that order already. A dimension is
    needed whole if the axes do not determine its part, or if the sizes disagree.
    """
    places = range(len(stored)) if order is None else order
    shape = [stored[place] for place in places]
    seen = [span.size for span in spans]
    found = [Span(size) for size in shape]
    if seen == shape:
        found = list(spans)
    elif prod(seen) == prod(shape):
        for ours, theirs in _runs(seen, shape):
            flat = _flattened(spans[ours[0]], prod(seen[at] for at in ours[1:]))
            found[theirs[0]] = _in_rows(flat, prod(shape[at] for at in theirs[1:]))
    by_place = dict(zip(places, found, strict=True))
    return tuple(by_place[place] for place in range(len(stored)))


def spans_of_part(spans: Sequence[Span], stored: Sequence[int], part: Sequence[int]) -> tuple[Span, ...]:
    """Return the spans as `spans_as_stored` does, for a view of a part of the elements, possibly repeated.

    `part` is the first element and the strides. The map's elements form dimensions according to the strides, and the
    view has a range of each. All elements are needed if they do not.
    """
    first, *strides = part
    if len(strides) != len(spans) or min(part) < 0:
        return tuple(map(Span, stored))
    moving = sorted((at for at, span in enumerate(spans) if strides[at] and span.size > 1), key=lambda at: -strides[at])
    found, above = list[Span](), prod(stored)
    for at in moving:
        size, excess = divmod(above, strides[at])
        place = first // strides[at] % max(size, 1)
        if excess or place + spans[at].size > size:
            return tuple(map(Span, stored))
        found.append(_further_on(spans[at], size, place))
        above = strides[at]
    return spans_as_stored([*found, Span(above)], stored)


def _further_on(span: Span, size: int, place: int) -> Span:
    """Return the span in a dimension of `size` elements; the view has a range from `place` on."""
    return Span(size) if span.axis is None else replace(span, size=size, offset=span.offset + place)


def _runs(seen: Sequence[int], stored: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the shortest runs of dimensions of both shapes with equally many elements, without dimensions of size 1."""
    left = [at for at, size in enumerate(seen) if size > 1]
    right = [at for at, size in enumerate(stored) if size > 1]
    while left:
        ours, theirs = [left.pop(0)], [right.pop(0)]
        while (excess := prod(seen[at] for at in ours) - prod(stored[at] for at in theirs)) != 0:
            if excess < 0:
                ours.append(left.pop(0))
            else:
                theirs.append(right.pop(0))
        yield ours, theirs


def _flattened(span: Span, inner: int) -> Span:
    """Return the span of a dimension each of whose elements becomes `inner` elements."""
    return replace(
        span, size=span.size * inner, step=span.step * inner, offset=span.offset * inner, extent=span.extent * inner
    )


def _in_rows(span: Span, inner: int) -> Span:
    """Return the span of a dimension whose elements are grouped `inner` at a time: all groups with a needed element.

    A range begins at a multiple of `step`, whose remainder within a row is at most `rest`.
    """
    size = span.size // inner
    if span.axis is None or inner == 1:
        return replace(span, size=size)
    if span.step % inner == 0:
        per, step, rest = span.per, span.step // inner, 0
    elif inner % span.step == 0:
        per, step, rest = span.per * (inner // span.step), 1, inner - span.step
    else:
        return Span(size)
    offset = span.offset // inner
    reach = -(-(rest + span.offset + span.extent) // inner)
    return Span(size, span.axis, per=per, step=step, offset=offset, extent=reach - offset)
