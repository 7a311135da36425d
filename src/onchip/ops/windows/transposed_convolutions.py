"""Transposed convolutions: which pixels of the input a range of the output's rows and columns meets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from onchip.ir.window import integer, integers
from onchip.ops.derive.geometry import Geometry, Span
from onchip.ops.registry.outline import Outline, Shape, whole

_SPATIAL: Final = 2


@dataclass(frozen=True, slots=True)
class _Spread:
    """Along one dimension: input pixel i adds to the output's i * stride - pad + k for k from 0 to behind `reach`.

    The padding lies from `least_pad` to `most_pad`, where a file leaves open which it is.
    """

    stride: int
    reach: int
    least_pad: int
    most_pad: int

    def span(self, size: int, axis: int) -> Span:
        """The pixels that meet a range of the output: at least those."""
        first = -(-(self.least_pad - self.reach + 1) // self.stride)
        last = (self.stride - 1 + self.most_pad) // self.stride
        return Span(size, axis, per=self.stride, offset=first, extent=last - first + 1)


def _convolution(outline: Outline) -> Geometry | None:
    shapes, written, groups = outline.shapes(), outline.written, integer(outline.operator, "group", 1)
    source = shapes[0]
    is_weight = [len(one) == len(source) and one[:2] == (source[1], written[1] // groups) for one in shapes[1:]]
    if len(outline.operator.outputs) > 1 or len(source) <= _SPATIAL or len(source) != len(written):
        return None
    if not any(is_weight) or source[0] != written[0] or source[1] % groups or written[1] % groups:
        return None
    place = 1 + is_weight.index(True)
    spreads = _spreads(outline, shapes[place][_SPATIAL:], source[_SPATIAL:], written[_SPATIAL:])
    behind = shapes[place + 1 :]
    outline.cut_along_output(range(_SPATIAL + 1, len(written)))
    rest = outline.beside(behind, [outline.along_channels(shape) for shape in behind])
    if spreads is None or rest is None:
        return None
    summed = outline.reduce(source[1]) if groups == 1 and outline.is_model else None
    depth, weight = Span(source[1], summed), Span(written[1], 1)
    if groups > 1:
        inside = source[1] // groups
        depth = Span(source[1], 1, per=written[1] // groups, step=inside, extent=inside)
        weight = Span(written[1] // groups)
    pixels = [
        spread.span(size, at)
        for at, (size, spread) in enumerate(zip(source[_SPATIAL:], spreads, strict=True), _SPATIAL)
    ]
    kernel = map(Span, shapes[place][_SPATIAL:])
    first = (Span(source[0], 0), depth, *pixels)
    return outline.finish([first, *whole(shapes[1:place]), (depth, weight, *kernel), *rest])


def _spreads(outline: Outline, kernel: Shape, before: Shape, after: Shape) -> Sequence[_Spread] | None:
    """None where the sizes are not those that the attributes say, and for a network without a model unless they do."""
    operator, rank = outline.operator, len(kernel)
    strides, dilations = (integers(operator, name, (1,) * rank) for name in ("strides", "dilations"))
    more, pads = integers(operator, "output_padding", (0,) * rank), integers(operator, "pads", (0,) * (2 * rank))
    is_open = operator.attributes.get("auto_pad", "NOTSET") != "NOTSET" or "output_shape" in operator.attributes
    found = []
    for at, (taps, stride, dilation) in enumerate(zip(kernel, strides, dilations, strict=True)):
        reach = (taps - 1) * dilation + 1
        total = (before[at] - 1) * stride + reach + more[at] - after[at]
        if is_open and outline.is_model:
            found.append(_Spread(stride, reach, max(total, 0) // 2, -(-max(total, 0) // 2)))
        elif is_open or total != pads[at] + pads[rank + at]:
            return None
        else:
            found.append(_Spread(stride, reach, pads[at], pads[at]))
    return found


def _with_bias(outline: Outline) -> Geometry | None:
    """TFLite's: batch, rows, columns, channels; its stride and padding, which its file hides, follow from the sizes."""
    shapes, written = outline.shapes(), outline.written
    if len(shapes) < 2 or {*map(len, (*shapes[:2], written))} != {4}:
        return None
    source, weight = shapes[:2]
    if (source[0], source[3], weight[0]) != (written[0], weight[3], written[3]):
        return None
    spreads = [_of_sizes(*sizes) for sizes in zip(source[1:3], written[1:3], weight[1:3], strict=True)]
    known = [one for one in spreads if one is not None]
    if len(known) < len(spreads):
        return None
    outline.cut_along_output((_SPATIAL,))
    pixels = [spread.span(size, at) for at, (size, spread) in enumerate(zip(source[1:3], known, strict=True), start=1)]
    filters = (Span(weight[0], 3), *map(Span, weight[1:]))
    return outline.finish([(Span(source[0], 0), *pixels, Span(source[3])), filters, *whole(shapes[2:])])


def _of_sizes(before: int, after: int, taps: int) -> _Spread | None:
    """The stride that makes the output a multiple of the input (SAME), or as long as the last tap reaches (VALID)."""
    if after % before == 0:
        stride = after // before
        return _Spread(stride, taps, 0, max(taps - stride, 0))
    if before > 1 and after > taps and (after - taps) % (before - 1) == 0:
        return _Spread((after - taps) // (before - 1), taps, 0, 0)
    return None


TRANSPOSED_CONVOLUTIONS: Final[Mapping[str, Callable[[Outline], Geometry | None]]] = {
    "ConvTranspose": _convolution,
    "custom.Convolution2DTransposeBias": _with_bias,
}
"""By kind its geometry, None where its sizes are not those that its attributes say."""
