"""Mappings compiled as C and run; inputs and outputs have the axes of the plain nest."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt

from onchip.answer.layer_mapping import LayerMapping
from onchip.backends.nests.c_source import nest_source
from onchip.ir.layer import Layer

WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic")
COMPILERS = tuple(found for name in ("gcc", "clang") if (found := shutil.which(name)))


def compiled(layer: Layer, mapping: LayerMapping, folder: Path, compiler: str, optimised: str = "-O1") -> ctypes.CDLL:
    """Return a library with the function `nest`; raises CalledProcessError for a warning."""
    count = len(list(folder.iterdir()))
    source, library = folder / f"nest{count}.c", folder / f"nest{count}.so"
    source.write_text(nest_source(layer, mapping, "nest"))
    options = (*WARNINGS, "-std=gnu11", optimised, "-march=native", "-shared", "-fPIC")
    subprocess.run([compiler, *options, str(source), "-o", str(library)], check=True, capture_output=True, text=True)
    return ctypes.CDLL(str(library))


def run_compiled(
    library: ctypes.CDLL, layer: Layer, source: npt.NDArray[np.float64], weight: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the output [n, g, k, p, q] for an input [n, g, c, height, width] and weights [g, k, c, r, s].

    The nest runs twice.
    """
    element, total = (np.int8, np.int32) if layer.input_bits == 8 else (np.float32, np.float32)
    inputs = np.ascontiguousarray(source.transpose(0, 3, 4, 1, 2).astype(element))
    weights = np.ascontiguousarray(weight.transpose(3, 4, 2, 0, 1).astype(element))
    guarded = np.full(layer.n * layer.p * layer.q * layer.g * layer.k + 2, -77, total)
    function = library.nest
    function.argtypes, function.restype = [ctypes.c_void_p] * 3, None
    for _ in range(2):  # tiles left over from the first run must not affect the second
        function(inputs.ctypes.data, weights.ctypes.data, guarded[1:].ctypes.data)
    assert guarded[0] == guarded[-1] == -77
    output = guarded[1:-1].reshape(layer.n, layer.p, layer.q, layer.g, layer.k)
    return output.transpose(0, 3, 4, 1, 2).astype(np.float64)
