"""Pareto fronts: the points shown are those of all-pairs comparison, and points left out were never on it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.errors import UsageError
from onchip.sweeps.expression import Value
from onchip.sweeps.point import PointAnswer, PointStatus
from onchip.sweeps.sweep import Bisection, SoughtFront, front_of, names_of_front
from support.swept_points import point_of

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20)


def pairs_of_front(pairs: list[tuple[int, int]]) -> set[tuple[int, int]]:
    return {
        one for one in pairs if not any(other != one and other[0] <= one[0] and other[1] <= one[1] for other in pairs)
    }


@given(PAIRS)
def test_the_front_is_what_no_other_is_at_most_as_much_as(pairs: list[tuple[int, int]]) -> None:
    records: list[dict[str, Value]] = [{"network": "n", "area": area, "value": value} for area, value in pairs]

    found = front_of(pairs, records, ("area", "value"))

    assert set(found) == pairs_of_front(pairs)
    assert len(set(found)) == len(found)


def test_each_network_has_its_own_front() -> None:
    records: list[dict[str, Value]] = [
        {"network": "a", "area": 1, "value": 1},
        {"network": "b", "area": 2, "value": 2},
        {"network": "a", "area": 2, "value": 2},
        {"network": "a", "area": 0, "value": None},
    ]
    assert front_of("abcd", records, ("area", "value")) == ("a", "b")


CHAINS = st.lists(
    st.tuples(st.integers(0, 30), st.lists(st.integers(0, 6), min_size=1, max_size=25)), min_size=1, max_size=4
)


@given(CHAINS, st.randoms(use_true_random=False))
def test_what_is_spared_was_not_on_the_front(chains: list[tuple[int, list[int]]], random: Random) -> None:
    truth, points = dict[str, PointAnswer](), {}
    for number, (first_cost, values) in enumerate(chains):
        for at, value in enumerate(sorted(values, reverse=True)):
            key = f"{number}.{at}"
            truth[key] = PointAnswer(PointStatus.OPTIMAL, value, value)
            points[key] = point_of(key, {"at": at})
            points[key].costs["area"] = first_cost + at  # type: ignore[index]  # of a dictionary
    front = SoughtFront("area", points)
    sought = [
        Bisection([f"{number}.{at}" for at in range(len(values))], front.is_beyond)
        for number, (_, values) in enumerate(chains)
    ]
    waiting = [(chain, key) for chain in sought for key in chain.next_keys()]
    while waiting:
        chain, key = waiting.pop(random.randrange(len(waiting)))
        front.take(key, truth[key])
        chain.take(key, truth[key])
        waiting += [(chain, following) for following in chain.next_keys()]

    answered = {key: answer for chain in sought for key, answer in chain.answers.items()}
    spared = {key for chain in sought for key in chain.spared}
    assert set(answered) | spared == set(truth)
    pairs = [
        [(int(points[key].costs["area"]), int(answer.objective_value or 0)) for key, answer in known.items()]
        for known in (answered, truth)
    ]
    assert pairs_of_front(pairs[0]) == pairs_of_front(pairs[1])


def test_a_front_has_two_columns() -> None:
    assert names_of_front("area, value") == ("area", "value")
    with pytest.raises(UsageError):
        names_of_front("area")
