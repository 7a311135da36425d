"""The parts that a Timeloop file may have beside each other; readers pass over those of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onchip.formats.validation import Format, quoted

CONSTRAINTS: Final = (
    "mapspace",
    "mapspace_constraints",
    "architecture_constraints",
    "constraints",
    "extra_mapping_constraints",
)
"""Of what memories keep, and of orders and factors."""
OTHERS: Final = (
    *("architecture", "arch", "problem", "variables", "globals", "mapper", "mapping", "layout"),
    *("components", "compound_components", "sparse_optimizations", "ERT", "ART"),
)
IGNORED: Final = "_ignore"
"""How the names of parts end that Timeloop's front end passes over."""


def check_parts(document: object, file_format: Format, expected: str) -> Mapping[str, object]:
    """Return the parts; raise the format's error for no mapping, or for a part that Timeloop does not know."""
    if not isinstance(document, dict):
        raise file_format.error(f"it is {quoted(document)}", place="", expected="an object")
    for name in document:
        if name not in (*CONSTRAINTS, *OTHERS) and not name.endswith(IGNORED):
            raise file_format.error("the field is unknown", place=name, expected=expected)
    return document
