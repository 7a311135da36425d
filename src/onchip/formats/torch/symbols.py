"""Symbolic dimensions of an exported program: what a caller binds gives each a size; what stays open is listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sympy
import torch
from torch.export.graph_signature import InputKind, TensorArgument

from onchip.answer.bindings import Bindings
from onchip.errors import GraphError, OpenDimension, UsageError

Size: TypeAlias = Any
"""A number, or torch's symbolic integer."""
Sizes: TypeAlias = Mapping[str, int]
"""The sizes of symbols, by their names."""
_SIZES: Final = ((224, 512), (640, 16000), (48, 128), (32, 576), (320, 256), (64, 64), (299, 1024), (16, 10), (2, 2))
"""Rows and columns of images, and lengths of sequences, in the order in which they are tried."""


def fixed(size: Size, sizes: Sizes, place: str) -> int:
    """The number that a size is; raises GraphError where a symbol of it has none."""
    if isinstance(size, int):
        return size
    expression = size.node.expr
    value = expression.subs({symbol: sizes[symbol.name] for symbol in _symbols(expression) if symbol.name in sizes})
    if not value.is_Integer:
        raise GraphError(f"its size {expression} is not fixed", place=place, expected="fixed shapes")
    return int(value)


@dataclass(frozen=True, slots=True)
class OpenShapes:
    """The shapes of a program's inputs by their names, and the least and greatest size of each symbol in them."""

    shapes: Mapping[str, tuple[Size, ...]]
    ranges: Mapping[str, tuple[int, int | None]]

    @classmethod
    def of(cls, program: torch.export.ExportedProgram) -> OpenShapes:
        """Those of the inputs that are tensors, and given from outside."""
        nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
        given = [one.arg.name for one in program.graph_signature.input_specs if _is_given(one)]
        values = {name: nodes[name].meta.get("val") for name in given}
        shapes = {name: tuple(value.shape) for name, value in values.items() if isinstance(value, torch.Tensor)}
        ranges = {
            str(symbol): (_number(found.lower) or 0, _number(found.upper))
            for symbol, found in program.range_constraints.items()
        }
        return cls(shapes, ranges)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of all symbols, in the order in which the inputs have them."""
        return tuple(dict.fromkeys(symbol for _, _, size in self._open() for symbol in _names(size)))

    def open_dimensions(self, sizes: Sizes) -> tuple[OpenDimension, ...]:
        """Those that have no size with these of symbols; of one that follows from several, the first of them."""
        missing = [(name, axis, [one for one in _names(size) if one not in sizes]) for name, axis, size in self._open()]
        return tuple(OpenDimension(name, axis, symbols[0]) for name, axis, symbols in missing if symbols)

    def sizes(self, bindings: Bindings) -> dict[str, int]:
        """The sizes of symbols that are bound; raises UsageError for what no input has, or can be."""
        if bindings.values:
            raise UsageError("an exported program has no inputs of one value", place="--value", expected="--shape")
        sizes = dict(bindings.dims)
        for symbol in bindings.dims:
            if symbol not in self.symbols:
                known = ", ".join(map(repr, self.symbols)) or "none: all its shapes are fixed"
                raise UsageError("no input has this symbol", place=f"--dim {symbol}", expected=known)
        for name, shape in bindings.shapes.items():
            self._add_sizes(name, shape, sizes)
        for name, shape in bindings.shapes.items():
            self._agrees(name, shape, sizes)
        self._lie_in_range(sizes)
        return sizes

    def candidates(self, sizes: Sizes) -> Iterator[dict[str, int]]:
        """Sizes for all symbols that are left, to be tried; batches are as small as they may be."""
        axes = {symbol: (axis, len(self.shapes[name])) for name, axis, size in self._open() for symbol in _names(size)}
        first = {symbol for name, axis, size in self._open() if axis == 0 for symbol in _names(size)}
        for rows, length in _SIZES:
            guess = dict(sizes)
            for symbol in self.symbols:
                wanted = 1 if symbol in first else rows if axes[symbol][1] > 3 else length
                least, greatest = self.ranges.get(symbol, (0, None))
                guess.setdefault(symbol, max(least, wanted if greatest is None else min(wanted, greatest)))
            yield guess

    def _open(self) -> Iterator[tuple[str, int, Size]]:
        for name, shape in self.shapes.items():
            yield from ((name, axis, size) for axis, size in enumerate(shape) if not isinstance(size, int))

    def _add_sizes(self, name: str, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
        """What the shape of an input says of symbols that alone make a dimension of it."""
        place = f"--shape {name}"
        if name not in self.shapes:
            known = ", ".join(map(repr, self.shapes)) or "none: it has no inputs"
            raise UsageError("no network input has this name", place=place, expected=known)
        if len(shape) != len(self.shapes[name]) or min(shape, default=1) < 1:
            expected = f"{len(self.shapes[name])} sizes of at least 1"
            raise UsageError(f"its shape is {list(shape)}", place=place, expected=expected)
        for size, said in zip(self.shapes[name], shape, strict=True):
            if not isinstance(size, int) and len(names := _names(size)) == 1 and names[0] not in sizes:
                (symbol,) = _symbols(size.node.expr)
                found = [each for each in sympy.solve(size.node.expr - said, symbol) if each.is_Integer and each >= 0]
                if found:
                    sizes[names[0]] = int(found[0])

    def _agrees(self, name: str, shape: tuple[int, ...], sizes: Sizes) -> None:
        for axis, (size, said) in enumerate(zip(self.shapes[name], shape, strict=True)):
            if not isinstance(size, int) and any(one not in sizes for one in _names(size)):
                what = f"axis {axis} is {size.node.expr}, which {said} is not"
                raise UsageError(what, place=f"--shape {name}", expected="a size that can be")
            if (found := fixed(size, sizes, name)) != said:
                known = "in the file" if isinstance(size, int) else f"with {self._said(size, sizes)}"
                what = f"axis {axis} is {found} {known}"
                raise UsageError(what, place=f"--shape {name}", expected=f"{found}, not {said}")

    def _said(self, size: Size, sizes: Sizes) -> str:
        return ", ".join(f"{name} = {sizes[name]}" for name in _names(size))

    def _lie_in_range(self, sizes: Sizes) -> None:
        for symbol, size in sizes.items():
            least, greatest = self.ranges.get(symbol, (0, None))
            if size < max(least, 1) or (greatest is not None and size > greatest):
                expected = f"at least {max(least, 1)}" if greatest is None else f"{max(least, 1)} to {greatest}"
                raise UsageError(f"symbol {symbol!r} is {size}", place=f"--dim {symbol}", expected=expected)


def _number(bound: Size) -> int | None:
    """A bound of torch's; None for infinity."""
    return int(bound) if isinstance(bound, int) or getattr(bound, "is_Integer", False) else None


def _is_given(spec: Size) -> bool:
    return spec.kind is InputKind.USER_INPUT and isinstance(spec.arg, TensorArgument)


def _symbols(expression: Size) -> list[sympy.Symbol]:
    return sorted(expression.free_symbols, key=lambda symbol: symbol.name)


def _names(size: Size) -> list[str]:
    return [symbol.name for symbol in _symbols(size.node.expr)]
