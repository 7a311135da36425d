"""The equation of a ZigZag layer: which loops lead to another element of which operand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from re import findall, fullmatch

from onchip.errors import InputError
from onchip.ir.layer import OTHER_NAMES, RELEVANT, WEIGHT, Layer
from onchip.ops.contractions.contractions import MetAxis, contraction
from onchip.ops.windows.sliding_windows import NoLayerError

OPERAND = r"(\w+)((?:\[\w+\])+)"
EXPECTED = "like O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]"


@dataclass(frozen=True, slots=True)
class Equation:
    """The loops along which each operand has other elements, in capitals, as the file calls them.

    `weight` is empty where one operand is read. By their names the precisions of what is read are stated.
    """

    output: frozenset[str]
    input: frozenset[str]
    weight: frozenset[str]
    input_name: str
    weight_name: str

    @classmethod
    def of_text(cls, text: str) -> Equation:
        """Read one or two operands; that called I is the input, else the last. Raises InputError for what is none."""
        plain = text.replace(" ", "")
        if fullmatch(rf"{OPERAND}\+?={OPERAND}(?:[*+]{OPERAND})?", plain) is None:
            raise InputError(f"it is {text!r}", place="equation", expected=EXPECTED)
        (_, output), *read = findall(OPERAND, plain)
        *others, (input_name, of_input) = sorted(read, key=lambda named: named[0] == "I")
        weight_name, of_weight = others[0] if others else ("", "")
        return cls(_loops(output), _loops(of_input), _loops(of_weight), input_name, weight_name)

    @property
    def is_of_elements(self) -> bool:
        """Whether it is no convolution: two operands meet along loops that lead to no other weight of one."""
        loops = {OTHER_NAMES.get(loop, loop) for loop in self.weight}
        return bool(self.weight) and not loops <= set(RELEVANT[WEIGHT])

    def product(self, sizes: Mapping[str, int]) -> Layer:
        """The layer of two operands without windows, of loops of any names; raises InputError where it is none."""
        axes = [
            MetAxis(size, loop in self.input, loop in self.weight, loop in self.output) for loop, size in sizes.items()
        ]
        try:
            return contraction(axes)
        except NoLayerError as error:
            raise InputError(f"of its loops {error}", place="equation", expected=EXPECTED) from None


def _loops(indices: str) -> frozenset[str]:
    return frozenset(findall(r"\w+", indices.upper()))
