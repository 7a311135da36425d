"""What the native searches are given wrong ends in a Python error: lengths, ranges, 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from onchip import native
from onchip.cost.layer.batch import LayerCosts
from onchip.cost.layer.tables import Chosen, CostStatus
from support.nests import random_case

PER_COLUMN = {
    "turn_count": 0, "turn_loop": 1, "turn_size": 2, "beside_count": 3, "beside_loop": 4, "beside_size": 5,
    "beside_along": 6, "beside_at": 7, "cut": 8,
}  # fmt: skip


def buffer(**changed: object) -> native.PackingBuffer:
    fields: dict[str, object] = {"first": 0, "stop": 1, "size": 2, "last": 4, "twin": -1, "neighbours": [1]}
    return native.PackingBuffer(**{**fields, **changed})  # type: ignore[arg-type]


def other() -> native.PackingBuffer:
    return buffer(neighbours=[0])


@pytest.mark.parametrize(
    "changed",
    [
        {"first": -1}, {"stop": 0}, {"stop": 3}, {"size": 0}, {"size": (1 << 60) + 1}, {"twin": 1}, {"twin": -2},
        {"last": (1 << 60) + 1}, {"neighbours": [0]}, {"neighbours": [2]}, {"neighbours": [-1]},
    ],
    ids=str,
)  # fmt: skip
def test_a_buffer_that_there_cannot_be_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\(entry 0\)"):
        native.PackingSearch([buffer(**changed), other()], [6])


@pytest.mark.parametrize("changed", [{"first": 1 << 31}, {"size": 1 << 63}, {"neighbours": [1 << 40]}, {"size": "2"}])
def test_a_number_of_too_many_bits_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        buffer(**changed)


def test_all_sizes_together_stay_below_64_bits() -> None:
    with pytest.raises(ValueError, match=r"all make more than 2\^60"):
        native.PackingSearch([buffer(size=1 << 60), other()], [6])


def test_a_search_is_told_the_rank_of_each_buffer() -> None:
    search = native.PackingSearch([buffer(), other()], [6])
    with pytest.raises(ValueError, match="one rank for each buffer"):
        search.run([0], 10, native.StopToken())
    assert search.run([0, 1], 10, native.StopToken()) is native.PackingOutcome.FOUND
    assert sorted(search.offsets) == [0, 2]


def test_who_is_asked_to_stop_stops_before_the_first_decision() -> None:
    token = native.StopToken()
    assert not token.is_asked
    token.ask()
    assert token.is_asked
    search = native.PackingSearch([buffer(), other()], [6])
    assert search.run([0, 1], 10, token) is native.PackingOutcome.STOPPED
    assert search.nodes == 0


def _costs_and_rows(seed: int = 1) -> tuple[LayerCosts, Chosen]:
    case = random_case(seed)
    costs = LayerCosts(case.problem)
    return costs, costs.encode([case.mapping, case.mapping])


@pytest.mark.parametrize("column", PER_COLUMN)
@pytest.mark.parametrize(
    "wrong",
    [lambda part: part[:1], lambda part: part.reshape(-1, 1), lambda part: part.astype(float), lambda part: part[::-1]],
    ids=["one row less", "other dimensions", "not whole numbers", "not in order"],
)
def test_a_column_of_another_form_is_refused(
    column: str, wrong: Callable[[np.ndarray[tuple[int, ...], np.dtype[np.int64]]], np.ndarray]
) -> None:
    costs, chosen = _costs_and_rows()
    parts = list(chosen)
    parts[PER_COLUMN[column]] = wrong(parts[PER_COLUMN[column]])
    with pytest.raises((TypeError, ValueError)):
        costs.of_chosen(Chosen(*parts))


@pytest.mark.parametrize("seed", range(200))
def test_rows_of_any_numbers_are_costed_or_refused(seed: int) -> None:
    costs, chosen = _costs_and_rows(seed)
    random = Random(seed)
    for part in chosen:
        if part.size and random.random() < 0.5:
            part.reshape(-1)[random.randrange(part.size)] = random.choice((-2, -1, 0, 1, 7, 8, 1 << 20, -(1 << 62)))
    try:
        statuses = costs.of_chosen(chosen).status.tolist()
    except ValueError as error:
        statuses = [str(error).partition(" ")[0]] * 2
    assert len(statuses) == 2
    assert set(statuses) <= {*CostStatus, "row"}
