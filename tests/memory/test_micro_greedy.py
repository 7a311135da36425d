from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.backends.tflm.export_arena import place_as_micro
from onchip.verify.packing import verify_packing

buffers = st.lists(
    st.builds(lambda start, life, size: Buffer(start, start + life, size), *(st.integers(lo, 9) for lo in (0, 1, 1)))
)


def test_the_larger_come_first_and_the_smaller_fill_the_lowest_gaps() -> None:
    wide, low, high = Buffer(0, 2, 50), Buffer(0, 1, 10), Buffer(1, 3, 10)
    assert place_as_micro([low, wide, high], [None, None, None]) == (50, 0, 50)
    assert place_as_micro([low, wide, high], [None, 20, None]) == (0, 20, 0)


def test_of_two_alike_the_one_that_was_created_last_comes_first() -> None:
    assert place_as_micro([Buffer(0, 1, 4), Buffer(0, 1, 4)], [None, None]) == (4, 0)


def test_what_has_a_place_keeps_it_whatever_lies_there() -> None:
    assert place_as_micro([Buffer(0, 1, 4), Buffer(0, 1, 4)], [8, 8]) == (8, 8)


@given(buffers)
def test_what_it_places_itself_is_legal(made: list[Buffer]) -> None:
    offsets = place_as_micro(made, [None] * len(made))
    top = max((at + one.size_bytes for at, one in zip(offsets, made, strict=True)), default=1)
    assert not verify_packing(PackingProblem(tuple(made), top), Packing(offsets))


@given(buffers, st.data())
def test_scratch_buffers_of_one_step_fit_where_one_buffer_of_their_sum_does(
    made: list[Buffer], data: st.DataObject
) -> None:
    """The runtime therefore finds places for an operator's scratch buffers wherever one buffer of their sum fits."""
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    step = data.draw(st.integers(0, 9))
    together = [*made, Buffer(step, step + 1, sum(sizes))]
    offsets = place_as_micro(together, [None] * len(together))
    top = max(at + one.size_bytes for at, one in zip(offsets, together, strict=True))
    apart = [*made, *(Buffer(step, step + 1, size) for size in sizes)]
    again = place_as_micro(apart, [*offsets[:-1], *[None] * len(sizes)])
    assert max(at + one.size_bytes for at, one in zip(again, apart, strict=True)) <= top
