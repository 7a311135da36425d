"""What the greatest of several criteria is at least, by the highest mean of them: against every chain."""

from __future__ import annotations

from math import inf, prod

import numpy as np
import pytest

from onchip.native import highest_mean
from oracles.chains import Table, Tables, least_greatest_of_all_chains, least_of_all_chains
from support.random_chains import Criteria, random_criteria
from support.series import series

ROUNDED = 1 + 1e-9


def _highest(asked: Criteria, slope: float | None, enough: float = inf, vain: float = 0.0) -> tuple[float, list[float]]:
    shape, counts, room, criteria = asked
    operands = [operand for operand, count in enumerate(counts) for _ in range(count)]
    return highest_mean(shape, operands, room, criteria, slope, enough, vain)


def _weighed(asked: Criteria, weights: list[float]) -> float:
    """What chains cost at least by a mean."""
    shape, counts, room, criteria = asked
    tables = [one.copy() for one in room]
    for weight, (_, costs) in zip(weights, criteria, strict=True):
        for table, own in zip(tables, costs, strict=True):
            table += 0.0 if own is None else weight * own
    rest = iter(tables)
    fixed = sum(weight * own for weight, (own, _) in zip(weights, criteria, strict=True))
    return fixed + least_of_all_chains(shape, [[next(rest) for _ in range(count)] for count in counts])


def _highest_alone(asked: Criteria, slope: float | None) -> float:
    """What chains cost at least by one criterion, with the first of a sum."""
    number, first = len(asked[3]), int(slope is not None)
    weights = ([slope or 0.0] * first + [float(k == at) for k in range(first, number)] for at in range(first, number))
    return max(_weighed(asked, one) for one in weights)


def _least_greatest(asked: Criteria, slope: float | None) -> float:
    shape, counts, room, criteria = asked
    is_free: list[Table | None] = [np.zeros(prod(shape))] * len(room)
    with_room: list[tuple[float, Tables]] = [
        (fixed, [own if own is None else own + free for own, free in zip(costs, room, strict=True)])
        for fixed, costs in [*criteria, (0.0, is_free)]
    ]
    return least_greatest_of_all_chains(shape, counts, with_room, slope)


@pytest.mark.parametrize("slope", [None, 0.0, 0.7, 3.0])
@pytest.mark.parametrize("seed", series(range(60), 20))
def test_the_highest_mean_is_no_more_than_the_greatest_of_any_chain(seed: int, slope: float | None) -> None:
    """And is what its weights say, which are a mean's; no less than each criterion by itself, unless that is vain."""
    asked = random_criteria(seed)
    most, first = _least_greatest(asked, slope), int(slope is not None)
    found, weights = _highest(asked, slope)
    assert found <= most * ROUNDED
    assert sum(weights[first:]) == pytest.approx(1.0)
    assert min(weights) >= 0.0
    assert weights[:first] == pytest.approx([slope] * first)
    assert _weighed(asked, weights) == pytest.approx(found)
    alone = _highest_alone(asked, slope)
    assert found >= alone / ROUNDED
    for part in (0.5, 0.9, 1.0, 1.1):
        assert min(_highest(asked, slope, enough=part * most)[0], part * most) >= min(alone, part * most) / ROUNDED
        vain, _ = _highest(asked, slope, vain=part * most)
        assert vain <= most * ROUNDED
        assert part >= 1.0 or vain == pytest.approx(found)


@pytest.mark.slow
def test_means_of_random_criteria_say_more_than_any_of_them() -> None:
    """Most often, and as much as the greatest of some chain in some: else they would be of no use."""
    higher = whole = 0
    for seed in range(60):
        asked = random_criteria(seed)
        found, _ = _highest(asked, None)
        alone = _highest_alone(asked, None)
        higher += found > alone * ROUNDED
        whole += found > alone * ROUNDED and found == pytest.approx(_least_greatest(asked, None))
    assert higher > 15
    assert whole > 0


def test_criteria_that_do_not_fit_are_refused() -> None:
    table, room = np.zeros(2), [np.zeros(2)]
    with pytest.raises(ValueError, match="costs are not of each point"):
        highest_mean([2], [0], room, [(0.0, [np.zeros(3)])], None, inf, 0.0)
    with pytest.raises(ValueError, match="not as many operands as boundaries"):
        highest_mean([2], [0, 0], room, [(0.0, [table])], None, inf, 0.0)
    with pytest.raises(ValueError, match="a table of each boundary"):
        highest_mean([2], [0], room, [(0.0, [])], None, inf, 0.0)
    for slope, criteria in ((None, []), (1.0, [(0.0, list[Table | None]([table]))])):
        with pytest.raises(ValueError, match="too few criteria"):
            highest_mean([2], [0], room, criteria, slope, inf, 0.0)


def test_a_table_that_stands_twice_is_of_its_own_shape_each_time() -> None:
    """The same numbers, along one dimension and along the other."""
    numbers = np.array([3.0, 5.0])
    along = [numbers.reshape(2, 1), numbers.reshape(1, 2)]
    criteria = [(0.0, list[Table | None]([one])) for one in along]
    assert highest_mean([2, 2], [0], [np.array([inf, 0.0, inf, inf])], criteria, None, inf, 0.0)[0] == 5.0
    assert highest_mean([2, 2], [0], [np.array([inf, inf, 0.0, inf])], criteria, None, inf, 0.0)[0] == 5.0
    assert highest_mean([2, 2], [0], [np.array([0.0, inf, inf, inf])], criteria, None, inf, 0.0)[0] == 3.0
