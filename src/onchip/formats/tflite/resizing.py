"""Other shapes for a network's inputs: what follows for all other tensors, TFLite's interpreter says."""

from __future__ import annotations

from collections.abc import Mapping

from onchip.errors import GraphError, UsageError
from onchip.formats.tflite.file import ModelFile
from onchip.formats.tflite.network import FlatNetwork, with_shapes


def resized(file: ModelFile, network: FlatNetwork, shapes: Mapping[str, tuple[int, ...]]) -> FlatNetwork:
    """The network with its inputs of these shapes; raises UsageError for what is no input or cannot be."""
    index = {network.tensors[at].name: at for at in network.inputs}
    for name, shape in shapes.items():
        if name not in index:
            known = ", ".join(map(repr, index)) or "none: it has no inputs"
            raise UsageError("no network input has this name", place=f"--shape {name}", expected=known)
        if min(shape, default=1) < 1:
            raise UsageError(f"its shape is {list(shape)}", place=f"--shape {name}", expected="sizes of at least 1")
    changed = {index[name]: shape for name, shape in shapes.items() if shape != network.tensors[index[name]].shape}
    if not changed:
        return network
    if len(file.subgraphs) > 1:
        what = "the file has several subgraphs, whose shapes do not follow from another one"
        raise GraphError(what, place="--shape", expected="the file's own shapes")
    from onchip.formats.tflite.mending import mended
    from onchip.formats.tflite.runtime import Interpreter

    found = Interpreter(mended(file)).shapes_with(changed)
    return with_shapes(network, {**found, **changed})
