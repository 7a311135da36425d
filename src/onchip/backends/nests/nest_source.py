"""A mapping of a layer as one C function, with the vectors of GCC and Clang: its loops, tiles and copies of tiles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.backends.c.names import comment
from onchip.backends.nests.nest_kernel import ADDED_UP, KINDS, NestKernel
from onchip.backends.nests.nest_loops import CNest, c_nest
from onchip.backends.nests.nest_packing import PackedInput, PackedWeights
from onchip.backends.nests.nest_places import output_place, place_in_network
from onchip.backends.nests.nest_text import CText
from onchip.errors import InputError
from onchip.ir.layer import INPUT, OUTPUT, WEIGHT, Layer

ELEMENTS: Final = {32: ("float", "float", 4), 8: ("int8_t", "int32_t", 1)}
"""By the bits of inputs and weights: their C type, that of sums, and the bytes of an element."""


def nest_source(layer: Layer, mapping: LayerMapping, name: str, label: str = "") -> str:
    """The C source of a function `name(input, weight, output)`; `label` says in its comment what it computes.

    Raises InputError for a layer without weights, or of other elements than float32 (32 bits) and int8 (8 bits).
    """
    if layer.input_bits != layer.weight_bits or layer.input_bits not in ELEMENTS:
        detail = f"inputs have {layer.input_bits} bits and weights {layer.weight_bits}"
        raise InputError(detail, place="layer", expected="both 32 (float32) or both 8 (int8, with sums of int32)")
    return NestSource(c_nest(layer, mapping), mapping, name, label or str(dict(layer.bounds))).text()


@dataclass(frozen=True, slots=True)
class NestSource:
    """The parts of the source in order: types, helpers, copies, the kernel, the function."""

    nest: CNest
    mapping: LayerMapping
    name: str
    label: str

    def text(self) -> str:
        """Return the source, all of its lines."""
        text = CText(self.nest)
        text.lines.extend(self._head())
        text.lines.extend(self._functions())
        for operand, packed in self._packed.items():
            kind = "held" if self.nest.adds_in_floats else "element"
            text.add(f"static {kind} {packed.name}[{packed.place.elements}] ALIGNED;")
            text.add("") if operand == list(self._packed)[-1] else None
        self._kernel.write(text)
        self._function(text)
        return "\n".join(text.lines) + "\n"

    @property
    def _packed(self) -> dict[str, PackedInput | PackedWeights]:
        found: dict[str, PackedInput | PackedWeights] = {}
        if INPUT in self.nest.packed:
            found[INPUT] = PackedInput(self.nest)
        if WEIGHT in self.nest.packed:
            found[WEIGHT] = PackedWeights(self.nest)
        return found

    @property
    def _kernel(self) -> NestKernel:
        places = {operand: place_in_network(self.nest, operand) for operand in (INPUT, WEIGHT)}
        places |= {operand: packed.place for operand, packed in self._packed.items()}
        return NestKernel(self.nest, {**places, OUTPUT: output_place(self.nest)})

    def _head(self) -> Iterator[str]:
        element, total, element_bytes = ELEMENTS[self.nest.layer.input_bits]
        yield f"/* {comment(self.label)}"
        yield f" * {comment(str(self.mapping))}"
        yield " * input [N][height][width][G][C], weight [R][S][C][G][K], output [N][P][Q][G][K]. Not reentrant. */"
        yield "#include <stdint.h>"
        yield ""
        yield f"typedef {element} element;"
        yield f"typedef {total} sum;"
        width = self.nest.width
        if self.nest.lane_loop is None:
            yield "typedef sum vector;"
        else:
            yield '#pragma GCC diagnostic ignored "-Wpsabi" /* no vector leaves this file */'
            vector = f"__attribute__((vector_size({4 * width}), aligned(4), may_alias))"
            if self.nest.adds_in_floats:
                yield "typedef float held; /* holds every sum of so few products of int8 */"
                yield f"typedef held vector {vector};"
                yield f"typedef sum totals {vector};"
            else:
                yield f"typedef sum vector {vector};"
            if element_bytes == 1:
                yield f"typedef element few __attribute__((vector_size({width}), aligned(1), may_alias));"
                yield f"typedef int16_t halfway __attribute__((vector_size({2 * width})));"
        yield "#define ALWAYS __attribute__((always_inline))"
        if self._packed:
            yield "#define ALIGNED __attribute__((aligned(64)))"
        yield "#ifdef __clang__"
        yield '#define UNROLLED _Pragma("clang loop unroll(full)")'
        yield "#else"
        yield '#define UNROLLED _Pragma("GCC unroll 64")'
        yield "#endif"
        yield ""

    def _function(self, text: CText) -> None:
        nest, kernel, packed = self.nest, self._kernel, self._packed
        text.left = {name: str(bound) for name, bound in nest.layer.bounds.items() if nest.ends_short(name)}
        text.pointers = {operand: operand for operand in KINDS}
        parameters = ", ".join(f"{kind} *restrict {operand}" for operand, kind in KINDS.items())
        text.add(f"void {self.name}({parameters});")
        text.add("")
        with text.block(f"void {self.name}({parameters})"), ExitStack() as stack:
            for place in range(len(nest.around), -1, -1):
                if place < len(nest.around):
                    loop = nest.around[place]
                    stack.enter_context(text.loop(loop))
                    whole = {
                        operand: kernel.places[operand]
                        if operand not in packed or place < nest.packed[operand]
                        else place_in_network(nest, operand)
                        for operand in KINDS
                    }
                    kinds = {
                        operand: kernel.kinds[operand] if place < nest.packed.get(operand, 0) else kind
                        for operand, kind in KINDS.items()
                    }
                    text.move(loop, whole, kinds)
                for operand, copy in packed.items():
                    if nest.packed[operand] == place:
                        copy.write(text)
            self._calls(text)

    def _calls(self, text: CText) -> None:
        """Call the kernel for whole tiles and, where a dimension ends within one, for shorter ones."""
        nest, kernel = self.nest, self._kernel
        sizes = []
        for name in kernel.varying:
            bound, size = nest.layer.bounds[name], nest.tile[name]
            sizes.append((size, bound % size) if bound > size else (bound,))
        first = " && ".join(f"{loop.name} == 0" for loop in nest.around if loop.dimension in ADDED_UP)
        shared = [text.pointers[operand] for operand in KINDS]
        rest = [text.left[name] for name in kernel.ending] + ([first] if first else [])
        ways = list(product(*sizes))
        for number, way in enumerate(ways):
            whole = [
                f"{text.left[name]} >= {size}"
                for name, size, choices in zip(kernel.varying, way, sizes, strict=True)
                if len(choices) > 1 and size == choices[0]
            ]
            call = f"tile({', '.join((*shared, *map(str, way), *rest))});"
            head = "" if len(ways) == 1 else f"if ({' && '.join(whole)})" if whole else ""
            text.add(" ".join(part for part in ("else" if number else "", head, call) if part))

    def _functions(self) -> Iterator[str]:
        from onchip.backends.nests.nest_functions import helping_functions

        return helping_functions(self.nest, self._kernel)
