"""Accesses of which tiles use the last in part: no sizes of tiles take fewer than is said."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from onchip.solve.mapping.wide.element_accesses import least_accesses, least_of_rows, least_share, whole_accesses
from onchip.solve.mapping.wide.parts_alike import NOTHING, UNKNOWN, PartsAlike, Row

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


@pytest.mark.parametrize("seed", range(4))
def test_no_rows_of_tiles_take_fewer_accesses_than_is_said(seed: int) -> None:
    """Of two dimensions, one of which lacks a few indices in parts of any lengths, each with all parts of the other."""
    random, tight = Random(seed), 0
    for _ in range(1000):
        bits, shortest = random.choice((1, 4, 8, 16, 24)), random.choice((8, 16, 64, 100))
        parts, length, elements = random.randint(1, 5), random.randint(1, 9), random.randint(1, 30)
        rows = random.randint(1, 6)
        lengths, lacks = [length] * parts, random.randint(0, min(10, parts * length))
        for _ in range(lacks):
            at = random.choice([at for at, one in enumerate(lengths) if one > 0])
            lengths[at] -= 1
        together = _along(sum(lengths))
        along = PartsAlike(
            _along(parts), _along(length), together, _along(1), Row(_along(lacks), np.ones(1), np.ones(1))
        )
        others = PartsAlike(_along(rows), _along(elements), _along(rows * elements), _along(elements), NOTHING)
        for one, other in ((along, others), (others, along)):
            found = least_of_rows(one.beside(other), bits, shortest)[0]
            accesses = rows * sum(-(-own * elements * bits // shortest) for own in lengths)
            assert found <= accesses
            tight += lacks > 0 and found == accesses
    assert tight > 100


def test_of_parts_that_lack_indices_along_two_dimensions_nothing_is_said_by_row() -> None:
    lacking = PartsAlike(_along(3), _along(4), _along(11), _along(1), Row(_along(1), np.ones(1), np.ones(1)))
    unknown = PartsAlike(_along(3), _along(4), _along(11), _along(1), UNKNOWN)
    for one, other in ((lacking, lacking), (lacking, unknown), (unknown, lacking), (unknown, unknown)):
        assert least_of_rows(one.beside(other), 8, 8)[0] == 0.0
