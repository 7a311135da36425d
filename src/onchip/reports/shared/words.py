"""The parts of a latency in words and as JSON objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from onchip.answer.words import picked
from onchip.model.timeline.activity import Activity, ActivityKind, ArrayWait, LatencyParts, Wait, array_waits

PART_WORDS: Final[Mapping[str, str]] = {
    "computing": "compute",
    "preload": "preload",
    "waiting_for_loads": "stall: load",
    "waiting_for_room": "stall: destination in use",
    "waiting_for_stores": "stall: store",
    "waiting_for_dram": "stall: DRAM",
}
PART_PAINTS: Final[Mapping[str, str]] = {
    "computing": "slice-compute",
    "preload": "kept",
    "waiting_for_loads": "slice-load",
    "waiting_for_room": "role-workspace",
    "waiting_for_stores": "slice-spill",
    "waiting_for_dram": "slice-write",
}
MOST_LINKS: Final = 6
"""Limit on the links of a chain in words; the others are counted."""


def latency_rows(parts: LatencyParts) -> Iterator[tuple[str, str]]:
    """Yield the name and the cycles of each part that is not zero."""
    for name, cycles in parts.by_name.items():
        if cycles:
            yield PART_WORDS[name], f"{cycles:,} cycles"


def latency_words(parts: LatencyParts) -> str:
    """Return the parts that are not zero in one line."""
    return ", ".join(f"{PART_WORDS[name]} {cycles:,}" for name, cycles in parts.by_name.items() if cycles)


def activity_object(activity: Activity, *, has_dram_turns: bool = True) -> dict[str, object]:
    """Return the times of an instruction and its wait, with DRAM turns if the timeline counts them."""
    names = ("instruction", "subject", "start", "stop", "queue", "source", "target", "waited_for", "idle_cycles")
    return picked(activity, *names, *(("dram_cycles",) if has_dram_turns else ()))


def wait_objects(activities: Sequence[Activity]) -> list[dict[str, object]]:
    """Return every gap of the array, with its reason and the chain of instructions that caused it."""
    return [wait_object(one, activities) for one in array_waits(activities)]


def wait_object(wait: ArrayWait, activities: Sequence[Activity]) -> dict[str, object]:
    """Return one gap: the next operator, its cycles by part, and the chain of instructions that caused it."""
    before = None if wait.activity is None else activities[wait.activity]
    return {
        "before": None if before is None else before.subject,
        "start": wait.start,
        "stop": wait.stop,
        "parts": {name: cycles for name, cycles in wait.parts.by_name.items() if cycles},
        "chain": [activities[place].instruction for place in wait.chain],
        "lacked_room": None if wait.lacked_room is None else activities[wait.lacked_room].instruction,
    }


def wait_lines(wait: ArrayWait, activities: Sequence[Activity]) -> Iterator[str]:
    """Yield the cycles of a stall, the next operator, and the chain of activities that it depends on."""
    counted = (f"{PART_WORDS[name]} {cycles:,}" for name, cycles in wait.parts.by_name.items() if cycles)
    yield f"cycles {wait.start:,} to {wait.stop:,}: {', '.join(counted)}"
    if wait.activity is None:
        yield "end of the program"
        waited_for = Wait.TURN
    else:
        yield f"{activities[wait.activity].subject} is next"
        waited_for = activities[wait.activity].waited_for
    for place in wait.chain[:MOST_LINKS]:
        one = activities[place]
        yield f"waits {_WHY[waited_for]} {_subject(one)}, cycles {one.start:,} to {one.end:,}"
        waited_for = one.waited_for
    if len(wait.chain) > MOST_LINKS:
        yield f"and {len(wait.chain) - MOST_LINKS:,} earlier activities"
    elif wait.chain and wait.chain[-1] != wait.lacked_room:
        yield from _earlier(activities[wait.chain[-1]], activities)
    if wait.lacked_room is not None:
        late = activities[wait.lacked_room]
        yield f"destination in use: {_subject(late)} started {late.place_cycles:,} cycles late"
        yield from _earlier(late, activities)


def _earlier(one: Activity, activities: Sequence[Activity]) -> Iterator[str]:
    if one.waited_on is not None:
        yield f"earlier: waited {_WHY[one.waited_for]} {_subject(activities[one.waited_on])}, until cycle {one.start:,}"


def _subject(one: Activity) -> str:
    if one.kind is ActivityKind.COMPUTE:
        return f"operator {one.subject}"
    return f"{one.kind} of {one.subject} ({one.source} to {one.target}, queue {one.queue})"


_WHY: Final = {
    Wait.TURN: "behind",
    Wait.DATA: "for the data of",
    Wait.PLACE: "for the destination of",
    Wait.DRAM: "for DRAM, behind",
}
