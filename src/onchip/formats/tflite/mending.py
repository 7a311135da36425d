"""Files that TFLite Micro runs and ai-edge-litert refuses: written as the stricter one wants it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from onchip.formats.tflite.file import ModelFile, refused_if_damaged

_QUANTISED_DIMENSION: Final = 6  # a field of QuantizationParameters


def mended(file: ModelFile) -> bytes:
    """The file's bytes, a tensor of one dimension quantised along that one; raises InputError for a damaged file.

    Older converters say of a bias that it is quantised along dimension 3, as its weights are.
    """
    with refused_if_damaged():
        places = list(_wrong_dimensions(file))
    if not places:
        return file.content
    content = bytearray(file.content)
    for place in places:
        struct.pack_into("<i", content, place, 0)
    return bytes(content)


def _wrong_dimensions(file: ModelFile) -> Iterator[int]:
    """Where a dimension stands that a tensor of one dimension does not have."""
    for at in range(file.table.SubgraphsLength()):
        subgraph = file.table.Subgraphs(at)
        for index, tensor in enumerate(file.subgraphs[at].tensors):
            quantisation = subgraph.Tensors(index).Quantization() if len(tensor.shape) == 1 else None
            if quantisation is not None and quantisation.QuantizedDimension() > 0:
                table = quantisation._tab
                yield table.Pos + table.Offset(4 + 2 * _QUANTISED_DIMENSION)
