"""Parts that the readers of networks share: attributes, states, limits for unrolled loops, and values for inputs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from onchip.errors import GraphError, InputError, NetworkWarning, UsageError
from onchip.formats.sizes import GREATEST_TOTAL_BYTES
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue
from onchip.ir.tensor import Role

if TYPE_CHECKING:
    import numpy.typing as npt

NEXT: Final = "@next"
"""Suffix of a state's name: its value for the next inference."""
GREATEST_ITERATIONS: Final = 1000
"""Largest trip count of a loop that is unrolled."""
GREATEST_UNROLLED_NODES: Final = 20_000
"""Largest number of nodes that all loops of a network may become together."""
EXPECTED_OF_KEPT_LOOPS: Final = "a loop that can be unrolled, or whose tensors have one shape in every iteration"


def writable(value: AttributeValue) -> AttributeValue:
    """Return an attribute with text in place of numbers that JSON lacks: `inf`, `-inf`, `nan`."""
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return [writable(element) for element in value] if isinstance(value, list) else value


def warn_of_states(path: Path, states: Sequence[str]) -> None:
    """Warn with NetworkWarning how the states of a file are planned, unless it has none."""
    if states:
        more = f" and {len(states) - 1} more" if len(states) > 1 else ""
        what = f"kept from one inference to the next, as an input and as the output NAME{NEXT}; it may stay on the chip"
        warnings.warn(f"{path}: tensor {states[0]!r}{more}: {what}", NetworkWarning, stacklevel=3)


def ensure_of_a_size(workspace_bytes: int, written_bytes: int, place: str) -> None:
    """Raise GraphError for a loop that is not unrolled and needs more bytes than a network may have."""
    if workspace_bytes + written_bytes > GREATEST_TOTAL_BYTES:
        what = f"it stays one operator, which needs {workspace_bytes} bytes and writes {written_bytes}"
        raise GraphError(what, place=place, expected=f"at most {GREATEST_TOTAL_BYTES}")


def read_arrays(given: Sequence[str], graph: Graph) -> Mapping[str, npt.NDArray[Any]]:
    """Return a map from network input to array, read from `x.npy` or `NAME=x.npy`; raises InputError."""
    names = list(dict.fromkeys(tensor.part_of or tensor.name for tensor in graph.with_role(Role.INPUT)))
    files: dict[str, str] = {}
    for one in given:
        name, _, file = one.rpartition("=")
        if not name and len(names) == 1:
            name = names[0]
        if name not in names or name in files:
            what = f"{one!r} is for no network input, or for one that has a value"
            raise UsageError(what, place="--input", expected=f"NAME=FILE.npy, each once, with {', '.join(names)}")
        files[name] = file
    return {name: _read_array(file) for name, file in files.items()}


def _read_array(file: str) -> npt.NDArray[Any]:
    import numpy as np

    try:
        array: npt.NDArray[Any] = np.load(Path(file), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"it cannot be read ({reason})", file=file, expected="an array in a .npy file") from None
    if not isinstance(array, np.ndarray) or array.dtype.hasobject:
        raise InputError("it is no array of numbers", file=file, expected="an array in a .npy file")
    return array
