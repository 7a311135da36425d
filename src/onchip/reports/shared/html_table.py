"""A table as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Return a table; numbers have commas, what is None is empty, and every text is shown as it is."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(_shown(value))}</td>' for value in row)}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _shown(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
