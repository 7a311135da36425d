"""Random questions about chains of lattice points, for the tests of the chain searches and for their stored answers."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import TypeAlias

import numpy as np

from oracles.chains import Row, Searched, Table, Tables

Criteria: TypeAlias = tuple[list[int], list[int], list[Table], list[tuple[float, Tables]]]
"""Lattice shape, number of boundaries per operand, capacity per boundary (0 or infinity), and components."""


def random_search(seed: int) -> Searched:
    """Draw a question for `least_chain_below`; every fourth has four boundaries, and irrelevant components.

    Only single-buffered memories have transfers that are waited for one by one.
    """
    random = np.random.default_rng(seed)
    shape = [int(one) for one in random.integers(1, 4, 2)]
    operands = ([0, 0, 1] if seed % 2 else [0, 1, 2]) + [2] * (seed % 4 == 3)
    points = prod(shape)
    leads = random.integers(0, 2, (3, 2)).tolist()
    inside = [(random.random((side, side)) < 0.8) | np.eye(side, dtype=np.bool_) for side in shape]
    return Searched(
        shape,
        [(one * np.triu(np.ones_like(one))).astype(np.int64).ravel().tolist() for one in inside],
        leads,
        [random.integers(0, 4, side).astype(np.float64).tolist() for side in shape],
        [random.choice([0.0, 1.0, 2.0, 5.0, inf], side).tolist() for side in shape],
        random.choice([0.5, 1.0, 2.0], 2).tolist(),
        random.integers(0, 2, (3, 2)).tolist(),
        [np.cumprod(random.integers(1, 4, side)).astype(np.float64).tolist() for side in shape],
        [random.integers(0, 2, side).tolist() for side in shape],
        [7.0, 9.0],
        random.integers(0, 2, (2, len(operands))).tolist(),
        [random.integers(1, 4, side).astype(np.float64).tolist() for side in shape],
        [random.integers(1, 6, side).astype(np.float64).tolist() for side in shape],
        [(random.random(side) < 0.8).astype(np.int64).tolist() for side in shape],
        boundaries := [_random_boundary(random, operand, shape, leads[operand]) for operand in operands],
        [
            _random_criterion(random, points, [one[4] for one in boundaries], number)
            for number in range(6 if seed % 4 == 3 else 4)
        ],
        bool(seed % 3 == 0),
    )


def _random_boundary(
    random: np.random.Generator, operand: int, shape: list[int], leads: list[int]
) -> tuple[int, int, Table, list[Table], bool]:
    memory, bits = int(random.integers(2)), random.integers(1, 6, prod(shape)).astype(np.float64)
    comes = [_random_times(random, shape, leads) for _ in range(random.integers(3))]
    return operand, memory, bits, comes, bool(random.random() < 0.3)


def _random_criterion(random: np.random.Generator, points: int, have_room_for_two: Sequence[bool], number: int) -> Row:
    def table(most: int) -> Table:
        return random.integers(0, most if number < 4 else 1, points).astype(np.float64)

    def tables(none: float) -> list[Table | None]:
        return [None if random.random() < none else table(9) for _ in have_room_for_two]

    waits = [[(table(4), table(9))] if random.random() < 0.5 and not one else [] for one in have_room_for_two]
    port = [None, 0, 1][int(random.integers(3))]
    fixed, is_linear = float(random.integers(1, 5)), bool(random.integers(2))
    return fixed, tables(0.2), tables(0.3), tables(0.5), is_linear, waits, port


def _random_times(random: np.random.Generator, shape: list[int], leads: list[int]) -> Table:
    """Draw the number of arrivals of tiles: the farther out a point, the fewer."""
    found = np.ones(shape)
    for side, (length, is_leading) in enumerate(zip(shape, leads, strict=True)):
        along = np.sort(random.integers(1, 6, length))[::-1].astype(np.float64)
        found *= 1.0 if is_leading else np.expand_dims(along, tuple({*range(len(shape))} - {side}))
    return found.ravel()


def random_criteria(seed: int) -> Criteria:
    """Draw a question for `highest_mean`; some points of the lattice have no capacity."""
    random = np.random.default_rng(seed)
    shape = [int(one) for one in random.integers(1, 4, 2)]
    counts = [(1, 1, 1), (2, 1, 0), (0, 2, 2), (0, 0, 1), (0, 0, 0)][seed % 5]

    def table() -> Table:
        return random.integers(0, 20, prod(shape)).astype(np.float64)

    room = [np.where(random.random(prod(shape)) < 0.2, inf, 0.0) for _ in range(sum(counts))]
    criteria = [
        (float(random.integers(1, 9)), [None if random.random() < 0.2 else table() for _ in room])
        for _ in range(random.integers(2, 7))
    ]
    return shape, list(counts), room, criteria
