"""The events of a YAML text, as libyaml finds them: no nodes are made, and nothing is repeated for an alias."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, Final, TypeAlias

from onchip.errors import InputError
from onchip.formats.validation import Format

Event: TypeAlias = Any
"""PyYAML's events are untyped."""

DOCUMENT: Final = "DocumentStartEvent"
SCALAR: Final = "ScalarEvent"
ALIAS: Final = "AliasEvent"
LIST: Final = "SequenceStartEvent"
LIST_END: Final = "SequenceEndEvent"
MAPPING: Final = "MappingStartEvent"
MAPPING_END: Final = "MappingEndEvent"
GREATEST_DEPTH: Final = 100
"""Of lists and mappings within each other; what libyaml does for each token grows with it."""
GREATEST_EVENTS_LOOKED_AT: Final = 100_000


def yaml_events(encoded: bytes) -> Callable[[], Event]:
    """What returns the next event, None after the last; it raises YAMLError."""
    from yaml.cyaml import CParser

    next_event: Callable[[], Event] = CParser(encoded).get_event
    return next_event


def kind_of(event: Event) -> str:
    """One of the names above, or another."""
    return type(event).__name__


def line_of(event: Event) -> int:
    """The line, from 1, where it begins."""
    line: int = event.start_mark.line
    return line + 1


@contextmanager
def malformed_named(encoded: bytes, file_format: Format, file: str) -> Iterator[None]:
    """Raise what is no YAML as the format's error with its line, and put the file into every InputError."""
    from yaml import MarkedYAMLError, YAMLError
    from yaml.reader import ReaderError

    try:
        yield
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}" if mark else None
        what = f"malformed YAML: {error.problem or error.context}"
        raise file_format.error(what, file=file, place=place, expected="YAML") from None
    except ReaderError as error:
        line = encoded.count(b"\n", 0, error.position) + 1
        what, place = f"malformed YAML: {error.reason}", f"line {line}"
        raise file_format.error(what, file=file, place=place, expected="YAML") from None
    except YAMLError as error:
        raise file_format.error(f"malformed YAML: {error}", file=file, expected="YAML") from None
    except InputError as error:
        raise error.in_file(file) from None


def leading_field_names(encoded: bytes) -> frozenset[str]:
    """The names of the fields of the document, or of the first entry of a list; none of what has none.

    What is no YAML has those before, and of what is large or deep the beginning alone is looked at.
    """
    from yaml import YAMLError

    names = set[str]()
    with suppress(YAMLError):
        names.update(_leading_names(islice(iter(yaml_events(encoded), None), GREATEST_EVENTS_LOOKED_AT)))
    return frozenset(names)


def _leading_names(events: Iterator[Event]) -> Iterator[str]:
    kinds = (kind_of(event) for event in events)
    first = next((kind for kind in kinds if kind in (SCALAR, LIST, MAPPING)), None)
    if first == MAPPING or (first == LIST and next(kinds, None) == MAPPING):
        for event in events:
            if kind_of(event) != SCALAR:
                return
            yield event.value
            if not _is_value_skipped(events):
                return


def _is_value_skipped(events: Iterator[Event]) -> bool:
    """Read the value that comes next; False where it is too deep."""
    depth = 0
    for event in events:
        kind = kind_of(event)
        depth += (kind in (LIST, MAPPING)) - (kind in (LIST_END, MAPPING_END))
        if not 0 < depth <= GREATEST_DEPTH:
            return depth == 0
    return False
