"""The best mappings of a table's layers, proven, for every objective; `--audit` asks a second prover about the bounds.

    PYTHONPATH=tests python benchmarks/mapping_exact.py [TABLE [ACCELERATOR]] [--seconds 60] [--objectives O ...]
                                                     [--audit SECONDS]

The seconds of the audit are shared among the layers of an objective.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from functools import partial

from shared.runner import Row, asked_of, options_of, report

from onchip.answer.document import Claim
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.search.budget.limits import Limits, Run
from oracles.mapping_audit import audit_mapping


def rows(asked: Namespace, objective: MappingObjective) -> Iterator[Row]:
    """Yield a row for each layer."""
    layers, left = layer_table(asked.table), asked.audit or 0.0
    for number, (name, layer) in enumerate(layers.items()):
        problem = LayerProblem(layer, load_accelerator(asked.accelerator))
        result = solve_exactly(problem, objective, Run(Limits(time_limit_seconds=asked.seconds)))
        value, bound = result.objective_value, result.lower_bound
        figures = {"status": str(result.status), "value": value, "lower_bound": bound, "gap": result.gap}
        row = {"layer": name, **figures, "seconds": result.seconds}
        if asked.audit and value is not None:
            started = time.monotonic()
            claim = Claim(result.method, result.status, str(objective), float(value), bound)
            finding = audit_mapping(problem, claim, left / (len(layers) - number))
            left -= time.monotonic() - started
            row |= {"ruling": str(finding.ruling), "audit_seconds": finding.seconds}
        yield row


def main() -> None:
    """Print a table for each objective."""
    parser = options_of(__doc__)
    parser.add_argument("table", nargs="?", default="resnet50")
    parser.add_argument("accelerator", nargs="?", default="simba")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--objectives", nargs="+", type=MappingObjective, default=list(MappingObjective))
    parser.add_argument("--audit", type=float, metavar="SECONDS")
    asked = asked_of(parser)
    report(asked, {str(objective): partial(rows, asked, objective) for objective in asked.objectives})


if __name__ == "__main__":
    main()
