"""Recognise the format of an answer file before it is read."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Final

from onchip.formats.files import read_file


class AnswerFormat(StrEnum):
    """Formats of answers, by the names in their files."""

    PLAN = "onchip-plan"
    SCHEDULE = "onchip-schedule"
    STRATEGY = "onchip-strategy"
    MAPPING = "onchip-mapping"


ONNX_SUFFIX: Final = ".onnx"
"""Suffix of a model that holds a plan in its metadata."""

# A quotation mark within a JSON string is escaped, so that no text in a file can be taken for the field.
_FIELD = re.compile(rb"""(?:^|[\s{,])["']?format["']?\s*:\s*["']?(onchip-(?:plan|schedule|strategy|mapping))\b""")


def format_of_answer(path: Path) -> AnswerFormat:
    """Return the format that a file names, unpacked if `path` ends in `.gz`; raises InputError if it cannot be read.

    A file that names none of them counts as a mapping (YAML) or a plan, whose reader reports the error.
    """
    if path.suffix == ONNX_SUFFIX:
        return AnswerFormat.PLAN
    found = _FIELD.search(read_file(path))
    if found is None:
        return AnswerFormat.MAPPING if path.suffix in (".yaml", ".yml") else AnswerFormat.PLAN
    return AnswerFormat(found.group(1).decode())
