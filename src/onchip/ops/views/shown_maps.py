"""The feature maps that the tensors of a graph are views of, operator by operator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.ops.derive.fusable import FeatureMap, Layout, layout_of, pixels_of
from onchip.ops.derive.layers_of import PLAIN_BITS, Precision
from onchip.ops.views.fusable_views import SAME_ELEMENTS, Sight, changed, cropped, ensure_side_by_side, shape_of
from onchip.ops.views.split_views import slices_of
from onchip.ops.views.views import RESIZES
from onchip.ops.windows.sliding_windows import NoLayerError

VIEWS_OF_MATRICES: Final = SAME_ELEMENTS | {"Concat", "Pad", "Slice", "Split"} | RESIZES
_IN_THE_WAY: Final = "a layer that reads it cannot be fused through it, or it shows an input as an output"


@dataclass
class ShownMaps:
    """Views of feature maps: `seen` maps each tensor so far to its view, `joined` each concatenation to its parts.

    Views in `apart` are not passed through. With `are_all_in_tiles` maps have zero or two dimensions behind the
    channels, or are matrices.
    """

    graph: Graph
    precision: Precision
    apart: frozenset[str]
    are_all_in_tiles: bool
    seen: dict[str, Sight] = field(default_factory=dict)
    joined: dict[str, tuple[Sight, ...]] = field(default_factory=dict)
    layout: Layout = field(init=False)
    _views: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.layout = layout_of(self.graph) if self.are_all_in_tiles else Layout.IMAGE

    def look_at(self, operator: Operator) -> None:
        """Enter inputs that no earlier operator has written or read as maps; raises NoLayerError as `map` does."""
        for name in (one for one in operator.inputs if one not in self.seen):
            self.seen[name] = Sight.of(self.map(name))

    def view(self, operator: Operator) -> bool:
        """Enter the operator's outputs as views of its input and return True, if it only changes the view.

        Raises NoLayerError if later layers cannot read through it.
        """
        if self.layout is Layout.MATRIX:
            return self._passes_matrix_on(operator)
        if len(operator.outputs) > 1:
            self._take_apart(operator)
            return True
        if operator.kind == "Concat":
            self._join(operator)
            return True
        if len(operator.inputs) != 1:
            return False
        if operator.name in self.apart:
            raise NoLayerError(_IN_THE_WAY)
        sight = changed(self.graph, operator, self.seen[operator.inputs[0]])
        if sight is not None:
            self._show(operator.outputs[0], sight, operator.name)
        return sight is not None

    def _passes_matrix_on(self, operator: Operator) -> bool:
        """Enter the output of an operator that hands on a matrix unchanged as a view; raises NoLayerError for others.

        Return False if the operator computes something.
        """
        if operator.kind not in VIEWS_OF_MATRICES:
            return False
        source, written = operator.inputs[0], operator.outputs[0]
        if len(operator.inputs) > 1 or shape_of(self.graph, source) != shape_of(self.graph, written):
            raise NoLayerError("it changes the shape of a matrix, or joins or takes apart matrices")
        if operator.name in self.apart:
            raise NoLayerError(_IN_THE_WAY)
        self._show(written, self.seen[source], operator.name)
        return True

    def map(self, name: str) -> FeatureMap:
        """Return a tensor as a separate feature map; raises NoLayerError if it does not have the shape of a map."""
        shape = self.graph.tensor[name].shape
        if shape is None:
            raise NoLayerError(f"tensor {name!r} has no shape")
        if self.are_all_in_tiles and self.layout is Layout.IMAGE and len(shape) not in (2, 4):
            raise NoLayerError(f"{name!r} is {list(shape)}, not batch, channels, rows and columns")
        rows, columns = pixels_of(shape, self.layout)
        return FeatureMap(name, prod(shape) // (rows * columns), rows, columns, self._bits(name), self.layout)

    def views_behind(self, names: Iterable[str]) -> frozenset[str]:
        """Return the operators that join these tensors, or that make them views of maps that are not joined."""
        shown = {name: self.seen[name].whole.name for name in names if name in self.seen}
        views = (whole if whole in self.joined else name for name, whole in shown.items())
        return frozenset(self._views[name] for name in views if name in self._views)

    def joining(self, names: Iterable[str]) -> frozenset[str]:
        """Return the operators that join these tensors."""
        shown = (self.seen[name].whole.name for name in names if name in self.seen)
        return frozenset(self._views[name] for name in shown if name in self.joined)

    def views_of_inputs(self, names: Iterable[str]) -> frozenset[str]:
        """Return the operators that make these tensors views of a network input."""
        given = {tensor.name for tensor in self.graph.with_role(Role.INPUT)}
        shown = (name for name in names if name in self._views and self.seen[name].whole.name in given)
        return frozenset(self._views[name] for name in shown)

    def _show(self, name: str, sight: Sight, operator: str) -> None:
        """Enter an output of the operator as a view, so that layers read the map through it."""
        if self._bits(name) != sight.whole.bits:
            raise NoLayerError(f"it has other bits than {sight.whole.name!r}, which it shows")
        if sight.whole.name in self.joined and (sight.channels or max(sight.rows.repeat, sight.columns.repeat) > 1):
            raise NoLayerError("it leaves a part of the channels of maps that are joined, or repeats their pixels")
        self.seen[name] = sight
        self._views[name] = operator

    def _take_apart(self, operator: Operator) -> None:
        parts = slices_of(self.graph, operator)
        if not parts:
            raise NoLayerError(f"it writes {len(operator.outputs)} tensors")
        if operator.name in self.apart:
            raise NoLayerError(_IN_THE_WAY)
        sights = [cropped(part, self.seen[part.inputs[0]], shape_of(self.graph, part.outputs[0])) for part in parts]
        for part, sight in zip(parts, sights, strict=True):
            self._show(part.outputs[0], sight, operator.name)

    def _join(self, operator: Operator) -> None:
        """Enter a concatenation along the channels, whose parts layers read as parts of one input."""
        name = operator.outputs[0]
        if self.graph.tensor[name].role is Role.OUTPUT:
            raise NoLayerError("its kind is no loop nest of multiply-accumulates")
        if operator.name in self.apart:
            raise NoLayerError(_IN_THE_WAY)
        parts = {one: self.seen[one] for one in operator.inputs}
        if operator.parameters or any(one.whole.name in self.joined for one in parts.values()):
            raise NoLayerError("it joins other than whole maps")
        whole = self.map(name)
        ensure_side_by_side(operator, parts, whole, shape_of(self.graph, name))
        self.seen[name] = Sight.of(whole)
        self.joined[name] = tuple(parts[one] for one in operator.inputs)
        self._views[name] = operator.name

    def _bits(self, name: str) -> int:
        return self.precision.bits or self.graph.tensor[name].bits or PLAIN_BITS
