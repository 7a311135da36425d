"""Writes the bundled networks' graph files: SMAUG's and DeFiNES's from our definitions, the others from torch's.

    PYTHONPATH=src:tools python tools/make_workloads.py [--without-torch] [NAME ...]

The others need torch 2.13.0, torchvision 0.28.0 and timm 1.0.31; nothing is downloaded, no weights are
made. With `--without-torch` only ours are written, and nothing but onchip is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from networks.defines import DEFINES_NETWORKS
from networks.padded import PADDED_NETWORKS
from networks.smaug import SMAUG_NETWORKS

from onchip.formats.networks import graph_from_torch
from onchip.formats.own.graph_json import write_graph
from onchip.ir.graph import Graph

GRAPHS = Path(__file__).parents[1] / "src" / "onchip" / "data" / "graphs"
WITHOUT_TORCH = "--without-torch"
OURS = {**SMAUG_NETWORKS, **DEFINES_NETWORKS, **PADDED_NETWORKS}


def main(arguments: list[str]) -> None:
    """Writes the named networks, or all."""
    names = [argument for argument in arguments if argument != WITHOUT_TORCH]
    for graph in _graphs(names, with_torch=WITHOUT_TORCH not in arguments):
        path = GRAPHS / f"{graph.name}.json.gz"
        write_graph(graph, path)
        print(f"{graph.name}: {len(graph.operators)} operators, {path.stat().st_size} bytes")


def _graphs(names: list[str], *, with_torch: bool) -> Iterator[Graph]:
    for name, build in OURS.items():
        if not names or name in names:
            yield build()
    of_torch = [name for name in names if name not in OURS]
    if with_torch and (of_torch or not names):
        yield from _graphs_of_torch(of_torch)
    elif of_torch:
        raise SystemExit(f"{', '.join(of_torch)}: not without torch")


def _graphs_of_torch(names: list[str]) -> Iterator[Graph]:
    import torch
    from networks.from_torch import NETWORKS

    for name in names or sorted(NETWORKS):
        network = NETWORKS[name]
        with torch.device("meta"):
            module = network.build()
            inputs = tuple(torch.empty(shape) for shape in network.input_shapes)
        yield graph_from_torch(module, inputs, name)


if __name__ == "__main__":
    main(sys.argv[1:])
