"""Maps of another size: each row and column of the output is made of two of the input, or is one of them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onchip.backends.c.onnx.node import NodeInC
from onchip.backends.c.project.calls import KernelCall, Record, Table, table


def resize(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a resize by the nearest element or linearly, along the last two axes."""
    shape, written = node.shape(0), node.written_shape()
    mode = node.text("mode", "nearest")
    if len(shape) != 4 or shape[:2] != written[:2] or mode not in ("nearest", "linear"):
        node.refuse(f"of mode {mode} and {len(shape)} axes")
    if node.whole("antialias", 0) or node.wholes("axes", ()):
        node.refuse("with antialiasing or axes of its own")
    scales = _scales(node, shape, written)
    axes = [_sources(node, shape[at], written[at], scales[at], mode) for at in (2, 3)]
    sizes = {"maps": prod(shape[:2]), "input_rows": shape[2], "input_columns": shape[3]}
    sizes |= {"output_rows": written[2], "output_columns": written[3], "channels": 1}
    tables: list[tuple[str, Table]] = []
    for axis, (first, second, share) in zip(("row", "column"), axes, strict=True):
        tables.append((f"first_{axis}", table(f"{node.operator} first {axis}", first, "int32")))
        tables.append((f"second_{axis}", table(f"{node.operator} second {axis}", second, "int32")))
        tables.append((f"{axis}_share", table(f"{node.operator} {axis} share", share, "float32")))
    record = Record("resampling", (*sizes.items(), *tables))
    yield KernelCall("resample_f32", (record, node.read(0), node.written()))


def _scales(node: NodeInC, shape: tuple[int, ...], written: tuple[int, ...]) -> list[float]:
    """The scales that the file says, else those of the shapes."""
    at = 2 if node.kind == "Resize" and node.opset >= 11 else 1
    if stated := node.reals("scales"):
        return stated
    if node.has(at) and 0 not in node.shape(at):
        return [float(one) for one in node.constant(at)]
    return [new / old for old, new in zip(shape, written, strict=True)]


def _sources(node: NodeInC, size: int, made: int, scale: float, mode: str) -> tuple[npt.NDArray[Any], ...]:
    """Of each element made the two it lies between, and the second's share."""
    is_old = node.kind == "Upsample" or node.opset < 11
    way = "asymmetric" if is_old else node.text("coordinate_transformation_mode", "half_pixel")
    at = np.arange(made, dtype=np.float32)
    match way:
        case "asymmetric":
            place = at / np.float32(scale)
        case "half_pixel" | "pytorch_half_pixel":
            place = (at + np.float32(0.5)) / np.float32(scale) - np.float32(0.5)
            if way == "pytorch_half_pixel" and made == 1:
                place = np.zeros(1, np.float32)
        case "align_corners":
            place = at * np.float32((size - 1) / (made - 1)) if made > 1 else np.zeros(1, np.float32)
        case _:
            node.refuse(f"with coordinates of mode {way}")
    if mode == "linear":
        place = np.clip(place, 0, size - 1)
        first = np.floor(place)
        return first, np.minimum(first + 1, size - 1), place - first
    found = np.clip(_nearest(node, place, is_old=is_old), 0, size - 1)
    return found, found, np.zeros(made)


def _nearest(node: NodeInC, place: npt.NDArray[Any], *, is_old: bool) -> npt.NDArray[Any]:
    found: npt.NDArray[Any]
    match "floor" if is_old else node.text("nearest_mode", "round_prefer_floor"):
        case "floor":
            found = np.floor(place)
        case "ceil":
            found = np.ceil(place)
        case "round_prefer_ceil":
            found = np.floor(place + np.float32(0.5))
        case _:
            found = np.ceil(place - np.float32(0.5))
    return found
