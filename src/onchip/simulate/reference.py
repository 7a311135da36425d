"""The reference run: the same kernels in the given order, without a plan, with separate storage for every tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onchip.answer.problem import Problem
from onchip.ir.tensor import Role
from onchip.simulate.kernel_protocol import Bytes, Kernels, fingerprint


@dataclass(frozen=True, slots=True)
class Reference:
    """The expected values: the fingerprint of each tensor, and the bytes of the network's outputs.

    Fingerprints save memory, because all tensors of a network together are much larger than those of a plan.
    """

    fingerprints: Mapping[str, bytes]
    outputs: Mapping[str, Bytes]


def run_in_given_order(problem: Problem, kernels: Kernels, inputs: Mapping[str, Bytes]) -> Reference:
    """Run the graph of `problem` without a plan; each tensor is dropped after its last reader."""
    graph = problem.graph
    last_reader = {name: readers[-1].name for name, readers in graph.readers.items() if readers}
    held = dict(inputs)
    fingerprints = {name: fingerprint(content) for name, content in inputs.items()}
    for operator in graph.operators:
        operands = [tensor for tensor in problem.operands(operator) if tensor.name not in operator.outputs]
        for tensor in operands:
            if tensor.role is Role.PARAMETER and tensor.name not in held:
                held[tensor.name] = kernels.parameter(tensor)
                fingerprints[tensor.name] = fingerprint(held[tensor.name])
        written = kernels.run(operator, {tensor.name: held[tensor.name] for tensor in operands})
        for name in operator.outputs:
            held[name] = written[name]
            fingerprints[name] = fingerprint(written[name])
        for name in (*(tensor.name for tensor in operands), *operator.outputs):
            if last_reader.get(name, operator.name) == operator.name and graph.tensor[name].role is not Role.OUTPUT:
                del held[name]
    return Reference(fingerprints, {tensor.name: held[tensor.name] for tensor in graph.with_role(Role.OUTPUT)})
