"""Small networks as depth-first execution sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from onchip.ir.layer import Layer
from onchip.ir.window import Window
from onchip.ops.fusable import FeatureMap, FusableLayer, FusableNetwork, Read

POINT = Window(1, 1, 1, 0)


def fusable_layer(name: str, sources: tuple[str, ...], channels: int, size: int, weight_bits: int = 8) -> FusableLayer:
    """Return a 1x1 convolution or, for several sources, a sum of maps of equal size."""
    layer = Layer(k=channels, c=channels, p=size, q=size)
    output = FeatureMap(f"{name}.out", channels, size, size)
    return FusableLayer(name, layer, output, tuple(Read(one, POINT, POINT) for one in sources), weight_bits)


def network_of(
    sources: Mapping[str, tuple[str, ...]], size: int = 4, weight_bits: int = 8, leaving: Sequence[str] = ()
) -> FusableNetwork:
    """Return layers by name, reading other layers or `x`; the layers in `leaving` write network outputs."""
    layers = tuple(
        fusable_layer(name, tuple(one if one == "x" else f"{one}.out" for one in read), 2, size, weight_bits)
        for name, read in sources.items()
    )
    outputs = tuple(f"{name}.out" for name in leaving)
    return FusableNetwork("net", (FeatureMap("x", 2, size, size),), layers, outputs)


def chain(count: int, size: int = 4, weight_bits: int = 8) -> FusableNetwork:
    names = [f"l{at}" for at in range(count)]
    sources = {name: (names[at - 1] if at else "x",) for at, name in enumerate(names)}
    return network_of(sources, size, weight_bits)


RESIDUAL = {"a": ("x",), "b": ("a",), "c": ("b",), "add": ("a", "c"), "d": ("add",)}


@st.composite
def networks(draw: st.DrawFn, most_layers: int = 6, size: int = 4) -> FusableNetwork:
    """Draw layers that each read one or two earlier ones; any of them may write an output."""
    count = draw(st.integers(1, most_layers))
    names = [f"l{at}" for at in range(count)]
    sources: dict[str, tuple[str, ...]] = {}
    for at, name in enumerate(names):
        before = ["x", *names[:at]]
        sources[name] = tuple(draw(st.lists(st.sampled_from(before), min_size=1, max_size=2, unique=True)))
    return network_of(sources, size, leaving=draw(st.lists(st.sampled_from(names), max_size=2, unique=True)))
