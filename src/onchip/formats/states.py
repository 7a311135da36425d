"""State, in files that know it: what is kept from one inference to the next is a network input and an output."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from onchip.errors import NetworkWarning

NEXT: Final = "@next"
"""Behind the name of a state: its value for the next inference."""


def warn_of_states(path: Path, states: Sequence[str]) -> None:
    """Say, where there are any, how a file's states are planned."""
    if states:
        more = f" and {len(states) - 1} more" if len(states) > 1 else ""
        what = f"kept from one inference to the next, as an input and as the output NAME{NEXT}; it may stay on the chip"
        warnings.warn(f"{path}: tensor {states[0]!r}{more}: {what}", NetworkWarning, stacklevel=3)
