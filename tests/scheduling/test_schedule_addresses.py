"""Offsets of a schedule's residencies: they never overlap, are aligned, and are found where there are any."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

import pytest

from onchip.arch.memory import Memory
from onchip.scheduling.program.addresses import (
    AddressSpace,
    BytesInMemory,
    largest_gaps,
    offsets_of,
    packed,
    placed_for_early_loads,
    placed_in_order,
)
from support.series import series


@pytest.mark.parametrize("seed", series(range(60), 20))
def test_residents_never_overlap_and_find_every_gap(seed: int) -> None:
    chance = random.Random(seed)
    memory = Memory("sram", chance.choice((7, 16, 50, 200)), chance.choice((1, 1, 2, 4)))
    space = AddressSpace(memory)
    residents: dict[str, tuple[int, int]] = {}
    for turn in range(200):
        if residents and chance.random() < 0.45:
            name = chance.choice(list(residents))
            space.give_back(name)
            del residents[name]
        else:
            size = chance.randint(1, 20)
            offset = space.take(f"t{turn}", size)
            free = [one for one in places(memory, size) if is_free(residents.values(), one, size)]
            assert (offset is None) is (not free)
            if offset is not None:
                assert offset in free
                residents[f"t{turn}"] = offset, offset + size
        assert space.free_below == min((begin for begin, _ in residents.values()), default=memory.capacity_bytes)


def places(memory: Memory, size: int) -> range:
    return range(0, memory.capacity_bytes - size + 1, memory.alignment_bytes)


def is_free(residents: Iterable[tuple[int, int]], offset: int, size: int) -> bool:
    return all(offset + size <= begin or end <= offset for begin, end in residents)


def test_a_resident_lies_in_the_tightest_gap_and_else_below_all() -> None:
    space = AddressSpace(Memory("sram", 100))
    for name, size in (("a", 10), ("b", 30), ("c", 10), ("d", 20), ("e", 5)):
        space.take(name, size)
    space.give_back("b")
    space.give_back("d")

    assert space.take("f", 15) == 35  # in the gap of d, of 20 bytes, and not in that of b
    assert space.take("g", 28) == 62  # in that of b
    assert space.take("h", 25) == 0  # below all
    assert space.take("i", 25) is None


def some_residencies(chance: random.Random, count: int, largest: int) -> list[BytesInMemory]:
    """Residencies that begin one after the other, as Allocates do."""
    begins = sorted(chance.sample(range(3 * count), count))
    lives = [(at, at + chance.randint(1, 2 * count), f"t{at}", chance.randint(1, largest)) for at in begins]
    return [BytesInMemory(*life, is_loaded=chance.random() < 0.5) for life in lives]


def is_packed(memory: Memory, residencies: Sequence[BytesInMemory], offsets: Mapping[int, int]) -> bool:
    """True if the residencies are aligned, within the capacity, and disjoint in time or in space."""
    for number, one in enumerate(residencies):
        offset = offsets[one.at]
        if offset not in places(memory, one.size_bytes):
            return False
        together = [other for other in residencies[:number] if one.at < other.until and other.at < one.until]
        taken = [(offsets[other.at], offsets[other.at] + other.size_bytes) for other in together]
        if not is_free(taken, offset, one.size_bytes):
            return False
    return True


def has_offsets(memory: Memory, residencies: Sequence[BytesInMemory], placed: dict[int, int]) -> bool:
    """True if some offsets of all residencies are a packing: every offset of each is tried."""
    if len(placed) == len(residencies):
        return True
    one = residencies[len(placed)]
    for offset in places(memory, one.size_bytes):
        placed[one.at] = offset
        own = residencies[: len(placed)]
        if is_packed(memory, own, placed) and has_offsets(memory, residencies, placed):
            return True
        del placed[one.at]
    return False


@pytest.mark.parametrize("seed", series(range(300), 60))
def test_residencies_get_offsets_if_there_are_any(seed: int) -> None:
    chance = random.Random(seed)
    memory = Memory("sram", chance.choice((5, 8, 12)), chance.choice((1, 1, 2)))
    residencies = some_residencies(chance, chance.randint(1, 6), 5)

    ways = (placed_in_order, placed_for_early_loads, packed)
    for offsets in (way(memory, residencies) for way in ways):
        assert offsets is None or is_packed(memory, residencies, offsets)
    for is_timed in (False, True):
        found = offsets_of([memory], {"sram": residencies}, is_timed=is_timed)

        assert (found is not None) is has_offsets(memory, residencies, {})
        assert found is None or is_packed(memory, residencies, found)


def test_a_load_gets_the_bytes_that_were_free_first() -> None:
    memory = Memory("sram", 4)
    residencies = [
        BytesInMemory(0, 2, "a", 2),
        BytesInMemory(1, 3, "b", 2),
        BytesInMemory(4, 9, "c", 2, is_loaded=True),
        BytesInMemory(5, 9, "d", 2, is_loaded=True),
    ]

    offsets = placed_for_early_loads(memory, residencies)

    assert offsets is not None
    assert (offsets[4], offsets[5]) == (offsets[0], offsets[1])


def test_the_packer_finds_offsets_where_program_order_leaves_a_gap_too_few() -> None:
    memory = Memory("sram", 4)
    residencies = [BytesInMemory(0, 2, "a", 1), BytesInMemory(1, 5, "b", 1), BytesInMemory(3, 5, "c", 3)]
    assert placed_in_order(memory, residencies) is None

    offsets = offsets_of([memory], {"sram": residencies})

    assert offsets is not None
    assert is_packed(memory, residencies, offsets)


def test_every_memory_has_offsets_of_its_own() -> None:
    memories = [Memory("near", 4), Memory("far", 6, 2)]
    residencies = {
        "near": [BytesInMemory(0, 9, "a", 4)],
        "far": [BytesInMemory(1, 9, "a", 4), BytesInMemory(2, 9, "b", 1)],
    }

    offsets = offsets_of(memories, residencies)

    assert offsets is not None
    assert all(is_packed(memory, residencies[memory.name], offsets) for memory in memories)
    assert offsets_of([Memory("near", 3), memories[1]], residencies) is None


@pytest.mark.parametrize("seed", series(range(200), 50))
def test_the_largest_gap_is_that_of_all_aligned_ranges_without_residents(seed: int) -> None:
    chance = random.Random(seed)
    memory = Memory("sram", chance.choice((9, 16, 30)), chance.choice((1, 2, 4)))
    residencies = some_residencies(chance, chance.randint(0, 8), 6)
    offsets = placed_in_order(memory, residencies)
    if offsets is None:
        return
    steps = sorted(chance.sample(range(30), 12))

    gaps = list(largest_gaps(memory, residencies, offsets, steps))

    for step, (offset, size) in zip(steps, gaps, strict=True):
        alive = [one for one in residencies if one.at <= step < one.until]
        taken = [(offsets[one.at], offsets[one.at] + one.size_bytes) for one in alive]
        fitting = [
            length
            for length in range(1, memory.capacity_bytes + 1)
            if any(is_free(taken, at, length) for at in places(memory, length))
        ]
        assert size == max(fitting, default=0)
        assert not size or (offset in places(memory, size) and is_free(taken, offset, size))
