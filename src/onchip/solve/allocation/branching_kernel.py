"""The exact packing search, compiled. `branching.py` says what it does and why it is exact.

Everything compiled stands in this one file because numba's cache looks only at the file of the
function it compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from onchip.solve.allocation.branching_tables import NONE, BranchingState, BranchingTables, BranchingWork, Integers

F = TypeVar("F", bound=Callable[..., Any])

# Indices into `counters`.
NODES, NODE_LIMIT, STOP, DEPTH, TRAIL, LISTS, PARTS = range(7)
# Why the search returned.
FOUND, EXHAUSTED, STOPPED, FULL = range(4)
# What a frame has decided: a buffer (from 0 on), nothing yet (NONE), or that none lies on the floor.
PASSED = -2

FAR = 1 << 60
HASH_STEP = np.uint64(0x9E3779B97F4A7C15)


jit: Any = numba.njit


def compiled(function: F) -> F:
    """Compile, release the interpreter lock while running; to be called from compiled code only."""
    return cast("F", jit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))


def compiled_entry(function: F) -> F:
    """The same with all it calls, cached on disk; to be called from Python."""
    return cast("F", jit(cache=True, nogil=True, no_cfunc_wrapper=True)(function))


# Decisions


@compiled
def note(work: BranchingWork, buffer: int) -> None:
    """Note a buffer's bounds before the first time a decision changes them."""
    state, counters = work.state, work.counters
    if state.noted[buffer] == counters[NODES]:
        return
    state.noted[buffer] = counters[NODES]
    at = counters[TRAIL]
    state.trail_buffer[at] = buffer
    state.trail_support[at] = state.support[buffer]
    state.trail_low[at] = state.low[buffer]
    counters[TRAIL] = at + 1


@compiled
def place(work: BranchingWork, buffer: int) -> None:
    """Put the buffer at its lowest offset; raise its neighbours above it."""
    tables, state = work.tables, work.state
    top = state.low[buffer] + tables.size[buffer]
    state.is_placed[buffer] = 1
    for section in range(tables.first[buffer], tables.stop[buffer]):
        state.total[section] -= tables.size[buffer]
    for at in range(tables.neighbours_at[buffer], tables.neighbours_at[buffer + 1]):
        other = tables.neighbours[at]
        if state.is_placed[other] == 0 and state.support[other] < top:
            note(work, other)
            state.support[other] = top
            state.low[other] = max(state.low[other], top)


@compiled
def pass_over(work: BranchingWork, depth: int) -> None:
    """Let none of the frame's choices lie on the floor."""
    state, frames = work.state, work.frames
    for at in range(frames.choices_at[depth], frames.choices_end[depth]):
        buffer = state.lists[at]
        note(work, buffer)
        state.low[buffer] += 1


@compiled
def decide(work: BranchingWork, depth: int) -> bool:
    """Make the next decision of the frame: one buffer on the floor, at last none; False if all are made."""
    tables, state, frames, counters = work.tables, work.state, work.frames, work.counters
    at, end = frames.position[depth], frames.choices_end[depth]
    while at < end and is_after_its_twin(tables, state, state.lists[at]):
        at += 1
    if at > end:
        return False
    counters[NODES] += 1
    frames.position[depth] = at + 1
    frames.trail_top[depth] = counters[TRAIL]
    frames.lists_top[depth] = counters[LISTS]
    frames.parts_top[depth] = counters[PARTS]
    if at < end:
        frames.buffer[depth] = state.lists[at]
        place(work, state.lists[at])
    else:
        frames.buffer[depth] = PASSED
        pass_over(work, depth)
    return True


@compiled
def is_after_its_twin(tables: BranchingTables, state: BranchingState, buffer: int) -> bool:
    """Whether the same buffer, with another number, has to be placed first."""
    twin = tables.twin[buffer]
    return bool(twin != NONE and state.is_placed[twin] == 0)


@compiled
def take_back(work: BranchingWork, depth: int) -> None:
    """Undo the decision of a frame."""
    tables, state, frames, counters = work.tables, work.state, work.frames, work.counters
    buffer = frames.buffer[depth]
    if buffer >= 0:
        state.is_placed[buffer] = 0
        for section in range(tables.first[buffer], tables.stop[buffer]):
            state.total[section] += tables.size[buffer]
    for at in range(frames.trail_top[depth], counters[TRAIL]):
        other = state.trail_buffer[at]
        state.support[other] = state.trail_support[at]
        state.low[other] = state.trail_low[at]
    counters[TRAIL] = frames.trail_top[depth]
    counters[LISTS] = frames.lists_top[depth]
    counters[PARTS] = frames.parts_top[depth]
    frames.buffer[depth] = NONE


# Bounds


@compiled
def list_rest(work: BranchingWork, depth: int) -> None:
    """List what is left of the frame's part."""
    state, frames = work.state, work.frames
    end = work.counters[LISTS]
    for at in range(frames.list_at[depth], frames.list_end[depth]):
        buffer = state.lists[at]
        if state.is_placed[buffer] == 0:
            state.lists[end] = buffer
            end += 1
    work.counters[LISTS] = end


@compiled
def raise_passed(work: BranchingWork, start: int, end: int) -> bool:
    """Raise those passed over to the lowest top they can still rest on; whether all can.

    One that all its neighbours leave room for, where it was passed over, would only sink.
    """
    tables, state = work.tables, work.state
    is_changed = True
    while is_changed:
        is_changed = False
        for index in range(start, end):
            buffer = state.lists[index]
            if state.low[buffer] == state.support[buffer]:
                continue
            lowest, lowest_top = lowest_neighbour(tables, state, buffer)
            if state.support[buffer] + tables.size[buffer] <= lowest or lowest_top > tables.last[buffer]:
                blame_life(tables, state, buffer)
                return False
            if lowest_top > state.low[buffer]:
                note(work, buffer)
                state.low[buffer] = lowest_top
                is_changed = True
    return True


@compiled
def lowest_neighbour(tables: BranchingTables, state: BranchingState, buffer: int) -> tuple[int, int]:
    """Return the lowest offset and the lowest top of the neighbours yet to be placed."""
    lowest, lowest_top = FAR, FAR
    for at in range(tables.neighbours_at[buffer], tables.neighbours_at[buffer + 1]):
        other = tables.neighbours[at]
        if state.is_placed[other] == 0:
            lowest = min(lowest, state.low[other])
            lowest_top = min(lowest_top, state.low[other] + tables.size[other])
    return lowest, lowest_top


@compiled
def blame_life(tables: BranchingTables, state: BranchingState, buffer: int) -> None:
    """Blame all sections of a buffer together as much as one section."""
    share = 1.0 / (tables.stop[buffer] - tables.first[buffer])
    for section in range(tables.first[buffer], tables.stop[buffer]):
        state.weight[section] += share


@compiled
def sort_by_low(state: BranchingState, start: int, end: int) -> None:
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
def extent(tables: BranchingTables, state: BranchingState, start: int, end: int) -> tuple[int, int]:
    """Return the sections of a list of buffers, half open."""
    low, high = tables.first[state.lists[start]], tables.stop[state.lists[start]]
    for at in range(start + 1, end):
        low = min(low, tables.first[state.lists[at]])
        high = max(high, tables.stop[state.lists[at]])
    return low, high


@compiled
def next_without_floor(link: Integers, section: int) -> int:
    """Return the first section from here on that has no floor yet."""
    root = section
    while link[root] != root:
        root = link[root]
    while link[section] != root:
        link[section], section = root, link[section]
    return root


@compiled
def set_floors(work: BranchingWork, start: int, end: int) -> bool:
    """Find the lowest offset left in each section; whether what is left fits above it. The list is sorted."""
    tables, state = work.tables, work.state
    low, high = extent(tables, state, start, end)
    for section in range(low, high + 1):
        state.scratch[section] = section
    for at in range(start, end):
        buffer = state.lists[at]
        floor = state.low[buffer]
        if floor > tables.last[buffer]:
            blame_life(tables, state, buffer)
            return False
        section = next_without_floor(state.scratch, tables.first[buffer])
        while section < tables.stop[buffer]:
            if floor + state.total[section] > tables.limit[section]:
                state.weight[section] += 1.0
                return False
            state.floor[section] = floor
            state.scratch[section] = section + 1
            section = next_without_floor(state.scratch, section + 1)
    return True


# Parts


@compiled
def split(work: BranchingWork, start: int, end: int) -> int:
    """Divide the list into parts with no section in common; return the head of their chain."""
    tables, state = work.tables, work.state
    lists, reach = state.lists, state.scratch
    low, high = extent(tables, state, start, end)
    for section in range(low, high):
        reach[section] = section
    for at in range(start, end):
        first = tables.first[lists[at]]
        reach[first] = max(reach[first], tables.stop[lists[at]])
    head = NONE
    section = low
    while section < high:
        stop = reach[section]
        inner = section
        while inner < stop:
            stop = max(stop, reach[inner])
            inner += 1
        if stop > section:
            head = add_part(work, (start, end), (section, stop), head)
        section = max(stop, section + 1)
    return head


@compiled
def add_part(work: BranchingWork, items: tuple[int, int], sections: tuple[int, int], head: int) -> int:
    """Add what starts in these sections to the chain; return its new head."""
    state, frames, counters = work.state, work.frames, work.counters
    part, top = counters[PARTS], counters[LISTS]
    frames.part_at[part] = top
    for at in range(items[0], items[1]):
        if sections[0] <= work.tables.first[state.lists[at]] < sections[1]:
            state.lists[top] = state.lists[at]
            top += 1
    frames.part_end[part] = top
    frames.part_next[part] = head
    frames.part_owner[part] = counters[DEPTH]
    counters[LISTS] = top
    counters[PARTS] = part + 1
    return int(part)


@compiled
def mixed(word: np.uint64) -> np.uint64:
    """Spread the bits of a word over all of it (the finaliser of SplitMix64)."""
    word ^= word >> np.uint64(30)
    word *= np.uint64(0xBF58476D1CE4E5B9)
    word ^= word >> np.uint64(27)
    word *= np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@compiled
def has_failed_before(work: BranchingWork, part: int) -> bool:
    """Whether this part, with these bounds, is known to have no packing (by a hash of 128 bits)."""
    state, frames = work.state, work.frames
    low, high = np.uint64(0), np.uint64(0)
    for at in range(frames.part_at[part], frames.part_end[part]):
        buffer = state.lists[at]
        word = mixed(np.uint64(buffer + 1) * HASH_STEP + np.uint64(state.support[buffer]))
        word = mixed(word + np.uint64(state.low[buffer]))
        low += word
        high += mixed(word + HASH_STEP)
    frames.part_low[part] = low
    frames.part_high[part] = high
    slot = slot_of(state, low)
    return bool(state.memo[slot] == low and state.memo[slot + 1] == high)


@compiled
def remember_failure(work: BranchingWork, depth: int) -> None:
    """Remember that the frame's part has no packing."""
    state, frames = work.state, work.frames
    slot = slot_of(state, frames.key_low[depth])
    state.memo[slot] = frames.key_low[depth]
    state.memo[slot + 1] = frames.key_high[depth]


@compiled
def slot_of(state: BranchingState, low: np.uint64) -> int:
    """Return where in the memory a hash belongs."""
    return int(low & np.uint64(len(state.memo) // 2 - 1)) * 2


# Frames


@compiled
def mark_valleys(state: BranchingState, low: int, high: int) -> None:
    """Mark the runs of equal floors between higher ones."""
    floor = state.floor
    section = low
    while section < high:
        stop = section + 1
        while stop < high and floor[stop] == floor[section]:
            stop += 1
        is_valley = (section == low or floor[section - 1] > floor[section]) and (
            stop == high or floor[stop] > floor[section]
        )
        for inner in range(section, stop):
            state.scratch[inner] = is_valley
        section = stop


@compiled
def count_choices(work: BranchingWork, start: int, end: int) -> None:
    """Count, as differences between sections, the buffers that lie on the floor of a valley."""
    tables, state = work.tables, work.state
    low, high = extent(tables, state, start, end)
    for section in range(low, high + 1):
        state.choices[section] = 0
    for at in range(start, end):
        buffer = state.lists[at]
        first = tables.first[buffer]
        if state.scratch[first] and state.low[buffer] == state.floor[first]:
            state.choices[first] += 1
            state.choices[tables.stop[buffer]] -= 1


@compiled
def choose_section(work: BranchingWork, start: int, end: int) -> int:
    """Return the section, in a valley, with the fewest choices for the failures it has seen."""
    tables, state = work.tables, work.state
    low, high = extent(tables, state, start, end)
    mark_valleys(state, low, high)
    count_choices(work, start, end)
    best, best_score, choices = NONE, 1e300, 0
    for section in range(low, high):
        choices += state.choices[section]
        if state.scratch[section]:
            has_slack = state.floor[section] + state.total[section] < tables.limit[section]
            is_forced = choices == 1 and not has_slack
            score = -1.0 if is_forced else (2 * choices + has_slack) / state.weight[section]
            if score < best_score:
                best, best_score = section, score
    return best


@compiled
def open_frame(work: BranchingWork, part: int) -> None:
    """Go one deeper, into a part."""
    frames, counters = work.frames, work.counters
    counters[DEPTH] += 1
    depth = counters[DEPTH]
    start, end = frames.part_at[part], frames.part_end[part]
    list_choices(work, depth, part, choose_section(work, start, end))
    frames.list_at[depth], frames.list_end[depth] = start, end
    frames.buffer[depth] = NONE
    frames.blame[depth] = frames.part_owner[part]
    frames.pending[depth] = frames.part_next[part]
    frames.key_low[depth] = frames.part_low[part]
    frames.key_high[depth] = frames.part_high[part]


@compiled
def list_choices(work: BranchingWork, depth: int, part: int, section: int) -> None:
    """List what may lie on the floor of the section, by rank."""
    tables, state, frames = work.tables, work.state, work.frames
    bottom = work.counters[LISTS]
    top = bottom
    for at in range(frames.part_at[part], frames.part_end[part]):
        buffer = state.lists[at]
        if tables.first[buffer] <= section < tables.stop[buffer] and state.low[buffer] == state.floor[section]:
            slot = top
            while slot > bottom and tables.rank[state.lists[slot - 1]] > tables.rank[buffer]:
                state.lists[slot] = state.lists[slot - 1]
                slot -= 1
            state.lists[slot] = buffer
            top += 1
    work.counters[LISTS] = top
    frames.choices_at[depth], frames.choices_end[depth] = bottom, top
    frames.position[depth] = bottom


# Search


@compiled
def reset(work: BranchingWork) -> None:
    """Begin anew; what sections are to blame for, and what has failed, stays known."""
    tables, state, counters = work.tables, work.state, work.counters
    buffers = len(tables.size)
    state.support[:] = 0
    state.low[:] = 0
    state.is_placed[:] = 0
    state.noted[:] = 0
    state.total[:] = 0
    for buffer in range(buffers):
        state.lists[buffer] = buffer
        for section in range(tables.first[buffer], tables.stop[buffer]):
            state.total[section] += tables.size[buffer]
    counters[NODES] = 0
    counters[DEPTH] = NONE
    counters[TRAIL] = 0
    counters[PARTS] = 0
    counters[LISTS] = buffers


@compiled
def step_back(work: BranchingWork) -> None:
    """Leave an exhausted frame for the decision that is to blame: the last one that touched its part."""
    depth = work.counters[DEPTH]
    remember_failure(work, depth)
    target = work.frames.blame[depth]
    for inner in range(depth - 1, target, -1):
        take_back(work, inner)
    work.counters[DEPTH] = target


@compiled
def step_on(work: BranchingWork, depth: int) -> bool:
    """Open the next frame after a decision, if the bounds allow it; False where nothing is left to place."""
    frames, counters = work.frames, work.counters
    start = counters[LISTS]
    list_rest(work, depth)
    end = counters[LISTS]
    pending = frames.pending[depth]
    if start == end:
        if pending != NONE:
            open_frame(work, pending)
        return bool(pending != NONE)
    if not raise_passed(work, start, end):
        return True
    sort_by_low(work.state, start, end)
    if not set_floors(work, start, end):
        return True
    head = split(work, start, end)
    part, last = head, head
    while part != NONE:
        if has_failed_before(work, part):
            return True
        last, part = part, frames.part_next[part]
    frames.part_next[last] = pending
    open_frame(work, head)
    return True


@compiled
def has_room(work: BranchingWork) -> bool:
    """Whether the arrays are long enough for one more decision, whatever it is."""
    buffers, counters = len(work.tables.size), work.counters
    return bool(
        counters[DEPTH] + 2 < len(work.frames.buffer)
        and counters[PARTS] + buffers < len(work.frames.part_at)
        and counters[TRAIL] + buffers < len(work.state.trail_low)
        and counters[LISTS] + 3 * buffers < len(work.state.lists)
    )


@compiled_entry
def search(work: BranchingWork) -> int:
    """Pack everything, or prove that it cannot be done, or stop at the node limit."""
    frames, counters = work.frames, work.counters
    reset(work)
    if not set_floors(work, 0, counters[LISTS]):
        return EXHAUSTED
    head = split(work, 0, counters[LISTS])
    part = head
    while part != NONE:
        if has_failed_before(work, part):
            return EXHAUSTED
        part = frames.part_next[part]
    open_frame(work, head)
    while counters[DEPTH] != NONE:
        depth = counters[DEPTH]
        if counters[NODES] >= counters[NODE_LIMIT] or counters[STOP] != 0:
            return STOPPED
        if not has_room(work):
            return FULL
        if frames.buffer[depth] != NONE:
            take_back(work, depth)
        if not decide(work, depth):
            step_back(work)
        elif not step_on(work, depth):
            return FOUND
    return EXHAUSTED
