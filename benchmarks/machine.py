"""Plans of real networks, run: each must give the right values and move the bytes it says.

    python benchmarks/machine.py [--json] [--only NAME ...]

Nine light models of the onnx package in their own data types, on random weights: at M_R, M_H and M_P, free and given
order by exact search, given and min-peak order by Belady's rule. Then each on its own weights and the recorded
input, against the recorded output.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from onchip.answer.bindings import Bindings
from onchip.answer.problem import Order, Problem
from onchip.api.budgets import CapacityBudget, budgets_of, roomy_problem
from onchip.api.networks import read_network
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.memory.methods import METHODS
from onchip.reports.execution import GREATEST_RELATIVE_DIFFERENCE
from onchip.search.budget.limits import Limits
from onchip.simulate.kernels.onnx_kernels import OnnxKernels
from onchip.simulate.machine import Reference, run_in_given_order, run_plan_on_machine
from onchip.verify.verifier import verify

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from light_model import light_models

SECONDS_ALLOWED = 10.0
LIMITS = Limits(time_limit_seconds=10.0)
RECORDED_RELATIVE, RECORDED_ABSOLUTE = 1e-3, 1e-7
"""Tolerances of onnx's own backend test."""


@dataclass(frozen=True, slots=True)
class Row:
    """One plan, run. `seconds` is the machine alone; the run without a plan and the whole model come on top."""

    network: str
    budget: str
    capacity_bytes: int
    order: str
    method: str
    status: str
    traffic_bytes: int
    compared: int
    relative_difference: float
    seconds: float
    is_right: bool


def ways() -> Iterator[tuple[str, Order]]:
    """Yield the compared methods with their orders."""
    for method in ("exact", "belady"):
        if method in METHODS:
            yield from ((method, order) for order in METHODS[method].orders)


def rows_of(name: str, path: Path) -> Iterator[Row]:
    """Plan and run one model in all ways."""
    graph = read_network(str(path))
    kernels = OnnxKernels(graph, path, Bindings(), random_weights=1)
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in graph.with_role(Role.INPUT)}
    roomy = roomy_problem(graph, Problem(graph, (Memory("sram", 1),)).count)
    reference = run_in_given_order(roomy, kernels, inputs)
    budgets = budgets_of(roomy, LIMITS)
    relative = kernels.difference_from_whole_model(inputs, reference.outputs)
    for budget in CapacityBudget:
        capacity_bytes = budgets.capacity_bytes(budget)
        for method, order in ways():
            if capacity_bytes is not None:
                problem = Problem(graph, (Memory("sram", capacity_bytes),), order=order)
                yield _row(name, budget, problem, method, kernels, inputs, reference, relative)


def _row(
    name: str,
    budget: str,
    problem: Problem,
    method: str,
    kernels: OnnxKernels,
    inputs: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.uint8]]],
    reference: Reference,
    relative: float,
) -> Row:
    capacity_bytes = problem.memories[0].capacity_bytes
    result = plan_problem(problem, method, LIMITS)
    if result.answer is None:
        return Row(name, budget, capacity_bytes, problem.order, method, result.status, 0, 0, 0.0, 0.0, False)
    figures = verify(problem, result.answer).figures
    started = time.perf_counter()
    run = run_plan_on_machine(problem, result.answer, kernels, inputs, reference)
    seconds = time.perf_counter() - started
    moves_what_it_says = (run.loads, run.write_backs) == (figures.loads, figures.write_backs)
    # The outputs are bit for bit those of the run without a plan, so they are as far from the whole model's.
    is_right = run.difference is None and moves_what_it_says and relative <= GREATEST_RELATIVE_DIFFERENCE
    return Row(
        name,
        budget,
        capacity_bytes,
        problem.order,
        method,
        result.status,
        figures.total,
        run.compared,
        relative,
        seconds,
        is_right,
    )


def recorded_difference(path: Path) -> float:
    """Return the greatest |a - b| / (absolute + relative |b|) from the recorded output; at most 1 is allowed."""
    graph: Graph = read_network(str(path))
    kernels = OnnxKernels(graph, path, Bindings())
    (tensor,) = graph.with_role(Role.INPUT)
    shape = tensor.shape or ()
    ramp = (np.arange(np.prod(shape)).reshape(shape) / np.prod(shape)).astype(np.float32)
    problem = roomy_problem(graph, Problem(graph, (Memory("sram", 1),)).count)
    inputs = {tensor.name: kernels.given_input(tensor, ramp)}
    (output,) = run_in_given_order(problem, kernels, inputs).outputs.values()
    file = path.with_name(f"{path.stem}_output_0.pb")
    recorded = numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes())).reshape(-1)
    apart = np.abs(output.view(np.float32) - recorded)
    return float((apart / (RECORDED_ABSOLUTE + RECORDED_RELATIVE * np.abs(recorded))).max())


def print_row(row: Row) -> None:
    """Print one line of the table."""
    print(
        f"{row.network:13} {row.budget:4} {row.capacity_bytes:11,} {row.order:8} {row.method:7} {row.status:9}"
        f" {row.traffic_bytes:12,} {row.compared:5} {row.relative_difference:9.2g} {row.seconds:8.3f}"
        f"  {'right' if row.is_right else 'WRONG'}",
        flush=True,
    )


def main() -> None:
    """Run, print, and end with 1 if something is not right."""
    models = light_models()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--only", nargs="+", choices=sorted(models), metavar="NAME", help="these models")
    arguments = parser.parse_args()
    rows: list[Row] = []
    recorded: dict[str, float] = {}
    if not arguments.json:
        print("network       at      capacity order    method  status    traffic bytes  same  relative  seconds")
    for name in arguments.only or sorted(models):
        for row in rows_of(name, models[name]):
            rows.append(row)
            if not arguments.json:
                print_row(row)
        recorded[name] = recorded_difference(models[name])
        if not arguments.json:
            print(f"{name:13} recorded output: {recorded[name]:.2g} of what is allowed", flush=True)
    if arguments.json:
        print(json.dumps({"plans": [asdict(row) for row in rows], "recorded": recorded}, indent=2))
    is_met = all(row.is_right and row.seconds <= SECONDS_ALLOWED for row in rows)
    sys.exit(0 if is_met and all(difference <= 1 for difference in recorded.values()) else 1)


if __name__ == "__main__":
    main()
