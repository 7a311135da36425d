"""TFLite file -> raw Graph: constants and views folded away, every shape static."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from onchip.errors import NetworkWarning, errors_in_file
from onchip.formats.networks import warn_of_states
from onchip.ir.graph import Graph

if TYPE_CHECKING:
    from onchip.formats.tflite.file import ModelFile
    from onchip.formats.tflite.graph import ReadNetwork

_NO_SHAPES: Mapping[str, tuple[int, ...]] = MappingProxyType({})


def read_tflite(path: Path, shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES) -> Graph:
    """Read the network at the granularity of its operators; `shapes` are those of network inputs, by name.

    Where `shapes` says nothing the file's own shapes hold, also of dimensions that it leaves open. Raises InputError
    for a file that is not a whole TFLite model, GraphError for a network that has no plan, UsageError for a shape
    that the network cannot have. State is an input and an output: a NetworkWarning says so.
    """
    read = read_tflite_network(path, shapes)
    warn_of_states(path, read.states)
    for remark in read.network.remarks:
        warnings.warn(f"{path}: {remark}", NetworkWarning, stacklevel=2)
    return read.graph


def read_tflite_network(path: Path, shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES) -> ReadNetwork:
    """The graph with what it was made from; raises as `read_tflite` does."""
    # tflite takes 0.2 s to import: only those who read a TFLite file pay for it.
    from onchip.formats.tflite.file import load_model_file

    with errors_in_file(str(path)):
        return network_of_file(load_model_file(path), path.stem, shapes)


def network_of_file(file: ModelFile, name: str, shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES) -> ReadNetwork:
    """The graph of a file's tables, called `name` where the file has no name for it; raises as `read_tflite` does."""
    from onchip.formats.tflite.graph import build_network
    from onchip.formats.tflite.inlining import flat_network
    from onchip.formats.tflite.network import resized

    network = resized(file, flat_network(file), shapes)
    return build_network(file, network, network.name or name)
