"""Ranges of the stored tensor that a view's dimensions need, compared with its elements one by one."""

from __future__ import annotations

from itertools import permutations
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onchip.ops.slicing import Span, spans_as_stored

SIZES = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)


def factorised(chance: st.DataObject, total: int) -> list[int]:
    """Draw a shape with `total` elements."""
    shape, rest = [], total
    while rest > 1:
        size = chance.draw(st.sampled_from([size for size in range(1, rest + 1) if rest % size == 0]))
        shape.append(size)
        rest //= size
        if len(shape) == 5:
            shape.append(rest)
            rest = 1
    return shape or [1]


def spans_of(chance: st.DataObject, seen: list[int]) -> list[Span]:
    """Draw for each dimension a relation to its axis, or none."""
    spans = []
    for axis, size in enumerate(seen):
        place = chance.draw(st.sampled_from([None, axis]))
        per, step, extent = (chance.draw(st.integers(1, most)) for most in (3, 4, 5))
        offset = chance.draw(st.integers(-5, 5))
        spans.append(Span(size) if place is None else Span(size, axis, per, step, offset, extent))
    return spans


@given(st.data(), SIZES)
def test_what_is_needed_of_a_view_is_needed_of_what_is_stored(chance: st.DataObject, seen: list[int]) -> None:
    stored = factorised(chance, prod(seen))
    order = chance.draw(st.sampled_from([None, *permutations(range(len(stored)))]))
    spans = spans_of(chance, seen)
    tile = [chance.draw(st.integers(0, 4)) for _ in seen]
    ranges = [(start, start + chance.draw(st.integers(1, 4))) for start in tile]
    axis_size = 1000  # no tile is the last one, which takes all elements that follow
    found = spans_as_stored(spans, stored, order)
    assert [span.size for span in found] == stored
    turned = range(len(stored)) if order is None else order
    numbered = np.arange(prod(stored)).reshape(stored).transpose(turned).reshape(seen)
    box = tuple(slice(*needed(span, ranges, axis_size, at)) for at, span in enumerate(spans))
    places = np.stack(np.unravel_index(numbered[box].reshape(-1), stored), axis=-1)
    for dimension, span in enumerate(found):
        start, stop = (0, span.size) if span.axis is None else span.range(*ranges[span.axis], axis_size)
        assert all(start <= place < stop for place in places[:, dimension])


def needed(span: Span, ranges: list[tuple[int, int]], axis_size: int, at: int) -> tuple[int, int]:
    """Return the range of elements that positions of the axis need, clipped to the dimension."""
    if span.axis is None:
        return 0, span.size
    start, stop = ranges[at]
    low = start // span.per * span.step + span.offset
    high = (stop - 1) // span.per * span.step + span.offset + span.extent
    low = min(max(low, 0), span.size)
    return low, max(low, min(max(high, 0), span.size))


def test_channels_taken_apart_are_read_as_many_at_a_time() -> None:
    """The map has 112 channels in 4 groups of 28: a tile reads all channels and the same pixels of each group."""
    seen = (Span(1, 0), Span(4, 2), Span(28, 1), Span(56, 3), Span(56, 4))
    assert spans_as_stored(seen, (1, 112, 56, 56)) == (
        Span(1),
        Span(112, 2, step=28, extent=28),
        Span(56, 3),
        Span(56, 4),
    )


def test_channels_put_together_are_read_by_their_groups() -> None:
    seen = (Span(1, 0), Span(112, 1), Span(56, 2))
    assert spans_as_stored(seen, (1, 28, 4, 56)) == (Span(1), Span(28, 1, per=4), Span(4), Span(56, 2))


def test_of_another_number_of_elements_all_is_read() -> None:
    assert spans_as_stored((Span(4, 0),), (5, 2)) == (Span(5), Span(2))
