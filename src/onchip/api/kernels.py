"""Kernels for a network's operators: the model's own nodes, or synthetic values without a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from onchip.answer.document import Reading
from onchip.answer.problem import Problem
from onchip.answer.schedule import WORKSPACE
from onchip.api.networks import PROGRAM_SUFFIX, Network, is_model, model_of, network_to_plan, read_network, text_of
from onchip.arch.memory import Memory
from onchip.errors import DifferentShapeError, InputError, UsageError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.simulate.kernel_protocol import Bytes, NetworkKernels
from onchip.transform.slices.bands import untiled

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class RunValues:
    """The data of a run: random inputs of `seed`, `given` inputs ([NAME=]FILE.npy), and own or random weights."""

    seed: int = 0
    random_weights: int | None = None
    given: tuple[str, ...] = ()


def kernels_of(network: Network, reading: Reading, graph: Graph, values: RunValues) -> NetworkKernels:
    """Return the kernels for `graph`, the network as read, tiled or not; raises UsageError for unsuitable options."""
    whole = network_to_plan(network, reading)
    if reading.cap_tensors:
        whole = graph
    model, model_reading = model_of(network) or ("", None)
    if model_reading is not None and _has_its_own_bits(network, reading, whole):
        return _runtime_kernels(model, model_reading, graph, network_to_plan(model, model_reading), values)
    if model and model_reading is None:
        return _model_kernels(network, reading, graph, whole, values)
    if text_of(network).endswith(PROGRAM_SUFFIX) and graph == whole and _has_its_own_bits(network, reading, whole):
        return _program_kernels(network, reading, graph, values)
    if values.random_weights is not None:
        raise UsageError(
            "the network has no weights to replace", file=text_of(network), place="random_weights", expected="`seed`"
        )
    untiled_network = untiled(whole) or (None if graph == whole else whole)
    if untiled_network is None:
        from onchip.simulate.kernel_protocol import SeededKernels

        return SeededKernels(graph, values.seed)
    from onchip.simulate.arithmetic_kernels import ArithmeticKernels

    return ArithmeticKernels(graph, values.seed, untiled_network)


def _model_kernels(network: Network, reading: Reading, graph: Graph, whole: Graph, values: RunValues) -> NetworkKernels:
    if reading.cap_tensors:
        raise UsageError(
            "the plan caps tensors", file=text_of(network), place="reading.cap_tensors", expected="`tiles='auto'`"
        )
    if not _has_its_own_bits(network, reading, whole):
        raise UsageError(
            f"the plan counts elements at {reading.bits} bits",
            file=text_of(network),
            place="reading.bits",
            expected="the model's own: plan without `bits` to run it",
        )
    return KernelsWithWorkspaces(graph, _runtime_kernels(network, reading, graph, whole, values))


def _has_its_own_bits(network: Network, reading: Reading, whole: Graph) -> bool:
    return reading.bits is None or whole == network_to_plan(network, replace(reading, bits=None))


def _program_kernels(network: Network, reading: Reading, graph: Graph, values: RunValues) -> NetworkKernels:
    """Return kernels that run an exported program's whole operators in torch."""
    from onchip.simulate.kernels.torch_kernels import TorchKernels

    if values.random_weights is not None:
        what = "an exported program runs on its own weights"
        raise UsageError(what, file=text_of(network), place="random_weights", expected="`seed`")
    return TorchKernels(graph, Path(text_of(network)), reading.bindings, seed=values.seed)


def _runtime_kernels(
    network: Network, reading: Reading, graph: Graph, whole: Graph, values: RunValues
) -> NetworkKernels:
    """Return kernels that run a model's operators in its runtime, in tiles if `graph` is not `whole`."""
    path, seed = Path(text_of(network)), values.seed
    if text_of(network).endswith(".tflite"):
        from onchip.simulate.kernels.tflite_kernels import TfliteKernels, TfliteTileKernels

        if values.random_weights is not None:
            what = "a TFLite model runs on its own weights"
            raise UsageError(what, file=text_of(network), place="random_weights", expected="`seed`")
        own = TfliteKernels(whole, path, reading.bindings.shapes, seed=seed)
        return own if graph == whole else TfliteTileKernels(graph, whole, own)
    from onchip.simulate.kernels.onnx_kernels import OnnxKernels, OnnxTileKernels

    kernels = OnnxKernels(whole, path, reading.bindings, seed=seed, random_weights=values.random_weights)
    return kernels if graph == whole else OnnxTileKernels(graph, whole, kernels)


def kernels_of_schedule(
    network: Network, reading: Reading, graph: Graph, whole: Graph, values: RunValues
) -> NetworkKernels:
    """Return the kernels for `graph`, the tile graph of `whole`, which is `network` as read.

    A model's own nodes run if elements have the model's bits, otherwise integer kernels of that width. Raises
    UsageError for random weights if there are none to replace, and DifferentShapeError if the model's runtime gives
    tensors other shapes.
    """
    if is_model(network) and whole == read_network(network, replace(reading, bits=None)):
        return _runtime_kernels(network, reading, graph, whole, values)
    if values.random_weights is not None:
        what = f"the network runs at {reading.bits} bits an element, without the model's weights"
        raise UsageError(what, file=text_of(network), place="random_weights", expected="`seed`")
    if is_model(network):
        _ensure_shapes_of_runtime(network, replace(reading, bits=None), values.seed)
    from onchip.simulate.arithmetic_kernels import ArithmeticKernels

    return ArithmeticKernels(graph, values.seed, whole)


def _ensure_shapes_of_runtime(network: Network, reading: Reading, seed: int) -> None:
    """Raise DifferentShapeError if the model's runtime gives a tensor another shape.

    Synthetic kernels accept any shape.

    Returns silently if the runtime is not installed, or rejects the model.
    """
    from onchip.simulate.machine import run_in_given_order

    graph = read_network(network, reading)
    problem = Problem(graph, (Memory("unused", 1),))
    try:
        kernels = _runtime_kernels(network, reading, graph, graph, RunValues(seed))
        run_in_given_order(problem, kernels, network_inputs(graph, kernels, {}))
    except DifferentShapeError:
        raise
    except InputError:
        return


def network_inputs(
    graph: Graph, kernels: NetworkKernels, given: Mapping[str, npt.NDArray[np.generic]]
) -> dict[str, Bytes]:
    """Return the bytes of each network input or tile of one: given by the input's name, or synthetic."""
    inputs = {}
    for tensor in graph.with_role(Role.INPUT):
        name = tensor.part_of or tensor.name
        inputs[tensor.name] = (
            kernels.given_input(tensor, given[name]) if name in given else kernels.network_input(tensor)
        )
    return inputs


@dataclass(frozen=True, slots=True)
class KernelsWithWorkspaces:
    """Kernels that run operators of `graph` by `kernels`, and write zeros to their workspaces."""

    graph: Graph
    kernels: NetworkKernels

    @property
    def name(self) -> str:
        """Return the name of the kernels."""
        return self.kernels.name

    def parameter(self, tensor: Tensor) -> Bytes:
        """Return the initial DRAM contents of a parameter."""
        return self.kernels.parameter(tensor)

    def run(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
        """Return the operator's outputs, including its workspace."""
        own = operator.name + WORKSPACE
        if own not in operator.outputs:
            return self.kernels.run(operator, operands)
        beside = tuple(name for name in operator.outputs if name != own)
        found = self.kernels.run(replace(operator, outputs=beside), operands)
        return {**found, own: np.zeros(self.graph.tensor[own].size_bytes, np.uint8)}

    def network_input(self, tensor: Tensor) -> Bytes:
        """Return the bytes of a network input, generated from the seed."""
        return self.kernels.network_input(tensor)

    def given_input(self, tensor: Tensor, array: npt.NDArray[np.generic]) -> Bytes:
        """Return the bytes of a given value for the network input; raises InputError for an unsuitable value."""
        return self.kernels.given_input(tensor, array)

    def difference_from_whole_model(self, inputs: Mapping[str, Bytes], outputs: Mapping[str, Bytes]) -> float | None:
        """Return the relative difference from the whole model's outputs; None without a model."""
        return self.kernels.difference_from_whole_model(inputs, outputs)
