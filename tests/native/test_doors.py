"""Bad arguments of the native searches raise Python errors: lengths, ranges, 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from onchip import native
from onchip.answer.layer_mapping import LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.compute import ComputeArray
from onchip.ir.layer import Layer
from onchip.model.accounting.accounting import DEFINES, ZIGZAG
from onchip.model.layer.tables import Chosen, CostStatus, LayerCosts
from support.nests import random_case
from support.series import series

PER_COLUMN = {
    "turn_count": 0, "turn_loop": 1, "turn_size": 2, "beside_count": 3, "beside_loop": 4, "beside_size": 5,
    "beside_along": 6, "beside_at": 7, "cut": 8,
}  # fmt: skip


def request(**changed: object) -> native.PackingRequest:
    fields: dict[str, object] = {"start": 0, "stop": 9, "size": 2, "alignment": 1, "fixed": -1, "gaps": []}
    return native.PackingRequest(**{**fields, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [
        {"start": 9}, {"stop": (1 << 62) + 1}, {"size": 0}, {"size": (1 << 58) + 1}, {"alignment": 0},
        {"alignment": (1 << 58) + 1}, {"fixed": -2}, {"fixed": (1 << 58) + 1}, {"alignment": 2, "fixed": 3},
        {"gaps": [(0, 9)]}, {"gaps": [(3, 2)]}, {"gaps": [(2, 4), (3, 5)]}, {"gaps": [(5, 10)]},
    ],
    ids=str,
)  # fmt: skip
def test_a_buffer_that_there_cannot_be_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="buffer 1 "):
        native.PackingAttempt([request(), request(**changed)], 6, seed=0)


@pytest.mark.parametrize("changed", [{"start": 1 << 63}, {"size": 1 << 63}, {"gaps": [1]}, {"size": "2"}])
def test_a_number_of_too_many_bits_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        request(**changed)


def test_all_sizes_together_stay_below_64_bits() -> None:
    with pytest.raises(ValueError, match=r"more than 2\^58 together"):
        native.PackingAttempt([request(size=1 << 57), request(size=1 << 57)], 6, seed=0)


def test_who_is_asked_to_stop_stops_before_the_first_decision() -> None:
    token = native.StopToken()
    assert not token.is_asked
    token.ask()
    assert token.is_asked
    attempt = native.PackingAttempt([request(), request(size=3), request(stop=4)], 8, seed=0)
    assert attempt.search(10, token) is native.PackingFinding.OPEN
    assert attempt.nodes == 0


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


@pytest.mark.parametrize("seed", series(range(200), 66))
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


NUMBERS = (-2, -1, 0, 1, 2, 3, 7, 8, 1 << 20, 1 << 45, (1 << 63) - 1, -(1 << 62))


@pytest.mark.parametrize("seed", series(range(400), 133))
def test_rows_of_any_numbers_are_costed_as_zigzag_does_or_refused(seed: int) -> None:
    random, case = Random(seed), random_case(seed)
    accounting = replace(random.choice((ZIGZAG, DEFINES)), systolic=("lane", "free")[: seed % 3])
    costs = LayerCosts(case.problem, accounting=accounting)
    chosen = costs.encode([case.mapping, case.mapping])
    for part in chosen:
        if part.size and random.random() < 0.3:
            part.reshape(-1)[random.randrange(part.size)] = random.choice(NUMBERS)
    try:
        found = costs.of_chosen(chosen)
    except ValueError as error:
        assert str(error).startswith(("row ", "a turn takes", "an axis has"))  # noqa: PT017
    else:
        assert set(found.status.tolist()) <= {CostStatus.COSTED, CostStatus.OVER_CAPACITY, CostStatus.OVER_ARRAY}
        assert (np.isfinite(found.energy_pj) == (found.status == CostStatus.COSTED)).all()


def test_a_turn_on_less_than_one_unit_is_refused() -> None:
    accelerator = replace(random_case(0).accelerator, array=ComputeArray(free=4, mac_energy_pj=0.0))
    eight, two, one = (LayerCosts(LayerProblem(Layer(k=k), accelerator), accounting=ZIGZAG) for k in (8, 2, 1))
    chosen = eight.encode([LayerMapping((Loop("K", 4, "free"), Loop("K", 2)))])
    assert two.of_chosen(chosen).status[0] == CostStatus.COSTED
    with pytest.raises(ValueError, match="a turn takes less than one unit"):
        one.of_chosen(chosen)


def zigzag(
    bits: Sequence[int] = (8, 8, 8), side_of: Sequence[int] = (-1, -1, -1, 0, 2, 1, 3, -1), stride: int = 1,
    bounds: Sequence[int] = (1,) * 8, levels: int = 2, dimensions: int = 1,
) -> native.ZigzagCosts:  # fmt: skip
    """Return costs on a machine of one level and DRAM, whose array has one dimension of four units."""
    axis = native.LayerAxis(outputs=1, filters=1, stride=stride, dilation=1, padding=0, size=1)
    layer = native.LayerShape(
        relevant=[[True] * 8] * 3, side_of=side_of, is_channel=[True] * 8, bits=bits, elements=[1] * 3,
        partial_bits=24, has_weight=True, mac_energy_pj=1.0, axes=[axis] * 2,
    )  # fmt: skip
    level = native.MachineLevel(
        serves=[True], capacity_bits=64, is_double_buffered=False, shortest_bits=8, read_pj=1.0, write_pj=1.0,
        port=[-1] * 4,
    )  # fmt: skip
    machine = native.LayerMachine(levels=[level] * 2, units=[4], bits_per_cycle=[1], home=[1] * 3)
    return native.ZigzagCosts(
        layer=layer, bounds=bounds, machine=machine, is_shared=[True] * levels, is_defines=False,
        is_systolic=[True] * dimensions,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bits": (8, 0, 8)}, "an element has no bits, or too many"),
        ({"bits": (8, 8, (1 << 16) + 1)}, "an element has no bits, or too many"),
        ({"side_of": (0, -1, -1, 0, 2, 1, 3, -1)}, "a side has not one loop"),
        ({"side_of": (-1, -1, -1, -1, 2, 1, 3, -1)}, "a side has not one loop"),
        ({"bounds": [1] * 7 + [0]}, "a loop has no iteration"),
        ({"levels": 1}, "is not said of each level"),
        ({"dimensions": 2}, "is not said of each dimension"),
    ],
)
def test_what_zigzag_cannot_cost_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        zigzag(**changed)


def test_an_axis_stays_below_64_bits() -> None:
    one, none = np.ones((1, 1), np.int64), np.full((1, 3, 1), -1)
    rows = (one[0], one * 3, one * 3, one[0] * 0, one * 0, one, one * 0, one * 0, none)
    assert zigzag().of(*rows)[2].tolist() == [CostStatus.COSTED]
    with pytest.raises(ValueError, match=r"an axis has more than 2\^63 positions"):
        zigzag(stride=1 << 62).of(*rows)
