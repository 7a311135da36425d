"""The layers of published workloads, as loop nests; each file names its source and licence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import NotRequired, TypedDict

from onchip.errors import UsageError
from onchip.ir.layer import Layer

SUFFIX = ".json"


def layer_tables() -> tuple[str, ...]:
    """The names of all tables, sorted; a part of a table is named after it, like `deepbench-ocr`."""
    return tuple(sorted(name for whole in _files() for name in (whole, *_parts(whole))))


def layer_table(name: str) -> Mapping[str, Layer]:
    """Its layers by their names in the source, in its order; raises UsageError for another name."""
    for whole in _files():
        parts: dict[str, list[str] | None] = {whole: None, **_parts(whole)}
        if name in parts:
            texts, wanted = _read(whole)["layers"], parts[name]
            return {layer: Layer.of_text(texts[layer]) for layer in (texts if wanted is None else wanted)}
    raise UsageError(f"no layer table {name!r} is bundled", expected=f"one of {', '.join(layer_tables())}")


def _files() -> tuple[str, ...]:
    entries = (entry.name for entry in files("onchip.data").joinpath("layers").iterdir())
    return tuple(name.removesuffix(SUFFIX) for name in entries if name.endswith(SUFFIX))


def _parts(whole: str) -> dict[str, list[str]]:
    return {f"{whole}-{part}": layers for part, layers in _read(whole).get("subsets", {}).items()}


class _Table(TypedDict):
    layers: dict[str, str]
    subsets: NotRequired[dict[str, list[str]]]


def _read(whole: str) -> _Table:
    table: _Table = json.loads(files("onchip.data").joinpath("layers", f"{whole}{SUFFIX}").read_text(encoding="utf-8"))
    return table
