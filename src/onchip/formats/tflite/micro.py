"""TFLite Micro's interpreter, imported only where it is installed: its integers are what kernels are held against."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy.typing as npt


def micro_outputs(
    model: bytes, inputs: Sequence[npt.NDArray[Any]], outputs: int, arena_bytes: int, inferences: int
) -> list[npt.NDArray[Any]] | None:
    """Return what TFLite Micro makes of a model's inputs in the last of some inferences.

    None where it is not installed, or does not run the model.
    """
    try:
        runtime = import_module("tflite_micro").runtime
    except ImportError:
        return None
    try:
        interpreter = runtime.Interpreter.from_bytes(model, arena_size=arena_bytes)
        for _ in range(inferences):
            for at, array in enumerate(inputs):
                interpreter.set_input(array, at)
            interpreter.invoke()
        return [interpreter.get_output(at) for at in range(outputs)]
    except Exception:
        return None
