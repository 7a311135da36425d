"""PyTorch modules and exported programs as graphs (extra `torch`).

Every operator of `torch.export` is a node, in the order of execution:

* A result in the bytes of an argument is no node: views, dropout at inference, and what by its
  schema may return its argument (`contiguous`, `reshape`) even where it permutes the elements,
  unless it changes how many bytes there are (a copied slice, an expanded tensor, a cast), or
  permutations are asked for as nodes.
* An operator in place reads the old tensor and writes a new one, which later readers of any view
  of it see.
* A buffer or an input that is written is a state: a network input, and its last value, called
  `NAME@next`, a network output.
* A slice of a parameter is a parameter of its own; parameters over the same bytes are one.
* A weight that is dequantised first is the parameter that the file has, its scales beside it.
* Operators nobody needs vanish, as do outputs nobody reads that serve the backward pass only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onchip.answer.bindings import Bindings
from onchip.errors import UsageError
from onchip.ir.graph import Graph

if TYPE_CHECKING:
    import torch


def graph_from_torch(
    module: torch.nn.Module | torch.export.ExportedProgram,
    example_inputs: Sequence[object] = (),
    name: str | None = None,
    *,
    expand_attention: bool = False,
    as_onnx: bool = False,
    bindings: Bindings = Bindings(),  # noqa: B008 (frozen)
) -> Graph:
    """The raw graph of a `torch.nn.Module`, as at inference, or of an `ExportedProgram`.

    `example_inputs` give the shapes; an `ExportedProgram` has its own, whose symbols `bindings` give sizes. A module
    made under `torch.device("meta")` needs no memory for its weights; its example inputs may lie anywhere.
    `expand_attention` makes scaled-dot-product attention MatMul, (Add of a mask,) Softmax, MatMul; with `as_onnx`
    what permutes a map is a Transpose, and what follows from parameters alone is one, as `.pt2` files are read.
    Raises UsageError without torch and for bindings that are not of the program, OpenDimensionsError for symbols
    without a size, GraphError for what `torch.export` or onchip cannot follow.
    """
    try:
        from onchip.formats.torch.program import graph_of_program
        from onchip.formats.torch.replay import ReplayOptions
        from onchip.formats.torch.tracing import exported
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UsageError("PyTorch is not installed", expected="pip install 'onchip[torch]'") from None
    options = ReplayOptions(expand_attention=expand_attention, as_onnx=as_onnx)
    return graph_of_program(exported(module, example_inputs), name or type(module).__name__, bindings, options)
