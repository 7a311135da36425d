"""Chains of capacities: inferred answers equal computed ones, in any order of arrival."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from onchip.sweeps.point import PointAnswer, PointStatus
from onchip.sweeps.sweep import Bisection, answer_between

PROVEN = st.lists(st.integers(0, 4), min_size=1, max_size=40).map(lambda values: sorted(values, reverse=True))


def answer_of(value: int, is_proven: bool = True) -> PointAnswer:
    """Return an answer for the cost; 4 stands for a network that does not fit."""
    if value == 4:
        return PointAnswer(PointStatus.INFEASIBLE, None, 0)
    if is_proven:
        return PointAnswer(PointStatus.OPTIMAL, value, value)
    return PointAnswer(PointStatus.FEASIBLE, value + 1, max(0, value - 1))


def run(truth: dict[str, PointAnswer], chain: Bisection, random: Random, most: int = 10**6) -> list[str]:
    """Answer the questions of a chain in random order, at most `most`; return the keys asked for."""
    asked: list[str] = []
    waiting = list(chain.next_keys())
    while waiting and len(asked) < most:
        key = waiting.pop(random.randrange(len(waiting)))
        asked.append(key)
        chain.take(key, truth[key])
        waiting += chain.next_keys()
    return asked


@given(PROVEN, st.randoms(use_true_random=False))
def test_what_is_settled_is_what_computing_gives(values: list[int], random: Random) -> None:
    keys = [f"k{at}" for at in range(len(values))]
    truth = {key: answer_of(value) for key, value in zip(keys, values, strict=True)}
    chain = Bisection(keys)

    asked = run(truth, chain, random)

    assert chain.is_over
    assert len(asked) == len(set(asked))
    assert set(asked) | set(chain.settled) == set(keys)
    assert not set(asked) & set(chain.settled)
    for key, found in chain.settled.items():
        assert (found.status, found.objective_value) == (truth[key].status, truth[key].objective_value)
        assert found.settled_by in asked
    levels = len(set(values))
    assert len(asked) <= 2 + levels * (1 + len(values).bit_length())


@given(PROVEN, st.randoms(use_true_random=False), st.integers(0, 20))
def test_an_interrupted_chain_goes_on_as_it_would_have(values: list[int], random: Random, most: int) -> None:
    keys = [f"k{at}" for at in range(len(values))]
    truth = {key: answer_of(value, random.random() < 0.8) for key, value in zip(keys, values, strict=True)}
    whole, first, second = Bisection(keys), Bisection(keys), Bisection(keys)
    run(truth, whole, random)
    run(truth, first, random, most)

    for key, answer in first.answers.items():
        second.take(key, answer)
    again = run(truth, second, random)

    assert not set(again) & set(first.answers)
    assert second.answers == whole.answers


@given(PROVEN, st.randoms(use_true_random=False))
def test_what_is_not_proven_settles_nothing(values: list[int], random: Random) -> None:
    keys = [f"k{at}" for at in range(len(values))]
    truth = {key: answer_of(value, is_proven=False) for key, value in zip(keys, values, strict=True)}
    chain = Bisection(keys)

    run(truth, chain, random)

    assert all(answer.status is PointStatus.INFEASIBLE for answer in chain.settled.values())


def test_a_bound_that_a_smaller_memory_meets_settles_what_lies_between() -> None:
    low = PointAnswer(PointStatus.FEASIBLE, 10, 3)
    for bound, is_settled in ((10, True), (9, False)):
        between = answer_between("low", low, "high", PointAnswer(PointStatus.FEASIBLE, 11, bound))
        assert (between is not None) is is_settled
        if between is not None:
            assert (between.status, between.lower_bound, between.settled_by) == (PointStatus.OPTIMAL, 10, "low")


def test_failed_and_unknown_ends_settle_nothing() -> None:
    found, nothing = PointAnswer(PointStatus.OPTIMAL, 5, 5), PointAnswer(PointStatus.FAILED, reason="x")
    unknown = PointAnswer(PointStatus.UNKNOWN, None, 5)
    assert answer_between("a", nothing, "b", found) is None
    assert answer_between("a", found, "b", nothing) is None
    assert answer_between("a", unknown, "b", found) is None
    settled = answer_between("a", found, "b", unknown)
    assert settled is not None, "a bound is proven, whether an answer is found or not"
    assert settled.objective_value == 5


FOUND = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=20)


@given(FOUND)
def test_neighbours_make_answers_as_tight_as_they_can(drawn: list[tuple[int, int, int, bool]]) -> None:
    least = sorted((value for value, *_ in drawn), reverse=True)
    keys = [f"k{at}" for at in range(len(drawn))]
    given_answers = {}
    for key, value, (_, above, below, is_known) in zip(keys, least, drawn, strict=True):
        bound = max(0, value - below)
        if not is_known:
            given_answers[key] = PointAnswer(PointStatus.UNKNOWN, None, bound)
        else:
            status = PointStatus.OPTIMAL if value + above == bound else PointStatus.FEASIBLE
            given_answers[key] = PointAnswer(status, value + above, bound)
    chain = Bisection(keys)
    for key, answer in given_answers.items():
        chain.take(key, answer)

    chain.tightened()

    for at, (key, value) in enumerate(zip(keys, least, strict=True)):
        found, own = chain.answers[key], given_answers[key]
        if own.status is PointStatus.OPTIMAL:
            assert found == own
            continue
        values = [one.objective_value for one in map(given_answers.__getitem__, keys[: at + 1]) if one.has_value]
        bounds = [one.lower_bound or 0 for one in map(given_answers.__getitem__, keys[at:])]
        assert found.objective_value == min((one for one in values if one is not None), default=None)
        assert found.lower_bound == max(bounds) <= value
        assert found.objective_value is None or value <= found.objective_value
        assert (found.status is PointStatus.OPTIMAL) is (found.objective_value == found.lower_bound)
        if found.settled_by is not None:
            assert given_answers[found.settled_by].objective_value == found.objective_value
    assert chain.tightened() == {}
