"""The default network of an answer, if the user names none."""

from __future__ import annotations

from pathlib import Path

from onchip.errors import UsageError
from onchip.formats.files import AnswerFormat, format_of_answer


def bundled_network_of(answer: Path) -> str:
    """Return the bundled network that a plan or a schedule names; raises UsageError if it is not bundled."""
    from onchip.formats.own.graph_json import bundled_networks
    from onchip.formats.own.plan_json import read_plan
    from onchip.formats.own.schedule_json import read_schedule

    is_schedule = format_of_answer(answer) is AnswerFormat.SCHEDULE
    name = (read_schedule(answer) if is_schedule else read_plan(answer)).graph.name
    if name not in bundled_networks():
        raise UsageError(f"the network, {name!r}, is not bundled", file=str(answer), expected="NETWORK beside the plan")
    return name
