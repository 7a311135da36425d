"""Faults that checks of plug-ins find in a legal schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

import onchip.verify.schedule.machine
from onchip.answer.program import Plan
from onchip.answer.schedule import Schedule
from onchip.verify.rules import Rule
from onchip.verify.schedule.machine import ScheduleSetting, outside_violations
from support.schedule_cases import NEAR_AND_FAR, PAIR, RESIDENT

Check = Callable[[ScheduleSetting, Schedule], Mapping[str, str]]


class InstalledChecks:
    def __init__(self, **checks: Check | None) -> None:
        self._checks = checks
        self.names = tuple(checks)

    def find(self, name: str) -> Check | None:
        return self._checks[name]


def too_many_stacks(setting: ScheduleSetting, schedule: Schedule) -> Mapping[str, str]:
    return {setting.network.name: f"{len(schedule.stacks)} stacks", "y": "odd"}


@pytest.mark.parametrize("others", [{}, {"gone": None}, {"content": lambda setting, schedule: {}}])
def test_each_finding_of_each_check_is_a_violation(
    monkeypatch: pytest.MonkeyPatch, others: Mapping[str, Check | None]
) -> None:
    setting = ScheduleSetting(PAIR, NEAR_AND_FAR, PAIR, 24)
    schedule = Schedule(RESIDENT.stacks, RESIDENT.mappings, Plan((), ()))
    monkeypatch.setattr(onchip.verify.schedule.machine, "OUTSIDE_CHECKS", InstalledChecks(**others))
    assert outside_violations(setting, schedule) == ()
    checks = InstalledChecks(**others, strict=too_many_stacks)
    monkeypatch.setattr(onchip.verify.schedule.machine, "OUTSIDE_CHECKS", checks)
    assert [(one.rule, one.subject, one.detail) for one in outside_violations(setting, schedule)] == [
        (Rule.OUTSIDE_CHECK_FAILED, "pair", "strict: 2 stacks"),
        (Rule.OUTSIDE_CHECK_FAILED, "y", "strict: odd"),
    ]
