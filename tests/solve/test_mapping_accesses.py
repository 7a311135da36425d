"""Accesses of which tiles use the last in part: no sizes of tiles take fewer than is said."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from onchip.solve.mapping.wide.element_accesses import least_accesses, least_share, whole_accesses

ROUNDED = 1 + 1e-9


def _along(value: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([float(value)])


@pytest.mark.parametrize("seed", range(4))
def test_no_tiles_take_fewer_accesses_than_is_said_of_them_together(seed: int) -> None:
    """Of so many tiles or fewer, some of which may be larger than is counted of them."""
    random, tight = Random(seed), 0
    for _ in range(2000):
        whole, bits, shortest = random.randint(1, 9), random.choice((1, 4, 8, 16, 24)), random.choice((8, 16, 64, 100))
        most = whole * random.randint(1, 40)
        least = random.choice((0, most - whole, most - 3 * whole))
        sizes = [whole * random.randint(max(least // whole, 0), most // whole) for _ in range(random.randint(1, 9))]
        beyond = [one * random.randint(1, 3) if one == most else one for one in sizes]
        accesses = sum(-(-one * bits // shortest) for one in beyond)
        tiles = _along(len(sizes) + random.randint(0, 1))
        all_are_there = np.array([0 not in sizes and int(tiles[0]) == len(sizes)])
        found = least_accesses(_along(most), tiles, _along(sum(sizes)), _along(whole), all_are_there, bits, shortest)[0]
        assert whole_accesses(np.maximum(found, sum(sizes) * bits / shortest)) <= accesses
        tight += found > sum(sizes) * bits / shortest and found == pytest.approx(accesses)
    assert tight > 20


@pytest.mark.parametrize("seed", range(4))
def test_no_tile_takes_fewer_accesses_than_is_said_of_its_elements(seed: int) -> None:
    random = Random(seed)
    for _ in range(2000):
        whole, bits, shortest = random.randint(1, 9), random.choice((1, 4, 8, 16, 24)), random.choice((8, 16, 64, 100))
        most = random.choice((3, 40, 600))
        size = whole * random.randint(1, most)
        share = least_share(_along(whole * most), _along(whole), bits, shortest)[0]
        assert share * size <= -(-size * bits // shortest) * ROUNDED
        assert share * ROUNDED >= bits / shortest
