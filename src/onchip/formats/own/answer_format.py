"""Which of our answers a file is, before anything else of it is read."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Final

from onchip.formats.files import read_file


class AnswerFormat(StrEnum):
    """The formats of answers, as their files name them."""

    PLAN = "onchip-plan"
    SCHEDULE = "onchip-schedule"
    STRATEGY = "onchip-strategy"
    MAPPING = "onchip-mapping"


ONNX_SUFFIX: Final = ".onnx"
"""Of a model that holds a plan in its metadata."""

# A quotation mark within a JSON string is escaped, so that no text in a file can be taken for the field.
_FIELD = re.compile(rb"""(?:^|[\s{,])["']?format["']?\s*:\s*["']?(onchip-(?:plan|schedule|strategy|mapping))\b""")


def format_of_answer(path: Path) -> AnswerFormat:
    """Return the format that a file names, unpacked where `path` ends in `.gz`; a plan's where it names none of them.

    So whoever reads it says what is wrong with it. Raises InputError where the file cannot be read.
    """
    if path.suffix == ONNX_SUFFIX:
        return AnswerFormat.PLAN
    found = _FIELD.search(read_file(path))
    if found is None:
        return AnswerFormat.MAPPING if path.suffix in (".yaml", ".yml") else AnswerFormat.PLAN
    return AnswerFormat(found.group(1).decode())
