"""The least cost of leaving tensors, found state by state, equals brute force over the choices for all gaps."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product

import pytest

from onchip.memory.retention.kept_gaps import IdleGap, what_leaves
from onchip.native import StayGap, StaySearch, StopToken
from onchip.search.budget.limits import Limits, Run
from support.series import in_one_test


def least_cost_of_leaving(gaps: Sequence[IdleGap], left_units: Callable[[int], int]) -> int:
    """Return the least cost of evictions; evicting everything always fits."""
    fitting = (stays for stays in product((False, True), repeat=len(gaps)) if _fits(gaps, stays, left_units))
    return min(cost_of_leaving([gap for gap, one in zip(gaps, stays, strict=True) if not one]) for stays in fitting)


def cost_of_leaving(gaps: Sequence[IdleGap]) -> int:
    """Return the cost of the loads of evicted gaps, and of one store per tensor."""
    return sum(gap.load_cost for gap in gaps) + sum({gap.tensor: gap.store_cost for gap in gaps}.values())


def _fits(gaps: Sequence[IdleGap], stays: Sequence[bool], left_units: Callable[[int], int]) -> bool:
    staying = [gap for gap, one in zip(gaps, stays, strict=True) if one]
    steps = {step for gap in staying for step in gap.steps}
    return all(sum(gap.units for gap in staying if step in gap.steps) <= left_units(step) for step in steps)


def _gaps(chance: random.Random, steps: int, most: int) -> list[IdleGap]:
    """Return gaps of a few tensors in random order; gaps of one tensor do not overlap, but may touch."""
    found = []
    for tensor in range(chance.randint(1, 5)):
        units, load, store = chance.randint(0, 6), chance.randint(0, 9), chance.choice((0, 0, 1, 5, 9))
        ends = sorted(chance.sample(range(steps + 1), 2 * chance.randint(1, 2)))
        if chance.random() < 0.2 and len(ends) == 4:
            ends[2] = ends[1]
        for start, stop in zip(ends[::2], ends[1::2], strict=True):
            found.append(IdleGap(tensor, start, range(start, stop), units, load, store))
    chance.shuffle(found)
    return found[:most]


@in_one_test("seed", range(400))
def test_what_leaves_costs_what_all_choices_cost_at_least_and_the_rest_fits(seed: int) -> None:
    chance = random.Random(seed)
    steps = chance.randint(4, 12)
    gaps, left = _gaps(chance, steps, 9), [chance.randint(0, 14) for _ in range(steps)]
    found = what_leaves(gaps, left.__getitem__, Run())
    assert found is not None
    assert found.cost == cost_of_leaving(found.gaps) == least_cost_of_leaving(gaps, left.__getitem__)
    staying = [gap for gap in gaps if gap not in found.gaps]
    for step, units in enumerate(left):
        assert sum(gap.units for gap in staying if step in gap.steps) <= units


def _at_once(count: int) -> list[IdleGap]:
    return [IdleGap(tensor, 0, range(2), 1, 1, 1) for tensor in range(count)]


def test_more_than_a_word_of_gaps_at_once_or_too_many_states_are_no_answer() -> None:
    assert what_leaves(_at_once(65), lambda _: 0, Run()) is None
    assert what_leaves(_at_once(64), lambda _: 0, Run()) is not None
    assert what_leaves(_at_once(20), lambda _: 20, Run()) is None


def test_tensors_that_left_are_told_apart_as_far_as_a_word_goes() -> None:
    early = [IdleGap(tensor, tensor, range(tensor, tensor + 1), 1, 1, 1) for tensor in range(65)]
    late = [IdleGap(tensor, 70 + tensor, range(70 + tensor, 71 + tensor), 1, 1, 1) for tensor in range(65)]
    assert what_leaves([*early, *late], lambda _: 0, Run()) is None
    found = what_leaves([*early[:64], *late[:64]], lambda _: 0, Run())
    assert found is not None
    assert found.cost == 64 * 3


def test_without_time_nothing_is_answered() -> None:
    assert what_leaves(_at_once(3), lambda _: 1, Run(Limits(time_limit_seconds=0.0))) is None
    token = StopToken()
    token.ask()
    assert not StaySearch([], [1]).run(10, token)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"stop": 0}, "empty"),
        ({"stop": 3}, "behind the last step"),
        ({"start": -1}, "empty"),
        ({"units": -1}, "below 0"),
        ({"load_cost": -1}, "below 0"),
        ({"store_cost": (1 << 60) + 1}, "too many"),
    ],
)
def test_gaps_that_are_none_are_refused(change: dict[str, int], said: str) -> None:
    right = {"tensor": 0, "start": 0, "stop": 2, "units": 1, "load_cost": 1, "store_cost": 0}
    with pytest.raises(ValueError, match=said):
        StaySearch([StayGap(**{**right, **change})], [1, 1])
