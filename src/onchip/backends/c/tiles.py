"""Kernel calls of tiles: a call of the whole operator, restricted to a region of its output, on tensors in parts.

Kernels count the elements of a tensor as if it were whole and dense. A `BandGrid` says where its parts lie.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import pairwise, product
from typing import Final, cast

from onchip.backends.c.calls import (
    ELEMENT_BYTES,
    Argument,
    BandGrid,
    BandPart,
    KernelCall,
    Record,
    Table,
    TensorOperand,
    dense_steps,
    no_kernel,
    shifted,
    walk,
)
from onchip.errors import GraphError, PlanError
from onchip.ir.tile import Region, whole_region

GREATEST_AXES: Final = 6
"""Axes of a tensor in parts: BAND_AXES of bands.h."""
_WALKS: Final = frozenset({"binary_f32", "add_s8", "multiply_s8", "extreme_s8", "reduce_f32", "mean_s8", "move"})
_COUNTS: Final = {"unary_f32": 1, **dict.fromkeys(("look_up_s8", "requantise_s8", "quantise_s8", "dequantise_s8"), 0)}
"""Kernels of single elements, and the position of their number among the arguments."""


@dataclass(frozen=True, slots=True)
class TensorParts:
    """The parts of a tensor that an operator reads or writes: regions of a dense tensor of `shape`, with addresses."""

    shape: tuple[int, ...]
    element_bytes: int
    parts: tuple[tuple[Region, str, int], ...]
    """Region, array in C, and offset in it in bytes."""

    def bands(self, first: int) -> BandGrid:
        """Return the parts as the cells of a grid, counted from byte `first` on; overlapping parts hold equal bytes.

        Raises GraphError for more axes than kernels support.
        """
        edges = [
            tuple(sorted({0, size, *(end for region, _, _ in self.parts for end in region[axis])}))
            for axis, size in enumerate(self.shape)
        ]
        last = max((axis for axis, lines in enumerate(edges) if len(lines) > 2), default=-1)
        axes = [axis for axis in range(last + 1) if self.shape[axis] > 1]
        if len(axes) > GREATEST_AXES:
            raise GraphError(f"its parts lie along {len(axes)} axes", expected=f"at most {GREATEST_AXES}")
        whole = dense_steps(self.shape, self.element_bytes)
        cells = product(*(tuple(pairwise(edges[axis])) for axis in axes))
        parts = tuple(self._cell(axes, dict(zip(axes, cell, strict=True))) for cell in cells)
        return BandGrid(first, tuple((whole[axis], edges[axis]) for axis in axes), parts)

    def _cell(self, axes: Sequence[int], cell: Mapping[int, tuple[int, int]]) -> BandPart:
        for region, array, offset in self.parts:
            if all(region[axis][0] <= start and stop <= region[axis][1] for axis, (start, stop) in cell.items()):
                steps = dense_steps([stop - start for start, stop in region], self.element_bytes)
                origin = offset - sum(start * step for (start, _), step in zip(region, steps, strict=True))
                return BandPart(array, origin, tuple(steps[axis] for axis in axes))
        return BandPart("NULL", 0, ())


@cache
def banded_parameters() -> Mapping[str, tuple[int, ...]]:
    """Return, for each kernel that takes tensors in parts, the positions of these among its arguments."""
    text = files("onchip.backends.c").joinpath("kernels", "prototypes.h").read_text(encoding="utf-8")
    found = re.findall(r"void KERNEL\((\w+)\)\(([^;]*)\);", text)
    return {
        name: tuple(at for at, one in enumerate(stated.split(",")) if one.strip().startswith(("IN(", "OUT(")))
        for name, stated in found
    }


def banded_call(call: KernelCall, operator: str, bands: Callable[[TensorOperand | Table], BandGrid]) -> KernelCall:
    """Return a call whose tensors are in parts; raises GraphError for a kernel that takes dense tensors only."""
    positions = banded_parameters().get(call.function)
    if positions is None:
        raise no_kernel(operator, call.function, "on tensors in parts")
    arguments = list(call.arguments)
    for at in positions:
        arguments[at] = bands(cast("TensorOperand | Table", arguments[at]))
    return KernelCall(f"banded_{call.function}", tuple(arguments))


def calls_of_region(
    call: KernelCall, operator: str, output: tuple[Sequence[int], int], region: Region
) -> Iterator[KernelCall]:
    """Yield the calls that compute a region of an output of that shape and bytes of an element.

    Raises GraphError for a kernel that cannot.
    """
    shape, element_bytes = output
    if region == whole_region(shape):
        yield call
        return
    try:
        yield from _Restriction(call, tuple(shape), element_bytes, region).calls()
    except _UncutError:
        raise no_kernel(operator, call.function, "in such tiles") from None


class _UncutError(Exception):
    """The kernel cannot compute the region alone."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """A loop of a kernel: its extent, and how far a step takes each operand, the output first."""

    size: int
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Restriction:
    """A call, and the region of its output to which it is restricted."""

    call: KernelCall
    shape: tuple[int, ...]
    element_bytes: int
    region: Region

    def calls(self) -> Iterator[KernelCall]:
        """Yield the restricted calls."""
        function, arguments = self.call.function, self.call.arguments
        if function in _WALKS:
            yield from self._walked()
        elif function in _COUNTS:
            yield from self._runs(_COUNTS[function])
        elif function == "fill":
            count, size, element, output = arguments  # the same element moves to every place
            over = walk((cast("int", count),), (cast("int", size),), (0,))
            yield from replace(self, call=KernelCall("move", (over, size, element, output)))._walked()
        elif function == "softmax_s8":
            yield from self._runs(0, cast("int", arguments[1]))
        elif (at := self.call.place_of("slices")) is not None:
            yield from self._slices(at)
        elif (at := self.call.place_of("window")) is not None:
            yield self._window(at)
        else:
            raise _UncutError

    def _cut(self, axes: Sequence[_Axis], element: int = 1, first: int = 0) -> tuple[list[_Axis], list[int]] | None:
        """Return the loops over the region and how far their start takes each operand, or None if none is in it.

        An element of the output takes `element` units of the first step, and the loops begin at unit `first`.
        """
        axes, moved = list(axes), [0] * len(axes[0].steps)
        for size, stride, (start, stop) in zip(self.shape, dense_steps(self.shape, element), self.region, strict=True):
            if (start, stop) == (0, size):
                continue
            place = first // stride % size
            at = next((k for k, one in enumerate(axes) if 0 < one.steps[0] <= stride < one.steps[0] * one.size), None)
            if at is None:
                if not start <= place < stop:
                    return None
                continue
            one = axes[at]
            inner = stride // one.steps[0]
            count = one.size // inner
            outer = max(1, count // size)
            if stride % one.steps[0] or one.size % inner or (outer > 1 and (place or count % size)):
                raise _UncutError
            low, high = max(start, place), min(stop, place + count // outer)
            if low >= high:
                return None
            spread = (outer, inner * size), (high - low, inner), (inner, 1)
            axes[at : at + 1] = [_Axis(n, tuple(by * step for step in one.steps)) for n, by in spread if n > 1]
            moved = [old + (low - place) * inner * step for old, step in zip(moved, one.steps, strict=True)]
        return axes, moved

    def _walked(self) -> Iterator[KernelCall]:
        arguments = list(self.call.arguments)
        at = self.call.place_of("walk") or 0
        over, operands = cast("Record", arguments[at]), len(banded_parameters()[self.call.function])
        axes = [_Axis(1, (1,) * operands)]
        if over["rank"]:
            axes = [_Axis(size, tuple(steps)) for size, *steps in zip(over["sizes"], *over["steps"], strict=True)]
        is_move, first = self.call.function == "move", self.call.written.shift_bytes
        if is_move:
            axes.append(_Axis(cast("int", arguments[1]), (1, 1)))
        cut = self._cut(axes, self.element_bytes, first) if is_move else self._cut(axes)
        if cut is None:
            return
        axes, moved = cut
        run = 1
        if is_move and axes and axes[-1].steps == (1, 1):
            run = axes.pop().size
        sizes, steps = [one.size for one in axes], list(zip(*(one.steps for one in axes), strict=True))
        arguments[at] = walk(sizes, *(steps or ((),) * len(moved)))
        if is_move:
            arguments[1] = run
        yield self._moved(arguments, moved)

    def _blocks(self, count: int, unit: int) -> Iterator[tuple[int, list[int]]]:
        """Yield the runs of the region in blocks of `unit` elements: their lengths, and how far operands move."""
        for size, stride, part in zip(self.shape, dense_steps(self.shape), self.region, strict=True):
            if part != (0, size) and stride % unit:
                raise _UncutError
        cut = self._cut([_Axis(count, (unit,))])
        if cut is None:
            return
        axes, (start,) = cut
        run = axes.pop().size if axes and axes[-1].steps == (unit,) else 1
        for index in product(*(range(one.size) for one in axes)):
            at = start + sum(place * one.steps[0] for place, one in zip(index, axes, strict=True))
            yield run, [at] * len(banded_parameters()[self.call.function])

    def _runs(self, place: int, unit: int = 1) -> Iterator[KernelCall]:
        """Yield a call for each run of the region; argument `place` counts blocks of `unit` elements."""
        for run, moved in self._blocks(cast("int", self.call.arguments[place]), unit):
            arguments = list(self.call.arguments)
            arguments[place] = run
            yield self._moved(arguments, moved)

    def _slices(self, place: int) -> Iterator[KernelCall]:
        """Yield calls for blocks of outermost slices."""
        own = cast("Record", self.call.arguments[place])
        for run, moved in self._blocks(own["outer"], own["size"] * own["inner"]):
            arguments = list(self.call.arguments)
            arguments[place] = own.replaced(outer=run)
            yield self._moved(arguments, moved)

    def _window(self, place: int) -> KernelCall:
        """Return a convolution or a pool of the region's rows, columns and channels."""
        arguments = list(self.call.arguments)
        window = cast("Record", arguments[place])
        read = wrote = weight = bias = 0
        for name, start, stop in self._window_ranges(window):
            wrote += start * window["output"][name]
            if name == "batch":
                read += start * window["input"][name]
                window = window.replaced(batch=stop - start)
            elif name == "channel" and window["groups"] == 1:
                weight, bias = start * window["weight"]["output"], start
                window = window.replaced(outputs=stop - start)
            elif name == "channel":
                (first, rest), bias = divmod(start, window["outputs"]), start
                if rest or stop % window["outputs"]:
                    raise _UncutError
                weight += first * window["weight"]["group"]
                read += first * window["inputs"] * window["input"][name]
                window = window.replaced(groups=stop // window["outputs"] - first)
            else:
                axis = window[f"{name}s"]
                ahead = start if self.call.function.startswith("transposed") else -start * axis["stride"]
                moved = axis.replaced(output=stop - start, pad=axis["pad"] + ahead)
                window = window.replaced(**{f"{name}s": moved})
        arguments[place] = window
        if "convolution" in self.call.function:
            _, weights, *biases, _ = (at for at, one in enumerate(arguments) if isinstance(one, TensorOperand | Table))
            for at, first in ((weights, weight), *((one, bias) for one in biases)):
                arguments[at] = shifted(cast("TensorOperand | Table", arguments[at]), first)
            by = self.call.place_of("requantisation")
            if by is not None and bias and cast("Record", arguments[by])["every_channel"]:
                scales = cast("Record", arguments[by])
                parts = {name: shifted(cast("Table", scales[name]), bias) for name in ("multiplier", "shift")}
                arguments[by] = scales.replaced(**parts)
        return self._moved(arguments, [wrote, read])

    def _window_ranges(self, window: Record) -> Iterator[tuple[str, int, int]]:
        """Yield the ranges of the region along the loops of a window; raises for ranges within a merged batch."""
        extents = {
            "batch": window["batch"],
            "channel": window["groups"] * window["outputs"],
            "row": window["rows"]["output"],
            "column": window["columns"]["output"],
        }
        steps = {name: window["output"][name] for name, extent in extents.items() if extent > 1}
        for size, stride, (start, stop) in zip(self.shape, dense_steps(self.shape), self.region, strict=True):
            if (start, stop) == (0, size):
                continue
            loops = [name for name, step in steps.items() if step <= stride < step * extents[name]]
            if len(loops) != 1 or stride % steps[loops[0]]:
                raise _UncutError
            by = stride // steps[loops[0]]
            if by * size != extents[loops[0]]:
                raise _UncutError
            yield loops[0], by * start, by * stop

    def _moved(self, arguments: Sequence[Argument], moved: Sequence[int]) -> KernelCall:
        """Return the call with the starts of its operands moved: the output, then what is read as a map."""
        found = list(arguments)
        positions = banded_parameters()[self.call.function]
        for at, by in zip((positions[-1], *positions[:-1]), moved, strict=True):
            operand = cast("TensorOperand | Table", found[at])
            if isinstance(operand, Table) and self.call.function == "move":
                by //= operand.values.itemsize  # a move's steps are in bytes
            found[at] = shifted(operand, by)
        return KernelCall(self.call.function, tuple(found))


def ensure_aligned(offsets: Iterable[int], tensor: str, element: str) -> None:
    """Raise PlanError if a tensor or a part of it lies where elements of a C type cannot be read."""
    unit = ELEMENT_BYTES.get(element, 1)
    for offset in offsets:
        if offset % unit:
            what = f"it lies at {offset}, where no {element} can be read"
            raise PlanError(what, place=f"tensor {tensor!r}", expected=f"a plan of `alignment_bytes={unit}`")
