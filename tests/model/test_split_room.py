"""Room for the operands of a tile, compared with all choices of a scratchpad per operand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

import pytest

from onchip.arch.memory import Memory, Operand
from onchip.model.capacity.room import Item, SplitRoom

OPERANDS = tuple(Operand)


def random_room(chance: random.Random) -> SplitRoom:
    alignment = chance.choice((1, 2, 8))
    holds = (OPERANDS, OPERANDS, OPERANDS[:2], OPERANDS[1:])
    sizes = [chance.randint(1, 40) for _ in range(chance.randint(1, 3))]
    memories = (Memory(f"s{at}", size, alignment, holds=chance.choice(holds)) for at, size in enumerate(sizes))
    return SplitRoom.of(tuple(memories))


def fit(room: SplitRoom, items: Sequence[Item]) -> bool:
    """Return True if some choice of scratchpads overfills none; the last item in a scratchpad needs no padding."""
    for chosen in product(room.memories, repeat=len(items)):
        placed = [
            (memory, [item for item, its in zip(items, chosen, strict=True) if its is memory])
            for memory in room.memories
        ]
        if all(_holds(memory, own) for memory, own in placed):
            return True
    return False


def _holds(memory: Memory, items: Sequence[Item]) -> bool:
    alignment = memory.alignment_bytes
    paddings = [-size % alignment for _, size in items]
    taken = sum(size for _, size in items) + sum(paddings) - max(paddings, default=0)
    return taken <= memory.capacity_bytes and all(operand in memory.holds for operand, _ in items)


@pytest.mark.parametrize("seed", range(40))
def test_items_have_room_if_some_choice_of_scratchpads_has(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        room = random_room(chance)
        total = sum(memory.capacity_bytes for memory in room.memories)
        items = [(chance.choice(OPERANDS), chance.randint(1, 12)) for _ in range(chance.randint(1, 6))]
        while len(items) > 1 and sum(size for _, size in items) > total + 3:
            items.pop()

        assert room.holds(items) is fit(room, items)


def test_many_small_items_that_just_do_not_fit_are_refused_without_trying_all_their_places() -> None:
    room = SplitRoom.of(tuple(Memory(f"s{at}", size, 8) for at, size in enumerate((42, 45, 42))))

    assert not room.holds([(Operand.INPUT, 8)] * 16)
    assert room.holds([(Operand.INPUT, 8)] * 15)
