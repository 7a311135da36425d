"""How a kernel reads elements: from registers, shared memory or the network, and zero beyond what there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onchip.backends.nests.gpu_nest import GpuNest
from onchip.backends.nests.gpu_places import (
    AXES,
    PIXELS,
    Digits,
    RegisterTile,
    SharedTile,
    axis_of,
    by_name,
    index,
    network_sizes,
    offset,
    packed_index,
    pixel,
    unpacked_digits,
    unpacked_index,
)
from onchip.ir.layer import INPUT


@dataclass(frozen=True, slots=True)
class GpuReads:
    """The tiles of a nest, by operand: those that threads share, and those of a thread."""

    nest: GpuNest
    shared: Mapping[str, SharedTile]
    own: Mapping[str, RegisterTile]

    def factor(self, operand: str) -> str:
        """What is multiplied within all loops."""
        if operand in self.own:
            return self.own[operand].element()
        pixels = {}
        for axis in self.pixel_axes(operand):
            one = axis_of(self.nest.layer, axis)
            loops = [loop for loop in self.nest.loops if loop.dimension == one.output_loop]
            pixels[axis] = pixel(one, loops, [loop for loop in self.nest.loops if loop.dimension == one.filter_loop])
        return self._read(operand, by_name, pixels)

    def loaded(self, tile: RegisterTile, at: str) -> str:
        """The element that stands at a place of a thread's own tile."""
        places = _unpacked(at, tile.sizes)
        digits: dict[str, str] = {}
        for axis in AXES[tile.operand]:
            if axis not in PIXELS:
                for loop, digit in unpacked_digits(tile.loops(axis), places[axis]).items():
                    digits[loop.name] = digit
        pixels = {axis: _sum(tile.first(axis), places[axis]) for axis in self.pixel_axes(tile.operand)}
        return self._read(tile.operand, lambda loop: digits.get(loop.name, loop.name), pixels)

    def copied(self, tile: SharedTile, at: str) -> tuple[dict[str, str], list[str]]:
        """Where in the network the element lies that stands at a place of a shared tile, and if it lies there."""
        inside = _unpacked(at, tile.sizes)
        places, guards = {}, []
        sizes = network_sizes(self.nest.layer, tile.operand)
        for axis in AXES[tile.operand]:
            if axis in PIXELS:
                is_whole = axis not in self.pixel_axes(tile.operand)
                places[axis] = "0" if is_whole else _sum(f"{tile.name}_{axis.lower()}", inside[axis])
                if not is_whole:
                    guards.append(f"{places[axis]} < {sizes[axis]}")
                continue
            places[axis] = _sum(index(tile.others(axis)), unpacked_index(tile.loops(axis), inside[axis]))
            if self.nest.ends_short(axis):
                guards.append(f"{places[axis]} < {sizes[axis]}")
        return places, guards

    def pixel_axes(self, operand: str) -> tuple[str, ...]:
        """The axes of the input along which there are several elements, or zeros around them."""
        if operand != INPUT:
            return ()
        layer = self.nest.layer
        return tuple(axis for axis in PIXELS if _is_long(self.nest, axis) or any(layer.padding))

    def _read(self, operand: str, digits: Digits, pixels: Mapping[str, str]) -> str:
        """An element of shared memory, if it has a tile of the operand, else of the network; or zero."""
        sizes = network_sizes(self.nest.layer, operand)
        tile = self.shared.get(operand)
        places, guards = {}, []
        for axis in AXES[operand]:
            if axis in PIXELS:
                place, size = pixels.get(axis, "0"), sizes[axis]
                if tile is not None and axis in pixels:
                    place, size = f"{place} - {tile.name}_{axis.lower()}", tile.sizes[axis]
                if axis in pixels and self._may_lie_outside(axis):
                    guards.append(f"(unsigned)({place}) < {size}")
                places[axis] = place
                continue
            loops = [loop for loop in self.nest.loops if loop.dimension == axis]
            whole = index(loops, digits)
            if self.nest.ends_short(axis):
                guards.append(f"{whole} < {sizes[axis]}")
            places[axis] = whole if tile is None else packed_index(tile.loops(axis), digits)
        source, extents = (operand, sizes) if tile is None else (tile.name, tile.sizes)
        value = f"{source}[{offset(places, extents)}]"
        return f"({' && '.join(guards)} ? {value} : 0)" if guards else value

    def _may_lie_outside(self, axis: str) -> bool:
        one = axis_of(self.nest.layer, axis)
        return any(self.nest.layer.padding) or any(map(self.nest.ends_short, (one.output_loop, one.filter_loop)))


def _is_long(nest: GpuNest, axis: str) -> bool:
    one = axis_of(nest.layer, axis)
    return nest.span(one.output_loop) > 1 or nest.span(one.filter_loop) > 1


def _unpacked(at: str, sizes: Mapping[str, int]) -> dict[str, str]:
    """The places along the axes of an element at a place of a tile."""
    found, radix = dict.fromkeys(sizes, "0"), 1
    long = [axis for axis in reversed(list(sizes)) if sizes[axis] > 1]
    for axis in long:
        shifted = at if radix == 1 else f"{at} / {radix}"
        radix *= sizes[axis]
        is_last = axis == long[-1]
        found[axis] = (
            shifted if is_last and shifted == at else f"({shifted})" if is_last else f"({shifted} % {sizes[axis]})"
        )
    return found


def _sum(*terms: str) -> str:
    return " + ".join(term for term in terms if term != "0") or "0"
