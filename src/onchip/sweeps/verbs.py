"""The objectives and options of each verb in a study, with their defaults."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from onchip.answer.document import Granularity, Split
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.fusion_options import Combination
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.problem import Count, Objective, Order, Placement
from onchip.answer.recomputation import Recompute
from onchip.answer.stacks import OverlapMode, tile_of_text
from onchip.arch.sharing import Share
from onchip.errors import InputError, UsageError
from onchip.model.accounting.accounting import AccountingName

OptionValue = object
GREATEST_WHOLE: Final = 2**31 - 1
GREATEST_BITS: Final = 64


class SweptVerb(StrEnum):
    """The verbs that a study can use."""

    PLAN = "plan"
    MAP = "map"
    FUSE = "fuse"
    SCHEDULE = "schedule"


@dataclass(frozen=True, slots=True)
class Option:
    """The default of an option, and the parser of its values in a study (raises InputError)."""

    default: OptionValue
    parse: Callable[[object], OptionValue]


@dataclass(frozen=True, slots=True)
class VerbOptions:
    """The objectives of a verb, its default objective, and its options by name.

    `for_objectives` are defaults for an objective that replace the options' own.
    """

    objectives: type[StrEnum]
    default_objective: str
    needs_accelerator: bool
    options: Mapping[str, Option] = field(hash=False)
    for_objectives: Mapping[str, Mapping[str, OptionValue]] = field(default_factory=dict, hash=False)

    def defaults(self, objective: str) -> dict[str, OptionValue]:
        """Return the default of each option for an objective."""
        own = {name: option.default for name, option in self.options.items()}
        return {**own, **self.for_objectives.get(objective, {})}

    def parsed(self, name: str, value: object) -> OptionValue:
        """Return the value of an option; raises UsageError for an unknown option or an invalid value."""
        if name not in self.options:
            raise UsageError(
                "there is no such option", place=name, expected=f"one of {', '.join(sorted(self.options))}"
            )
        try:
            return self.options[name].parse(value)
        except InputError as error:
            error.place = error.place or name
            raise


def choice(kind: type[StrEnum]) -> Callable[[object], OptionValue]:
    """Return a parser of the names of an enumeration."""

    def parse(value: object) -> OptionValue:
        if value not in tuple(kind):
            raise UsageError(f"it is {value!r}", expected=f"one of {', '.join(kind)}")
        return str(value)

    return parse


def _whole(least: int = 1, most: int = GREATEST_WHOLE) -> Callable[[object], OptionValue]:
    def parse(value: object) -> OptionValue:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise UsageError(f"it is {value!r}", expected=f"a whole number from {least} to {most}")
        return value

    return parse


def _bits_or_model(value: object) -> OptionValue:
    return value if value == "model" else _whole(most=GREATEST_BITS)(value)


def _seconds(value: object) -> OptionValue:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UsageError(f"it is {value!r}", expected="a number of seconds above 0")
    return float(value)


def _price(value: object) -> OptionValue:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise UsageError(f"it is {value!r}", expected="a number of at least 0")
    return float(value)


def _text(value: object) -> OptionValue:
    if not isinstance(value, str) or not value:
        raise UsageError(f"it is {value!r}", expected="a text")
    return value


def _truth(value: object) -> OptionValue:
    if not isinstance(value, bool):
        raise UsageError(f"it is {value!r}", expected="true or false")
    return value


def _tile(value: object) -> OptionValue:
    tile_of_text(str(_text(value)))
    return value


def _sizes(value: object) -> OptionValue:
    """Return sizes by symbol, as for `--dim`."""
    if not isinstance(value, Mapping) or not value:
        raise UsageError(f"it is {value!r}", expected="a size for each symbol, such as {batch: 1}")
    return {str(name): _whole(least=0)(size) for name, size in sorted(value.items())}


def _shapes(value: object) -> OptionValue:
    """Return a list of sizes by network input, as for `--shape`."""
    if not isinstance(value, Mapping) or not value:
        raise UsageError(f"it is {value!r}", expected="a list of sizes for each input, such as {x: [1, 3, 224, 224]}")
    found = {}
    for name, shape in sorted(value.items()):
        if not isinstance(shape, list) or not shape:
            raise UsageError(f"it is {shape!r}", place=str(name), expected="a list of sizes")
        found[str(name)] = [_whole(least=0)(size) for size in shape]
    return found


_BITS: Final = _whole(most=GREATEST_BITS)
_READ: Final = {
    "dims": Option(None, _sizes),
    "shapes": Option(None, _shapes),
    "granularity": Option(Granularity.FUSED.value, choice(Granularity)),
}
_SEARCHED: Final = {"time_limit": Option(None, _seconds), "seed": Option(0, _whole(least=0))}
_TILED: Final = {
    "stacks": Option("optimal", _text),
    "tile": Option(None, _tile),
    "mode": Option(None, choice(OverlapMode)),
}
_PARTIAL: Final = {"partial_bits": Option(None, _BITS)}
_COUNTED: Final = {"accounting": Option(AccountingName.INTERPRETER.value, choice(AccountingName))}
VERBS: Final[Mapping[SweptVerb, VerbOptions]] = {
    SweptVerb.PLAN: VerbOptions(
        Objective,
        Objective.TRAFFIC,
        False,
        {
            **_READ,
            **_SEARCHED,
            "method": Option("exact", _text),
            "order": Option(None, choice(Order)),
            "count": Option(Count.ACTIVATIONS.value, choice(Count)),
            "bits": Option(None, _BITS),
            "alignment": Option(None, _whole(most=2**30)),
            "placement": Option(Placement.DYNAMIC.value, choice(Placement)),
            "share": Option(None, choice(Share)),
            "split": Option(Split.NEVER.value, choice(Split)),
            "cap_tensors": Option(False, _truth),
            "cost": Option("mapping", _text),
            "recompute": Option(Recompute.NEVER.value, choice(Recompute)),
            "recompute_price": Option(None, _price),
        },
        {Objective.LATENCY: {"method": "timed", "count": Count.ALL.value}},
    ),
    SweptVerb.MAP: VerbOptions(
        MappingObjective,
        MappingObjective.ENERGY,
        True,
        {
            **_READ,
            **_SEARCHED,
            **_PARTIAL,
            **_COUNTED,
            "method": Option("exact", _text),
            "bits": Option(8, _BITS),
        },
    ),
    SweptVerb.FUSE: VerbOptions(
        FusionObjective,
        FusionObjective.ENERGY,
        True,
        {
            **_READ,
            **_SEARCHED,
            **_PARTIAL,
            **_COUNTED,
            **_TILED,
            "combination": Option(Combination.BEST.value, choice(Combination)),
            "mapper": Option(None, _text),
            "bits": Option(8, _BITS),
        },
    ),
    SweptVerb.SCHEDULE: VerbOptions(
        ScheduleObjective,
        ScheduleObjective.ENERGY,
        True,
        {**_READ, **_SEARCHED, **_PARTIAL, **_TILED, "bits": Option(8, _bits_or_model)},
    ),
}
