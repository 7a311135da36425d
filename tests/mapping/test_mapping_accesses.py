"""Lower bounds on accesses if tiles use the last access in part: no tile sizes take fewer."""

from __future__ import annotations

from itertools import product
from math import inf, prod
from random import Random

import numpy as np
import pytest

from onchip.mapping.chains.criteria import MOST_LACKING, least_accesses, least_of_grid, least_share, whole_accesses
from onchip.mapping.chains.dimension import PartsAlike

ROUNDED = 1 + 1e-9


def _along(value: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([float(value)])


@pytest.mark.parametrize("seed", range(4))
def test_no_tiles_take_fewer_accesses_than_is_said_of_them_together(seed: int) -> None:
    """Tiles may be fewer than stated, and some may be larger than counted."""
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


@pytest.mark.parametrize("seed", range(4))
def test_no_grid_of_tiles_takes_fewer_accesses_than_is_said(seed: int) -> None:
    """Parts have up to three dimensions, and random lengths along dimensions that lack a few indices."""
    random, tight = Random(seed), 0
    for _ in range(600):
        bits, shortest = random.choice((1, 4, 8, 16, 24)), random.choice((8, 16, 64, 100))
        sides = [_side(random) for _ in range(random.randint(1, 3))]
        tiles = sides[0][1]
        for _, other in sides[1:]:
            tiles = tiles.beside(other)
        sizes = (prod(lengths) for lengths in product(*(lengths for lengths, _ in sides)))
        accesses = sum(-(-size * bits // shortest) for size in sizes)
        found = least_of_grid(tiles, bits, shortest)[0]
        assert found <= accesses
        tight += bool(tiles.sides) and found == accesses
    assert tight > 100


def _side(random: Random) -> tuple[list[int], PartsAlike]:
    """Return the lengths of parts and their description, which sometimes leaves the missing indices open."""
    parts, longest = random.randint(1, 5), random.randint(1, 9)
    lengths, lacks = [longest] * parts, random.choice((0, 0, random.randint(0, min(10, parts * longest))))
    for _ in range(lacks):
        lengths[random.choice([at for at, one in enumerate(lengths) if one > 0])] -= 1
    said = lacks if random.random() < 0.9 else inf
    each = (_along(parts), _along(longest), _along(sum(lengths)), _along(1))
    return lengths, PartsAlike.of_side(*each, lacks=_along(said))


def test_of_parts_that_lack_more_than_a_few_indices_nothing_is_said_of_each() -> None:
    each = _along(9), _along(4), _along(20), _along(1)
    for lacks in (MOST_LACKING + 1.0, inf):
        assert least_of_grid(PartsAlike.of_side(*each, lacks=_along(lacks)), 8, 8)[0] == 0.0
    assert least_of_grid(PartsAlike.of_side(*each), 8, 8)[0] == 0.0
