from __future__ import annotations

import pytest

from onchip.answer.words import amount, short_amount


@pytest.mark.parametrize(
    ("value", "unit", "exact", "short"),
    [
        (1, "bytes", "1 byte", "1 byte"),
        (3_932_160, "bytes", "3,932,160 bytes", "3.75 MiB"),
        (1, "cycles", "1 cycle", "1 cycle"),
        (4_618, "cycles", "4,618 cycles", "4,618 cycles"),
        (12_345_678, "cycles", "12,345,678 cycles", "12.3 Mcycles"),
        (0, "fJ", "0 fJ (0 pJ)", "0 fJ"),
        (1_500, "fJ", "1,500 fJ (1.5 pJ)", "1.5 pJ"),
        (1_000_010, "fJ", "1,000,010 fJ (1,000.01 pJ)", "1 nJ"),
        (123_456_789_000, "fJ", "123,456,789,000 fJ (123,456,789 pJ)", "123 uJ"),
    ],
)
def test_amounts_have_their_unit(value: int, unit: str, exact: str, short: str) -> None:
    assert amount(value, unit) == exact
    assert short_amount(value, unit) == short
