"""A module of PyTorch as the program that torch.export makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch.utils._pytree import tree_map

from onchip.errors import GraphError
from onchip.formats.torch.calls import first_line


def exported(
    module: torch.nn.Module | torch.export.ExportedProgram, example_inputs: Sequence[object]
) -> torch.export.ExportedProgram:
    """The program of a module as at inference, or an `ExportedProgram` as it is; raises GraphError."""
    if isinstance(module, torch.export.ExportedProgram):
        return module
    parameter = next(iter(module.parameters()), None)
    device = parameter.device if parameter is not None else None
    inputs = tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, tuple(example_inputs))
    with _as_at_inference(module):
        try:
            return torch.export.export(module, inputs, strict=False)
        except Exception as error:
            place = f"module {type(module).__name__!r}"
            raise GraphError(f"torch.export refuses it: {first_line(error)}", place=place) from error


@contextmanager
def _as_at_inference(module: torch.nn.Module) -> Iterator[None]:
    """In eval mode, without gradients, and without attention's fast path, which hides its operators."""
    training = [each for each in module.modules() if each.training]
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        for each in training:
            each.training = True
