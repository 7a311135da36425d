"""The exact packing search, compiled. `branching.py` says what it does and why it is exact.

Everything compiled stands in this one file because numba's cache looks only at the file of the
function it compiled. Offsets and sizes are in units of the alignment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
F = TypeVar("F", bound=Callable[..., Any])

# Indices into `counters`.
NODES, NODE_LIMIT, STOP, DEPTH, TRAIL, LISTS, PARTS, MEMO_HITS = range(8)
COUNTERS = 8
# Why the search returned.
FOUND, EXHAUSTED, STOPPED = range(3)

NONE, PASSED = -1, -2
FAR = np.int64(1) << 60


class Tables(NamedTuple):
    """The problem, buffers in the order in which they are tried.

    Buffer `b` lives in the sections `first[b]` to `stop[b] - 1`; its neighbours are
    `neighbours[neighbours_at[b] : neighbours_at[b + 1]]`. `last` is its highest legal offset,
    `twin` the buffer before it with the same life and size. No section may be filled above `limit`.
    """

    first: Integers
    stop: Integers
    size: Integers
    last: Integers
    twin: Integers
    neighbours_at: Integers
    neighbours: Integers
    limit: Integers


class State(NamedTuple):
    """What the search writes.

    `support[b]` is the top of the highest placed neighbour, `low[b]` the least offset not ruled
    out; the two are equal unless the buffer was passed over. `total` and `floor` are of sections.
    """

    support: Integers
    low: Integers
    is_placed: Integers
    total: Integers
    floor: Integers
    scratch: Integers
    count: Integers
    weight: NDArray[np.float64]
    trail_buffer: Integers
    trail_support: Integers
    trail_low: Integers
    lists: Integers
    memo: Words


class Frames(NamedTuple):
    """One row per decision on the path; `part_` are those of the parts still to be packed."""

    buffer: Integers
    position: Integers
    list_at: Integers
    list_end: Integers
    candidates_end: Integers
    section: Integers
    trail_top: Integers
    lists_top: Integers
    parts_top: Integers
    fail_to: Integers
    pending: Integers
    key_low: Words
    key_high: Words
    part_at: Integers
    part_end: Integers
    part_next: Integers
    part_owner: Integers
    part_low: Words
    part_high: Words


def compiled(function: F) -> F:
    """Compile, cache on disk, release the interpreter lock while running."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))


@compiled
def remember(state: State, counters: Integers, buffer: int) -> None:
    """Note a buffer's bounds before they change."""
    at = counters[TRAIL]
    state.trail_buffer[at] = buffer
    state.trail_support[at] = state.support[buffer]
    state.trail_low[at] = state.low[buffer]
    counters[TRAIL] = at + 1


@compiled
def place(tables: Tables, state: State, counters: Integers, buffer: int) -> None:
    """Put the buffer at its lowest offset; raise its neighbours above it."""
    top = state.low[buffer] + tables.size[buffer]
    state.is_placed[buffer] = 1
    for section in range(tables.first[buffer], tables.stop[buffer]):
        state.total[section] -= tables.size[buffer]
    for at in range(tables.neighbours_at[buffer], tables.neighbours_at[buffer + 1]):
        other = tables.neighbours[at]
        if state.is_placed[other] == 0 and state.support[other] < top:
            remember(state, counters, other)
            state.support[other] = top
            state.low[other] = max(state.low[other], top)


@compiled
def pass_over(tables: Tables, state: State, frames: Frames, counters: Integers, depth: int) -> None:
    """Let no buffer lie on the floor of the section."""
    section = frames.section[depth]
    floor = state.support[state.lists[frames.list_end[depth]]]
    for at in range(frames.list_end[depth], frames.candidates_end[depth]):
        buffer = state.lists[at]
        remember(state, counters, buffer)
        state.low[buffer] = floor + 1


@compiled
def take_back(tables: Tables, state: State, frames: Frames, counters: Integers, depth: int) -> None:
    """Undo the decision of a frame."""
    buffer = frames.buffer[depth]
    if buffer >= 0:
        state.is_placed[buffer] = 0
        for section in range(tables.first[buffer], tables.stop[buffer]):
            state.total[section] += tables.size[buffer]
    for at in range(counters[TRAIL] - 1, frames.trail_top[depth] - 1, -1):
        other = state.trail_buffer[at]
        state.support[other] = state.trail_support[at]
        state.low[other] = state.trail_low[at]
    counters[TRAIL] = frames.trail_top[depth]
    counters[LISTS] = frames.lists_top[depth]
    counters[PARTS] = frames.parts_top[depth]
    frames.buffer[depth] = NONE


@compiled
def raise_passed(tables: Tables, state: State, counters: Integers, start: int, end: int) -> bool:
    """Raise those passed over above the lowest top they can still rest on; whether all can."""
    changed = True
    while changed:
        changed = False
        for index in range(start, end):
            buffer = state.lists[index]
            if state.low[buffer] == state.support[buffer]:
                continue
            lowest, lowest_top = FAR, FAR
            for at in range(tables.neighbours_at[buffer], tables.neighbours_at[buffer + 1]):
                other = tables.neighbours[at]
                if state.is_placed[other] == 0:
                    lowest = min(lowest, state.low[other])
                    lowest_top = min(lowest_top, state.low[other] + tables.size[other])
            if state.support[buffer] + tables.size[buffer] <= lowest or lowest_top > tables.last[buffer]:
                for section in range(tables.first[buffer], tables.stop[buffer]):
                    state.weight[section] += 1/(tables.stop[buffer]-tables.first[buffer])
                return False
            if lowest_top > state.low[buffer]:
                remember(state, counters, buffer)
                state.low[buffer] = lowest_top
                changed = True
    return True


@compiled
def list_rest(tables: Tables, state: State, frames: Frames, counters: Integers, depth: int) -> None:
    """List what is left of the part."""
    end = counters[LISTS]
    for at in range(frames.list_at[depth], frames.list_end[depth]):
        buffer = state.lists[at]
        if state.is_placed[buffer] == 0:
            state.lists[end] = buffer
            end += 1
    counters[LISTS] = end


@compiled
def sort_by_low(state: State, start: int, end: int) -> None:
    """Insertion sort: little has changed since the last time."""
    lists, low = state.lists, state.low
    for at in range(start + 1, end):
        buffer = lists[at]
        slot = at
        while slot > start and low[lists[slot - 1]] > low[buffer]:
            lists[slot] = lists[slot - 1]
            slot -= 1
        lists[slot] = buffer


@compiled
def find(link: Integers, section: int) -> int:
    """Return the first section from here on that has no floor yet."""
    root = section
    while link[root] != root:
        root = link[root]
    while link[section] != root:
        link[section], section = root, link[section]
    return root


@compiled
def extent(tables: Tables, state: State, start: int, end: int) -> tuple[int, int]:
    """Return the sections of a list of buffers, half open."""
    low, high = tables.first[state.lists[start]], tables.stop[state.lists[start]]
    for at in range(start + 1, end):
        low = min(low, tables.first[state.lists[at]])
        high = max(high, tables.stop[state.lists[at]])
    return low, high


@compiled
def set_floors(tables: Tables, state: State, start: int, end: int) -> bool:
    """Find the lowest offset in each section; whether what is left fits above it."""
    lists, link = state.lists, state.scratch
    low, high = extent(tables, state, start, end)
    for section in range(low, high + 1):
        link[section] = section
    for at in range(start, end):
        buffer = lists[at]
        floor = state.low[buffer]
        if floor > tables.last[buffer]:
            return False
        section = find(link, tables.first[buffer])
        while section < tables.stop[buffer]:
            if floor + state.total[section] > tables.limit[section]:
                state.weight[section] += 1
                return False
            state.floor[section] = floor
            link[section] = section + 1
            section = find(link, section + 1)
    return True


@compiled
def split(tables: Tables, state: State, frames: Frames, counters: Integers, start: int, end: int) -> int:
    """Divide the list into parts with no section in common; return the first, chained to the others."""
    lists, reach = state.lists, state.scratch
    low, high = extent(tables, state, start, end)
    for section in range(low, high):
        reach[section] = section
    for at in range(start, end):
        buffer = lists[at]
        reach[tables.first[buffer]] = max(reach[tables.first[buffer]], tables.stop[buffer])
    head = NONE
    section = low
    while section < high:
        part_stop = reach[section]
        inner = section
        while inner < part_stop:
            part_stop = max(part_stop, reach[inner])
            inner += 1
        if part_stop == section:
            section += 1
            continue
        head = add_part(tables, state, frames, counters, start, end, section, part_stop, head)
        section = part_stop
    return head


@compiled
def add_part(
    tables: Tables,
    state: State,
    frames: Frames,
    counters: Integers,
    start: int,
    end: int,
    low: int,
    high: int,
    head: int,
) -> int:
    """Add the part in the sections [low, high) to the chain; return its head."""
    lists = state.lists
    part = counters[PARTS]
    counters[PARTS] += 1
    top = counters[LISTS]
    frames.part_at[part] = top
    for at in range(start, end):
        if low <= tables.first[lists[at]] < high:
            lists[top] = lists[at]
            top += 1
    frames.part_end[part] = top
    counters[LISTS] = top
    frames.part_next[part] = head
    frames.part_owner[part] = counters[DEPTH]
    return part


@compiled
def mixed(word: np.uint64) -> np.uint64:
    """Spread the bits of a word over all of it (the finaliser of SplitMix64)."""
    word ^= word >> np.uint64(30)
    word *= np.uint64(0xBF58476D1CE4E5B9)
    word ^= word >> np.uint64(27)
    word *= np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@compiled
def is_known_to_fail(state: State, frames: Frames, part: int) -> bool:
    """Whether this very part, with these bounds, has failed before (by a hash of 128 bits)."""
    low = np.uint64(0)
    high = np.uint64(0)
    for at in range(frames.part_at[part], frames.part_end[part]):
        buffer = state.lists[at]
        word = mixed(np.uint64(buffer + 1) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(state.support[buffer]))
        word = mixed(word + np.uint64(state.low[buffer]))
        low += word
        high += mixed(word + np.uint64(0x632BE59BD9B4E019))
    frames.part_low[part] = low
    frames.part_high[part] = high
    slot = 2 * np.int64(low & np.uint64(len(state.memo) // 2 - 1))
    return bool(state.memo[slot] == low and state.memo[slot + 1] == high)


@compiled
def remember_failure(state: State, frames: Frames, depth: int) -> None:
    """Remember that the frame's part cannot be packed."""
    low = frames.key_low[depth]
    slot = 2 * np.int64(low & np.uint64(len(state.memo) // 2 - 1))
    state.memo[slot] = low
    state.memo[slot + 1] = frames.key_high[depth]


@compiled
def choose_section(tables: Tables, state: State, start: int, end: int) -> int:
    """Return the section in a valley of the floors with the fewest choices."""
    floor, count, mark = state.floor, state.count, state.scratch
    low, high = extent(tables, state, start, end)
    mark_valleys(floor, mark, low, high)
    for section in range(low, high + 1):
        count[section] = 0
    for at in range(start, end):
        buffer = state.lists[at]
        first = tables.first[buffer]
        if mark[first] == 1 and state.low[buffer] == floor[first]:
            count[first] += 1
            count[tables.stop[buffer]] -= 1
    best, best_score, choices = NONE, 1e30, 0
    for section in range(low, high):
        choices += count[section]
        if mark[section] == 1:
            slack = tables.limit[section] - floor[section] - state.total[section]
            options = 2 * choices + (slack > 0)
            score = -1.0 if options == 2 else options / state.weight[section]
            if score < best_score:
                best, best_score = section, score
    return best


@compiled
def mark_valleys(floor: Integers, mark: Integers, low: int, high: int) -> None:
    """Mark the runs of equal floors between higher ones."""
    section = low
    while section < high:
        stop = section + 1
        while stop < high and floor[stop] == floor[section]:
            stop += 1
        is_valley = (section == low or floor[section - 1] > floor[section]) and (
            stop == high or floor[stop] > floor[section]
        )
        for inner in range(section, stop):
            mark[inner] = is_valley
        section = stop


@compiled
def open_frame(tables: Tables, state: State, frames: Frames, counters: Integers, part: int) -> None:
    """Go one deeper, into a part: list what may lie on the floor of its most constrained section."""
    counters[DEPTH] += 1
    depth = counters[DEPTH]
    start, end = frames.part_at[part], frames.part_end[part]
    section = choose_section(tables, state, start, end)
    top = end
    lists = state.lists
    for at in range(start, end):
        buffer = lists[at]
        if tables.first[buffer] <= section < tables.stop[buffer] and state.low[buffer] == state.floor[section]:
            slot = top
            while slot > end and lists[slot - 1] > buffer:
                lists[slot] = lists[slot - 1]
                slot -= 1
            lists[slot] = buffer
            top += 1
    counters[LISTS] = top
    frames.buffer[depth] = NONE
    frames.list_at[depth] = start
    frames.list_end[depth] = end
    frames.candidates_end[depth] = top
    frames.position[depth] = end
    frames.section[depth] = section
    frames.fail_to[depth] = frames.part_owner[part]
    frames.pending[depth] = frames.part_next[part]
    frames.key_low[depth] = frames.part_low[part]
    frames.key_high[depth] = frames.part_high[part]


@compiled
def decide(tables: Tables, state: State, frames: Frames, counters: Integers, depth: int) -> bool:
    """Make the next decision of the frame: a buffer on the floor, at last none; False if there is none left."""
    at = frames.position[depth]
    end = frames.candidates_end[depth]
    while at < end and tables.twin[state.lists[at]] != NONE and state.is_placed[tables.twin[state.lists[at]]] == 0:
        at += 1
    if at > end:
        return False
    frames.position[depth] = at + 1
    frames.trail_top[depth] = counters[TRAIL]
    frames.lists_top[depth] = counters[LISTS]
    frames.parts_top[depth] = counters[PARTS]
    if at < end:
        frames.buffer[depth] = state.lists[at]
        place(tables, state, counters, state.lists[at])
    else:
        frames.buffer[depth] = PASSED
        pass_over(tables, state, frames, counters, depth)
    return True


@compiled
def step_back(tables: Tables, state: State, frames: Frames, counters: Integers) -> None:
    """Leave an exhausted frame for the decision that is to blame."""
    target = frames.fail_to[counters[DEPTH]]
    for depth in range(counters[DEPTH] - 1, target, -1):
        take_back(tables, state, frames, counters, depth)
    counters[DEPTH] = target


@compiled
def step_on(tables: Tables, state: State, frames: Frames, counters: Integers) -> bool:
    """Open the next frame after a decision, if bounds allow; False where nothing is left to place."""
    depth = counters[DEPTH]
    start = counters[LISTS]
    list_rest(tables, state, frames, counters, depth)
    end = counters[LISTS]
    part = frames.pending[depth]
    if start == end:
        if part != NONE:
            open_frame(tables, state, frames, counters, part)
        return part != NONE
    if not raise_passed(tables, state, counters, start, end):
        return True
    sort_by_low(state, start, end)
    if not set_floors(tables, state, start, end):
        return True
    part = split(tables, state, frames, counters, start, end)
    last = part
    while True:
        if is_known_to_fail(state, frames, last):
            counters[MEMO_HITS] += 1
            return True
        if frames.part_next[last] == NONE:
            break
        last = frames.part_next[last]
    frames.part_next[last] = frames.pending[depth]
    open_frame(tables, state, frames, counters, part)
    return True


@compiled
def search(tables: Tables, state: State, frames: Frames, counters: Integers) -> int:
    """Pack everything, or prove that it cannot be done, or stop at the node limit."""
    n = len(tables.size)
    for buffer in range(n):
        state.lists[buffer] = buffer
    counters[LISTS] = n
    counters[DEPTH] = NONE
    if not set_floors(tables, state, 0, n):
        return EXHAUSTED
    part = split(tables, state, frames, counters, 0, n)
    open_frame(tables, state, frames, counters, part)
    while counters[DEPTH] != NONE:
        depth = counters[DEPTH]
        if frames.buffer[depth] != NONE:
            take_back(tables, state, frames, counters, depth)
        if not decide(tables, state, frames, counters, depth):
            remember_failure(state, frames, depth)
            step_back(tables, state, frames, counters)
            continue
        counters[NODES] += 1
        if counters[NODES] >= counters[NODE_LIMIT] or counters[STOP]:
            return STOPPED
        if not step_on(tables, state, frames, counters):
            return FOUND
    return EXHAUSTED
