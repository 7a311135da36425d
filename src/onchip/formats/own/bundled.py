"""Networks and layer tables that come with onchip.

`tools/make_workloads.py` writes the networks as raw graphs of batch 1. Each layer table names its source and licence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from gzip import decompress
from importlib.resources import files
from typing import NotRequired, TypedDict

from onchip.errors import UsageError
from onchip.formats.own.graph_json import graph_from_json
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer


class _Table(TypedDict):
    layers: dict[str, str]
    subsets: NotRequired[dict[str, list[str]]]


def bundled_networks() -> tuple[str, ...]:
    """Return the names of all bundled networks, sorted."""
    return tuple(sorted(_names("graphs", ".json.gz")))


def load_network(name: str) -> Graph:
    """Return the raw graph of a bundled network; raises UsageError for another name."""
    names = bundled_networks()
    if name not in names:
        raise UsageError(f"no network {name!r} is bundled", expected=f"one of {', '.join(names)}")
    packed = files("onchip.data").joinpath("graphs", f"{name}.json.gz").read_bytes()
    return graph_from_json(decompress(packed), f"{name}.json.gz")


def layer_tables() -> tuple[str, ...]:
    """Return the names of all layer tables, sorted; a subset is named after its table, like `deepbench-ocr`."""
    return tuple(sorted(name for whole in _names("layers", ".json") for name in (whole, *_subsets(whole))))


def layer_table(name: str) -> Mapping[str, Layer]:
    """Return a map from each layer's name in the source to the layer; raises UsageError for an unknown table."""
    for whole in _names("layers", ".json"):
        subsets: dict[str, list[str] | None] = {whole: None, **_subsets(whole)}
        if name in subsets:
            texts, wanted = _table(whole)["layers"], subsets[name]
            return {layer: Layer.of_text(texts[layer]) for layer in (texts if wanted is None else wanted)}
    raise UsageError(f"no layer table {name!r} is bundled", expected=f"one of {', '.join(layer_tables())}")


def _names(folder: str, suffix: str) -> tuple[str, ...]:
    entries = (entry.name for entry in files("onchip.data").joinpath(folder).iterdir())
    return tuple(name.removesuffix(suffix) for name in entries if name.endswith(suffix))


def _subsets(whole: str) -> dict[str, list[str]]:
    return {f"{whole}-{part}": layers for part, layers in _table(whole).get("subsets", {}).items()}


def _table(whole: str) -> _Table:
    text = files("onchip.data").joinpath("layers", f"{whole}.json").read_text(encoding="utf-8")
    table: _Table = json.loads(text)
    return table
