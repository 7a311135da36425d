"""The network in tiles that `onchip fuse --emit-graph` writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onchip.answer.document import Reading, StrategyDocument
from onchip.api.phases import phase
from onchip.errors import GraphError, UsageError

if TYPE_CHECKING:
    from onchip.ir.graph import Graph

GRAPH_SUFFIXES = (".json", ".json.gz")


@dataclass(frozen=True, slots=True)
class EmittedGraph:
    """Where the tiles of a network are written; `graph` is the network, named `source`."""

    path: Path
    source: str
    graph: Graph

    @classmethod
    def to(cls, path: Path | None, reading: Reading, source: str, *others: str) -> EmittedGraph | None:
        """None without a path; raises InputError where no strategy's tiles could be written there and read again."""
        from onchip.api.tiles import network_to_tile
        from onchip.formats.files import ensure_writable

        if path is None:
            return None
        if not path.name.endswith(GRAPH_SUFFIXES):
            expected = " or ".join(GRAPH_SUFFIXES)
            raise UsageError("it has another suffix", file=str(path), place="--emit-graph", expected=expected)
        ensure_writable(path, inputs=(source, *others))
        return cls(path, source, network_to_tile(source, reading))

    def write(self, document: StrategyDocument) -> None:
        """Write the network in the tiles of a legal strategy; raises GraphError where it cannot be cut so."""
        from onchip.api.tiles import tiled_graph
        from onchip.formats.own.graph_json import write_graph

        try:
            with phase("writing"):
                write_graph(tiled_graph(document.answer, self.graph), self.path)
        except GraphError as error:
            raise error.in_file(self.source) from None
