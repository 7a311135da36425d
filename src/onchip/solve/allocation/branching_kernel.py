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
F = TypeVar("F", bound=Callable[..., Any])

# Indices into `counters`.
NODES, NODE_LIMIT, STOP, DEPTH, TRAIL, LISTS, PARTS, MEMO_HITS = range(8)
COUNTERS = 8
# Why the search returned.
FOUND, EXHAUSTED, STOPPED = range(3)

NONE = -1
FAR = np.int64(1) << 60


class Tables(NamedTuple):
    """The problem, buffers in the order in which ties are broken.

    Buffer `b` lives in the sections `first[b]` to `stop[b] - 1`; its neighbours are
    `neighbours[neighbours_at[b] : neighbours_at[b + 1]]`. `last` is its highest legal offset.
    No section may be filled above `limit`.
    """

    first: Integers
    stop: Integers
    size: Integers
    last: Integers
    twin: Integers
    neighbours_at: Integers
    neighbours: Integers
    limit: Integers
    hashes: NDArray[np.uint64]


class State(NamedTuple):
    """What the search writes. `offset[b]` is the lowest that the placed neighbours allow."""

    offset: Integers
    is_placed: Integers
    ahead: Integers
    total: Integers
    floor: Integers
    link: Integers
    trail_buffer: Integers
    trail_offset: Integers
    lists: Integers
    memo: NDArray[np.uint64]


class Frames(NamedTuple):
    """One row per placement on the path; `part` are those of the parts still to be packed."""

    buffer: Integers
    position: Integers
    list_at: Integers
    list_end: Integers
    trail_top: Integers
    lists_top: Integers
    parts_top: Integers
    fail_to: Integers
    pending: Integers
    height: Integers
    key_offset: Integers
    key_buffer: Integers
    memo_low: NDArray[np.uint64]
    memo_high: NDArray[np.uint64]
    part_at: Integers
    part_end: Integers
    part_next: Integers
    part_owner: Integers
    part_low: NDArray[np.uint64]
    part_high: NDArray[np.uint64]


def compiled(function: F) -> F:
    """Compile, cache on disk, release the interpreter lock while running."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))


@compiled
def place(tables: Tables, state: State, counters: Integers, buffer: int) -> None:
    """Put the buffer where it is; raise its neighbours above it."""
    top = state.offset[buffer] + tables.size[buffer]
    state.is_placed[buffer] = 1
    for section in range(tables.first[buffer], tables.stop[buffer]):
        state.total[section] -= tables.size[buffer]
    trail = counters[TRAIL]
    for at in range(tables.neighbours_at[buffer], tables.neighbours_at[buffer + 1]):
        other = tables.neighbours[at]
        if state.is_placed[other] == 0 and state.offset[other] < top:
            state.trail_buffer[trail] = other
            state.trail_offset[trail] = state.offset[other]
            state.offset[other] = top
            trail += 1
    counters[TRAIL] = trail


@compiled
def unplace(tables: Tables, state: State, frames: Frames, counters: Integers, depth: int) -> None:
    """Take back what the frame placed."""
    buffer = frames.buffer[depth]
    state.is_placed[buffer] = 0
    for section in range(tables.first[buffer], tables.stop[buffer]):
        state.total[section] += tables.size[buffer]
    for at in range(counters[TRAIL] - 1, frames.trail_top[depth] - 1, -1):
        state.offset[state.trail_buffer[at]] = state.trail_offset[at]
    counters[TRAIL] = frames.trail_top[depth]
    counters[LISTS] = frames.lists_top[depth]
    counters[PARTS] = frames.parts_top[depth]
    frames.buffer[depth] = NONE


@compiled
def is_eligible(state: State, key_offset: int, key_buffer: int, buffer: int) -> bool:
    """Whether the buffer may come after the last one placed."""
    offset = state.offset[buffer]
    return offset > key_offset or (offset == key_offset and buffer > key_buffer)


@compiled
def look_ahead(tables: Tables, state: State, key_offset: int, key_buffer: int, buffer: int) -> int:
    """Return how low the buffer can still be; FAR if nowhere.

    One that comes too late for its offset must yet be raised by a neighbour.
    """
    if is_eligible(state, key_offset, key_buffer, buffer):
        return state.offset[buffer]
    lowest = FAR
    for at in range(tables.neighbours_at[buffer], tables.neighbours_at[buffer + 1]):
        other = tables.neighbours[at]
        if state.is_placed[other] == 0:
            lowest = min(lowest, max(state.offset[other], key_offset) + tables.size[other])
    return lowest


@compiled
def rest_of(tables: Tables, state: State, frames: Frames, counters: Integers, depth: int) -> bool:
    """List what is left of the part, lowest first; whether each of it can still be placed."""
    buffer = frames.buffer[depth]
    key_offset = state.offset[buffer]
    start = counters[LISTS]
    end = start
    lists, ahead = state.lists, state.ahead
    for at in range(frames.list_at[depth], frames.list_end[depth]):
        other = lists[at]
        if state.is_placed[other]:
            continue
        low = look_ahead(tables, state, key_offset, buffer, other)
        if low > tables.last[other]:
            return False
        ahead[other] = low
        slot = end
        while slot > start and (
            ahead[lists[slot - 1]] > low or (ahead[lists[slot - 1]] == low and lists[slot - 1] > other)
        ):
            lists[slot] = lists[slot - 1]
            slot -= 1
        lists[slot] = other
        end += 1
    counters[LISTS] = end
    return True


@compiled
def find(link: Integers, section: int) -> int:
    """The first section from here on that has no floor yet."""
    root = section
    while link[root] != root:
        root = link[root]
    while link[section] != root:
        link[section], section = root, link[section]
    return root


@compiled
def sections_hold(tables: Tables, state: State, start: int, end: int) -> bool:
    """Whether in each section what is left fits above the lowest of it."""
    lists, link = state.lists, state.link
    low, high = tables.first[lists[start]], tables.stop[lists[start]]
    for at in range(start + 1, end):
        low = min(low, tables.first[lists[at]])
        high = max(high, tables.stop[lists[at]])
    for section in range(low, high + 1):
        link[section] = section
    for at in range(start, end):
        buffer = lists[at]
        section = find(link, tables.first[buffer])
        while section < tables.stop[buffer]:
            if state.ahead[buffer] + state.total[section] > tables.limit[section]:
                return False
            link[section] = section + 1
            section = find(link, section + 1)
    return True


@compiled
def split(tables: Tables, state: State, frames: Frames, counters: Integers, start: int, end: int) -> int:
    """Divide the list into parts with no section in common; return the first, chained to the others."""
    lists, reach = state.lists, state.link
    low, high = tables.first[lists[start]], tables.stop[lists[start]]
    for at in range(start + 1, end):
        low = min(low, tables.first[lists[at]])
        high = max(high, tables.stop[lists[at]])
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
def is_known_to_fail(tables, state, frames, part, key_offset, key_buffer):
    low = np.uint64(0)
    high = np.uint64(0)
    for at in range(frames.part_at[part], frames.part_end[part]):
        buffer = state.lists[at]
        word = np.uint64(state.offset[buffer]) * np.uint64(2)
        if is_eligible(state, key_offset, key_buffer, buffer):
            word += np.uint64(1)
        word = mixed(word + mixed(np.uint64(buffer + 1) * np.uint64(0x9E3779B97F4A7C15)))
        low += word
        high += mixed(word + np.uint64(0x632BE59BD9B4E019))
    frames.part_low[part] = low
    frames.part_high[part] = high
    slot = 2 * np.int64(low & np.uint64(len(state.memo) // 2 - 1))
    return state.memo[slot] == low and state.memo[slot + 1] == high


@compiled
def remember_failure(state, frames, depth):
    low = frames.memo_low[depth]
    slot = 2 * np.int64(low & np.uint64(len(state.memo) // 2 - 1))
    state.memo[slot] = low
    state.memo[slot + 1] = frames.memo_high[depth]


@compiled
def open_frame(
    tables: Tables, state: State, frames: Frames, counters: Integers, part: int, key_offset: int, key_buffer: int
) -> None:
    """Go one deeper, into a part."""
    counters[DEPTH] += 1
    depth = counters[DEPTH]
    start, end = frames.part_at[part], frames.part_end[part]
    frames.buffer[depth] = NONE
    frames.list_at[depth] = start
    frames.list_end[depth] = end
    frames.position[depth] = start
    frames.fail_to[depth] = frames.part_owner[part]
    frames.pending[depth] = frames.part_next[part]
    frames.key_offset[depth] = key_offset
    frames.key_buffer[depth] = key_buffer
    frames.memo_low[depth] = frames.part_low[part]
    frames.memo_high[depth] = frames.part_high[part]
    height = FAR
    for at in range(start, end):
        buffer = state.lists[at]
        height = min(height, state.offset[buffer] + tables.size[buffer])
    frames.height[depth] = height


@compiled
def next_candidate(tables: Tables, state: State, frames: Frames, depth: int) -> int:
    """Return the next buffer to try in this frame, NONE if there is none left."""
    for at in range(frames.position[depth], frames.list_end[depth]):
        buffer = state.lists[at]
        if not is_eligible(state, frames.key_offset[depth], frames.key_buffer[depth], buffer):
            continue
        if state.offset[buffer] >= frames.height[depth]:
            continue
        if tables.twin[buffer] != NONE and state.is_placed[tables.twin[buffer]] == 0:
            continue
        frames.position[depth] = at + 1
        return buffer
    return NONE


@compiled
def step_back(tables: Tables, state: State, frames: Frames, counters: Integers) -> None:
    """Leave an exhausted frame for the placement that is to blame."""
    target = frames.fail_to[counters[DEPTH]]
    for depth in range(counters[DEPTH] - 1, target, -1):
        unplace(tables, state, frames, counters, depth)
    counters[DEPTH] = target


@compiled
def step_on(tables: Tables, state: State, frames: Frames, counters: Integers) -> bool:
    """Open the next frame after a placement, if bounds allow; False where nothing is left to place."""
    depth = counters[DEPTH]
    buffer = frames.buffer[depth]
    start = counters[LISTS]
    if not rest_of(tables, state, frames, counters, depth):
        return True
    end = counters[LISTS]
    if start == end:
        part = frames.pending[depth]
        if part == NONE:
            return False
        owner = frames.buffer[frames.part_owner[part]] if frames.part_owner[part] != NONE else NONE
        key_offset = state.offset[owner] if owner != NONE else 0
        open_frame(tables, state, frames, counters, part, key_offset, owner)
        return True
    if not sections_hold(tables, state, start, end):
        return True
    part = split(tables, state, frames, counters, start, end)
    last = part
    while True:
        if is_known_to_fail(tables, state, frames, last, state.offset[buffer], buffer):
            counters[MEMO_HITS] += 1
            return True
        if frames.part_next[last] == NONE:
            break
        last = frames.part_next[last]
    frames.part_next[last] = frames.pending[depth]
    open_frame(tables, state, frames, counters, part, state.offset[buffer], buffer)
    return True


@compiled
def search(tables: Tables, state: State, frames: Frames, counters: Integers) -> int:
    """Pack everything, or prove that it cannot be done, or stop at the node limit."""
    n = len(tables.size)
    for buffer in range(n):
        state.lists[buffer] = buffer
    counters[LISTS] = n
    counters[DEPTH] = NONE
    part = split(tables, state, frames, counters, 0, n)
    open_frame(tables, state, frames, counters, part, 0, NONE)
    while True:
        depth = counters[DEPTH]
        if depth == NONE:
            return EXHAUSTED
        if frames.buffer[depth] != NONE:
            unplace(tables, state, frames, counters, depth)
        buffer = next_candidate(tables, state, frames, depth)
        if buffer == NONE:
            remember_failure(state, frames, depth)
            step_back(tables, state, frames, counters)
            continue
        counters[NODES] += 1
        if counters[NODES] >= counters[NODE_LIMIT] or counters[STOP]:
            return STOPPED
        frames.buffer[depth] = buffer
        frames.trail_top[depth] = counters[TRAIL]
        frames.lists_top[depth] = counters[LISTS]
        frames.parts_top[depth] = counters[PARTS]
        place(tables, state, counters, buffer)
        if not step_on(tables, state, frames, counters):
            return FOUND
