"""A stack in tiles: what each of its layers computes and sees in each tile, emitted as operators on bands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from onchip.answer.stacks import Tiling
from onchip.ir.graph import Graph
from onchip.ir.region import Range, Region, whole_region
from onchip.ir.tensor import Tensor
from onchip.ir.window import Window
from onchip.ops.contractions.contractions import ELEMENT_BY_ELEMENT
from onchip.ops.derive.back_calculation import AxisName, BackCalculation, ReadUse, back_calculation
from onchip.ops.derive.fusable import FeatureMap, FusableLayer, Layout, Read, Stack, pixels_of, region_of_pixels
from onchip.ops.derive.operands import largest_first
from onchip.transform.groups.bands import JoinedBands, MapBands, TilePlace, lines_inside, lines_outside, range_of
from onchip.transform.groups.parts import EmittedParts
from onchip.transform.groups.views import ViewEmission, shift_of_view


@dataclass(frozen=True, slots=True)
class StackInTiles:
    """A stack, its tiling, and the back-calculation of both axes."""

    stack: Stack
    tiling: Tiling
    rows: BackCalculation
    columns: BackCalculation

    @classmethod
    def of(cls, stack: Stack, tiling: Tiling) -> StackInTiles:
        """Raises InputError for a tile larger than the map, and where a tile would see nothing but padding."""
        rows = back_calculation(stack, AxisName.ROWS, tiling.rows, cached=tiling.mode.caches_rows)
        columns = back_calculation(stack, AxisName.COLUMNS, tiling.columns, cached=tiling.mode.caches_columns)
        return cls(stack, tiling, rows, columns)

    @property
    def layer_tiles(self) -> int:
        """Return the number of tiles of all layers together, without those in which a layer computes nothing."""
        return sum(
            prod(int((axis.maps[layer.output.name].computed.lengths > 0).sum()) for axis in (self.rows, self.columns))
            for layer in self.stack.layers
        )

    def places(self) -> Iterator[TilePlace]:
        """Return all tiles, in execution order."""
        output = self.stack.output.name
        rows, columns = (len(found.maps[output].computed.starts) for found in (self.rows, self.columns))
        return (TilePlace(row, column, columns) for row in range(rows) for column in range(columns))

    @property
    def maps_outside(self) -> Mapping[str, FeatureMap]:
        """Return the stack's inputs and its output, by name."""
        return {one.name: one for one in (*self.stack.inputs, self.stack.output)}

    def scale(self, graph: Graph, name: str, layout: Layout) -> tuple[int, int]:
        """Return the rows and columns of a tensor with a layout, per pixel of the stack's input or output."""
        rows, columns = pixels_of(graph.tensor[name].shape or (), layout)
        one = self.maps_outside[name]
        return rows // one.rows, columns // one.columns

    def bands_inside(self, graph: Graph) -> Mapping[str, MapBands]:
        """Return the bands of each map that does not leave the stack."""
        rows = lines_inside(self.stack, self.rows, cached=self.tiling.mode.caches_rows)
        columns = lines_inside(self.stack, self.columns, cached=self.tiling.mode.caches_columns)
        layout = self.stack.output.layout
        return {name: MapBands(graph.tensor[name], lines, columns[name], layout=layout) for name, lines in rows.items()}

    def lines_outside(
        self, graph: Graph, layouts: Mapping[str, Layout]
    ) -> Iterator[tuple[str, tuple[set[int], set[int]]]]:
        """Yield the rows and columns, in elements, at which the stack cuts each of its inputs and its output.

        `layouts` are those of the tensors by name; other tensors have the layout of the stack.
        """
        across = dict(lines_outside(self.stack, self.columns))
        for name, down in lines_outside(self.stack, self.rows):
            scale = self.scale(graph, name, layouts.get(name, self.stack.output.layout))
            yield name, ({line * scale[0] for line in down}, {line * scale[1] for line in across[name]})

    def computed(self, name: str, place: TilePlace) -> tuple[Range, Range]:
        """Return the rows and columns of a map that a tile computes."""
        down, across = self.rows.maps[name].computed, self.columns.maps[name].computed
        return range_of(down, place.row), range_of(across, place.column)

    def emit(self, parts: EmittedParts, bands: Mapping[str, MapBands | JoinedBands]) -> None:
        """Emit all tiles in order; `bands` are those of all maps that the stack reads and writes.

        Raises GraphError for an operator that cannot run in parts.
        """
        for place in self.places():
            self._emit_tile(ViewEmission(parts, bands, place))

    def _emit_tile(self, views: ViewEmission) -> None:
        """Emit the layers of a tile in order; a layer with nothing left to compute is skipped."""
        for at, layer in enumerate(self.stack.layers):
            rows, columns = self.computed(layer.output.name, views.place)
            if rows[0] == rows[1] or columns[0] == columns[1]:
                continue
            operator = views.parts.graph.operator[layer.name]
            written = views.bands[layer.output.name].within(views.place, rows, columns)
            read = self._read(at, layer, views)
            views.parts.add(operator, f"{operator.name}#{views.place.number}", read, written)

    def _read(self, at: int, layer: FusableLayer, views: ViewEmission) -> tuple[Tensor, ...]:
        """Return the bands that a layer reads, through views if its operands are views."""
        place, graph = views.place, views.parts.graph
        computed = self.computed(layer.output.name, place)
        found: list[Tensor] = []
        operator = graph.operator[layer.name]
        is_at_pixels = operator.kind in ELEMENT_BY_ELEMENT
        names = largest_first(graph, operator.inputs) if is_at_pixels else operator.inputs
        every = zip(layer.reads, self.rows.reads[at], self.columns.reads[at], strict=True)
        uses = zip(names, every, strict=not layer.joins)  # parts that are joined are seen alike, as one operand
        for name, (read, down, across) in uses:
            seen = range_of(down.seen, place.row), range_of(across.seen, place.column)
            if name == read.source:
                found += views.bands[name].within(place, *seen)
                continue
            others = computed if is_at_pixels else self._seen_of_view(name, (read, down, across), computed, views)
            region = self._region(name, read, (seen, others), views)
            found += views.view(name, region)
        return tuple(found)

    def _region(
        self, name: str, read: Read, ranges: tuple[tuple[Range, Range], tuple[Range, Range]], views: ViewEmission
    ) -> Region:
        """Return the region of a view that a layer reads.

        Along an axis where the view has the map's length, and nothing is repeated, this is the region of the map, else
        the second of the two ranges.
        """
        shape, layout = views.parts.graph.tensor[name].shape or (), views.bands[read.source].layout
        is_repeated = max(read.rows.repeat, read.columns.repeat) > 1
        rows, columns = (
            own if size == map_size and not is_repeated else other
            for size, map_size, own, other in zip(
                pixels_of(shape, layout), views.bands[read.source].pixels, *ranges, strict=True
            )
        )
        return region_of_pixels(whole_region(shape), rows, columns, layout)

    def _seen_of_view(
        self, name: str, use: tuple[Read, ReadUse, ReadUse], computed: tuple[Range, Range], views: ViewEmission
    ) -> tuple[Range, Range]:
        """Rows and columns of a view that windows slide over."""
        graph, (read, down, across), place = views.parts.graph, use, views.place
        sizes = pixels_of(graph.tensor[name].shape or ())
        if max(read.rows.repeat, read.columns.repeat) > 1:
            windows = read.rows, read.columns
            rows, columns = (_positions(*each) for each in zip(windows, computed, sizes, strict=True))
            return rows, columns
        places, shift = (place.row, place.column), shift_of_view(graph, name, views.bands)
        rows, columns = (_in_view(*each) for each in zip((down, across), places, shift, sizes, strict=True))
        return rows, columns


def _positions(window: Window, computed: Range, size: int) -> Range:
    """Return the range of repeated pixels that a sliding window sees, within the map's size."""
    first = computed[0] * window.stride - window.pad
    behind = (computed[1] - 1) * window.stride - window.pad + window.reach
    return max(first, 0), min(behind, size)


def _in_view(use: ReadUse, tile: int, shift: int, size: int) -> Range:
    """Return the range of a view that windows see, including the zeros that the view adds around its map."""
    start, stop = range_of(use.seen, tile)
    first, behind = start - int(use.zeros_before[tile]) - shift, stop + int(use.zeros_after[tile]) - shift
    return max(first, 0), min(behind, size)
