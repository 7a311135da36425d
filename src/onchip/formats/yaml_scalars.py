"""What a scalar of YAML 1.2 means: text, a number, true, false or nothing."""

from __future__ import annotations

import re
from math import isfinite
from typing import Final

from onchip.errors import InputError
from onchip.formats.validation import LARGEST_INTEGER, quoted

NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
BOOLEANS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
DIGITS_AND_SIGNS: Final = frozenset("0123456789+-.")
INTEGER: Final = re.compile(r"[-+]?[0-9]+")
GROUPED: Final = re.compile(r"[-+]?[1-9][0-9_]*")
"""An integer with `_` between its digits, as YAML 1.1 has it."""
OTHER_INTEGER: Final = re.compile("[-+]?(0b[01_]+|0o?[0-7_]+|[0-9_]+|0x[0-9a-fA-F_]+)")
REAL: Final = re.compile(
    r"""[-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+]?[0-9]+)?
      | [-+]?[0-9][0-9_]*[eE][-+]?[0-9]+
      | [-+]?\.[0-9_]+([eE][-+][0-9]+)?
      | [-+]?\.(inf|Inf|INF)
      | \.(nan|NaN|NAN)""",
    re.VERBOSE,
)
DATE: Final = re.compile(
    r"""[0-9]{4}-[0-9]{2}-[0-9]{2}
      | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(\.[0-9]*)?
        ([ \t]*(Z|[-+][0-9]{1,2}(:[0-9]{2})?))?""",
    re.VERBOSE,
)


def plain_value(text: str) -> object:
    """What stands there without quotes and without a tag; raises InputError for what is neither text nor JSON has."""
    if text[:1] in DIGITS_AND_SIGNS and text:
        if INTEGER.fullmatch(text):
            return _integer(text)
        if REAL.fullmatch(text):
            return _real(text)
        if GROUPED.fullmatch(text):
            return _integer(text.replace("_", ""))
        if OTHER_INTEGER.fullmatch(text):
            raise _no_decimal(text)
        if DATE.fullmatch(text):
            raise _unknown(text)
        return text
    if text in NULLS:
        return None
    if text in ("<<", "="):
        raise _unknown(text)
    return BOOLEANS.get(text, text)


def tagged_value(text: str, tag: str) -> object:
    """What stands there with an explicit tag, such as `tag:yaml.org,2002:str`; raises InputError."""
    match tag.rpartition(":")[2]:
        case "str":
            return text
        case "null":
            return None
        case "bool" if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case "int" if INTEGER.fullmatch(text):
            return _integer(text)
        case "int" if GROUPED.fullmatch(text):
            return _integer(text.replace("_", ""))
        case "int":
            raise _no_decimal(text)
        case "float":
            return _real(text)
    raise _unknown(text)


def _integer(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > LARGEST_INTEGER:
        raise InputError("the integer is too large", expected="at most 2^63-1")
    return int(text)


def _real(text: str) -> float:
    """Of what begins with a point, nothing is a number in JSON."""
    try:
        value = float(text)
    except ValueError:
        raise _unknown(text) from None
    if not isfinite(value) or text.lstrip("+-").startswith("."):
        raise _unknown(text)
    return value


def _no_decimal(text: str) -> InputError:
    return InputError(f"it is {quoted(text)}", expected="a decimal integer")


def _unknown(text: str) -> InputError:
    return InputError(f"it is {quoted(text)}", expected="text, a finite number, true or false")
