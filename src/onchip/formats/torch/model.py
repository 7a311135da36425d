""".pt2 file -> raw Graph: views folded away, permutations as operators of their own, every shape static."""

from __future__ import annotations

from pathlib import Path

from onchip.answer.bindings import Bindings
from onchip.errors import UsageError, errors_in_file
from onchip.formats.states import NEXT, warn_of_states
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role


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
