"""TFLite's fixed-point factors: what a real factor is as a multiplier and a shift, and a softmax's exponentials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from math import floor, frexp, inf
from typing import Final

from onchip.backends.c.project.calls import Record
from onchip.formats.tflite.file import Accessor, refused_if_damaged

_ONE: Final = 2**31
_LEAST_SHIFT: Final = -31


@dataclass(frozen=True, slots=True)
class Quantisation:
    """A tensor's real numbers are scale * (integer - zero); of weights there is a scale for each channel."""

    scales: tuple[float, ...]
    zero: int

    @property
    def scale(self) -> float:
        """Return the scale, of several the first."""
        return self.scales[0]


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """The factor multiplier * 2^(shift - 31)."""

    multiplier: int
    shift: int

    @staticmethod
    def of(factor: float) -> FixedPoint:
        """Return the nearest to a factor, ties away from zero; 0 for one that 31 bits to the right leave nothing of."""
        fraction, shift = frexp(factor)
        multiplier = floor(fraction * _ONE + 0.5)
        if multiplier == _ONE:
            multiplier, shift = multiplier // 2, shift + 1
        return FixedPoint(0, 0) if shift < _LEAST_SHIFT else FixedPoint(multiplier, shift)

    def over(self, count: int) -> FixedPoint:
        """Return the factor of a mean of so many elements, as TFLite cuts it."""
        shift = min(count.bit_length() - 1, 32, 31 + self.shift)
        return FixedPoint((self.multiplier << shift) // count, self.shift - shift)

    def rescaling(self, zero: int) -> Record:
        """Return what a kernel is told."""
        return Record("rescaling", (("zero", zero), ("multiplier", self.multiplier), ("shift", self.shift)))


_INTEGER_BITS: Final = 5
_MULTIPLIERS: Final = {
    -2: 1672461947,
    -1: 1302514674,
    0: 790015084,
    1: 290630308,
    2: 39332535,
    3: 720401,
    4: 242,
}
"""By the exponent of 2 what e to that negative power is, in units of 2^-31."""
_E_TO_AN_EIGHTH: Final = 1895147668
_A_THIRD: Final = 715827883


def exponentials(beta: float, scale: float) -> Iterator[int]:
    """Yield for each difference 0..255 of integers what e to minus it is, as TFLite's softmax has it; 0 for too far."""
    factor = FixedPoint.of(min(beta * scale * (1 << (31 - _INTEGER_BITS)), _ONE - 1.0))
    reach = floor(((1 << _INTEGER_BITS) - 1) * 2.0 ** (31 - _INTEGER_BITS) / 2.0**factor.shift)
    for difference in range(256):
        if difference > reach:
            yield 0
            continue
        yield _exponential(upper_half(-difference << factor.shift, factor.multiplier))


@cache
def _exponential(value: int) -> int:
    """E to a number <= 0 with five bits before its point: of its rest below a quarter, times those of its bits."""
    if value == 0:
        return _ONE - 1
    quarter = 1 << (31 - _INTEGER_BITS - 2)
    rest = (value & (quarter - 1)) - quarter
    result = _near_zero(rest << _INTEGER_BITS)
    remainder = rest - value
    for exponent, multiplier in _MULTIPLIERS.items():
        if remainder & (1 << (31 - _INTEGER_BITS + exponent)):
            result = upper_half(result, multiplier)
    return result


def _near_zero(value: int) -> int:
    """E to a number in [-1/4, 0) in units of 2^-31: four terms of its series around -1/8."""
    x = value + (1 << 28)
    x2 = upper_half(x, x)
    x3 = upper_half(x2, x)
    x4 = upper_half(x2, x2)
    terms = divide_by_power(upper_half(divide_by_power(x4, 2) + x3, _A_THIRD) + x2, 1)
    return _E_TO_AN_EIGHTH + upper_half(_E_TO_AN_EIGHTH, x + terms)


def upper_half(left: int, right: int) -> int:
    """Return the upper half of twice a product of two numbers of 32 bits, rounded, ties away from zero."""
    product = left * right
    half = 1 << 30 if product >= 0 else 1 - (1 << 30)
    total = product + half
    return total >> 31 if total >= 0 else -(-total >> 31)


def divide_by_power(value: int, exponent: int) -> int:
    """Return a number divided by a power of two, rounded, ties away from zero."""
    mask = (1 << exponent) - 1
    return (value >> exponent) + ((value & mask) > (mask >> 1) + (value < 0))


def activation_range(activation: int, quantisation: Quantisation | None) -> tuple[float, float] | None:
    """Return between which numbers a fused activation keeps values; None for one that is no such range.

    The activation is the schema's number. Of integers the ends are those of the real numbers.
    """
    ends = {0: (-inf, inf), 1: (0.0, inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}.get(activation)
    if ends is None or quantisation is None:
        return ends
    return tuple(quantisation.zero + _rounded(end / quantisation.scale) for end in ends)  # type: ignore[return-value]


def _rounded(value: float) -> float:
    return value if abs(value) == inf else float(floor(abs(value) + 0.5)) * (1 if value >= 0 else -1)


def factors(scales: Iterable[float]) -> tuple[list[int], list[int]]:
    """Return the multipliers and the shifts of real factors."""
    found = [FixedPoint.of(one) for one in scales]
    return [one.multiplier for one in found], [one.shift for one in found]


def stated_quantisation(stated: Accessor) -> Quantisation | None:
    """Return what the schema's reader of a tensor says, or None; raises InputError for a damaged one."""
    with refused_if_damaged():
        found = stated.Quantization()
        if found is None or not found.ScaleLength():
            return None
        zeros = found.ZeroPointAsNumpy() if found.ZeroPointLength() else (0,)
        return Quantisation(tuple(float(one) for one in found.ScaleAsNumpy()), int(zeros[0]))
