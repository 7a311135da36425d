"""The best mappings of a table's layers, proven, for every objective.

python benchmarks/mapping_exact.py [TABLE [ACCELERATOR]] [--seconds 60] [--objectives O ...]
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from functools import partial

from shared.runner import Row, asked_of, options_of, report

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.search.budget.limits import Limits, Run


def rows(asked: Namespace, objective: MappingObjective) -> Iterator[Row]:
    """Yield a row for each layer."""
    for name, layer in layer_table(asked.table).items():
        problem = LayerProblem(layer, load_accelerator(asked.accelerator))
        result = solve_exactly(problem, objective, Run(Limits(time_limit_seconds=asked.seconds)))
        figures = {"value": result.objective_value, "lower_bound": result.lower_bound, "gap": result.gap}
        yield {"layer": name, "status": str(result.status), **figures, "seconds": result.seconds}


def main() -> None:
    """Print a table for each objective."""
    parser = options_of(__doc__)
    parser.add_argument("table", nargs="?", default="resnet50")
    parser.add_argument("accelerator", nargs="?", default="simba")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--objectives", nargs="+", type=MappingObjective, default=list(MappingObjective))
    asked = asked_of(parser)
    report(asked, {str(objective): partial(rows, asked, objective) for objective in asked.objectives})


if __name__ == "__main__":
    main()
