"""Differences of two programs: the longest common subsequence of the orders, and the change of each tensor."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.memory import DRAM, Memory
from onchip.reports.explain.difference import (
    TensorChangeKind,
    TensorStay,
    figure_changes,
    lives_of,
    order_difference,
    plan_difference,
)

ORDERS = st.lists(st.sampled_from("abcdefg"), unique=True)


def longest_common(before: list[str], after: list[str]) -> int:
    """Return the length of the longest common subsequence, by trying all subsequences."""
    place = {name: at for at, name in enumerate(before)}
    shared = [place[name] for name in after if name in place]
    parts = (part for size in range(len(shared), -1, -1) for part in combinations(shared, size))
    return next(len(part) for part in parts if all(low < high for low, high in pairwise(part)))


@given(ORDERS, ORDERS)
def test_the_common_part_is_a_longest_one(before: list[str], after: list[str]) -> None:
    found = order_difference(before, after)

    assert found.common == longest_common(before, after)
    kept = [name for name in after if name in before and name not in found.moved]
    assert len(kept) == found.common
    assert kept == [name for name in before if name in kept]
    assert set(found.only_before) == set(before) - set(after)
    assert set(found.only_after) == set(after) - set(before)
    assert found.is_equal is (before == after)


def plan_of(*instructions: Instruction) -> Plan:
    return Plan((Memory("sram", 100), Memory("other", 100)), instructions)


BASE = (
    Allocate("x", "sram", 0), Copy("x", DRAM, "sram"), Allocate("y", "sram", 10), Compute("a"), Compute("b"),
    Free("x", "sram"), Copy("y", "sram", DRAM),
)  # fmt: skip


def test_a_life_is_what_the_instructions_say() -> None:
    lives = lives_of(plan_of(*BASE))

    assert lives["x"].stays == [TensorStay("sram", 0, 0, 2)]
    assert lives["y"].stays == [TensorStay("sram", 10, 0, 2)]
    assert [(lives[name].loads, lives[name].write_backs) for name in "xy"] == [(1, 0), (0, 1)]


@pytest.mark.parametrize(
    ("others", "kinds"),
    [
        (BASE, []),
        ((*BASE[:2], Allocate("y", "sram", 20), *BASE[3:]), [("y", TensorChangeKind.MOVED)]),
        ((Allocate("x", "other", 0), Copy("x", DRAM, "other"), *BASE[2:5], Free("x", "other"), BASE[6]),
         [("x", TensorChangeKind.MOVED)]),
        ((*BASE[:4], BASE[5], BASE[4], BASE[6]), [("x", TensorChangeKind.SHORTER)]),
        ((*BASE, Allocate("y", "other", 0), Copy("y", DRAM, "other")), [("y", TensorChangeKind.SPILLS)]),
        (BASE[:6], [("y", TensorChangeKind.FEWER_MOVES)]),
        ((*BASE, Allocate("z", "sram", 0)), [("z", TensorChangeKind.APPEARS)]),
    ],
)  # fmt: skip
def test_what_became_of_a_tensor_is_named(
    others: tuple[Instruction, ...], kinds: list[tuple[str, TensorChangeKind]]
) -> None:
    order, changes = plan_difference(plan_of(*BASE), plan_of(*others))

    assert order.is_equal
    assert [(change.tensor, change.kind) for change in changes] == kinds
    back = {
        TensorChangeKind.SPILLS: "STAYS",
        TensorChangeKind.SHORTER: "LONGER",
        TensorChangeKind.APPEARS: "DISAPPEARS",
    }
    _, reverse = plan_difference(plan_of(*others), plan_of(*BASE))
    for change, other in zip(changes, reverse, strict=True):
        assert other.kind == TensorChangeKind[back.get(change.kind, "MORE_MOVES" if "less" in change.kind else "MOVED")]


def test_figures_have_signs_and_percent() -> None:
    figures = {one.name: one for one in figure_changes({"a": 50, "b": 0, "c": "x"}, {"a": 40, "b": 3, "d": 1})}

    assert (figures["a"].change, figures["a"].percent) == (-10, -20)
    assert (figures["b"].change, figures["b"].percent) == (3, None)
    assert (figures["c"].change, figures["d"].change) == (None, None)
