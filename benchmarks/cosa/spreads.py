"""CoSA's figures 3 and 4: one layer each, mappings that differ in one respect, timed on the network of figure 10.

The paper states the layers, the orders and the spatial factors. It omits the temporal factors within a PE; here they
fill its buffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product

from cosa import published
from cosa.network import NetworkTimes

from onchip.answer.layer_mapping import LayerMapping, Loop, even
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import Operand
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from onchip.verify.mapping import verify_mapping

FIGURE_THREE, FIGURE_FOUR = "figure3", "figure4"
ROUNDS = 4096
ELEMENTS = 16


@dataclass(frozen=True, slots=True)
class Spread:
    """A mapping by its difference from the others, and its cycles."""

    name: str
    cycles: float


def spread(name: str) -> list[Spread]:
    """Print the mappings of a figure, the slowest first, and the slowest over the fastest next to the paper's."""
    found, said = (
        (_of_orders(), published.SPREAD_OF_ORDERS)
        if name == FIGURE_THREE
        else (_of_elements(), published.SPREAD_OF_ELEMENTS)
    )
    ordered = sorted(found, key=lambda one: -one.cycles)
    for one in ordered:
        print(f"{one.name:16} {one.cycles:12,.0f}")
    print(f"slowest / fastest {ordered[0].cycles / ordered[-1].cycles:.2f} (the paper {said})")
    return ordered


def _of_orders() -> Iterator[Spread]:
    """Six orders of the loops of P, C and K at the global buffer, named from the outermost."""
    outer = {"P": 4, "C": 4, "K": 2}
    own = [Loop(*one) for one in (("P", 2), ("Q", 8), ("R", 3), ("S", 3), ("K", 2))]
    for order in permutations("PCK"):
        at_buffer = [Loop("K", 16, "pe"), *(Loop(loop, outer[loop]) for loop in reversed(order))]
        layer = Layer(k=1024, c=32, p=8, q=8, r=3, s=3)
        yield Spread("".join(order), _cycles(layer, own, at_buffer, [Loop("K", 2)]))


def _of_elements() -> Iterator[Spread]:
    """Factors of P, C and K of 4 each, 16 of all 64 side by side; the others one after the other."""
    own = [Loop(*one) for one in (("P", 4), ("Q", 16), ("C", 8), ("K", 4))]
    for beside in product((1, 2, 4), repeat=3):
        sizes = dict(zip("PCK", beside, strict=True))
        if sizes["P"] * sizes["C"] * sizes["K"] != ELEMENTS:
            continue
        left = {loop: 4 // size for loop, size in sizes.items()}
        at_buffer = [Loop(loop, size, "pe") for loop, size in sizes.items()]
        outside = [*(Loop(loop, left[loop]) for loop in "CPK"), Loop("K", 8)]
        text = f"s:{_text(sizes)}, t:{_text(left)}"
        yield Spread(text, _cycles(Layer(k=1024, c=256, p=16, q=16), own, at_buffer, outside))


def _text(sizes: dict[str, int]) -> str:
    return "".join(f"{loop}{size}" for loop, size in sizes.items() if size > 1)


def _cycles(layer: Layer, own: list[Loop], at_buffer: list[Loop], outside: list[Loop]) -> float:
    """Counted as the authors do; raises ValueError for a mapping that does not fit."""
    problem = LayerProblem(layer, load_accelerator("simba"))
    mapping = _mapping(problem, own, at_buffer, outside)
    if wrong := list(verify_mapping(problem, mapping)):
        raise ValueError(f"{mapping}: {wrong[0]}")
    return NetworkTimes(problem, ROUNDS, has_refills=False).cycles(mapping)


def _mapping(problem: LayerProblem, own: list[Loop], at_buffer: list[Loop], outside: list[Loop]) -> LayerMapping:
    """Channels fill an element's lanes; all of its loops but the last add up sums that stay."""
    names = [level.memory.name for level in problem.levels]
    holders = {str(one): [level.memory.name for level in problem.keepers(one)] for one in Operand}
    parts: dict[str, list[Loop]] = {name: [] for name in names}
    parts["accumulation_buffer"] = [Loop("K", 8, "vector"), Loop("C", 8, "lane"), *own[:-1]]
    parts["weight_buffer"], parts["global_buffer"] = own[-1:], at_buffer
    return even([(name, parts[name]) for name in names], holders, outside)
