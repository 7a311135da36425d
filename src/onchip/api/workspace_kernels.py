"""Kernels of a model that has no workspaces, for a graph in which they are outputs of their operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from onchip.answer.schedule import WORKSPACE
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor
from onchip.simulate.kernel_protocol import Bytes, NetworkKernels

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class KernelsWithWorkspaces:
    """Runs operators of `graph` by `kernels`; what a workspace holds afterwards is nobody's, and is all zeros."""

    graph: Graph
    kernels: NetworkKernels

    @property
    def name(self) -> str:
        """Return the name of what runs the operators."""
        return self.kernels.name

    def parameter(self, tensor: Tensor) -> Bytes:
        """What DRAM holds of a parameter from the start."""
        return self.kernels.parameter(tensor)

    def run(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
        """The operator's outputs, its workspace among them."""
        own = operator.name + WORKSPACE
        if own not in operator.outputs:
            return self.kernels.run(operator, operands)
        beside = tuple(name for name in operator.outputs if name != own)
        found = self.kernels.run(replace(operator, outputs=beside), operands)
        return {**found, own: np.zeros(self.graph.tensor[own].size_bytes, np.uint8)}

    def network_input(self, tensor: Tensor) -> Bytes:
        """Return the bytes of a network input, made of the seed."""
        return self.kernels.network_input(tensor)

    def given_input(self, tensor: Tensor, array: npt.NDArray[np.generic]) -> Bytes:
        """A value handed in for the network input; raises InputError."""
        return self.kernels.given_input(tensor, array)

    def difference_from_whole_model(self, inputs: Mapping[str, Bytes], outputs: Mapping[str, Bytes]) -> float | None:
        """Relative; None where there is no model to compare with."""
        return self.kernels.difference_from_whole_model(inputs, outputs)
