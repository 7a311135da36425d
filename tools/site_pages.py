"""Generate the reference pages of the site: commands, Python API, file formats.

MkDocs loads this file as a hook (mkdocs.yml).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from importlib.resources import files
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import onchip
from onchip.answer.options.choices import all_described, meaning_of
from onchip.cli import _command

GROUPS = {
    "Read inputs": "load_network from_torch load_accelerator conv gemm",
    "Solve": "plan map_layer map_network fuse schedule pareto capacity pack info",
    "Use answers": "load check audit run time explain export report diff",
    "Sweep": "sweep",
    "Results": "Result Report Status Progress OnchipError",
    "Options": "PlanOptions MapOptions FusionOptions ScheduleOptions CapacityOptions PackOptions",
    "Values of options": "TilesOption Count Order Placement Placements Recompute Share OverlapMode",
    "Networks and accelerators": "Graph Operator Tensor Role Layer Accelerator Memory Buffer Plan Schedule",
}
"""Public names by section of the API page; `on_files` fails if one is missing."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {"cli": cli_page(), "api": api_page(onchip), "files": files_page()}
    for name, text in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Show links to sources as their text, because sources are no part of the site."""
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+((?:src|tests|benchmarks|examples)/[^)]*)\)", r"`\1`", markdown)


def api_page(package: ModuleType) -> str:
    """Return the page of all public names; raises ValueError if `GROUPS` does not have each of them once."""
    names = [name for group in GROUPS.values() for name in group.split()]
    if sorted(names) != sorted(package.__all__):
        raise ValueError(
            f"tools/site_pages.py: GROUPS differs from onchip.__all__: {set(names) ^ set(package.__all__)}"
        )
    lines = [
        "# Python API",
        "",
        "For users of the library: which functions and types are public, and what do they take and return?",
        "",
    ]
    for title, group in GROUPS.items():
        lines += [f"## {title}", ""]
        for name in group.split():
            shown = getattr(package, name)
            lines += [f"::: {shown.__module__}.{name}", ""]
            if options := [*all_described(shown)] if is_dataclass(shown) else []:
                lines += ["| field | meaning | default |", "|---|---|---|"]
                lines += [
                    f"| `{one.name}` | {meaning_of(one, text)} | {text.default or one.default} |"
                    for one, text in options
                ]
                lines.append("")
    return "\n".join(lines)


def cli_page() -> str:
    """Return the page of all commands and their options, from the program itself."""
    lines = [
        "# Command line",
        "",
        "For users of the terminal: which commands are there, and which options do they take?",
        "",
    ]
    for name, command in sorted(_command().commands.items()):
        lines += [f"## onchip {name}", "", *(line.strip() for line in (command.help or "").splitlines()), ""]
        rows = [_option_row(parameter) for parameter in command.params]
        lines += ["| argument or option | meaning | default |", "|---|---|---|", *rows, ""]
        if command.epilog:
            lines += ["```sh", command.epilog.split("Example:")[-1].strip(), "```", ""]
    return "\n".join(lines)


def _option_row(parameter: Any) -> str:  # noqa: ANN401 - of the library behind typer
    is_argument = type(parameter).__name__.endswith("Argument")
    name = (
        (parameter.metavar or parameter.name)
        if is_argument
        else ", ".join([*parameter.opts, *parameter.secondary_opts])
    )
    metavar = "" if is_argument or not parameter.metavar else f" {parameter.metavar}"
    default = parameter.default
    is_shown = default not in (None, False, (), []) and not callable(default) and "Ellipsis" not in str(default)
    shown = f"`{getattr(default, 'value', default)}`" if is_shown else ""
    text = (getattr(parameter, "help", None) or "").replace("|", "\\|").replace("\n", " ")
    return f"| `{(name + metavar).replace('|', chr(92) + '|')}` | {text} | {shown} |"


def files_page() -> str:
    """Return the page of all file formats and their fields, from the JSON schemas."""
    lines = [
        "# Fields of the file formats",
        "",
        "For authors of files and tools: which fields does each format have?",
        "",
    ]
    lines += ["[Formats](../formats.md) has examples. Unknown fields are refused.", ""]
    described: set[str] = set()
    for path in sorted(files("onchip.formats.own").joinpath("schemas").iterdir(), key=lambda path: path.name):
        schema = json.loads(path.read_text())
        lines += [f"## {schema['title']}", "", schema.get("description", ""), "", *_fields(schema, schema)]
        for name, part in schema.get("$defs", {}).items():
            if (shape := _object(part)) and name not in described:
                described.add(name)
                lines += [f"### {_title(name)}", "", shape.get("description", ""), "", *_fields(shape, schema)]
    return "\n".join(lines)


def _object(part: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the description of an object with fields, which may be one of several alternatives."""
    return next((each for each in (part, *part.get("anyOf", ())) if "properties" in each), None)


def _fields(part: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    yield from ("| field | type | required | meaning |", "|---|---|---|---|")
    for name, field in part["properties"].items():
        is_required = "yes" if name in part.get("required", ()) else ""
        meaning = " ".join(field.get("description", "").split()).replace("|", "\\|")
        yield f"| `{name}` | {_type(field, schema)} | {is_required} | {meaning} |"
    yield ""


def _type(field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        target = schema["$defs"][name]
        if _object(target):
            return f"[{_title(name)}](#{_title(name).replace(' ', '-')})"
        return _type(target, schema) if "enum" in target else "JSON value"
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(each, schema) for each in field["anyOf"]))
    if field.get("type") == "array":
        if "prefixItems" in field:
            return "[" + ", ".join(_type(each, schema) for each in field["prefixItems"]) + "]"
        return f"list of {_type(field.get('items', {}), schema)}"
    if field.get("type") == "object" and isinstance(field.get("additionalProperties"), Mapping):
        return f"map of {_type(field['additionalProperties'], schema)}"
    return str(field.get("type", "any"))


def _title(name: str) -> str:
    """Return the name of a part of a format, such as `plan reading` for `PlanReadingFields`."""
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name.removesuffix("Fields"))
    return words.strip()
