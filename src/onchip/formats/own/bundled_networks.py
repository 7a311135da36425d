"""The networks that come with onchip: raw graphs, batch 1, as `tools/make_workloads.py` wrote them."""

from __future__ import annotations

from gzip import decompress
from importlib.resources import files

from onchip.errors import UsageError
from onchip.formats.own.graph_json import graph_from_json
from onchip.ir.graph import Graph

SUFFIX = ".json.gz"


def bundled_networks() -> tuple[str, ...]:
    """Return the names of all bundled networks, sorted."""
    entries = (entry.name for entry in files("onchip.data").joinpath("graphs").iterdir())
    return tuple(sorted(name.removesuffix(SUFFIX) for name in entries if name.endswith(SUFFIX)))


def load_network(name: str) -> Graph:
    """The raw graph of one of them; raises UsageError for another name."""
    names = bundled_networks()
    if name not in names:
        raise UsageError(f"no network {name!r} is bundled", expected=f"one of {', '.join(names)}")
    packed = files("onchip.data").joinpath("graphs", f"{name}{SUFFIX}").read_bytes()
    return graph_from_json(decompress(packed), f"{name}{SUFFIX}")
