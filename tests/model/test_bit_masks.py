"""Long masks, which take a different code path, compared with short steps."""

from __future__ import annotations

import random

import pytest

from onchip.model.lifetimes.indexed import LONG_MASK, bits, mask_of


@pytest.mark.parametrize("greatest", [1, 63, LONG_MASK - 1, LONG_MASK, LONG_MASK + 1, 50_000])
def test_a_mask_has_the_bits_that_were_asked_for(greatest: int) -> None:
    chance = random.Random(greatest)
    indices = sorted({greatest, *(chance.randrange(greatest) for _ in range(100))})
    mask = mask_of(reversed(indices))

    assert mask == sum(1 << index for index in indices)
    assert list(bits(mask)) == indices


def test_no_bits_are_no_mask() -> None:
    assert mask_of(()) == 0
    assert list(bits(0)) == []
