"""A TFLite model in C: constants, quantisation, inputs, and expected outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from itertools import groupby
from math import floor, frexp, inf, prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from onchip.backends.c.calls import Record
from onchip.errors import GraphError
from onchip.formats.tflite.file import options_of, refused_if_damaged, type_name
from onchip.formats.tflite.graph import ReadNetwork, part_of_model
from onchip.formats.tflite.network import Interpreter, NetworkOperator, NetworkTensor
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.simulate.kernels.tflite_kernels import TfliteKernels

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

    def of_sums(self, sums: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return sums times the factor as TFLite Micro's int8 kernels round it: twice.

        The upper half of twice the product is rounded, then the shift to the right; ties go away from zero.
        """
        product = sums * (1 << max(self.shift, 0)) * self.multiplier
        half = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
        upper = np.where(half >= 0, half >> 31, -(-half >> 31))
        right = max(-self.shift, 0)
        mask = (1 << right) - 1
        return np.asarray((upper >> right) + ((upper & mask) > (mask >> 1) + (upper < 0)))

    def over(self, count: int) -> FixedPoint:
        """Return the factor of a mean of `count` elements, rounded as TFLite rounds it."""
        shift = min(count.bit_length() - 1, 32, 31 + self.shift)
        return FixedPoint((self.multiplier << shift) // count, self.shift - shift)

    def rescaling(self, zero: int) -> Record:
        """Return the struct for kernels."""
        return Record("rescaling", (("zero", zero), ("multiplier", self.multiplier), ("shift", self.shift)))


_INTEGER_BITS: Final = 5
_MULTIPLIERS: Final = {-2: 1672461947, -1: 1302514674, 0: 790015084, 1: 290630308, 2: 39332535, 3: 720401, 4: 242}
"""Map from an exponent x to exp(-2^x) in units of 2^-31."""
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
    """Return exp of a number <= 0 with five integer bits: exp of its part below 1/4 times exp of each set bit."""
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
    """Return exp of a number in [-1/4, 0) in units of 2^-31, by four terms of the series around -1/8."""
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


_BYTES: Final = 256
_MICRO_BYTES: Final = 2**20
"""Upper limit on TFLite Micro's bytes for its own structures."""
_QUANTISED: Final = ("INT8", "INT16")


@dataclass(frozen=True)
class LiteModel:
    """A TFLite model, whose tensors are indices of the file; raises GraphError for one with resource variables."""

    kernels: TfliteKernels

    def __post_init__(self) -> None:
        if self.read.network.variables:
            what = "it keeps resource variables, of which a C project knows nothing"
            raise GraphError(what, file=str(self.kernels.path), expected="state in variable tensors")

    @property
    def read(self) -> ReadNetwork:
        """Return the network as it was read."""
        return self.kernels.read

    @cached_property
    def operators(self) -> Mapping[str, NetworkOperator]:
        """Return the file's operators by their names."""
        return {operator.name: operator for operator in self.read.network.operators}

    def tensor(self, index: int) -> NetworkTensor:
        """Return a tensor by its index."""
        return self.read.storage.tensor(index)

    def value(self, index: int) -> npt.NDArray[Any] | None:
        """Return the value of a tensor that is known before any inference; None for another one."""
        return self.kernels.constant(index) if self.read.storage.is_constant(index) else None

    def quantisation(self, index: int) -> Quantisation | None:
        """Return the quantisation that the file states for a tensor; raises InputError for a damaged one."""
        import tflite

        stated = tflite.Tensor()
        with refused_if_damaged():
            stated.Init(self.kernels.content, self.tensor(index).stated.place)
            found = stated.Quantization()
            if found is None or not found.ScaleLength():
                return None
            zeros = found.ZeroPointAsNumpy() if found.ZeroPointLength() else (0,)
            return Quantisation(tuple(float(one) for one in found.ScaleAsNumpy()), int(zeros[0]))

    def of_each_byte(self, operator: NetworkOperator) -> npt.NDArray[np.int8]:
        """Return what the runtime makes of each int8 from -128 on, of an operator that takes each element alone."""
        read, written = operator.inputs[0], operator.outputs[0]
        shape = self.tensor(read).shape
        count = prod(shape)
        model, _ = part_of_model(self.read, self.kernels.content, (operator,), [read], [written])
        interpreter = Interpreter(model, f"operator {operator.name!r}", is_reference=True)
        values = np.resize(np.arange(-128, 128, dtype=np.int8), -(-_BYTES // count) * count)
        made = [interpreter.run({read: part.reshape(shape)}, [written])[0] for part in values.reshape(-1, count)]
        return np.concatenate([one.reshape(-1) for one in made])[:_BYTES]

    def inputs(self, graph: Graph, given: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return a value for each input of the graph: as given, else random; the zero of a state, in both runtimes.

        Raises InputError for a given value of another type or shape.
        """
        found = {}
        for one in graph.with_role(Role.INPUT):
            index = self.read.index[one.name]
            is_state = self.read.storage.is_state(index)
            found[one.name] = self.kernels.first_value(one, None if is_state else given.get(one.name))
            if is_state:
                quantised = self.quantisation(index) if self._type(index) == "INT8" else None
                found[one.name] = np.full_like(found[one.name], 0 if quantised is None else quantised.zero)
        return found

    def _type(self, index: int) -> str:
        return type_name(self.tensor(index).element_type)

    def outputs(
        self, graph: Graph, inputs: Mapping[str, npt.NDArray[Any]], inferences: int
    ) -> dict[str, npt.NDArray[Any]]:
        """Return TFLite Micro's outputs of the last of some inferences, by the names of the graph's outputs.

        If TFLite Micro is not installed or cannot run the model, ai-edge-litert's reference kernels compute them. Its
        FULLY_CONNECTED of int8 rounds once and TFLite Micro's twice; ours replaces it in models without state.
        """
        network, storage = self.read.network, self.read.storage
        by_index = {self.read.index[name]: array for name, array in inputs.items()}
        by_index = {index: array for index, array in by_index.items() if not storage.is_state(index)}
        results: Sequence[npt.NDArray[Any]] | None = None
        if any(self._type(index) in _QUANTISED for operator in network.operators for index in operator.outputs):
            arrays = [by_index[index] for index in network.inputs if index in by_index]
            arena_bytes = _MICRO_BYTES + sum(prod(one.shape) * 8 for one in network.tensors)
            results = micro_outputs(self.kernels.content, arrays, len(network.outputs), arena_bytes, inferences)
        if results is None:
            results = self._reference_outputs(by_index, inferences)
        names = {
            name: tensor.name for tensor in graph.with_role(Role.OUTPUT) for name in (tensor.name, *tensor.aliases)
        }
        names |= {name.rstrip("_").removesuffix(".output"): tensor for name, tensor in tuple(names.items())}
        stated = [self.tensor(index).name for index in network.outputs]
        return {names[name]: array for name, array in zip(stated, results, strict=True) if name in names}

    def _reference_outputs(self, given: Mapping[int, npt.NDArray[Any]], inferences: int) -> Sequence[npt.NDArray[Any]]:
        """Return the outputs of ai-edge-litert, with products of int8 rounded twice in models without state."""
        network = self.read.network
        if inferences > 1 or not any(self._is_product(one) for one in network.operators):
            interpreter = Interpreter(self.kernels.content, is_reference=True)
            in_file = [index for index in self.read.file.subgraphs[0].outputs if index >= 0]  # without unrolled loops
            return [interpreter.run(given, in_file) for _ in range(inferences)][-1]
        values = dict(given)
        for is_product, group in groupby(network.operators, self._is_product):
            operators = list(group)
            if is_product:
                for one in operators:
                    values[one.outputs[0]] = self._product(one, values)
                continue
            written = [index for one in operators for index in one.outputs if self.value(index) is None]
            read = {index for one in operators for index in one.inputs if index in values}
            model, _ = part_of_model(self.read, self.kernels.content, operators, sorted(read), written)
            found = Interpreter(model, is_reference=True).run({index: values[index] for index in read}, written)
            values |= zip(written, found, strict=True)
        return [self._known(index, values) for index in network.outputs]

    def _known(self, index: int, values: Mapping[int, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        return values[index] if index in values else self.kernels.constant(index)

    def _is_product(self, operator: NetworkOperator) -> bool:
        types = {self._type(index) for index in (*operator.inputs[:2], operator.outputs[0])}
        return operator.kind == "FULLY_CONNECTED" and types == {"INT8"}

    def _product(self, operator: NetworkOperator, values: Mapping[int, npt.NDArray[Any]]) -> npt.NDArray[np.int8]:
        """Return FULLY_CONNECTED of int8, rounded twice; its tensors have scales, or it would have no kernel."""
        source, weight, *bias = operator.inputs
        quantised = [self.quantisation(index) for index in (source, weight, operator.outputs[0])]
        read, factor, written = (one for one in quantised if one is not None)
        weights = self._known(weight, values).astype(np.int64) - factor.zero
        inputs = self._known(source, values).astype(np.int64) - read.zero
        sums = inputs.reshape(-1, weights.shape[1]) @ weights.T
        if bias and bias[0] >= 0:
            sums += self.kernels.constant(bias[0])
        scales = [float(np.float32(read.scale) * np.float32(one)) / written.scale for one in factor.scales]
        columns = [FixedPoint.of(scales[at % len(scales)]).of_sums(sums[:, at]) for at in range(sums.shape[1])]
        ends = activation_range(int(options_of(operator.stated).get("fused_activation_function", 0)), written)
        low, high = (-inf, inf) if ends is None else ends
        rounded = np.stack(columns, axis=1) + written.zero
        made = np.clip(rounded, max(low, -128), min(high, 127)).astype(np.int8)
        return np.asarray(made.reshape(self.tensor(operator.outputs[0]).shape))


def micro_outputs(
    model: bytes, inputs: Sequence[npt.NDArray[Any]], outputs: int, arena_bytes: int, inferences: int
) -> list[npt.NDArray[Any]] | None:
    """Return the outputs of TFLite Micro in the last of some inferences; None if it is absent or fails."""
    try:
        runtime = import_module("tflite_micro").runtime
    except ImportError:
        return None
    try:
        interpreter = runtime.Interpreter.from_bytes(model, arena_size=arena_bytes)
        for _ in range(inferences):
            for at, array in enumerate(inputs):
                interpreter.set_input(array, at)
            interpreter.invoke()
        return [interpreter.get_output(at) for at in range(outputs)]
    except Exception:
        return None
