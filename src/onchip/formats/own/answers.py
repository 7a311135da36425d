"""Answer files of every kind: the format is recognised from the content, the writer from the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from onchip.answer.document import MappingDocument, PlanDocument, ScheduleDocument, StrategyDocument
from onchip.answer.schedule import Schedule
from onchip.formats.files import AnswerFormat, format_of_answer, write_file
from onchip.formats.own.mapping_yaml import mappings_to_yaml, read_mappings
from onchip.formats.own.plan_json import plan_to_json, read_plan
from onchip.formats.own.schedule_json import read_schedule, schedule_to_json
from onchip.formats.own.strategy_json import read_strategy, strategy_to_json

AnswerDocument: TypeAlias = PlanDocument | ScheduleDocument | StrategyDocument | MappingDocument
"""The content of an answer file."""
_READERS: Final[Mapping[AnswerFormat, Callable[[Path], AnswerDocument]]] = {
    AnswerFormat.SCHEDULE: read_schedule,
    AnswerFormat.STRATEGY: read_strategy,
    AnswerFormat.MAPPING: read_mappings,
    AnswerFormat.PLAN: read_plan,
}


def read_answer(path: Path) -> AnswerDocument:
    """Read an answer file; raises InputError if it is unreadable."""
    return _READERS[format_of_answer(path)](path)


def write_answer(document: AnswerDocument, path: Path) -> None:
    """Write an answer file, packed if its name ends in `.gz`; raises OutputError if it cannot be written."""
    write_file(path, answer_text(document).encode())


def answer_text(document: AnswerDocument) -> str:
    """Return the text of an answer file."""
    if isinstance(document, PlanDocument):
        return plan_to_json(document)
    if isinstance(document, StrategyDocument):
        return strategy_to_json(document)
    if isinstance(document.answer, Schedule):
        return schedule_to_json(document)
    return mappings_to_yaml(document)


def suffix_of(document: AnswerDocument) -> str:
    """Return the suffix of the file of an answer."""
    return ".yaml" if isinstance(document.answer, tuple) else ".json"
