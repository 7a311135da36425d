"""An operator's operands as its description needs them: shapes, orders of axes, settings, parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from onchip.formats.tflite.layouts import CHANNELS_FIRST, MAP_RANK, MapLayouts, Presentation
from onchip.formats.tflite.network import ABSENT, NetworkOperator
from onchip.formats.tflite.options import options_of
from onchip.formats.tflite.storage import TensorStorage
from onchip.ir.operator import AttributeValue

Shape = tuple[int, ...]
Presented = tuple[tuple[int, Presentation], ...]
_ACTIVATIONS = {1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH", 5: "SIGN_BIT"}


class UnlikeError(Exception):
    """An operator is not what one of onchip's kinds says, or nothing in the file tells; it keeps TFLite's kind."""


@dataclass(frozen=True, slots=True)
class DescribedOperator:
    """An operator in onchip's words: what it reads, inputs by index, parameters with how they are presented."""

    kind: str
    inputs: tuple[int, ...]
    parameters: Presented = ()
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)


@dataclass(frozen=True)
class Operands:
    """Operands by their place among the operator's inputs; whatever does not fit raises UnlikeError."""

    operator: NetworkOperator
    storage: TensorStorage
    layouts: MapLayouts

    @cached_property
    def options(self) -> Mapping[str, int | float]:
        """The numbers among the operator's options."""
        return options_of(self.operator.stated)

    def option(self, name: str, default: int = 0) -> int:
        """A whole number among the options."""
        return int(self.options.get(name, default))

    @property
    def fused(self) -> dict[str, AttributeValue]:
        """The activation that the operator applies itself, as an attribute; empty for none."""
        name = _ACTIVATIONS.get(self.option("fused_activation_function"))
        return {} if name is None else {"fused_activation": name}

    @property
    def places(self) -> range:
        """The places of all inputs, absent ones as well."""
        return range(len(self.operator.inputs))

    def is_there(self, place: int) -> bool:
        """Whether there is an operand at that place that has elements."""
        return place < len(self.operator.inputs) and self.operator.inputs[place] != ABSENT

    def is_constant(self, place: int) -> bool:
        """Whether the operand's value is known before anything runs."""
        return self.storage.is_constant(self._index(place))

    def shape(self, place: int) -> Shape:
        """The operand's shape in the file; raises UnlikeError where it is absent."""
        return self.storage.tensor(self._index(place)).shape

    @property
    def written(self) -> Shape:
        """The first output's shape in the file."""
        return self.storage.tensor(self.operator.outputs[0]).shape

    @property
    def written_order(self) -> tuple[int, ...]:
        """The order in which the first output's axes are presented."""
        return self.layouts.order(self.operator.outputs[0])

    @property
    def writes_maps(self) -> bool:
        """Whether the first output is presented as batch, channels, rows, columns."""
        return self.written_order == CHANNELS_FIRST

    def activation(self, place: int) -> int:
        """An operand that is computed and is seen in its own shape; raises UnlikeError for any other."""
        index = self._index(place)
        if self.storage.is_constant(index) or not self.layouts.is_direct(index):
            raise UnlikeError
        return index

    def order(self, place: int) -> tuple[int, ...]:
        """The order in which an activation's axes are presented; raises UnlikeError for what is none."""
        return self.layouts.order(self.storage.base(self.activation(place)))

    def map(self, place: int) -> int:
        """An activation that is presented as a map; raises UnlikeError for any other."""
        if self.order(place) != CHANNELS_FIRST:
            raise UnlikeError
        return self._index(place)

    def map_or_flat(self, place: int) -> int:
        """A map, or a view of a tensor that has not as many axes as a map; raises UnlikeError for any other."""
        index = self._index(place)
        if self.storage.is_constant(index) or len(self.shape(place)) != MAP_RANK:
            raise UnlikeError
        if not self.layouts.is_direct(index) and len(self.storage.tensor(self.storage.base(index)).shape) != MAP_RANK:
            return index
        return self.map(place)

    def parameter(self, place: int, order: Shape | None = None, shape: Shape | None = None) -> Presented:
        """A constant, its axes in that order, then seen in that shape; raises UnlikeError for what is none."""
        index = self._index(place)
        if not self.storage.is_constant(index):
            raise UnlikeError
        presented = Presentation.of(self.shape(place), order)
        if shape is not None:
            presented = Presentation(presented.order, shape)
        stored = tuple(self.storage.stored_as(index))
        if any(self.storage.tensor(each).shape != self.shape(place) for each in stored):
            raise UnlikeError
        return tuple((each, presented) for each in stored)

    def optional_parameter(self, place: int) -> Presented:
        """A constant as it is, such as a bias; nothing where there is none."""
        return self.parameter(place) if self.is_there(place) else ()

    def settings(self, place: int) -> tuple[int, ...]:
        """The whole numbers of a constant that says how to compute; raises UnlikeError where they are not known."""
        index = self._index(place)
        value = self.storage.value(index) if self.storage.is_constant(index) else None
        if value is None or value.dtype.kind not in "iu":
            raise UnlikeError
        return tuple(int(each) for each in value.reshape(-1))

    def _index(self, place: int) -> int:
        if not self.is_there(place):
            raise UnlikeError
        return self.operator.inputs[place]
