"""ONNX models planned at M_R, and executed by their plans."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx

from onchip.answer.document import Reading
from onchip.answer.problem import Problem
from onchip.api.networks import read_network
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.model.capacity.bounds import greatest_need
from onchip.simulate.kernels.onnx_kernels import OnnxKernels
from onchip.simulate.machine import MachineRun, run_in_given_order, run_plan_on_machine
from onchip.verify.verifier import verify

AS_IT_IS = Reading()


@dataclass(frozen=True)
class Ran:
    graph: Graph
    kernels: OnnxKernels
    machine: MachineRun
    relative_difference: float


def run_model(path: Path, reading: Reading = AS_IT_IS, random_weights: int | None = 1) -> Ran:
    """Plan a model at M_R and run the plan; the verifier's figures must equal the machine's."""
    graph = read_network(str(path), reading)
    need = greatest_need(Problem(graph, (Memory("sram", 2**40),), count=reading.count)).need_bytes
    problem = Problem(graph, (Memory("sram", need),), count=reading.count)
    plan = plan_problem(problem).answer
    assert plan is not None
    kernels = OnnxKernels(graph, path, reading.bindings, random_weights=random_weights)
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in graph.with_role(Role.INPUT)}
    reference = run_in_given_order(problem, kernels, inputs)
    machine = run_plan_on_machine(problem, plan, kernels, inputs, reference)
    figures = verify(problem, plan).figures
    assert (machine.loads, machine.write_backs) == (figures.loads, figures.write_backs)
    return Ran(graph, kernels, machine, kernels.difference_from_whole_model(inputs, machine.outputs))


def saved(network: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "network.onnx"
    path.write_bytes(network.SerializeToString())
    return path
