"""A row of the tables of schedules: the nearest legal one and the nearest illegal one."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.verify.rules import Rule
from support.schedule_cases import ScheduleCase


@dataclass(frozen=True)
class ScheduleRefusal:
    """`illegal` breaks `rules` and nothing else; the first violation has the subject `subject`."""

    rules: tuple[Rule, ...]
    what: str
    legal: ScheduleCase
    illegal: ScheduleCase
    subject: str

    def __str__(self) -> str:
        return f"{self.rules[0]}: {self.what}".replace(" ", "-")


def refusal(
    rule: Rule | tuple[Rule, ...], what: str, cases: tuple[ScheduleCase, ScheduleCase], subject: str
) -> ScheduleRefusal:
    return ScheduleRefusal((rule,) if isinstance(rule, Rule) else rule, what, *cases, subject)
