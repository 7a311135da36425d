"""The interpreter of TFLite (ai-edge-litert), imported only to run a model, on one thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.errors import GraphError, UsageError

Values: TypeAlias = npt.NDArray[Any]
_LONGEST_REASON: Final = 160


class Interpreter:
    """A model, ready to run; raises GraphError with `place` if the runtime refuses it.

    With `is_delegated`, XNNPACK runs the operators that it supports, including a few more custom ones. With
    `is_reference` the plain kernels run, which compute the same integers as TFLite Micro.
    """

    def __init__(
        self, model: bytes, place: str | None = None, *, is_delegated: bool = False, is_reference: bool = False
    ) -> None:
        try:
            runtime = import_module("ai_edge_litert.interpreter")
        except ImportError:
            what = "ai-edge-litert, which runs TFLite models, is not installed"
            raise UsageError(what, expected="pip install 'onchip[tflite]'") from None
        resolvers = runtime.OpResolverType
        own = resolvers.BUILTIN_REF if is_reference else resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        self._place = place
        try:
            self._interpreter = runtime.Interpreter(
                model_content=model,
                num_threads=1,
                experimental_op_resolver_type=resolvers.AUTO if is_delegated else own,
            )
        except Exception as error:  # the runtime raises ValueError and RuntimeError
            raise self._refusal(error) from None
        self._shapes: dict[int, tuple[int, ...]] | None = None

    def run(self, given: Mapping[int, Values], wanted: Sequence[int]) -> list[Values]:
        """Return the values of tensors by index, with equal bits for equal inputs; raises GraphError.

        `given` are inputs of the model, or variables.
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
        """Return the shape of every tensor for these input shapes; raises GraphError if they are impossible."""
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
