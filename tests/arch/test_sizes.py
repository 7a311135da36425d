from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.arch.sizes import format_size, parse_size
from onchip.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("1048576", 1048576),
        ("1B", 1),
        ("64KiB", 65536),
        ("2MiB", 2097152),
        ("1GiB", 1073741824),
        ("64KB", 64000),
        ("1.5MB", 1500000),
        ("3GB", 3000000000),
        ("0.5KiB", 512),
        (" 2 MiB ", 2097152),
    ],
)
def test_a_size_is_read(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a size"),
        ("MiB", "is not a size"),
        ("-1", "is not a size"),
        ("1e6", "is not a size"),
        ("2mib", "is not a size"),
        ("2M", "is not a size"),
        ("1.MiB", "is not a size"),
        ("nan", "is not a size"),
        ("1MiB2", "is not a size"),
        ("\u0663", "is not a size"),
        ("9" * 30, "is not a size"),
        ("1.5", "is not a whole number of bytes"),
        ("0.3KiB", "is not a whole number of bytes"),
        ("0", "is out of range"),
        ("0MiB", "is out of range"),
        ("9223372036854775808", "is out of range"),
    ],
)
def test_what_is_no_size_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        parse_size(text)
    assert len(str(raised.value)) < 160


@given(st.integers(1, 2**63 - 1) | st.integers(1, 2**20).map(lambda count: count * 1024))
def test_a_written_size_is_read_as_itself(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes
