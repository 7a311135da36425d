"""What is said where ExecuTorch is asked for and is not there."""

from __future__ import annotations

from onchip.errors import UsageError


def not_installed(error: ModuleNotFoundError) -> UsageError:
    """The error to raise where ExecuTorch cannot be imported; raises the given one where something else is missing."""
    if (error.name or "").split(".")[0] not in ("executorch", "torch", "torchao"):
        raise error
    return UsageError("ExecuTorch is not installed", expected="pip install 'onchip[executorch]'")
