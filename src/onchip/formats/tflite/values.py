"""Bytes as they are presented, and as the file has them: the same elements, their axes in another order."""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.formats.tflite.layouts import Presentation
from onchip.formats.tflite.types import INT4, dtype_of

Content: TypeAlias = npt.NDArray[np.uint8]


def as_presented(content: Content, element_type: int, shape: tuple[int, ...], presented: Presentation) -> Content:
    """The bytes of a tensor of that shape in the file, in the presented order."""
    if presented.order == tuple(range(len(shape))):
        return content
    elements = _elements(content, element_type, prod(shape)).reshape(shape)
    return _packed(elements.transpose(presented.order), element_type)


def as_in_file(content: Content, element_type: int, shape: tuple[int, ...], presented: Presentation) -> Content:
    """The bytes of a tensor that is presented so, in the file's order."""
    if presented.order == tuple(range(len(shape))):
        return content
    turned = tuple(shape[at] for at in presented.order)
    elements = _elements(content, element_type, prod(shape)).reshape(turned)
    return _packed(elements.transpose(np.argsort(presented.order)), element_type)


def bytes_of_array(array: npt.NDArray[Any]) -> Content:
    """The bytes of an array, one after the other."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _elements(content: Content, element_type: int, count: int) -> npt.NDArray[Any]:
    """One entry for each element; of two in a byte, the lower half comes first."""
    if element_type == INT4:
        return np.stack((content & 15, content >> 4), axis=-1).reshape(-1)[:count]
    dtype = dtype_of(element_type)
    return content.view(np.uint16 if dtype is None else dtype)  # bfloat16 is moved, never computed with


def _packed(elements: npt.NDArray[Any], element_type: int) -> Content:
    flat = np.ascontiguousarray(elements).reshape(-1)
    if element_type != INT4:
        return flat.view(np.uint8)
    halves = np.concatenate((flat, np.zeros(len(flat) % 2, np.uint8))).reshape(-1, 2)
    packed: Content = (halves[:, 0] | halves[:, 1] << 4).astype(np.uint8)
    return packed
