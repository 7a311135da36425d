"""Addresses of a schedule's residents: never overlapping, aligned, none refused that has a gap."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from onchip.arch.memory import Memory
from onchip.scheduling.program.movements import AddressSpace
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
        assert space.taken == residents
        assert AddressSpace.of(memory, residents) == space


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
