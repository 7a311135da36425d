"""onnxruntime, imported only by those who run a model; one thread, nothing optimised, so that runs can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.errors import GraphError, UsageError

Array: TypeAlias = npt.NDArray[Any]
_FATAL_ONLY = 4  # an error is raised, and said once: by who catches it
_ALIGNMENT_BYTES = 64


class Session:
    """A model, or the file of one, ready to run; raises GraphError, `file` and `place` saying of what."""

    def __init__(self, model: bytes | str, file: str, place: str | None = None) -> None:
        runtime = _runtime()
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        options.log_severity_level = _FATAL_ONLY
        self._file = file
        self._place = place
        try:
            self._session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises a type of its own for each of its codes
            raise self._refusal(error) from None

    def run(self, outputs: Sequence[str], feeds: Mapping[str, Array]) -> list[Array]:
        """The arrays of `outputs`, bit for bit the same for the same feeds; raises GraphError where it cannot run."""
        try:
            results: list[Array] = self._session.run(list(outputs), dict(feeds))
        except Exception as error:  # see above
            raise self._refusal(error) from None
        return results

    def _refusal(self, error: Exception) -> GraphError:
        lines = str(error).splitlines() or [type(error).__name__]
        what = f"onnxruntime refuses it: {lines[0]}"
        return GraphError(what, file=self._file, place=self._place, expected="a model it can run")


def aligned(content: npt.NDArray[np.uint8], dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """The bytes as an array at an aligned address, copied if need be: elsewhere kernels may add up in another order."""
    if content.ctypes.data % _ALIGNMENT_BYTES:
        room = np.empty(content.size + _ALIGNMENT_BYTES, np.uint8)
        start = -room.ctypes.data % _ALIGNMENT_BYTES
        room[start : start + content.size] = content
        content = room[start : start + content.size]
    return content.view(dtype).reshape(shape)


def _runtime() -> ModuleType:
    try:
        return import_module("onnxruntime")
    except ImportError:
        raise UsageError(
            "onnxruntime, which runs ONNX models, is not installed", expected="pip install 'onchip[run]'"
        ) from None
