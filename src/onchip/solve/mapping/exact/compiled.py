"""How the exact mapper's inner part is compiled, and the numbers that its files share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

INPUT, WEIGHT, OUTPUT = range(3)
# What a memory does; its first and last are the upper memory's of a boundary, the others the lower one's.
READ_FOR_BELOW, WRITE_FROM_ABOVE, READ_FOR_ABOVE, WRITE_FROM_BELOW = range(4)
N, K, C, P, Q, R, S, G = range(8)
# Shares of the units: elements of one tile, those of tiles beside it, of other tiles; how many have the same.
INSIDE, BESIDE, OUTSIDE, COPIES, COPIES_ABOVE = range(5)
# Kinds of criteria: energy; cycles that single transfers at a port wait; what the port is busy beyond the loops.
ENERGY, NO_STALL, WAITING, BUSY = range(4)
FIRST_PORT = 3  # of preloading: an operand, or this plus a port

jit: Any = numba.njit
OPTIONS: Final = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
"""Without counting references to arrays (`_nrt`) it is ten times as fast; wrappers for C take long to compile."""


def compiled(function: F) -> F:
    """Compile, release the interpreter lock while running; to be called from compiled code only."""
    return cast("F", jit(**OPTIONS, no_cpython_wrapper=True)(function))


def inlined(function: F) -> F:
    """The same as a part of the caller: handing so many arrays to a function for each tile took most of the time."""
    return cast("F", jit(**OPTIONS, no_cpython_wrapper=True, forceinline=True)(function))


def compiled_entry(function: F) -> F:
    """The same with all it calls, cached on disk; to be called from Python."""
    dispatcher = jit(**OPTIONS, cache=True)(function)
    dispatcher._cache._cache_file._source_stamp = _newest_source()  # numba looks at the entry's own file alone
    return cast("F", dispatcher)


def _newest_source() -> tuple[float, int]:
    here = Path(__file__).parent
    found = [path.stat() for path in (*here.glob("*.py"), here.parents[2] / "cost" / "layer" / "tables.py")]
    return max(one.st_mtime for one in found), sum(one.st_size for one in found)
