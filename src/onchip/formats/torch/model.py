"""PyTorch modules and exported programs as graphs (extra `torch`); torch is imported when it is used.

Every operator of `torch.export` is a node, in execution order:

* A result in the bytes of an argument is no node: views, dropout at inference, and results that by their schema may be
  the argument (`contiguous`, `reshape`) even if they permute the elements. A result that changes the number of bytes (a
  copied slice, an expanded tensor, a cast) is a node, and so is a permutation if `as_onnx` is set.
* An operator in place reads the old tensor and writes a new tensor, which later readers of any view see.
* A buffer or an input that is written is a state: a network input, and its last value, called `NAME@next`, a network
  output.
* A slice of a parameter is a separate parameter; parameters over the same bytes are one.
* A weight that is dequantised first is the parameter in the file, followed by its scales.
* Operators without readers are dropped, and so are unread outputs that serve only the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onchip.answer.bindings import Bindings
from onchip.errors import UsageError, errors_in_file
from onchip.formats.networks import NEXT, warn_of_states
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role

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
        from onchip.formats.torch.program import exported, graph_of_program
        from onchip.formats.torch.replay import ReplayOptions
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UsageError("PyTorch is not installed", expected="pip install 'onchip[torch]'") from None
    options = ReplayOptions(expand_attention=expand_attention, as_onnx=as_onnx)
    return graph_of_program(exported(module, example_inputs), name or type(module).__name__, bindings, options)


def read_torch(path: Path, bindings: Bindings = Bindings()) -> Graph:  # noqa: B008 (frozen)
    """Read the network at the granularity of its operators; `bindings` are sizes for its symbols.

    Weights are never read, and nothing that the file holds is run. Raises InputError for a file that is not a whole
    exported program, UsageError without torch and for bindings that are not the program's, OpenDimensionsError for
    symbols without a size, GraphError for a network that has no plan. Warns with NetworkWarning of states.
    """
    # torch takes 2 s to import: only those who read its files pay for it.
    try:
        from onchip.formats.torch.archive import load_program, refused_if_damaged
        from onchip.formats.torch.program import graph_of_program
        from onchip.formats.torch.replay import ReplayOptions
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        what, expected = "PyTorch is not installed, which reads it", "pip install 'onchip[torch]'"
        raise UsageError(what, file=str(path), expected=expected) from None
    with errors_in_file(str(path)):
        program = load_program(path)
        with refused_if_damaged():
            graph = graph_of_program(program, path.stem, bindings, ReplayOptions(as_onnx=True))
    outputs = [name for tensor in graph.with_role(Role.OUTPUT) for name in (tensor.name, *tensor.aliases)]
    warn_of_states(path, [name.rstrip("_").removesuffix(NEXT) for name in outputs if name.rstrip("_").endswith(NEXT)])
    return graph
