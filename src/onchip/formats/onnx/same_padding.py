"""The pads that onnxruntime takes for `auto_pad: SAME_UPPER` and `SAME_LOWER`.

The specification leaves the pads open if the windows need none. onnxruntime then begins inside the input: pads are
negative, and convolutions and pools begin at different elements. Pools take the pads of a window without dilation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onchip.formats.onnx.specification import SpecifiedNode, UnspecifiedError

_FILTERS: Final[Mapping[str, int]] = {"Conv": 1, "ConvInteger": 1, "FusedConv": 1, "QLinearConv": 3}
_POOLS: Final = frozenset({"AveragePool", "LpPool", "MaxPool", "NhwcMaxPool", "QLinearAveragePool"})


def same_pads(size: int, stride: int, taps: int, padding: str, *, is_convolution: bool) -> tuple[int, int]:
    """Return the pads before and behind one axis of the input, for windows without dilation."""
    total = (-(-size // stride) - 1) * stride + taps - size
    doubled = total + (padding == "SAME_LOWER") + (is_convolution and total < 0)
    before = doubled // 2 if doubled >= 0 else -(-doubled // 2)
    return before, total - before


def unusual_pads(node: SpecifiedNode) -> list[int] | None:
    """Return the `pads` of a node with SAME padding; None if they are not negative and respect the dilation."""
    padding, kind = node.attribute("auto_pad", "NOTSET"), node.node.op_type
    if padding not in ("SAME_UPPER", "SAME_LOWER") or kind not in {*_FILTERS, *_POOLS}:
        return None
    try:
        shape, is_convolution = node.shape(0), kind in _FILTERS
        is_channels_last = kind == "NhwcMaxPool" or bool(node.attribute("channels_last", 0))
        sizes = shape[1:-1] if is_channels_last else shape[2:]
        taps = node.shape(_FILTERS[kind])[2:] if is_convolution else node.integers("kernel_shape", (0,) * len(sizes))
        strides, dilations = (node.integers(name, (1,) * len(sizes)) for name in ("strides", "dilations"))
    except UnspecifiedError:
        return None
    if not len(taps) == len(sizes) > 0 or min(*strides, *dilations, *taps) < 1:
        return None
    each = zip(sizes, strides, taps, strict=True)
    pads = [same_pads(*axis, padding, is_convolution=is_convolution) for axis in each]
    is_dilated, is_cut = max(dilations) > 1, min(map(sum, pads)) < 0
    is_unusual = is_cut and not is_dilated if is_convolution else is_cut or is_dilated
    return [before for before, _ in pads] + [behind for _, behind in pads] if is_unusual else None
