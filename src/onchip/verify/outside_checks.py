"""Checks that plug-ins add: what a schedule has to be beside legal, such as a rule of one company's runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onchip.answer.schedule import Schedule
from onchip.plugins import PluginGroup
from onchip.verify.rules import Rule, Violation
from onchip.verify.schedule.setting import ScheduleSetting

OUTSIDE_CHECKS: Final = PluginGroup[[ScheduleSetting, Schedule], Mapping[str, str]]("onchip.checks", Mapping)
"""By name a function that returns what it finds wrong: for each subject what is said of it."""


def outside_violations(setting: ScheduleSetting, schedule: Schedule) -> tuple[Violation, ...]:
    """Return what all installed checks find wrong with a legal schedule; raises PluginError for a broken one."""
    found: list[Violation] = []
    for name in OUTSIDE_CHECKS.names:
        check = OUTSIDE_CHECKS.find(name)
        wrong = check(setting, schedule) if check is not None else {}
        found += [
            Violation(Rule.OUTSIDE_CHECK_FAILED, subject, f"{name}: {detail}") for subject, detail in wrong.items()
        ]
    return tuple(found)
