"""Counts of buffers with overlapping live ranges, against their lists."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from onchip.answer.packing import Buffer
from onchip.memory.allocate import sections
from onchip.memory.allocate.sections import has_too_many_pairs


@pytest.mark.parametrize("seed", range(30))
def test_pairs_are_counted_as_they_are_listed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    starts = [chance.randrange(30) for _ in range(chance.randrange(1, 40))]
    buffers = [Buffer(start, start + chance.randrange(1, 12), 1) for start in starts]
    pairs = sum(one.overlaps(other) for one, other in combinations(buffers, 2))

    monkeypatch.setattr(sections, "MOST_PAIRS", pairs)
    assert not has_too_many_pairs(buffers)
    monkeypatch.setattr(sections, "MOST_PAIRS", pairs - 1)
    assert has_too_many_pairs(buffers)
