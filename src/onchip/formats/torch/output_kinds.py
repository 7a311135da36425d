"""What the outputs of an exported program are: next values of what it reads, or what leaves."""

from __future__ import annotations

from typing import Final

from torch.export.graph_signature import OutputKind

STATES: Final = frozenset({OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION})
"""Outputs that are the next values of what the program reads."""
RESULTS: Final = frozenset(
    {
        OutputKind.USER_OUTPUT,
        OutputKind.LOSS_OUTPUT,
        OutputKind.GRADIENT_TO_PARAMETER,
        OutputKind.GRADIENT_TO_USER_INPUT,
    }
)
"""Outputs that leave: those of a step of training are its loss and its gradients."""
