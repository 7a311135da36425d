"""Training graphs by a plain rule for each kind of operator: what its gradient reads of what went forward.

The forward pass in its order, then the gradients in the opposite order. A gradient that comes from several readers is
added up as they come. Gradients of parameters are network outputs. Parameters themselves appear nowhere.

An operator states as many cycles as it has multiply-accumulates, or elements where it has none; the gradient of each
of its operands costs as much as itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from scale.wiring import Wiring

from onchip.ir.graph import Graph

READS_INPUT: Final = frozenset({"BatchNorm", "LayerNorm", "Gelu", "MaxPool"})
"""Kinds whose gradients read their inputs."""
READS_OUTPUT: Final = frozenset({"Relu", "Softmax"})
"""Kinds whose gradients read their outputs."""
PASSES_ON: Final = frozenset({"Add"})
"""The gradient of each input is that of the output, the same tensor."""


@dataclass(slots=True)
class ForwardPass:
    """A wiring that remembers how many elements the parameters of an operator have, and how much it computes."""

    wiring: Wiring
    weights: dict[str, int] = field(default_factory=dict)
    work: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, reads: tuple[str, ...], elements: int, weights: int = 0, macs: int = 0) -> str:
        """Add an operator with these multiply-accumulates; return the name of its output."""
        written = self.wiring.add(kind, reads, elements, cycles=macs or elements)
        self.work[written] = macs or elements
        if weights:
            self.weights[written] = weights
        return written


def trained(name: str, forward: ForwardPass, logits: str, target: str) -> Graph:
    """Return the graph of a training step: forward, the loss of `logits` against `target`, backward."""
    return _BackwardPass(forward, logits, target).graph(name)


class _BackwardPass:
    def __init__(self, forward: ForwardPass, logits: str, target: str) -> None:
        self._wiring, self._weights, self._work = forward.wiring, forward.weights, forward.work
        self._forward = tuple(self._wiring.operators)
        self._gradients: dict[str, str] = {}
        wiring = self._wiring
        elements = wiring.elements(logits)
        wiring.written_out.add(wiring.add("Loss", (logits, target), 1, "loss", elements))
        self._gradients[logits] = wiring.add("LossGradient", (logits, target), elements, cycles=elements)

    def graph(self, name: str) -> Graph:
        for operator in reversed(self._forward):
            (written,) = operator.outputs
            if written in self._gradients:
                self._pass_back(operator.kind, operator.inputs, written)
        return self._wiring.graph(name)

    def _pass_back(self, kind: str, read: tuple[str, ...], written: str) -> None:
        gradient = self._gradients.pop(written)
        if written in self._weights:
            reads, work = tuple(dict.fromkeys((gradient, *read))), self._work[written]
            self._wiring.add("WeightGradient", reads, self._weights[written], cycles=work)
        for place, tensor in enumerate(read):
            if tensor in self._wiring.inputs:
                continue
            if kind in PASSES_ON:
                self._receive(tensor, gradient)
            else:
                reads = (gradient, *self._saved(kind, read, written, place))
                elements, work = self._wiring.elements(tensor), self._work[written]
                self._receive(tensor, self._wiring.add("Gradient", reads, elements, cycles=work))

    def _saved(self, kind: str, read: tuple[str, ...], written: str, place: int) -> tuple[str, ...]:
        """Return the forward tensors that the gradient of one input reads."""
        if kind == "MatMul":
            return (read[1 - place],)
        if kind in READS_INPUT:
            return (read[place],)
        return (written,) if kind in READS_OUTPUT else ()

    def _receive(self, tensor: str, gradient: str) -> None:
        """Add one more part of a tensor's gradient to those that came before."""
        before = self._gradients.get(tensor)
        if before is not None:
            elements = self._wiring.elements(tensor)
            gradient = self._wiring.add("AddGradients", (before, gradient), elements, cycles=elements)
        self._gradients[tensor] = gradient
