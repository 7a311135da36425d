"""Layers named by the user: by text, in a layer table, or as a network or one of its layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from onchip.answer.document import Reading
from onchip.api.networks import NETWORK_READERS, NETWORK_SUFFIXES, Network, read_network
from onchip.errors import InputError
from onchip.formats.own.graph_json import bundled_networks, layer_table
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ops.layers_of import NetworkLayers, Precision, layers_of, with_elements_of

TABLE: Final = "cosa:"
"""Prefix of the name of a layer table."""
TEXTS: Final = ("conv:", "gemm:")
"""Prefixes of a layer given by its geometry."""
_FILES: Final = (*NETWORK_SUFFIXES, ".json", ".json.gz")


def layers_named(source: Network | Layer, reading: Reading, precision: Precision) -> tuple[NetworkLayers, bool]:
    """Return the layers that `source` names, and True if it is one layer rather than a network.

    The forms are a layer, a graph, `conv:...`, `gemm:...`, `cosa:TABLE`, a bundled network or a file, and
    `cosa:TABLE:LAYER` or `NETWORK:LAYER` for one layer. Raises InputError for an unknown source.
    """
    if isinstance(source, Layer):
        return NetworkLayers(None, {source.text: precision.of(source)}), True
    if isinstance(source, Graph):
        return _layers_of(source, reading, precision), False
    if source.startswith(TEXTS):
        return NetworkLayers(None, {source: precision.of(Layer.of_text(source))}), True
    network, layer = _split(source)
    if network.startswith(TABLE):
        found = _precise(NetworkLayers(network, layer_table(network.removeprefix(TABLE))), precision)
    else:
        found = _layers_of(network, reading, precision)
    return (found, False) if layer is None else (found.only(layer), True)


def _layers_of(network: Network, reading: Reading, precision: Precision) -> NetworkLayers:
    return layers_of(with_elements_of(read_network(network, reading), precision.bits), precision)


def _precise(found: NetworkLayers, precision: Precision) -> NetworkLayers:
    """Return the layers with elements and partial sums of the precision."""
    return replace(found, layers={name: precision.of(one) for name, one in found.layers.items()})


def _split(source: str) -> tuple[str, str | None]:
    """Return the network and the requested layer; both names may contain colons."""
    if source.startswith(TABLE):
        table, _, layer = source.removeprefix(TABLE).partition(":")
        return f"{TABLE}{table}", layer or None
    parts = source.split(":")
    files = (*_FILES, *(f".{name}" for name in NETWORK_READERS.names))
    for count in range(len(parts), 0, -1):
        network = ":".join(parts[:count])
        if network in bundled_networks() or network.endswith(files):
            return network, ":".join(parts[count:]) or None
    expected = "conv:..., gemm:..., cosa:TABLE, a network, or NETWORK:LAYER"
    raise InputError("unknown layer or network", place=source, expected=expected)
