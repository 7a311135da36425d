"""Values for network inputs, from numpy's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onchip.errors import InputError, UsageError
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role

if TYPE_CHECKING:
    import numpy.typing as npt


def read_arrays(given: Sequence[str], graph: Graph) -> Mapping[str, npt.NDArray[Any]]:
    """Of `x.npy` or `NAME=x.npy` each the array, by network input; raises InputError."""
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
