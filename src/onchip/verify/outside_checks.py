"""Checks added by plug-ins: further requirements on legal schedules, such as the rules of one company's runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onchip.answer.schedule import Schedule
from onchip.plugins import PluginGroup
from onchip.verify.rules import Rule, Violation
from onchip.verify.schedule.setting import ScheduleSetting

OUTSIDE_CHECKS: Final = PluginGroup[[ScheduleSetting, Schedule], Mapping[str, str]]("onchip.checks", Mapping)
"""Checks by name: functions that return a map from each faulty subject to a description of the fault."""


def outside_violations(setting: ScheduleSetting, schedule: Schedule) -> tuple[Violation, ...]:
    """Return the faults that the installed checks find in a legal schedule; raises PluginError for a broken check."""
    found: list[Violation] = []
    for name in OUTSIDE_CHECKS.names:
        check = OUTSIDE_CHECKS.find(name)
        wrong = check(setting, schedule) if check is not None else {}
        found += [
            Violation(Rule.OUTSIDE_CHECK_FAILED, subject, f"{name}: {detail}") for subject, detail in wrong.items()
        ]
    return tuple(found)
