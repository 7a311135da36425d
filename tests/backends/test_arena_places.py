from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.backends.tflm.export_arena import arena_taken, least_places
from onchip.formats.tflite.arena import ArenaContents
from onchip.verify.packing import verify_packing

STEPS = 4


def contents(buffers: list[Buffer], scratch: list[list[int]]) -> ArenaContents:
    """Return arena contents of tensors with separate bytes, and the sizes of scratch buffers by step."""
    groups = tuple((index,) for index in range(len(buffers)))
    asked = [tuple(Buffer(step, step + 1, size) for size in sizes) for step, sizes in enumerate(scratch)]
    return ArenaContents(groups, tuple(buffers), tuple(asked))


def test_scratch_buffers_that_the_runtime_would_put_elsewhere_are_planned_as_one() -> None:
    """The offsets leave a gap between tensors, which the runtime fills with another scratch buffer than planned."""
    asked = contents([Buffer(0, 2, 80), Buffer(1, 2, 80)], [[32, 48, 64], []])
    found = least_places(asked)
    assert (found.taken_bytes, found.lower_bound_bytes) == (80 + 32 + 48 + 64, 80 + 32 + 48 + 64)


def test_scratch_buffers_fill_gaps_between_tensors() -> None:
    """A scratch buffer takes the offset of a tensor that is written later."""
    asked = contents([Buffer(0, 2, 64), Buffer(1, 2, 64)], [[64], []])
    assert least_places(asked).taken_bytes == 128


def test_sizes_are_rounded_up_to_16() -> None:
    asked = contents([Buffer(0, 1, 17), Buffer(0, 1, 1)], [[1]])
    found = least_places(asked)
    assert (found.taken_bytes, sorted(at % 16 for at in found.offsets_bytes)) == (64, [0, 0])


@settings(max_examples=60)
@given(st.data())
def test_what_is_promised_is_what_the_runtime_makes_of_legal_places(data: st.DataObject) -> None:
    sizes = st.integers(1, 100)
    lives = st.tuples(st.integers(0, STEPS - 1), st.integers(1, STEPS))
    made = data.draw(st.lists(st.tuples(lives, sizes), min_size=1, max_size=5))
    buffers = [Buffer(start, start + length, size) for (start, length), size in made]
    asked = contents(buffers, data.draw(st.lists(st.lists(sizes, max_size=3), min_size=STEPS, max_size=STEPS)))
    found = least_places(asked)
    problem = PackingProblem(asked.buffers, found.taken_bytes, 16)
    assert not verify_packing(problem, Packing(found.offsets_bytes))
    assert found.taken_bytes == 16 * arena_taken(asked, [at // 16 for at in found.offsets_bytes])
    assert found.lower_bound_bytes <= found.taken_bytes
    assert found.lower_bound_bytes <= 16 * arena_taken(asked, ())
