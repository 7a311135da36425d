"""Stored answers of compiled searches whose answers no oracle decides, a group for each unit of `onchip.native`.

Each unit answers a few dozen small questions drawn with a fixed seed. Limits are counted work, never time, and searches
have one worker. For each question the file holds a part of the answer in clear, a digest of the whole answer, and a
digest of the question. A change of the C++ that should keep all answers can be compared with the file.

The answers hold for the C++ library and the mathematical library of Linux: elsewhere shuffles and logarithms differ.

Write the file again, from the folder `tests`, after a change that should give other answers::

    python -m support.native_answers --write

Without `--write` the command names the differences, as the test does.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from support import native_mapping_answers as mapping
from support import native_plan_answers as plan
from support.answered import Answered

FILE: Final = Path(__file__).parent.parent / "native" / "stored_answers.json"
Row: TypeAlias = tuple[str, str, str]
"""The value in clear, the digest of the answer and the digest of the question."""

UNITS: Final[Mapping[str, Mapping[Callable[[int], Answered], int]]] = {
    "tile_search": {mapping.exact_mapper: 24, mapping.exact_way: 12, mapping.exact_refiner: 12},
    "tile_orders": {mapping.loma_orders: 18},
    "peak_search": {plan.peak_search: 30},
    "packing": {plan.packing_search: 24, plan.packing_attempt: 24, plan.packing_driver: 18},
    "beam": {plan.layout_beam: 20, plan.order_beam: 20, plan.placed_plan: 16},
    "timing": {plan.latency_rooms: 20, plan.latency_search: 20},
}
"""Questions by translation unit of `onchip.native`, with the number of each."""


def answers_of(unit: str) -> dict[str, Row]:
    """Return the answers of one unit, by question."""
    return {f"{ask.__name__} {seed}": ask(seed).row for ask, number in UNITS[unit].items() for seed in range(number)}


def stored_answers() -> dict[str, dict[str, Row]]:
    """Return the answers in the file, by unit and question."""
    units = json.loads(FILE.read_text(encoding="utf-8"))
    return {unit: {name: tuple(row) for name, row in rows.items()} for unit, rows in units.items()}


def differences(stored: Mapping[str, Row], found: Mapping[str, Row]) -> list[str]:
    """Return a line for each question whose answer differs, or that is no longer the same question."""
    lines = [f"{name}: only in the file" for name in stored.keys() - found.keys()]
    lines += [f"{name}: only in this build" for name in found.keys() - stored.keys()]
    for name in stored.keys() & found.keys():
        (value, answer, question), (new_value, new_answer, new_question) = stored[name], found[name]
        if question != new_question:
            lines.append(f"{name}: the question itself has changed")
        elif (value, answer) != (new_value, new_answer):
            lines.append(f"{name}: value {value} is now {new_value}, answer {answer} is now {new_answer}")
    return sorted(lines)


def _text_of(units: Mapping[str, Mapping[str, Row]]) -> str:
    """Return JSON with a line for each question."""
    lines = []
    for unit, rows in units.items():
        own = (f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        lines.append(f'  "{unit}": {{\n' + ",\n".join(own) + "\n  }")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    """Write the file, or compare this build with it; return the exit code."""
    parser = argparse.ArgumentParser(description="Compare the answers of the compiled searches with the stored ones.")
    parser.add_argument("--write", action="store_true", help="write the file again")
    is_written = parser.parse_args().write
    found = {unit: answers_of(unit) for unit in UNITS}
    if is_written:
        FILE.write_text(_text_of(found), encoding="utf-8")
        return 0
    stored = stored_answers()
    lines = [f"{unit}: {line}" for unit, own in found.items() for line in differences(stored.get(unit, {}), own)]
    print("\n".join(lines) or "All answers are the stored ones.")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
