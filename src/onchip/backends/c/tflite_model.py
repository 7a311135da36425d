"""A TFLite model in C: constants, quantisation, inputs, and expected outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from itertools import groupby
from math import floor, frexp, inf, prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from onchip.backends.c.calls import Record
from onchip.errors import GraphError, InputError
from onchip.formats.networks import read_tflite_network
from onchip.formats.onnx.program import random_array
from onchip.formats.tflite.file import Accessor, dtype_of, mended, options_of, refused_if_damaged, type_name
from onchip.formats.tflite.graph import ReadNetwork, part_of_model
from onchip.formats.tflite.network import Interpreter, NetworkOperator, NetworkTensor, said_shape
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role

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


def stated_quantisation(stated: Accessor) -> Quantisation | None:
    """Return what the schema's reader of a tensor says, or None; raises InputError for a damaged one."""
    with refused_if_damaged():
        found = stated.Quantization()
        if found is None or not found.ScaleLength():
            return None
        zeros = found.ZeroPointAsNumpy() if found.ZeroPointLength() else (0,)
        return Quantisation(tuple(float(one) for one in found.ScaleAsNumpy()), int(zeros[0]))


_BYTES: Final = 256
_MICRO_BYTES: Final = 2**20
"""Upper limit on TFLite Micro's bytes for its own structures."""
_QUANTISED: Final = ("INT8", "INT16")


@dataclass(frozen=True)
class LiteModel:
    """A TFLite model; tensors are named by their index in the file."""

    read: ReadNetwork
    constants: dict[int, npt.NDArray[Any]] = field(default_factory=dict)

    @staticmethod
    def of_file(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> LiteModel:
        """Return the model of a file; raises InputError for one that cannot be read, or keeps resource variables."""
        read = read_tflite_network(path, shapes)
        if read.network.variables:
            what = "it keeps resource variables, of which a C project knows nothing"
            raise GraphError(what, file=str(path), expected="state in variable tensors")
        return LiteModel(read)

    @cached_property
    def content(self) -> bytes:
        """Return the bytes that the runtime reads."""
        return mended(self.read.file)

    @cached_property
    def operators(self) -> Mapping[str, NetworkOperator]:
        """Return the file's operators by their names."""
        return {operator.name: operator for operator in self.read.network.operators}

    @property
    def index(self) -> Mapping[str, int]:
        """Return by name of the graph's tensors their index in the file."""
        return self.read.index

    def tensor(self, index: int) -> NetworkTensor:
        """Return a tensor by its index."""
        return self.read.storage.tensor(index)

    def tensor_table(self, index: int) -> Accessor:
        """Return the schema's reader of a tensor."""
        import tflite

        table = tflite.Tensor()
        table.Init(self.content, self.tensor(index).stated.place)
        return table

    def is_constant(self, index: int) -> bool:
        """Return True if the tensor's value is known before any inference."""
        return self.read.storage.is_constant(index)

    def base(self, index: int) -> int:
        """Return the tensor whose bytes one shows."""
        return self.read.storage.base(index)

    def dtype(self, index: int) -> np.dtype[Any]:
        """Return the type of a tensor's elements; raises GraphError for one that numpy does not know."""
        tensor = self.tensor(index)
        found = dtype_of(tensor.element_type)
        if found is None:
            what = "its elements are of a type that C has not"
            raise GraphError(what, place=f"tensor {tensor.name!r}", expected="whole bytes")
        return found

    def constant(self, index: int) -> npt.NDArray[Any]:
        """Return a constant's value: stated in the file, or computed by the runtime from stated values."""
        if index not in self.constants:
            tensor = self.tensor(index)
            stated = self.read.network.content(self.read.file, index)
            if stated is not None and not tensor.stated.is_sparse:
                self.constants[index] = np.frombuffer(stated, self.dtype(index)).reshape(tensor.shape)
            else:
                operators = sorted(set(self._writers(index)), key=list(self.operators).index)
                stated_operators = [self.operators[name] for name in operators]
                model, _ = part_of_model(self.read, self.content, stated_operators, [], [index])
                self.constants[index] = Interpreter(model, f"tensor {tensor.name!r}").run({}, [index])[0]
        return self.constants[index]

    def _writers(self, index: int) -> Iterator[str]:
        writer = self.read.storage.writer(index)
        if writer is not None:
            yield writer.name
            for each in writer.inputs:
                if each >= 0:
                    yield from self._writers(each)

    def of_each_byte(self, operator: NetworkOperator) -> npt.NDArray[np.int8]:
        """Return what the runtime makes of each int8 from -128 on, of an operator that takes each element alone."""
        read, written = operator.inputs[0], operator.outputs[0]
        shape = self.tensor(read).shape
        count = prod(shape)
        model, _ = part_of_model(self.read, self.content, (operator,), [read], [written])
        interpreter = Interpreter(model, f"operator {operator.name!r}", is_reference=True)
        values = np.resize(np.arange(-128, 128, dtype=np.int8), -(-_BYTES // count) * count)
        made = [interpreter.run({read: part.reshape(shape)}, [written])[0] for part in values.reshape(-1, count)]
        return np.concatenate([one.reshape(-1) for one in made])[:_BYTES]

    def inputs(self, graph: Graph, seed: int, given: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return a value for each input of the graph, as given, else random; a state begins as zeros are.

        One that says what shape an operator's output has says the one that the graph has.
        Raises InputError for a given value of another type or shape.
        """
        found = {}
        for tensor in graph.with_role(Role.INPUT):
            index = self.index[tensor.name]
            wanted = (self.dtype(index), self.tensor(index).shape)
            if self.read.storage.is_state(index):
                found[tensor.name] = np.full(wanted[1], self._zero(index), wanted[0])
            elif tensor.name in given:
                array = given[tensor.name]
                if (array.dtype, array.shape) != wanted:
                    what, expected = f"it holds {array.dtype}{list(array.shape)}", f"{wanted[0]}{list(wanted[1])}"
                    raise InputError(what, place=f"tensor {tensor.name!r}", expected=expected)
                found[tensor.name] = array
            elif (said := said_shape(self.read.network, index)) is not None:
                found[tensor.name] = said.astype(wanted[0]).reshape(wanted[1])
            else:
                found[tensor.name] = random_array(tensor.name, *wanted, seed)
        return found

    def _zero(self, index: int) -> int:
        """Return the initial value of a variable tensor in both runtimes."""
        quantisation = stated_quantisation(self.tensor_table(index))
        is_byte = type_name(self.tensor(index).element_type) == "INT8"
        return quantisation.zero if is_byte and quantisation is not None else 0

    def outputs(
        self, graph: Graph, inputs: Mapping[str, npt.NDArray[Any]], inferences: int
    ) -> dict[str, npt.NDArray[Any]]:
        """Return TFLite Micro's outputs of the last of some inferences, by the names of the graph's outputs.

        If TFLite Micro is not installed or cannot run the model, ai-edge-litert's reference kernels compute them. Its
        FULLY_CONNECTED of int8 rounds once and TFLite Micro's twice; ours replaces it in models without state.
        """
        stated = self.read.network.outputs
        by_index = {self.index[name]: array for name, array in inputs.items()}
        by_index = {index: array for index, array in by_index.items() if not self.read.storage.is_state(index)}
        own = self._micro_outputs(by_index, inferences) if self._has_integers else None
        results = self._reference_outputs(by_index, inferences) if own is None else own
        names = {
            name: tensor.name for tensor in graph.with_role(Role.OUTPUT) for name in (tensor.name, *tensor.aliases)
        }
        names |= {name.rstrip("_").removesuffix(".output"): tensor for name, tensor in tuple(names.items())}
        return {
            names[self.tensor(index).name]: array
            for index, array in zip(stated, results, strict=True)
            if self.tensor(index).name in names
        }

    def _reference_outputs(self, given: Mapping[int, npt.NDArray[Any]], inferences: int) -> Sequence[npt.NDArray[Any]]:
        """Return the outputs of ai-edge-litert, with products of int8 rounded twice in models without state."""
        network = self.read.network
        if inferences > 1 or not any(self._is_product(one) for one in network.operators):
            interpreter = Interpreter(self.content, is_reference=True)
            in_file = [index for index in self.read.file.subgraphs[0].outputs if index >= 0]  # without unrolled loops
            return [interpreter.run(given, in_file) for _ in range(inferences)][-1]
        values = dict(given)
        for is_product, group in groupby(network.operators, self._is_product):
            operators = list(group)
            if is_product:
                for one in operators:
                    values[one.outputs[0]] = self._product(one, values)
                continue
            written = [index for one in operators for index in one.outputs if not self.is_constant(index)]
            read = {index for one in operators for index in one.inputs if index in values}
            model, _ = part_of_model(self.read, self.content, operators, sorted(read), written)
            found = Interpreter(model, is_reference=True).run({index: values[index] for index in read}, written)
            values |= zip(written, found, strict=True)
        return [values[index] if index in values else self.constant(index) for index in network.outputs]

    def _is_product(self, operator: NetworkOperator) -> bool:
        types = {type_name(self.tensor(index).element_type) for index in (*operator.inputs[:2], operator.outputs[0])}
        return operator.kind == "FULLY_CONNECTED" and types == {"INT8"}

    def _product(self, operator: NetworkOperator, values: Mapping[int, npt.NDArray[Any]]) -> npt.NDArray[np.int8]:
        """Return FULLY_CONNECTED of int8, rounded twice."""
        source, weight, *bias = operator.inputs
        read, factor, written = (self._stated_quantisation(index) for index in (source, weight, operator.outputs[0]))
        weights = (values[weight] if weight in values else self.constant(weight)).astype(np.int64) - factor.zero
        inputs = (values[source] if source in values else self.constant(source)).astype(np.int64) - read.zero
        sums = inputs.reshape(-1, weights.shape[1]) @ weights.T
        if bias and bias[0] >= 0:
            sums += self.constant(bias[0])
        scales = [float(np.float32(read.scale) * np.float32(one)) / written.scale for one in factor.scales]
        columns = [FixedPoint.of(scales[at % len(scales)]).of_sums(sums[:, at]) for at in range(sums.shape[1])]
        ends = activation_range(int(options_of(operator.stated).get("fused_activation_function", 0)), written)
        low, high = (-inf, inf) if ends is None else ends
        rounded = np.stack(columns, axis=1) + written.zero
        made = np.clip(rounded, max(low, -128), min(high, 127)).astype(np.int8)
        return np.asarray(made.reshape(self.tensor(operator.outputs[0]).shape))

    def _stated_quantisation(self, index: int) -> Quantisation:
        found = stated_quantisation(self.tensor_table(index))
        if found is None:
            what = "it has no scale"
            raise GraphError(what, place=f"tensor {self.tensor(index).name!r}", expected="a quantised tensor")
        return found

    @property
    def _has_integers(self) -> bool:
        written = (index for operator in self.read.network.operators for index in operator.outputs)
        return any(type_name(self.tensor(index).element_type) in _QUANTISED for index in written)

    def _micro_outputs(self, given: Mapping[int, npt.NDArray[Any]], inferences: int) -> list[npt.NDArray[Any]] | None:
        network = self.read.network
        arrays = [given[index] for index in network.inputs if index in given]
        arena_bytes = _MICRO_BYTES + sum(prod(one.shape) * 8 for one in network.tensors)
        return micro_outputs(self.content, arrays, len(network.outputs), arena_bytes, inferences)


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
