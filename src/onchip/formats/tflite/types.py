"""TFLite's element types: how many bits an element has, and which type numpy has for it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_TYPES: Final[dict[int, tuple[str, int, str]]] = {
    0: ("FLOAT32", 32, "float32"),
    1: ("FLOAT16", 16, "float16"),
    2: ("INT32", 32, "int32"),
    3: ("UINT8", 8, "uint8"),
    4: ("INT64", 64, "int64"),
    5: ("STRING", 0, ""),
    6: ("BOOL", 8, "bool"),
    7: ("INT16", 16, "int16"),
    8: ("COMPLEX64", 64, "complex64"),
    9: ("INT8", 8, "int8"),
    10: ("FLOAT64", 64, "float64"),
    11: ("COMPLEX128", 128, "complex128"),
    12: ("UINT64", 64, "uint64"),
    13: ("RESOURCE", 0, ""),
    14: ("VARIANT", 0, ""),
    15: ("UINT32", 32, "uint32"),
    16: ("UINT16", 16, "uint16"),
    17: ("INT4", 4, ""),
    18: ("BFLOAT16", 16, ""),
}
"""By the schema's number: its name, bits an element (0: no fixed size), and numpy's name for it, if it has one."""
INT4: Final = 17


def type_name(number: int) -> str:
    """The schema's word for an element type, such as `FLOAT16`."""
    return _TYPES[number][0] if number in _TYPES else f"type {number}"


def bits_of(number: int) -> int | None:
    """How many bits an element has; None for types of no fixed size, and for those that nobody knows."""
    return _TYPES[number][1] or None if number in _TYPES else None


def dtype_of(number: int) -> np.dtype[Any] | None:
    """The numpy type with the same bytes; None where there is none."""
    name = _TYPES[number][2] if number in _TYPES else ""
    return np.dtype(name) if name else None
