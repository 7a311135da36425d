"""Sizes of a study that depend on its networks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from onchip.answer.document import Reading
from onchip.answer.problem import Count
from onchip.api.networks import network_to_plan
from onchip.api.target import budgets_of, roomy_problem
from onchip.errors import UsageError
from onchip.search.budget.limits import Limits
from onchip.sweeps.study import Study, study_of, study_of_value
from onchip.sweeps.sweep import PointResolver

NETWORKS = ("densenet121", "lenet5")


def study(sram: object, **more: object) -> Study:
    fields = {"networks": [*NETWORKS], "parameters": {"sram": sram}, "options": {"bits": 8}, **more}
    return study_of(study_of_value(fields), "budgets")


def sizes(of: Study) -> dict[str, list[object]]:
    questions = PointResolver(of).questions()
    return {name: [one.parameters["sram"] for one in questions if one.network == name] for name in NETWORKS}


@pytest.mark.parametrize("count", Count)
def test_budgets_are_those_of_each_network_as_it_is_read(count: Count) -> None:
    found = sizes(study({"values": ["m_r", "M_H", "m_p"]}, options={"bits": 8, "count": str(count)}))
    for name in NETWORKS:
        graph = network_to_plan(name, replace(Reading(), bits=8, count=count))
        budgets = budgets_of(roomy_problem(graph, count), Limits())
        assert budgets.min_peak_bytes is not None
        middle = (budgets.required_bytes + budgets.min_peak_bytes) // 2
        assert found[name] == list(dict.fromkeys([budgets.required_bytes, middle, budgets.min_peak_bytes]))


def test_a_range_between_budgets_is_cut_evenly_for_each_network() -> None:
    found = sizes(study({"range": "m_r..m_p", "steps": 9}))
    densenet = [int(str(size)) for size in found["densenet121"]]
    assert (densenet[0], densenet[-1], len(densenet)) == (1_605_632, 2_107_392, 9)
    steps = [later - before for before, later in pairwise(densenet)]
    assert max(steps) - min(steps) <= 1
    assert found["lenet5"] == [40_064]


def test_a_range_may_end_at_a_size() -> None:
    found = sizes(study({"range": "m_r..4MiB", "steps": 2}))
    assert found == {"densenet121": [1_605_632, 4 * 2**20], "lenet5": [40_064, 4 * 2**20]}


def test_constraints_and_costs_see_sizes() -> None:
    asked = study({"range": "m_r..m_p", "steps": 3}, constraints=["sram > 1MiB"], costs={"area": "2 * sram"})
    questions = PointResolver(asked).questions()
    assert {one.network for one in questions} == {"densenet121"}
    assert all(one.costs["area"] == 2 * int(str(one.parameters["sram"])) for one in questions)


@pytest.mark.parametrize(
    ("sram", "said"),
    [
        ({"range": "m_p..1KiB", "steps": 3}, "parameters.sram of densenet121: the range from m_p to 1KiB is empty"),
        ({"range": "m_r..m_p", "doubling": True}, "an end of the range is a budget"),
        ({"range": "m_r..m_q"}, "'m_q' is neither a number nor a size"),
    ],
)
def test_what_no_network_has_is_said(sram: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        sizes(study(sram))


def test_fields_of_machines_have_no_budgets() -> None:
    capacity = {"memories.global_buffer.capacity": {"values": ["m_r"]}}
    fields: dict[str, object] = {"networks": ["lenet5"], "accelerators": ["simba"], "parameters": capacity}
    with pytest.raises(UsageError, match="'m_r' is neither a number nor a size"):
        study_of(study_of_value(fields), "budgets")
