"""The YAML of ZigZag as values of given shapes."""

from __future__ import annotations

import json
from collections.abc import Hashable
from io import StringIO
from typing import Any, TypeVar

from onchip.errors import InputError
from onchip.formats.validation import Format, as_utf8, validate
from onchip.formats.yaml_nodes import parse_yaml

ShapeT = TypeVar("ShapeT", bound=Hashable)


def read_fields(shape: type[ShapeT], file_format: Format, text: str | bytes, file: str) -> list[ShapeT]:
    """The entries of a list, or the one that stands alone; raises the format's error with field and, mostly, line."""
    decoded = as_utf8(text, file_format, file).decode()
    once = _with_each_field_once(decoded)
    document = parse_yaml(once or decoded, file_format, file)
    entries = document.value if isinstance(document.value, list) else [document.value]
    found = []
    for number, entry in enumerate(entries):
        try:
            found.append(validate(shape, json.dumps(entry).encode(), file_format, file))
        except InputError as error:
            path = error.place or ""
            path = f"[{number}].{path}" if isinstance(document.value, list) else path
            error.place = path if once else document.place(path)
            raise
    return found


def _with_each_field_once(text: str) -> str | None:
    """The text where a field that stands twice has its last value, as ZigZag reads it; None if none does."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml = YAML(typ="safe", pure=True)
    try:
        root = yaml.compose(text)
    except (YAMLError, ValueError, RecursionError):
        return None  # the reader says what is wrong
    if root is None or not _keep_last(root):
        return None
    stream = StringIO()
    yaml.serialize(root, stream)
    return stream.getvalue()


def _keep_last(node: Any) -> bool:  # noqa: ANN401 - ruamel's nodes are untyped
    """Whether any field stood twice."""
    if not isinstance(node.value, list):
        return False
    pairs = [pair for pair in node.value if isinstance(pair, tuple)]
    children = [child for _, child in pairs] or node.value
    dropped = False
    if pairs:
        last = {key.value: (key, child) for key, child in pairs}
        dropped = len(last) < len(pairs)
        node.value = list(last.values())
        children = [child for _, child in last.values()]
    return any([*map(_keep_last, children), dropped])
