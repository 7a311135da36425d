"""A case that fails, made as small as it goes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import chain

from adversary.frame import Facts, Json, Level, Program


def shrink(level: Level, facts: Facts, kind: str, program: Program, seconds: float) -> Facts:
    """Return the smallest case found in that time whose fault is of the same kind."""
    deadline = time.monotonic() + seconds

    def still_fails(candidate: Facts) -> bool:
        return level.judge(candidate, program).kind == kind

    is_smaller = True
    while is_smaller and time.monotonic() < deadline:
        is_smaller = False
        for candidate in chain(level.smaller(facts), smaller_values(facts)):
            if time.monotonic() > deadline:
                break
            if weight(candidate) < weight(facts) and _holds(still_fails, candidate):
                facts, is_smaller = candidate, True
                break
    return facts


def _holds(still_fails: Callable[[Facts], bool], candidate: Facts) -> bool:
    """Return True if a candidate still fails; a case that breaks an oracle does not count as the same fault."""
    try:
        return still_fails(candidate)
    except Exception:
        return False


def weight(value: object) -> tuple[int, int, int]:
    """Return the measure that shrinking reduces: the entries, then the sum of the numbers, then the text length."""
    entries, total = 0, 0
    for one in _leaves(value):
        entries += 1
        total += abs(int(one)) if isinstance(one, int | float) else 0
    return entries, total, len(json.dumps(value))


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for one in value.values():
            yield None
            yield from _leaves(one)
    elif isinstance(value, list):
        for one in value:
            yield None
            yield from _leaves(one)
    else:
        yield value


def smaller_values(value: Json) -> Iterator[Json]:
    """Yield the value with one entry left out or one number nearer to zero, anywhere in it."""
    if isinstance(value, dict):
        for key in value:
            yield {k: v for k, v in value.items() if k != key}
        for key, one in value.items():
            for less in smaller_values(one):
                yield {**value, key: less}
    elif isinstance(value, list):
        for at in range(len(value)):
            yield value[:at] + value[at + 1 :]
        for at, one in enumerate(value):
            for less in smaller_values(one):
                yield [*value[:at], less, *value[at + 1 :]]
    elif isinstance(value, int) and not isinstance(value, bool) and value > 0:
        yield from dict.fromkeys(less for less in (0, 1, value // 2, value - 1) if less < value)
