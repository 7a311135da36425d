"""Models run by TFLite Micro itself, with the size of its arena; needs the extra `tflm`."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from io import BufferedRandom
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tflite

Untyped: TypeAlias = Any
"""Values for which neither the runtime nor the generated schema has types."""
IS_INSTALLED = find_spec("tflite_micro") is not None
MISSING = "tflite_micro is not installed (pip install --pre tflite_micro)"
INFERENCES = 2


class MicroRefusalError(Exception):
    """Raised if TFLite Micro does not run a model: no kernel for an operator, or not for these operands."""


@dataclass(frozen=True, slots=True)
class MicroRun:
    """The bytes of the arena's head (tensors, scratch buffers) and tail (persistent), and each inference's outputs."""

    head_bytes: int
    tail_bytes: int
    outputs: tuple[npt.NDArray[Any], ...]

    def has_outputs_of(self, other: MicroRun) -> bool:
        """Return True if both computed the same bits."""
        pairs = zip(self.outputs, other.outputs, strict=True)
        return all(one.dtype == two.dtype and one.tobytes() == two.tobytes() for one, two in pairs)


def run_on_micro(model: bytes, arena_bytes: int = 2**25, seed: int = 0) -> MicroRun:
    """Run some inferences, one after another, on random inputs; raises MicroRefusalError."""
    runtime = import_module("tflite_micro").runtime
    graph = tflite.Model.GetRootAs(model).Subgraphs(0)
    with _stderr() as said:
        try:
            interpreter = runtime.Interpreter.from_bytes(model, arena_size=arena_bytes)
            outputs = tuple(_outputs(interpreter, graph, np.random.default_rng(seed)))
        except Exception as error:  # the binding raises various exception types
            raise MicroRefusalError(_text(said).strip().replace("\n", "; ") or str(error)) from None
        interpreter.print_allocations()
        text = _text(said)
    return MicroRun(_bytes("head", text), _bytes("tail", text), outputs)


def _outputs(interpreter: Untyped, graph: Untyped, random: np.random.Generator) -> Iterator[npt.NDArray[Any]]:
    for _ in range(INFERENCES):
        for index in range(graph.InputsLength()):
            details = interpreter.get_input_details(index)
            interpreter.set_input(_values(details["shape"], np.dtype(details["dtype"]), random), index)
        interpreter.invoke()
        yield from (np.array(interpreter.get_output(index)) for index in range(graph.OutputsLength()))


def _values(shape: npt.NDArray[Any], kind: np.dtype[Any], random: np.random.Generator) -> npt.NDArray[Any]:
    if kind.kind == "f":
        return random.standard_normal(shape).astype(kind)
    if kind.kind == "b":
        return random.integers(0, 2, shape).astype(kind)
    known = np.iinfo(kind)
    return random.integers(max(known.min, -(2**15)), min(known.max, 2**15) + 1, shape).astype(kind)


def _bytes(part: str, text: str) -> int:
    found = re.search(rf"Arena allocation {part} (\d+) bytes", text)
    assert found is not None, text
    return int(found[1])


@contextmanager
def _stderr() -> Iterator[BufferedRandom]:
    """Capture the runtime's output to the file descriptor, which bypasses Python."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield file
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _text(file: BufferedRandom) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
