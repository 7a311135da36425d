"""The best mappings of a table's layers, proven: seconds, nodes and values for every objective.

    python benchmarks/mapping_exact.py [TABLE [ACCELERATOR [SECONDS]]]

A layer that is not proven within SECONDS (60) shows its gap. Compiling, which happens once per installation, is not
counted: a small layer is mapped first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status
from onchip.arch.accelerator import Accelerator
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table
from onchip.ir.layer import Layer
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.search.budget.limits import Limits, Run


class Row(NamedTuple):
    """A layer of a table and what `exact` says of it."""

    name: str
    layer: Layer
    result: SearchResult[LayerMapping]


def proven_layers(table: str, accelerator: Accelerator, objective: MappingObjective, seconds: float) -> Iterator[Row]:
    """Yields a row for each layer."""
    for name, layer in layer_table(table).items():
        run = Run(Limits(time_limit_seconds=seconds))
        yield Row(name, layer, solve_exactly(LayerProblem(layer, accelerator), objective, run))


def main(table: str = "resnet50", accelerator_name: str = "simba", seconds: str = "60") -> None:
    """Prints a row for each layer and objective, and for each objective how long it took."""
    accelerator = load_accelerator(accelerator_name)
    for objective in MappingObjective:
        took, proven = [], 0
        for name, _, result in proven_layers(table, accelerator, objective, float(seconds)):
            took.append(result.seconds)
            proven += result.status is Status.OPTIMAL
            value = result.objective_value
            gap = f"{result.gap:.2%}" if result.gap is not None else "-"
            print(f"{objective:8} {name:20} {result.status:9} {value} gap {gap} {result.seconds:.2f} s", flush=True)
        mean = sum(took) / len(took)
        print(f"{objective}: {proven} of {len(took)} proven, mean {mean:.2f} s, worst {max(took):.2f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
