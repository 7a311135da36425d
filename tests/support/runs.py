"""Plans run on the machine with made-up kernels, without the verifier."""

from __future__ import annotations

from collections.abc import Mapping

from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.simulate.kernel_protocol import Bytes, SeededKernels
from onchip.simulate.machine import MachineRun, run_in_given_order, run_plan_on_machine


def inputs_of(graph: Graph, kernels: SeededKernels) -> Mapping[str, Bytes]:
    return {tensor.name: kernels.network_input(tensor) for tensor in graph.with_role(Role.INPUT)}


def run_seeded(problem: Problem, plan: Plan, seed: int = 0) -> MachineRun:
    kernels = SeededKernels(problem.graph, seed)
    inputs = inputs_of(problem.graph, kernels)
    return run_plan_on_machine(problem, plan, kernels, inputs, run_in_given_order(problem, kernels, inputs))
