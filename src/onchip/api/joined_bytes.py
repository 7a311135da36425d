"""The check that zero-copy joins and splits of a TFLite plan match the memory layout of the model's kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from onchip.answer.program import Allocate, Compute, Free
from onchip.errors import InputError
from onchip.formats.networks import read_tflite_network
from onchip.formats.tflite.storage import Presentation
from onchip.ir.operator import InPlace, Operator
from onchip.reports.program.outcome import Check
from onchip.transform.rewrite.shared_bytes import ALIASES


def ensure_joined_as_stored(plan: Path, network: str, check: Check) -> None:
    """Raise InputError if the plan joins tensors along axes in an order other than that of the model's kernels.

    A plan orders a map as batch, channels, rows, columns; the TFLite kernels store the channels last. Maps joined along
    the channels are contiguous only in the former order.
    """
    presented = read_tflite_network(Path(network), dict(check.document.reading.shapes)).presented
    tensors = check.problem.graph.tensor
    for operator, pair in _shared(check):
        names = {tensors[name].part_of or name for name in (pair.input, pair.output)}
        if operator.kind in ALIASES and any(name in presented and _is_turned(presented[name]) for name in names):
            what = f"{pair.output!r} lies on {pair.input!r} channels first, and the model's kernels store channels last"
            place = f"operator {operator.name!r}"
            raise InputError(what, file=str(plan), place=place, expected="a plan of `share='in-place'` or none")


def _shared(check: Check) -> Iterator[tuple[Operator, InPlace]]:
    """Yield the pairs of an input and an output that share bytes while their operator runs."""
    places: dict[tuple[str, str], int] = {}
    for line in check.document.answer.instructions:
        match line:
            case Allocate(tensor, memory, offset_bytes):
                places[tensor, memory] = offset_bytes
            case Free(tensor, memory):
                places.pop((tensor, memory), None)
            case Compute(name):
                operator = check.problem.graph.operator[name]
                for pair in operator.in_place:
                    if any(
                        tensor == pair.input and places.get((pair.output, memory)) == offset + pair.shift_bytes
                        for (tensor, memory), offset in places.items()
                    ):
                        yield operator, pair


def _is_turned(presented: Presentation) -> bool:
    """Return True if axes of several elements are presented in another order than the file's."""
    axes = [axis for axis, size in zip(presented.order, presented.shape, strict=False) if size > 1]
    return axes != sorted(axes)
