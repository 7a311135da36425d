"""The shapes that a file declares of its inner tensors and outputs: of use where nothing can be inferred."""

from __future__ import annotations

from typing import Final

import onnx

from onchip.formats.onnx.types import static_shape, with_declared

GREATEST_LISTED: Final = 100
"""Contradictions that are named; of more only their number is said."""


class Declarations:
    """Declared types by tensor; those of `dropped` tensors count for nothing."""

    def __init__(self, graph: onnx.GraphProto, dropped: frozenset[str]) -> None:
        self._types = {value.name: value.type for value in (*graph.value_info, *graph.output)}
        self._contradictions = [f"{name!r}, with which a later node is wrong" for name in sorted(dropped)]
        for name in dropped:
            self._types.pop(name, None)
        self.assumed: set[str] = set()

    def compare(self, name: str, inferred: onnx.TypeProto) -> None:
        """Note where the file declares another shape than what was found."""
        declared = self._types.get(name)
        if declared is None or not declared.tensor_type.HasField("shape"):
            return
        found = static_shape(inferred) or ()
        sizes = [one.dim_value if one.HasField("dim_value") else None for one in declared.tensor_type.shape.dim]
        agrees = len(sizes) == len(found) and all(said in (None, size) for said, size in zip(sizes, found, strict=True))
        if not agrees:
            said = ", ".join("?" if size is None else str(size) for size in sizes)
            self._contradictions.append(f"{name!r} is declared [{said}] and is {list(found)}")

    def completed(self, name: str, inferred: onnx.TypeProto) -> onnx.TypeProto:
        """What was found, and what the file declares where nothing was."""
        if name not in self._types:
            return inferred
        completed = with_declared(inferred, self._types[name])
        if static_shape(completed) is not None:
            self.assumed.add(name)
        return completed

    def drop(self, name: str, declared: onnx.TypeProto) -> None:
        """Note that an operator cannot write a tensor of the shape that the file declares."""
        self.assumed.discard(name)
        self._types.pop(name, None)
        self._contradictions.append(f"{name!r} is declared {list(static_shape(declared) or ())} and cannot be that")

    def remarks(self) -> tuple[str, ...]:
        """One line that names all contradictions, if there are any."""
        if not self._contradictions:
            return ()
        listed, rest = self._contradictions[:GREATEST_LISTED], len(self._contradictions) - GREATEST_LISTED
        more = f", and {rest} more" if rest > 0 else ""
        count = len(self._contradictions)
        what = "declared shape contradicts" if count == 1 else "declared shapes contradict"
        end = "and is dropped" if count == 1 else "and are dropped"
        return (f"{count} {what} what its operators give {end}: {'; '.join(listed)}{more}",)
