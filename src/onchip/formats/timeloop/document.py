"""The YAML of Timeloop's files (version 0.4): tagged nodes, merges, and Jinja templates without loops and macros."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from re import search
from typing import TYPE_CHECKING, Final

from onchip.errors import InputError
from onchip.formats.files import read_file
from onchip.formats.validation import Format, as_utf8, quoted
from onchip.formats.yaml_documents import Dialect, YamlDocument, parse_yaml

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment


CONSTRAINTS: Final = (
    "mapspace",
    "mapspace_constraints",
    "architecture_constraints",
    "constraints",
    "extra_mapping_constraints",
)
"""Parts with constraints on kept operands, orders and factors."""
OTHERS: Final = (
    *("architecture", "arch", "problem", "variables", "globals", "mapper", "mapping", "layout"),
    *("components", "compound_components", "sparse_optimizations", "ERT", "ART"),
)
IGNORED: Final = "_ignore"
"""Suffix of parts that Timeloop's front end ignores."""


def check_parts(document: object, file_format: Format, expected: str) -> Mapping[str, object]:
    """Return the parts of a file; raises the format's error unless it is a mapping of parts that Timeloop knows."""
    if not isinstance(document, dict):
        raise file_format.error(f"it is {quoted(document)}", place="", expected="an object")
    for name in document:
        if name not in (*CONSTRAINTS, *OTHERS) and not name.endswith(IGNORED):
            raise file_format.error("the field is unknown", place=name, expected=expected)
    return document


TIMELOOP: Final = Dialect(shared_nodes=True)
GREATEST_BYTES: Final = 2**22
"""Largest file that a template includes."""
DEEPEST_INCLUDE: Final = 10
NODES: Final = frozenset(
    {"Template", "Output", "TemplateData", "Call", "Name", "Const", "Filter", "If", "Assign", "Concat", "Compare"}
    | {"Operand", "Test", "Not", "And", "Or", "Keyword"}
)
"""Nodes that a template may contain, so that it ends and is not much longer than the included files."""


def read_document(text: str | bytes, file_format: Format, file: str) -> YamlDocument:
    """Return the value of a file with the lines of its parts. Raises the format's error with a line.

    A template is rendered first; lines are then those of the rendered text.
    """
    return parse_yaml(without_templates(text, file_format, file), file_format, file, TIMELOOP)


def without_templates(text: str | bytes, file_format: Format, file: str) -> bytes:
    """Return the text as UTF-8, rendered if it is a template. Raises InputError."""
    encoded = as_utf8(text, file_format, file)
    return rendered(encoded.decode(), Path(file)).encode() if is_template(encoded) else encoded


def is_template(text: bytes) -> bool:
    """Return True if the text has parts in `{{ }}` or `{% %}` outside of comments."""
    return search(rb"(?m)^[^#\n]*(\{\{|\{%)", text) is not None


def rendered(text: str, file: Path) -> str:
    """Return the rendered template; raises InputError for an unsupported feature."""
    return _Renderer(file).rendered(text)


@dataclass(slots=True)
class _Renderer:
    """Renders a file and those that it includes, searched in `folders`, its own first."""

    file: Path
    depth: int = 0
    folders: list[Path] = field(default_factory=list)

    def rendered(self, text: str) -> str:
        environment = _environment()
        from jinja2 import TemplateError, TemplateSyntaxError, nodes

        self.folders.insert(0, self.file.parent)
        try:
            for node in environment.parse(text).find_all(nodes.Node):
                if type(node).__name__ not in NODES:
                    raise self._refusal(f"it uses {type(node).__name__} of Jinja", node.lineno)
            return environment.from_string(text).render(self._functions())
        except TemplateSyntaxError as error:
            raise self._refusal(f"its template (version 0.4) is malformed: {error.message}", error.lineno) from None
        except TemplateError as error:
            raise self._refusal(f"its template (version 0.4) cannot be rendered: {error.message}", None) from None
        except (TypeError, ValueError) as error:
            raise self._refusal(f"its template cannot be rendered: {error}", None) from None

    def _functions(self) -> dict[str, Callable[..., object]]:
        return {
            "cwd": lambda: str(self.file.parent),
            "add_to_path": self._add_to_path,
            "path_exists": lambda name: self._found(str(name)) is not None,
            "find_path": lambda name: str(self._path(str(name))),
            "include_text": self._include_text,
            "include": self._include,
        }

    def _add_to_path(self, name: object) -> str:
        self.folders.append(self.file.parent / str(name))
        return ""

    def _found(self, name: str) -> Path | None:
        return next((path for folder in self.folders if (path := folder / name).is_file()), None)

    def _path(self, name: str) -> Path:
        if (path := self._found(name)) is None:
            raise self._refusal(f"its template (version 0.4) includes {name!r}, which is not there", None)
        return path

    def _include_text(self, name: object) -> str:
        path = self._path(str(name))
        if self.depth == DEEPEST_INCLUDE:
            raise self._refusal("its includes do not end", None)
        text = read_file(path, GREATEST_BYTES)
        inner = _Renderer(path, self.depth + 1, list(self.folders))
        return inner.rendered(text.decode(errors="replace")) if is_template(text) else text.decode(errors="replace")

    def _include(self, name: object, key: object = "") -> str:
        """Return a part of a file, named by keys with points between them, as JSON, which is YAML in one line."""
        import json

        value = read_document(self._include_text(name), Format("Timeloop file", 4, InputError), str(name)).value
        for part in str(key).split(".") if key else ():
            if not isinstance(value, dict) or part not in value:
                raise self._refusal(f"{name!r} has no {key!r}", None)
            value = value[part]
        return json.dumps(value)

    def _refusal(self, what: str, line: int | None) -> InputError:
        place = None if line is None else f"line {line}"
        expected = (
            "if, set, default, cwd, add_to_path, path_exists, find_path, include and include_text, names that it sets"
        )
        return InputError(what, file=str(self.file), place=place, expected=expected)


def _environment() -> SandboxedEnvironment:
    try:
        from jinja2 import StrictUndefined
        from jinja2.sandbox import SandboxedEnvironment
    except ImportError:
        raise InputError("it is a Jinja template", expected="jinja2, which onchip[report] installs") from None
    return SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
