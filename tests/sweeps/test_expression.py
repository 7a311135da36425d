"""Expressions of studies: arithmetic with sizes, and no other Python."""

from __future__ import annotations

import pytest

from onchip.errors import InputError
from onchip.sweeps.point import Expression, Value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("K * C", 512),
        ("K * C <= 1024", True),
        ("K ** 2 // 3 - 1", 340),
        ("64KiB + 1B", 65537),
        ("sram == 1.5MiB", True),
        ("memories.sram.capacity / 2", 50.0),
        ("name == '64KiB'", True),
        ("not (K == 32 and C == 16)", False),
        ("K > 100 or C == 16", True),
        ("0 < C < K", True),
        ("max(K, C, 40) + ceil(2.5) + log2(8)", 46),
        ("-K + +C", -16),
        ("nothing < 3", False),
        ("nothing >= 3", False),
        ("nothing == None", True),
        ("nothing + 1", None),
    ],
)
def test_an_expression_has_its_value(text: str, value: Value) -> None:
    values: dict[str, Value] = {"K": 32, "C": 16, "sram": 1572864, "memories.sram.capacity": 100}
    assert Expression(text).value({**values, "name": "64KiB", "nothing": None}) == value


def test_an_expression_knows_its_names() -> None:
    assert Expression("K * memories.a.capacity + min(C, 4KiB)").names == {"K", "C", "memories.a.capacity"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "K *",
        "__import__('os')",
        "K.__class__()",
        "[K]",
        "lambda: K",
        "K if C else 1",
        "open('x')",
        "K @ C",
        "K << 40",
        "f'{K}'",
        "(K := 3)",
        "K in C",
        "b'x'",
        "1j",
        "max()",
        "max(*K)",
        "-" * 80 + "1",
        "1" * 1001,
    ],
)
def test_what_is_no_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        Expression(text)


@pytest.mark.parametrize(
    "text",
    ["1 / K", "K ** -1", "(C ** 64) ** 64", "9 ** 65", "(0 - C) ** 0.5", "name + 1", "log2(K)", "1e308 * 10 * C"],
)
def test_what_has_no_value_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        Expression(text).value({"K": 0, "C": 16, "name": "x"})


def test_a_name_that_stands_for_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="names 'L'"):
        Expression("K * L").ensure_names_are(frozenset({"K"}))
