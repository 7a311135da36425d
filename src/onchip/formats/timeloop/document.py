"""The YAML of Timeloop's files: tags that name the kind of a node, anchors, `<<` and `<<<` merges, Jinja templates."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from onchip.formats.timeloop.templates import is_template, rendered
from onchip.formats.validation import Format, as_utf8
from onchip.formats.yaml_documents import Dialect, YamlDocument, parse_yaml

TIMELOOP: Final = Dialect(shared_nodes=True)


def read_document(text: str | bytes, file_format: Format, file: str) -> YamlDocument:
    """Return the value of a file with the lines of its parts. Raises the format's error with a line.

    A template is rendered first; lines are then those of the rendered text.
    """
    return parse_yaml(without_templates(text, file_format, file), file_format, file, TIMELOOP)


def without_templates(text: str | bytes, file_format: Format, file: str) -> bytes:
    """Return the text as UTF-8, rendered if it is a template. Raises InputError."""
    encoded = as_utf8(text, file_format, file)
    return rendered(encoded.decode(), Path(file)).encode() if is_template(encoded) else encoded
