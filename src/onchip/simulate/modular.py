"""Arithmetic modulo 2^bits on arrays of 64-bit unsigned integers."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.simulate.parts import Integers

Limbs: TypeAlias = Sequence[npt.NDArray[np.float64]]

_LIMB_BITS = 16
_MOST_IN_A_BLOCK = 2**18
_MOST_ROWS = 64
_MOST_TERMS = 1024  # far fewer than the 2^21 products of limbs that double precision adds up without rounding
_FACTOR = 0x9E3779B97F4A7C15


def limbs(values: Integers, bits: int) -> Limbs:
    """The digits to the base 2^16, the lowest first."""
    count = -(-bits // _LIMB_BITS)
    mask = np.uint64(2**_LIMB_BITS - 1)
    return [((values >> np.uint64(_LIMB_BITS * place)) & mask).astype(np.float64) for place in range(count)]


def product_of_limbs(one: Limbs, other: Limbs) -> Integers:
    """The matrix product modulo 2^64, by way of floating-point products, which are fast and here exact."""
    shape = np.broadcast_shapes(one[0].shape[:-2], other[0].shape[:-2])
    total = np.zeros((*shape, one[0].shape[-2], other[0].shape[-1]), np.uint64)
    for rows, terms, columns in _blocks(one[0].shape[-2], one[0].shape[-1], other[0].shape[-1]):
        block = total[..., rows, columns]
        for low, a in enumerate(one):
            for high, b in enumerate(other):
                if low + high < 64 // _LIMB_BITS:
                    part = np.matmul(a[..., rows, terms], b[..., terms, columns]).astype(np.uint64)
                    block += part << np.uint64(_LIMB_BITS * (low + high))
    return total


def _blocks(rows: int, terms: int, columns: int) -> Iterator[tuple[slice, slice, slice]]:
    """Products of at most `_MOST_IN_A_BLOCK` multiplications, or little more.

    BLAS does those on one thread; where other work keeps the cores busy, threads that wait for each other take
    ten times as long.
    """
    most_rows, most_terms = min(rows, _MOST_ROWS), min(terms, _MOST_TERMS)
    most_columns = max(1, _MOST_IN_A_BLOCK // max(1, most_rows * most_terms))
    return product(_pieces(rows, most_rows), _pieces(terms, most_terms), _pieces(columns, most_columns))


def _pieces(size: int, most: int) -> list[slice]:
    return [slice(start, min(start + most, size)) for start in range(0, size, max(most, 1))]


def masked(values: Integers, bits: int) -> Integers:
    """Return the values modulo 2^bits, element by element."""
    return values & np.uint64(2**bits - 1)


def mixed(values: Integers, bits: int, salt: str) -> Integers:
    """A bijection of the integers of so many bits, another for another salt."""
    half = np.uint64(bits // 2)
    number = zlib.crc32(salt.encode()) * _FACTOR % 2**64
    values = masked(values + np.uint64(number), bits)
    for factor in (_FACTOR, number):
        values = masked((values ^ (values >> half)) * np.uint64(factor | 1), bits)
    return values ^ (values >> half)
