"""Runs Checkmate's own strategies on a graph; called by beside_checkmate.py with the Python that has what they need.

Reads JSON from standard input: `nodes`, in order, each with its `bytes`, its `cycles` and what it `reads` (places of
nodes); `backward`, the first node of the gradients; `segments_bytes` for Chen's greedy rule; `budgets_bytes` for the
rounded linear program. Writes a list of `strategy` and `runs`, the nodes in the order in which they run, again or not.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy

SOLVERS = "checkmate.core.solvers"


def graph_of(asked: dict[str, Any]) -> Any:  # noqa: ANN401
    """Return the graph as Checkmate has it."""
    nodes = asked["nodes"]
    places = range(len(nodes))
    return import_module("checkmate.core.dfgraph").DFGraph(
        args={place: list(nodes[place]["reads"]) for place in places if nodes[place]["reads"]},
        v=places,
        backward_nodes=[place for place in places if place >= asked["backward"]],
        cost_cpu={place: nodes[place]["cycles"] for place in places},
        cost_ram={place: nodes[place]["bytes"] for place in places},
    )


def strategies(asked: dict[str, Any]) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Yield each strategy and how to ask it."""
    chen = import_module(f"{SOLVERS}.strategy_chen")
    yield "Chen, square root", chen.solve_chen_sqrtn
    yield "Chen, square root, any node", partial(chen.solve_chen_sqrtn, use_actuation_points=False)
    for segment in asked["segments_bytes"]:
        yield "Chen, greedy", partial(chen.solve_chen_greedy, segment_mem_B=segment)
    for budget in asked["budgets_bytes"]:
        program = import_module(f"{SOLVERS}.cvxpy_solver").solve_checkmate_cvxpy
        yield "Checkmate, rounded", partial(program, budget=budget, solver_override="HIGHS", verbose=False)


def main() -> None:
    """Answer what standard input asks."""
    numpy.int = int  # type: ignore[attr-defined]  # Checkmate was written for a numpy that still had it
    logging.disable(logging.CRITICAL)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # solvers print
    asked = json.load(sys.stdin)
    graph, found = graph_of(asked), list[dict[str, Any]]()
    for name, ask in strategies(asked):
        started = time.process_time()
        answer = ask(graph).schedule_aux_data
        seconds = time.process_time() - started
        if answer is not None:
            runs = [int(node) for stage in answer.R for node in stage.nonzero()[0]]
            found.append({"strategy": name, "runs": runs, "seconds": seconds})
    json.dump(found, answers)
    answers.close()


if __name__ == "__main__":
    main()
