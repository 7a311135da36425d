"""What an operator's options say, as numbers by name: `StrideW` of the schema is `stride_w`."""

from __future__ import annotations

import re
from functools import cache
from inspect import signature

from onchip.formats.tflite.file import Accessor, FileOperator, refused_if_damaged


def options_of(operator: FileOperator) -> dict[str, int | float]:
    """The numbers among an operator's options, defaults included; empty for one without any. Raises InputError."""
    table = operator.table
    if table is None:
        return {}
    with refused_if_damaged():
        for kinds, number, union in (
            ("BuiltinOptions", table.BuiltinOptionsType(), table.BuiltinOptions),
            ("BuiltinOptions2", table.BuiltinOptions2Type(), table.BuiltinOptions2),
        ):
            if number and (place := union()) is not None:
                return _numbers(kinds, number, place)
    return {}


def _numbers(kinds: str, number: int, place: Accessor) -> dict[str, int | float]:
    import tflite

    name = next((name for name, value in vars(getattr(tflite, kinds)).items() if value == number), "")
    schema = getattr(tflite, name, None)
    if schema is None:
        return {}
    options = schema()
    options.Init(place.Bytes, place.Pos)
    found = {}
    for word, read in _readers(schema):
        value = read(options)
        if isinstance(value, bool | int | float):
            found[word] = value
    return found


@cache
def _readers(schema: type) -> tuple[tuple[str, Accessor], ...]:
    """The methods that read one number each, by the name of what they read."""
    return tuple(
        (re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower(), method)
        for name, method in vars(schema).items()
        if name != "Init" and not name.endswith(("Length", "AsNumpy", "IsNone")) and not isinstance(method, classmethod)
        if callable(method) and len(signature(method).parameters) == 1
    )
