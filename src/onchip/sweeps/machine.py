"""Machines with fields changed by path: `memories.global_buffer.capacity`, `dram.ports.0.bits_per_cycle`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, cast

from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError, UsageError
from onchip.formats.own.accelerator_yaml import (
    ACCELERATOR_FORMAT,
    AcceleratorFields,
    accelerator_fields,
    accelerator_of,
    accelerator_sha256,
    accelerator_to_yaml,
)
from onchip.formats.validation import validate
from onchip.sweeps.point import SweptMachine
from onchip.sweeps.values import Scalar, is_size, number_of

SIZES: Final = ("capacity", "alignment")
"""Fields of a memory that may have a unit of bytes."""


def machine_of(accelerator: Accelerator) -> SweptMachine:
    """Return the swept machine of an accelerator."""
    return SweptMachine(accelerator.name, accelerator_to_yaml(accelerator), accelerator_sha256(accelerator))


def is_capacity(path: str) -> bool:
    """Return True if a field is the capacity of a memory: more of it never increases a cost."""
    first, _, rest = path.partition(".")
    return first == "memories" and rest.rpartition(".")[2] == "capacity"


def changed(accelerator: Accelerator, values: Mapping[str, Scalar]) -> Accelerator:
    """Return the accelerator with other values at the paths.

    Raises InputError for an unknown path, an unsuitable unit, and an invalid machine.
    """
    if not values:
        return accelerator
    fields = deepcopy(accelerator_fields(accelerator))
    for path, value in values.items():
        _set(fields, path, value, accelerator.name)
    name = f"accelerator {accelerator.name!r}"
    shaped = validate(AcceleratorFields, json.dumps(fields).encode(), ACCELERATOR_FORMAT, name)
    return accelerator_of(shaped, name)


def _set(fields: dict[str, Any], path: str, value: Scalar, machine: str) -> None:
    *parents, last = path.split(".")
    holder: object = fields
    for part in parents:
        holder = _part(holder, part, path, machine)
    before = _part(holder, last, path, machine)
    if isinstance(before, dict | list):
        raise _no_path(path, machine, "a single value, not a group of them")
    after = _fitting(before, value, path, last)
    if isinstance(holder, list):
        holder[int(last)] = after
    else:
        cast("dict[str, object]", holder)[last] = after


def _part(holder: object, part: str, path: str, machine: str) -> object:
    """Return the part with that name; of a list, the entry with that index or name."""
    if isinstance(holder, dict):
        if part in holder:
            return holder[part]
        raise _no_path(path, machine, f"one of {', '.join(holder)} for {part!r}")
    if isinstance(holder, list):
        if part.isdecimal() and len(part) < 6 and int(part) < len(holder):
            return holder[int(part)]
        names = [one["name"] for one in holder if isinstance(one, dict) and "name" in one]
        if part in names:
            return holder[names.index(part)]
        expected = f"0 to {len(holder) - 1}" + (f" or one of {', '.join(map(str, names))}" if names else "")
        raise _no_path(path, machine, f"{expected} for {part!r}")
    raise _no_path(path, machine, f"nothing beyond {part!r}")


def _no_path(path: str, machine: str, expected: str) -> InputError:
    return UsageError(f"accelerator {machine!r} has no such field", place=path, expected=expected)


def _fitting(before: object, value: Scalar, path: str, field: str) -> object:
    """Return the value in the type of the field: a number of the same kind, or bytes for a size."""
    if isinstance(before, bool) or isinstance(value, bool):
        if isinstance(before, bool) and isinstance(value, bool):
            return value
        raise UsageError(
            f"it is {value!r}", place=path, expected="true or false" if isinstance(before, bool) else "a number"
        )
    if isinstance(before, str):
        return str(value)
    if is_size(value) and field not in SIZES:
        raise UsageError(f"{value!r} is a size in bytes, which does not fit", place=path, expected="a plain number")
    try:
        number = number_of(value)
    except UsageError as error:
        error.place = path
        raise
    if isinstance(before, int) and isinstance(number, float):
        if not number.is_integer():
            raise UsageError(f"it is {value!r}", place=path, expected="a whole number")
        number = int(number)
    return float(number) if isinstance(before, float) else number
