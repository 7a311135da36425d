"""What the subgraphs of a loop that stays need: bytes for one iteration, and constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from onchip.errors import GraphError
from onchip.formats.tflite.file import FileOperator, FileTensor
from onchip.formats.tflite.network import FlatNetwork, NetworkTensor
from onchip.formats.tflite.types import bits_of
from onchip.formats.unrolling import EXPECTED_OF_KEPT_LOOPS, ensure_of_a_size
from onchip.ir.graph import Graph
from onchip.ir.tensor import size_in_bytes
from onchip.model.capacity.inner_peak import inner_peak_bytes


@dataclass(frozen=True, slots=True)
class BodyNeed:
    """What a loop needs beside its operands: a workspace, and the constants of its condition and its body."""

    workspace_bytes: int
    constants: tuple[FileTensor, ...]


@dataclass(frozen=True, slots=True)
class InlinedStep:
    """An operator, the index of the first tensor of its subgraph, and its operands as indices of the network's."""

    operator: FileOperator
    first: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    need: BodyNeed | None = None
    within: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Planned:
    network: FlatNetwork
    inner_bytes: int


@dataclass
class Bodies:
    """Subgraphs of a file as networks of their own, each looked into once.

    `flat` inlines a subgraph at a depth of calls; `graph_of` is the graph of what it makes.
    """

    flat: Callable[[int, int, Bodies], FlatNetwork]
    graph_of: Callable[[FlatNetwork], Graph]
    planned: dict[int, _Planned] = field(default_factory=dict)

    def need(self, condition: int, body: int, depth: int, place: str) -> BodyNeed:
        """What a loop needs; raises GraphError for subgraphs that cannot be planned.

        The most that lives at once in the condition or in the body, without what they are given and hand out, and the
        condition's result; and the state once more, as an iteration reads it while it writes the next: but for tensors
        that an iteration hands on as it got them.
        """
        decides, runs = (self._planned(index, depth, place) for index in (condition, body))
        handed_on = zip(runs.network.inputs, runs.network.outputs, strict=False)
        changed = [output for given, output in handed_on if given != output]
        result = sum(_bytes_of(decides.network.tensors[index]) for index in decides.network.outputs)
        state = sum(_bytes_of(runs.network.tensors[index]) for index in changed)
        constants = _constants(decides.network) | _constants(runs.network)
        workspace_bytes = max(decides.inner_bytes + result, runs.inner_bytes) + state
        ensure_of_a_size(workspace_bytes, state, place)
        return BodyNeed(workspace_bytes, tuple(constants.values()))

    def _planned(self, index: int, depth: int, place: str) -> _Planned:
        if index not in self.planned:
            try:
                network = self.flat(index, depth + 1, self)
                if network.variables or any(tensor.stated.is_variable for tensor in network.tensors):
                    raise GraphError("it keeps variables from one iteration to the next", expected="none in a loop")
                self.planned[index] = _Planned(network, inner_peak_bytes(self.graph_of(network)))
            except GraphError as error:
                where = f"{error.place}: " if error.place else ""
                what = f"its subgraph {index} cannot be planned: {where}{error.what}"
                raise GraphError(what, place=place, expected=error.expected or EXPECTED_OF_KEPT_LOOPS) from None
        return self.planned[index]


def _constants(network: FlatNetwork) -> dict[int, FileTensor]:
    """The constants that a network reads, each once, by the place of its table in the file."""
    operators = network.operators
    read = {index for operator in operators for index in (*operator.inputs, *operator.within) if index >= 0}
    stated = (network.tensors[index].stated for index in sorted(read))
    return {tensor.place: tensor for tensor in stated if tensor.content is not None}


def _bytes_of(tensor: NetworkTensor) -> int:
    return size_in_bytes(tensor.shape, bits_of(tensor.element_type) or 0)
