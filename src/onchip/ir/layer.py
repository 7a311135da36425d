"""A layer as a loop nest; each iteration is one multiply-accumulate.

For each n, g, k, c, p, q, r, s:
output[n, g, k, p, q] += weight[g, k, c, r, s] * input[n, g, c, p * stride + r * dilation - padding, ...]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from re import Match, fullmatch
from typing import Final

from onchip.errors import InputError

LOOPS: Final = ("N", "K", "C", "P", "Q", "R", "S", "G")
"""Batch; output and input channel of a group; output height, width; filter height, width; group."""
INPUT, WEIGHT, OUTPUT = "input", "weight", "output"
RELEVANT: Final[Mapping[str, tuple[str, ...]]] = {
    INPUT: ("N", "C", "P", "Q", "R", "S", "G"),
    WEIGHT: ("K", "C", "R", "S", "G"),
    OUTPUT: ("N", "K", "P", "Q", "G"),
}
"""The loops that index an operand; along the other loops the same element is reused."""
OTHER_NAMES: Final[Mapping[str, str]] = {"B": "N", "OY": "P", "OX": "Q", "FY": "R", "FX": "S"}
"""Names of the loops in other publications."""


GREATEST_NUMBER: Final = 2**53 - 1
"""The greatest number in a layer: floats hold all whole numbers up to it."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of the input: position = output * stride + filter * dilation - padding; [0, size) is stored."""

    output_loop: str
    filter_loop: str
    stride: int
    dilation: int
    padding: int
    size: int

    def span(self, outputs: int, filters: int) -> int:
        """Return the extent in input positions (halo included) of `outputs` outputs with `filters` filter taps."""
        return (outputs - 1) * self.stride + (filters - 1) * self.dilation + 1


@dataclass(frozen=True, slots=True)
class Layer:
    """The loop bounds of a layer (K and C per group), and the geometry of its windows.

    `padding` is top, left, bottom, right: zeros around the input that are neither stored nor moved. `stride` and
    `dilation` are (height, width). A layer without weights (a pool) has `has_weight` False. A matrix product A x B has
    N = rows of A, C = columns of A, K = columns of B. Partial sums have `partial_bits`.
    """

    n: int = 1
    k: int = 1
    c: int = 1
    p: int = 1
    q: int = 1
    r: int = 1
    s: int = 1
    g: int = 1
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    input_bits: int = 8
    weight_bits: int = 8
    output_bits: int = 8
    partial_bits: int = 24
    has_weight: bool = True

    def __post_init__(self) -> None:
        loops = (self.n, self.k, self.c, self.p, self.q, self.r, self.s, self.g)
        if min(*loops, *self.stride, *self.dilation, self.input_bits, self.weight_bits, self.output_bits) < 1:
            raise self._error_of_what_is_below_one()
        if min(self.padding) < 0:
            raise InputError(f"padding is {self.padding}", place="layer", expected="at least 0 on each side")
        if self.partial_bits < self.output_bits:
            detail = f"partial sums have {self.partial_bits} bits"
            raise InputError(detail, place="layer", expected=f"at least those of the output ({self.output_bits})")
        if min(self.input_pixels) < 1:
            raise InputError(f"padding {self.padding} leaves no input", place="layer", expected="less padding")
        self._ensure_exact()

    @classmethod
    def of_text(cls, text: str) -> Layer:
        """Return the layer that a text such as `conv:n1k256c256p14q14r3s3:stride2:dilation1:pad1:groups32` describes.

        The other form is `gemm:m64n256k512`. K and C are totals over all groups, as everywhere outside the nest.
        Omitted bounds are 1 (padding 0); `stride2x1` is height x width, `pad1x1x0x0` is top, left, bottom, right.
        Raises InputError for invalid text.
        """
        kind, _, rest = text.partition(":")
        bounds, *options = rest.split(":")
        if kind not in ("conv", "gemm"):
            raise InputError(f"{kind!r} is no kind of layer", place=text, expected="conv:... or gemm:...")
        sizes = _sizes(bounds, "nkcpqrs" if kind == "conv" else "mnk", text)
        if kind == "gemm":
            sizes = {"n": sizes.get("m", 1), "k": sizes.get("n", 1), "c": sizes.get("k", 1)}
        return _with_options(sizes, options, text)

    @property
    def text(self) -> str:
        """Return the text of a convolution or a matrix product with this geometry, as for `of_text`."""
        totals = zip("nkcpqrs", (self.n, self.k * self.g, self.c * self.g, self.p, self.q, self.r, self.s), strict=True)
        options = {
            "stride": (self.stride, (1, 1)),
            "dilation": (self.dilation, (1, 1)),
            "pad": (self.padding, (0, 0, 0, 0)),
        }
        shown = [f"{name}{'x'.join(map(str, values))}" for name, (values, plain) in options.items() if values != plain]
        groups = [f"groups{self.g}"] if self.g > 1 else []
        return ":".join(["conv", "".join(f"{name}{size}" for name, size in totals), *shown, *groups])

    @property
    def bounds(self) -> dict[str, int]:
        """Return the iterations of each loop, in the order of LOOPS."""
        values = (self.n, self.k, self.c, self.p, self.q, self.r, self.s, self.g)
        return dict(zip(LOOPS, values, strict=True))

    @property
    def macs(self) -> int:
        """Return the number of multiply-accumulates, including those with padded zeros."""
        return prod(self.bounds.values())

    @property
    def is_element_by_element(self) -> bool:
        """Return True if each output depends only on the operand elements at its own position."""
        has_windows = max(self.stride) > 1 or max(self.padding) > 0
        return self.k == self.c == self.r == self.s == 1 and not has_windows

    @property
    def operands(self) -> tuple[str, ...]:
        """Return the operands that the layer reads and writes."""
        return tuple(RELEVANT) if self.has_weight else (INPUT, OUTPUT)

    @property
    def input_pixels(self) -> tuple[int, int]:
        """Return the height and width of the input, without padded zeros."""
        top, left, bottom, right = self.padding
        height = (self.p - 1) * self.stride[0] + (self.r - 1) * self.dilation[0] + 1 - top - bottom
        width = (self.q - 1) * self.stride[1] + (self.s - 1) * self.dilation[1] + 1 - left - right
        return height, width

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """Return the height and width axes of the input."""
        height, width = self.input_pixels
        return (
            Axis("P", "R", self.stride[0], self.dilation[0], self.padding[0], height),
            Axis("Q", "S", self.stride[1], self.dilation[1], self.padding[1], width),
        )

    def bits(self, operand: str) -> int:
        """Return the bits of one final element of an operand."""
        return {INPUT: self.input_bits, WEIGHT: self.weight_bits, OUTPUT: self.output_bits}[operand]

    def elements(self, operand: str) -> int:
        """Return the number of elements of an operand, without padded zeros but with the rows that a stride skips."""
        return self.elements_within(operand, self.bounds) if operand in self.operands else 0

    def elements_within(self, operand: str, sizes: Mapping[str, int]) -> int:
        """Return the number of elements of an operand that loops of these sizes touch, with the rows between them."""
        if operand != INPUT:
            return prod(sizes[loop] for loop in RELEVANT[operand])
        pixels = prod(min(axis.span(sizes[axis.output_loop], sizes[axis.filter_loop]), axis.size) for axis in self.axes)
        return sizes["N"] * sizes["C"] * sizes["G"] * pixels

    def with_stored_padding(self) -> Layer:
        """Return the layer with its padding as stored input, for models without padding."""
        return replace(self, padding=(0, 0, 0, 0))

    def padded_to(self, bounds: Mapping[str, int]) -> Layer:
        """Return the layer with its loops padded to `bounds`; additional filter taps, outputs and inputs are zeros.

        The zeros are stored and moved as other elements are. Raises InputError if a bound is shorter than the loop.
        """
        for loop, bound in self.bounds.items():
            if bounds[loop] < bound:
                raise InputError(f"{loop} has {bounds[loop]} iterations", place="layer", expected=f"at least {bound}")
        n, k, c, p, q, r, s, g = (bounds[loop] for loop in LOOPS)
        return replace(self, n=n, k=k, c=c, p=p, q=q, r=r, s=s, g=g)

    def _ensure_exact(self) -> None:
        """Raise InputError for a number that a float or a native integer cannot represent exactly.

        The number of multiply-accumulates, a product of loops, is limited by `map`.
        """
        numbers = self.bounds | {"stride": max(self.stride), "dilation": max(self.dilation)}
        numbers |= {"padding": max(self.padding), "rows or columns of the input": max(self.input_pixels)}
        numbers |= {f"bits of {operand}": self.bits(operand) for operand in RELEVANT}
        if max(self.stride) > 1 or max(self.dilation) > 1:
            numbers["elements of the input"] = self.elements(INPUT)
        for name, value in numbers.items():
            if value > GREATEST_NUMBER:
                raise InputError(f"{name} is {value}", place="layer", expected=f"at most {GREATEST_NUMBER}")

    def _error_of_what_is_below_one(self) -> InputError:
        values = self.bounds | {"stride": min(self.stride), "dilation": min(self.dilation)}
        values |= {f"bits of {operand}": self.bits(operand) for operand in RELEVANT}
        name, value = next((name, value) for name, value in values.items() if value < 1)
        return InputError(f"{name} is {value}", place="layer", expected="at least 1")


def _sizes(text: str, letters: str, place: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    parts = fullmatch(r"((?:[a-z][0-9]+)*)", text)
    pairs = list(_letters_and_numbers(text)) if parts else []
    for letter, number in pairs:
        if letter not in letters or letter in sizes:
            pairs = []
            break
        sizes[letter] = int(number)
        if not sizes[letter]:
            raise InputError(f"{letter.upper()} is 0", place=place, expected="at least 1")
    if not pairs:
        example = "".join(f"{letter}16" for letter in letters)
        raise InputError(f"{text!r} gives no sizes", place=place, expected=f"each of {letters} once, like {example}")
    return sizes


def _letters_and_numbers(text: str) -> Iterable[tuple[str, str]]:
    while match := fullmatch(r"([a-z])([0-9]+)(.*)", text):
        letter, number, text = match.groups()
        yield letter, number


def _with_options(sizes: dict[str, int], options: list[str], place: str) -> Layer:
    stride, dilation, padding, groups = (1, 1), (1, 1), (0, 0, 0, 0), 1
    for option in options:
        match = fullmatch(r"(stride|dilation|pad|groups)([0-9]+(?:x[0-9]+)*)", option)
        numbers = _numbers(match)
        if match is None or len(numbers) not in {"pad": (1, 2, 4), "groups": (1,)}.get(match[1], (1, 2)):
            raise InputError(
                f"{option!r} is not an option with a number",
                place=place,
                expected="stride, dilation, pad or groups, such as pad1",
            )
        match match[1]:
            case "stride":
                stride = (numbers[0], numbers[-1])
            case "dilation":
                dilation = (numbers[0], numbers[-1])
            case "pad":
                padding = (numbers[0], numbers[1 % len(numbers)], numbers[2 % len(numbers)], numbers[-1])
            case _:
                groups = numbers[0]
    for channels in ("k", "c"):
        if groups < 1 or sizes.get(channels, 1) % groups:
            detail = f"{sizes.get(channels, 1)} channels {channels} do not make {groups} groups"
            raise InputError(detail, place=place, expected="a multiple of the groups")
        sizes[channels] = sizes.get(channels, 1) // groups
    try:
        n, k, c, p, q, r, s = (sizes.get(letter, 1) for letter in "nkcpqrs")
        return Layer(n, k, c, p, q, r, s, groups, stride, dilation, padding)
    except InputError as error:
        error.place = place
        raise


def _numbers(match: Match[str] | None) -> list[int]:
    return [int(number) for number in match[2].split("x")] if match else []
