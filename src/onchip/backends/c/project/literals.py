"""Numbers, arrays and structs as C11 writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isinf, isnan
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_A_LINE: Final = 16
_LEAST_32, _LEAST_64 = -(2**31), -(2**63)


def integer(value: int) -> str:
    """Return an integer literal; the least of a type is a difference, as C has no negative literals."""
    if value in (_LEAST_32, _LEAST_64):
        return f"({integer(value + 1)} - 1)"
    return str(value) if _LEAST_32 < value < -_LEAST_32 else f"{value}ll" if value < 2**63 else f"{value}ull"


def real(value: float) -> str:
    """Return the literal of a float that reads back as the same one."""
    if isnan(value):
        return "NAN"
    if isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    digits = f"{value:.9g}"
    return f"{digits}f" if {".", "e"} & set(digits) else f"{digits}.0f"


def rows(values: npt.NDArray[Any]) -> Iterator[str]:
    """Yield the lines between an array's braces."""
    flat = values.reshape(-1)
    if flat.dtype == np.float16:
        flat = flat.view(np.uint16)
    numbers: Iterable[str]
    if flat.dtype == np.float32:
        numbers = map(real, flat.tolist())
    elif flat.dtype == np.float64:
        numbers = (repr(float(value)) for value in flat)
    else:
        numbers = map(integer, flat.astype(object if flat.dtype == np.uint64 else np.int64).tolist())
    line: list[str] = []
    for each in numbers:
        line.append(each)
        if len(line) == _A_LINE:
            yield f"    {', '.join(line)},"
            line.clear()
    if line:
        yield f"    {', '.join(line)},"
