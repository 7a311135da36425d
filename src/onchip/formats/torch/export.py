"""PyTorch modules and exported programs as graphs (extra `torch`).

Every operator of `torch.export` is a node, in the order of execution:

* A result in the bytes of an argument is no node: views, dropout at inference, and what by its
  schema may return its argument (`contiguous`, `reshape`) even where it permutes the elements,
  unless it changes how many bytes there are (a copied slice, an expanded tensor, a cast).
* An operator in place reads the old tensor and writes a new one, which later readers of any view
  of it see.
* A slice of a parameter is a parameter of its own; parameters over the same bytes are one.
* Operators nobody needs vanish, as do outputs nobody reads that serve the backward pass only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from onchip.errors import UsageError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role

if TYPE_CHECKING:
    import torch

    from onchip.formats.torch.recording import Recording


def graph_from_torch(
    module: torch.nn.Module | torch.export.ExportedProgram,
    example_inputs: Sequence[object] = (),
    name: str | None = None,
    *,
    expand_attention: bool = False,
) -> Graph:
    """The raw graph of a `torch.nn.Module`, as at inference, or of an `ExportedProgram`.

    `example_inputs` give the shapes; an `ExportedProgram` has its own. A module made under
    `torch.device("meta")` needs no memory for its weights; its example inputs may lie anywhere.
    `expand_attention` makes scaled-dot-product attention MatMul, (Add of a mask,) Softmax, MatMul.
    Raises UsageError without torch, GraphError for what `torch.export` or onchip cannot follow.
    """
    try:
        from onchip.formats.torch.replay import ExportReplay, exported
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UsageError("PyTorch is not installed", expected="pip install 'onchip[torch]'") from None
    recording = ExportReplay(exported(module, example_inputs), expand_attention=expand_attention).recording()
    return _graph(name or type(module).__name__, recording)


def _graph(name: str, recording: Recording) -> Graph:
    operators = _needed_operators(recording)
    used = {tensor for operator in operators for tensor in (*operator.reads, *operator.outputs)}
    tensors = {
        tensor.name: tensor for tensor in recording.tensors.values() if tensor.name in used or tensor.role is Role.INPUT
    }
    for output_name, tensor_name in recording.outputs:
        tensor = tensors[tensor_name]
        aliases = (*tensor.aliases, recording.unique_name(output_name)) if tensor.role is Role.OUTPUT else ()
        tensors[tensor_name] = replace(tensor, role=Role.OUTPUT, aliases=aliases)
    return Graph(name, tuple(tensors.values()), tuple(operators))


def _needed_operators(recording: Recording) -> list[Operator]:
    needed = {tensor for _, tensor in recording.outputs}
    operators: list[Operator] = []
    for operator in reversed(recording.operators):
        if needed.isdisjoint(operator.outputs):
            continue
        needed.update(operator.reads)
        written = tuple(output for output in operator.outputs if output in needed or output not in recording.optional)
        operators.append(replace(operator, outputs=written))
    return operators[::-1]
