"""The verifier of packings and static packings against a judgement byte by byte and step by step."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import lcm
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.packing import (
    Buffer,
    Packing,
    PackingProblem,
    StaticMemory,
    StaticPacking,
    StaticPackingProblem,
    StaticPlace,
)
from onchip.verify.packing import verify_packing, verify_static_packing
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


def random_static_packing(chance: Random) -> tuple[StaticPackingProblem, StaticPacking]:
    """Return few buffers in two or three small memories, placed at random, mostly where they may lie."""
    has_own = chance.random() < 0.5
    memories = tuple(
        StaticMemory(chance.choice((None, 6, 9, 14)), chance.choice((1, 1, 2)), 0 if has_own else chance.choice((0, 3)))
        for _ in range(chance.randint(2, 3))
    )
    buffers = tuple(random_buffer(chance, has_own=has_own) for _ in range(chance.randint(2, 3)))
    costs = tuple({at: chance.randint(0, 3) for at in range(len(memories)) if chance.random() < 0.9} for _ in buffers)
    pairs = [pair for pair in combinations(range(len(buffers)), 2) if chance.random() < 0.3]
    is_together = chance.random() < 0.5
    problem = StaticPackingProblem(
        buffers, memories, costs, tuple(pairs[:1]) if is_together else (), () if is_together else tuple(pairs)
    )
    count = len(memories)
    places = (
        StaticPlace(
            chance.choice((-1, count)) if chance.random() < 0.04 else chance.randrange(count),
            -2 if chance.random() < 0.05 else chance.randrange(7),
        )
        for _ in buffers
    )
    return problem, StaticPacking(tuple(places))


def random_buffer(chance: Random, *, has_own: bool) -> Buffer:
    """Return a buffer of 1 to 4 bytes over some of 8 steps; with `has_own` it may have a place or an alignment."""
    start = chance.randrange(4)
    stop = start + chance.randint(1, 4)
    gaps = ((start + 1, stop - 1),) if stop - start > 2 and chance.random() < 0.3 else ()
    fixed = chance.randrange(6) if has_own and chance.random() < 0.4 else None
    return Buffer(start, stop, chance.randint(1, 4), fixed, chance.choice((1, 2)) if has_own else 1, gaps)


def judged(problem: StaticPackingProblem, packing: StaticPacking) -> set[tuple[Rule, str]]:
    """Return each broken rule with the buffer that breaks it."""
    found = set[tuple[Rule, str]]()
    for at, (buffer, place) in enumerate(zip(problem.buffers, packing.places, strict=True)):
        if place.memory not in range(len(problem.memories)):
            found.add((Rule.NO_SUCH_MEMORY, f"buffer {at}"))
            continue
        memory, offset = problem.memories[place.memory], place.offset_bytes
        faults = {
            Rule.NOT_HELD: place.memory not in problem.costs[at],
            Rule.NEGATIVE_OFFSET: offset < 0,
            Rule.MISALIGNED: offset % lcm(memory.alignment_bytes, buffer.alignment_bytes) > 0,
            Rule.FIXED_MOVED: memory.capacity_bytes is not None and buffer.offset_bytes not in (None, offset),
            Rule.BEYOND_CAPACITY: memory.capacity_bytes not in (None, *range(offset + buffer.size_bytes, 99)),
            Rule.OVERLAP: offset in range(memory.reserved_bytes)
            or any(meet(problem, packing, at, other) for other in range(at)),
        }
        found |= {(rule, f"buffer {at}") for rule, is_broken in faults.items() if is_broken}
    for first, second in problem.together:
        if packing.places[first].memory != packing.places[second].memory:
            found.add((Rule.NOT_HELD, f"buffer {first}"))
    for first, second in problem.apart:
        if packing.places[first].memory == packing.places[second].memory:
            found.add((Rule.NOT_HELD, f"buffer {second}"))
    return found


def meet(problem: StaticPackingProblem, packing: StaticPacking, *pair: int) -> bool:
    """Return True if two buffers share a byte of one memory in some step."""
    cells = [
        {
            (place.memory, byte, step)
            for start, stop in buffer.lives
            for step in range(start, stop)
            for byte in range(place.offset_bytes, place.offset_bytes + buffer.size_bytes)
        }
        for buffer, place in ((problem.buffers[at], packing.places[at]) for at in pair)
    ]
    return bool(cells[0] & cells[1])


def test_a_static_packing_breaks_the_rules_that_a_look_at_every_byte_finds() -> None:
    broken = Counter[Rule]()
    for seed in range(4000):
        problem, packing = random_static_packing(Random(seed))
        expected = judged(problem, packing)
        found = {(one.rule, one.subject) for one in verify_static_packing(problem, packing, -1)}
        if not expected:
            cost = sum(
                problem.costs[at][place.memory] * problem.buffers[at].size_bytes
                for at, place in enumerate(packing.places)
            )
            assert not verify_static_packing(problem, packing, cost)
            expected = {(Rule.OUTSIDE_MISCOUNTED, "packing")}
        assert found == expected, seed
        broken.update(rule for rule, _ in expected)
    assert len(broken) == 8
    assert min(broken.values()) > 60
