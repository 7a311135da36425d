"""The interpreters of TFLite (ai-edge-litert) and TFLite Micro, imported only to run a model, on one thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.errors import GraphError, UsageError

Values: TypeAlias = npt.NDArray[Any]
_LONGEST_REASON: Final = 160


class Interpreter:
    """A model, ready to run; raises GraphError, `place` saying of what, where the runtime cannot.

    With `is_delegated` XNNPACK runs what it knows, which is a few custom operators more. With `is_reference` the plain
    kernels run, whose integers are those of TFLite Micro.
    """

    def __init__(
        self, model: bytes, place: str | None = None, *, is_delegated: bool = False, is_reference: bool = False
    ) -> None:
        runtime = _runtime()
        resolvers = runtime.OpResolverType
        own = resolvers.BUILTIN_REF if is_reference else resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        self._place = place
        try:
            self._interpreter = runtime.Interpreter(
                model_content=model,
                num_threads=1,
                experimental_op_resolver_type=resolvers.AUTO if is_delegated else own,
            )
        except Exception as error:  # the runtime raises ValueError and RuntimeError for whatever it meets
            raise self._refusal(error) from None
        self._shapes: dict[int, tuple[int, ...]] | None = None

    def run(self, given: Mapping[int, Values], wanted: Sequence[int]) -> list[Values]:
        """The values of tensors by their index, bit for bit the same for the same ones given; raises GraphError.

        What is given are inputs of the model, or variables.
        """
        try:
            self._allocate(given)
            for index, array in given.items():
                self._interpreter.set_tensor(index, np.ascontiguousarray(array).reshape(array.shape))
            self._interpreter.invoke()
            return [self._interpreter.get_tensor(index) for index in wanted]
        except Exception as error:  # see above
            raise self._refusal(error) from None

    def shapes_with(self, inputs: Mapping[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
        """The shape of every tensor where inputs have these; raises GraphError where they cannot."""
        zeros = {}
        for detail in self._interpreter.get_input_details():
            shape = inputs.get(detail["index"], tuple(map(int, detail["shape"])))
            zeros[detail["index"]] = np.zeros(shape, detail["dtype"])
        self.run(zeros, ())
        details = self._interpreter.get_tensor_details()
        return {int(detail["index"]): tuple(map(int, detail["shape"])) for detail in details}

    def _allocate(self, given: Mapping[int, Values]) -> None:
        shapes = {index: array.shape for index, array in given.items()}
        if shapes == self._shapes:
            return
        inputs = {detail["index"]: tuple(map(int, detail["shape"])) for detail in self._interpreter.get_input_details()}
        for index, shape in shapes.items():
            if index in inputs and inputs[index] != shape:
                self._interpreter.resize_tensor_input(index, shape)
        self._interpreter.allocate_tensors()
        self._shapes = shapes

    def _refusal(self, error: Exception) -> GraphError:
        lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        return GraphError(
            f"ai-edge-litert refuses it: {lines[0][:_LONGEST_REASON]}",
            place=self._place,
            expected="a model that it can run",
        )


def _runtime() -> ModuleType:
    try:
        return import_module("ai_edge_litert.interpreter")
    except ImportError:
        what = "ai-edge-litert, which runs TFLite models, is not installed"
        raise UsageError(what, expected="pip install 'onchip[tflite]'") from None


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
