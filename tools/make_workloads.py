"""Writes the bundled networks' graph files from torchvision, timm and torch definitions.

    PYTHONPATH=src:tools python tools/make_workloads.py [NAME ...]

Needs torch 2.13.0, torchvision 0.28.0 and timm 1.0.31; nothing is downloaded, no weights are made.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from networks import NETWORKS

from onchip.frontends.graph_json import write_graph
from onchip.frontends.torch_export import graph_from_torch

GRAPHS = Path(__file__).parents[1] / "src" / "onchip" / "workloads" / "graphs"


def main(names: list[str]) -> None:
    """Writes the named networks, or all."""
    for name in names or sorted(NETWORKS):
        network = NETWORKS[name]
        with torch.device("meta"):
            module = network.build()
            inputs = tuple(torch.empty(shape) for shape in network.input_shapes)
        graph = graph_from_torch(module, inputs, name)
        path = GRAPHS / f"{name}.json.gz"
        write_graph(graph, path)
        print(f"{name}: {len(graph.operators)} operators, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
