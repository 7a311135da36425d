"""What shared bytes save: M_R and M_P of networks, and the traffic at the M_R of sharing nothing.

    python benchmarks/sharing.py [--networks NAME ...] [--seconds 20]

A network is a bundled name, the name of a light model of the onnx wheel, or a file. Eight bits an element.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from light_model import light_models

from onchip.answer.document import Reading
from onchip.answer.problem import Count, Problem
from onchip.answer.result import Status
from onchip.app.networks import read_network
from onchip.app.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.arch.sharing import Share, SharedKinds
from onchip.facts.bounds import greatest_need
from onchip.ir.graph import Graph
from onchip.solve.ordering.min_peak import min_peak_bytes
from onchip.solve.run.budgets import roomy_problem
from onchip.solve.run.limits import Limits, Run

NETWORKS: Final = ("resnet50", "densenet121", "mobilenetv1", "inception_v1", "inception_v2", "squeezenet", "shufflenet")


def row(network: str, seconds: float) -> str:
    """One line: for each way of sharing M_R, M_P, and the traffic at M_R without sharing (a star: not proven)."""
    source = str(light_models().get(network, network))
    fields = [network]
    capacity_bytes = None
    for share in (Share.NONE, Share.IN_PLACE, Share.ALL):
        graph = read_network(source, Reading(bits=8, sharing=SharedKinds.of(share)))
        problem = roomy_problem(graph, Count.ACTIVATIONS)
        required = greatest_need(problem).need_bytes
        capacity_bytes = capacity_bytes or required
        peak = min_peak_bytes(problem, Run(Limits(seconds)))
        star = "" if peak.status is Status.OPTIMAL else "*"
        fields += [f"{required:,}", f"{peak.objective_value:,}{star}", traffic(graph, capacity_bytes, seconds)]
    return f"| {' | '.join(fields)} |"


def traffic(graph: Graph, capacity_bytes: int, seconds: float) -> str:
    """Return the least non-compulsory bytes in a scratchpad of that size."""
    problem = replace(roomy_problem(graph, Count.ACTIVATIONS), memories=(Memory("sram", capacity_bytes),))
    return _found(problem, seconds)


def _found(problem: Problem, seconds: float) -> str:
    result = plan_problem(problem, "exact", Limits(seconds))
    return f"{result.objective_value:,}" + ("" if result.status is Status.OPTIMAL else "*")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args(arguments)
    ways = [f"{name}, {share}" for share in ("none", "in place", "all") for name in ("M_R", "M_P", "traffic")]
    print(f"| network | {' | '.join(ways)} |")
    print(f"|---|{'---|' * len(ways)}")
    for network in options.networks:
        print(row(network, options.seconds), flush=True)


if __name__ == "__main__":
    main()
