"""Answer files of every kind: the format is recognised from the content, the writer from the answer."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from onchip.answer.document import MappingDocument, PlanDocument, ScheduleDocument, StrategyDocument
from onchip.answer.schedule import Schedule
from onchip.formats.files import AnswerFormat, format_of_answer
from onchip.formats.own.mapping_yaml import read_mappings, write_mappings
from onchip.formats.own.plan_json import read_plan, write_plan
from onchip.formats.own.schedule_json import read_schedule, write_schedule
from onchip.formats.own.strategy_json import read_strategy, write_strategy

AnswerDocument: TypeAlias = PlanDocument | ScheduleDocument | StrategyDocument | MappingDocument
"""The content of an answer file."""


def read_answer(path: Path) -> AnswerDocument:
    """Read an answer file; raises InputError if it is unreadable."""
    match format_of_answer(path):
        case AnswerFormat.SCHEDULE:
            return read_schedule(path)
        case AnswerFormat.STRATEGY:
            return read_strategy(path)
        case AnswerFormat.MAPPING:
            return read_mappings(path)
        case AnswerFormat.PLAN:
            return read_plan(path)


def write_answer(document: AnswerDocument, path: Path) -> None:
    """Write an answer file; raises OutputError if it cannot be written."""
    if isinstance(document, PlanDocument):
        write_plan(document, path)
    elif isinstance(document, StrategyDocument):
        write_strategy(document, path)
    elif isinstance(document.answer, Schedule):
        write_schedule(document, path)
    else:
        write_mappings(document, path)


def suffix_of(document: AnswerDocument) -> str:
    """Return the suffix of the file of an answer."""
    return ".yaml" if isinstance(document.answer, tuple) else ".json"
