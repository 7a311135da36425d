from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.verify.packing import verify_packing
from onchip.verify.rules import Rule

BUFFERS = st.tuples(st.integers(0, 8), st.integers(1, 5), st.integers(1, 4)).map(
    lambda drawn: Buffer(drawn[0], drawn[0] + drawn[1], drawn[2])
)


@given(st.lists(st.tuples(BUFFERS, st.integers(0, 12)), max_size=12))
def test_overlaps_are_those_of_every_two_buffers(placed: list[tuple[Buffer, int]]) -> None:
    """The test compares all pairs of buffers, step by step and byte by byte."""
    expected = []
    for (first, (one, low)), (second, (other, high)) in combinations(enumerate(placed), 2):
        steps = max(one.start, other.start) < min(one.stop, other.stop)
        if steps and low < high + other.size_bytes and high < low + one.size_bytes:
            expected.append((f"buffer {second}", first))
    problem = PackingProblem(tuple(buffer for buffer, _ in placed), 100)
    violations = verify_packing(problem, Packing(tuple(offset for _, offset in placed)))
    found = [(one.subject, int(one.detail.split("buffer ")[1].split()[0])) for one in violations]

    assert {one.rule for one in violations} <= {Rule.OVERLAP}
    assert found == sorted(expected, key=lambda pair: (int(pair[0].split()[1]), pair[1]))


def test_many_buffers_are_looked_at_soon() -> None:
    """A hundred thousand buffers, few live at once: all five thousand million pairs would take an hour."""
    buffers = tuple(Buffer(step, step + 3, 8) for step in range(100_000))
    offsets = tuple(step % 3 * 8 for step in range(100_000))

    assert verify_packing(PackingProblem(buffers, 24), Packing(offsets)) == ()
