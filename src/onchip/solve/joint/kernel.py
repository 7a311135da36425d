"""The compiled search: `search.py` once more, over flat arrays, for networks where Python is too slow.

The reference is `search.py`; a test holds the two equal. All compiled functions stand in this one
file because numba's cache looks only at the file of the function it compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from onchip.solve.joint.kernel_tables import Deferred, Integers, JointTables, Pool, SearchWorkspace, Words

F = TypeVar("F", bound=Callable[..., Any])

# Indices into `counters`.
STATES, HEAP, PUSHED, GOAL, BOUND, UPPER_BOUND, STOP, STATE_LIMIT, PENDING, SEED, GREED, CHOICES = range(12)
COUNTERS = 12
# Why the search returned.
FOUND, EXHAUSTED, STOPPED, STATES_FULL, HEAP_FULL, TOO_MANY_RESIDENTS = range(6)

ONE = np.uint64(1)
ZERO = np.uint64(0)
RANK_OF_A_STEP = 1 << 40
SCRAMBLE = np.uint64(0x9E3779B97F4A7C15)
HEAP_RESERVE = 1 << 16
MOST_RESIDENTS = 64
NODES_OF_A_CHOICE = 1 << 10
A_CHILD = -1


def compiled(function: F) -> F:
    """Compile, cache on disk, release the interpreter lock while running.

    Without numba's reference counts (no arrays are made here), which took half of the time.
    """
    return cast("F", numba.njit(cache=True, nogil=True, _nrt=False)(function))  # type: ignore[call-overload]


@intrinsic
def _count_trailing_zeros(typing_context: Any, word: Any) -> Any:  # noqa: ANN401, ARG001
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401, ARG001
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), code


# An intrinsic is called without its typing context.
lowest_bit = cast("Callable[[np.uint64], int]", _count_trailing_zeros)


# Sets


@compiled
def has(words: Words, row: int, item: int) -> bool:
    return bool((words[row, item >> 6] >> np.uint64(item & 63)) & ONE)


@compiled
def add(words: Words, row: int, item: int) -> None:
    words[row, item >> 6] |= ONE << np.uint64(item & 63)


@compiled
def remove(words: Words, row: int, item: int) -> None:
    words[row, item >> 6] &= ~(ONE << np.uint64(item & 63))


@compiled
def copy_row(words: Words, source: int, target: int) -> None:
    for index in range(words.shape[1]):
        words[target, index] = words[source, index]


@compiled
def members(words: Words, row: int, into: Integers) -> int:
    """Write the items of a set into `into`, lowest first; return how many."""
    count = 0
    for index in range(words.shape[1]):
        word = words[row, index]
        while word != ZERO:
            into[count] = (index << 6) + lowest_bit(word)
            count += 1
            word &= word - ONE
    return count


# States


@compiled
def is_last_use(t: JointTables, p: Pool, state: int, tensor: int, operator: int) -> bool:
    """Whether nobody but `operator` still reads the tensor."""
    for index in range(t.readers_at[tensor], t.readers_at[tensor + 1]):
        reader = t.readers[index]
        if reader != operator and not has(p.executed, state, reader):
            return False
    return True


@compiled
def evict_cost(t: JointTables, p: Pool, state: int, tensor: int) -> int:
    if has(p.copied, state, tensor):
        return int(t.load_costs[tensor])
    return int(t.load_costs[tensor] + t.store_costs[tensor])


@compiled
def operands_end_short(t: JointTables, operator: int) -> int:
    """Return 1 if an operand may end within the last partial unit."""
    for index in range(t.reads_at[operator], t.reads_at[operator + 1]):
        if t.may_end_short[t.reads[index]]:
            return 1
    for index in range(t.writes_at[operator], t.writes_at[operator + 1]):
        if t.may_end_short[t.writes[index]]:
            return 1
    return 0


@compiled
def any_ends_short(t: JointTables, p: Pool, state: int, operator: int) -> bool:
    """Whether an operand or a resident tensor may end within the last partial unit."""
    if operands_end_short(t, operator):
        return True
    for tensor in range(t.units.size):
        if t.may_end_short[tensor] and has(p.resident, state, tensor):
            return True
    return False


@compiled
def missing_units(t: JointTables, p: Pool, state: int, operator: int) -> int:
    """Units of the operands that are not resident."""
    units = 0
    for index in range(t.reads_at[operator], t.reads_at[operator + 1]):
        if not has(p.resident, state, t.reads[index]):
            units += t.units[t.reads[index]]
    for index in range(t.writes_at[operator], t.writes_at[operator + 1]):
        units += t.units[t.writes[index]]
    return units


@compiled
def fits(t: JointTables, p: Pool, state: int, operator: int) -> bool:
    """Whether the operator fits without an eviction."""
    over = p.used_units[state] + missing_units(t, p, state, operator) - t.scalars[0]
    return bool(over <= 0 or (over == 1 and any_ends_short(t, p, state, operator)))


@compiled
def execute(t: JointTables, p: Pool, state: int, operator: int) -> None:
    p.used_units[state] += missing_units(t, p, state, operator)
    for index in range(t.reads_at[operator], t.reads_at[operator + 1]):
        add(p.resident, state, t.reads[index])
    for index in range(t.writes_at[operator], t.writes_at[operator + 1]):
        add(p.resident, state, t.writes[index])
    add(p.executed, state, operator)
    remove(p.ready, state, operator)
    p.hashes[state] ^= t.hashes[operator]
    p.steps[state] += 1
    for index in range(t.reads_at[operator], t.reads_at[operator + 1]):
        _leave_if_dead(t, p, state, t.reads[index], operator)
    for index in range(t.writes_at[operator], t.writes_at[operator + 1]):
        _leave_if_dead(t, p, state, t.writes[index], operator)
    for index in range(t.successors_at[operator], t.successors_at[operator + 1]):
        successor = t.successors[index]
        if _all_executed(t, p, state, successor):
            add(p.ready, state, successor)
    p.moves[p.moves_at[state + 1]] = operator
    p.moves_at[state + 1] += 1


@compiled
def _leave_if_dead(t: JointTables, p: Pool, state: int, tensor: int, operator: int) -> None:
    if is_last_use(t, p, state, tensor, operator):
        remove(p.resident, state, tensor)
        remove(p.copied, state, tensor)
        p.used_units[state] -= t.units[tensor]


@compiled
def _all_executed(t: JointTables, p: Pool, state: int, operator: int) -> bool:
    for index in range(t.predecessors_at[operator], t.predecessors_at[operator + 1]):
        if not has(p.executed, state, t.predecessors[index]):
            return False
    return True


@compiled
def run_safe_moves(t: JointTables, p: Pool, state: int) -> None:
    found = True
    while found:
        found = False
        for index in range(p.ready.shape[1]):
            word = p.ready[state, index]
            while word != ZERO and not found:
                operator = (index << 6) + lowest_bit(word)
                word &= word - ONE
                if is_safe(t, p, state, operator):
                    execute(t, p, state, operator)
                    found = True


@compiled
def is_safe(t: JointTables, p: Pool, state: int, operator: int) -> bool:
    live_units, live_cost, live_short = 0, 0, False
    for index in range(t.writes_at[operator], t.writes_at[operator + 1]):
        tensor = t.writes[index]
        if t.readers_at[tensor] != t.readers_at[tensor + 1]:
            live_units += t.units[tensor]
            live_cost += t.load_costs[tensor] + t.store_costs[tensor]
            live_short = live_short or t.may_end_short[tensor] == 1
    can_stand_in = live_units == 0
    for index in range(t.reads_at[operator], t.reads_at[operator + 1]):
        tensor = t.reads[index]
        is_resident = has(p.resident, state, tensor)
        if is_last_use(t, p, state, tensor, operator):
            if is_resident and live_cost <= evict_cost(t, p, state, tensor):
                spare = t.units[tensor] - live_units
                if spare > 0 or (spare == 0 and (live_short or t.may_end_short[tensor] == 0)):
                    can_stand_in = True
        elif not is_resident:
            return False
    return can_stand_in and fits(t, p, state, operator)


@compiled
def build(t: JointTables, p: Pool, parent: int, operator: int, evicted: np.uint64, cost: int, state: int) -> None:
    """Build a child in the row `state`: evict, run the operator, then every safe move."""
    copy_row(p.executed, parent, state)
    copy_row(p.ready, parent, state)
    copy_row(p.resident, parent, state)
    copy_row(p.copied, parent, state)
    p.hashes[state] = p.hashes[parent]
    p.used_units[state] = p.used_units[parent]
    p.steps[state] = p.steps[parent]
    p.cost[state] = cost
    p.parent[state] = parent
    p.evicted[state] = evicted
    p.is_dominated[state] = 0
    p.moves_at[state + 1] = p.moves_at[state]
    if evicted != ZERO:
        _evict(t, p, parent, evicted, state)
    execute(t, p, state, operator)
    run_safe_moves(t, p, state)


@compiled
def _evict(t: JointTables, p: Pool, parent: int, evicted: np.uint64, state: int) -> None:
    left = evicted
    for index in range(p.resident.shape[1]):
        word = p.resident[parent, index]
        while word != ZERO:
            if left & ONE:
                tensor = (index << 6) + lowest_bit(word)
                remove(p.resident, state, tensor)
                p.used_units[state] -= t.units[tensor]
                if t.store_costs[tensor] > 0:
                    add(p.copied, state, tensor)
            left >>= ONE
            word &= word - ONE


# Dominance


@compiled
def same_row(words: Words, a: int, b: int) -> bool:
    for index in range(words.shape[1]):
        if words[a, index] != words[b, index]:
            return False
    return True


@compiled
def dominates(t: JointTables, p: Pool, better: int, worse: int) -> bool:
    limit = p.cost[worse] - p.cost[better]
    if limit < 0:
        return False
    for index in range(p.resident.shape[1]):
        excess = p.resident[better, index] & ~p.resident[worse, index]
        copies = p.copied[worse, index] & ~p.copied[better, index] & ~excess
        while excess != ZERO:
            limit -= evict_cost(t, p, better, (index << 6) + lowest_bit(excess))
            if limit < 0:
                return False
            excess &= excess - ONE
        while copies != ZERO:
            limit -= t.store_costs[(index << 6) + lowest_bit(copies)]
            if limit < 0:
                return False
            copies &= copies - ONE
    return True


@compiled
def slot_of(p: Pool, state: int) -> np.int64:
    """The slot of the chain of states with the same executed set, or the empty one where it belongs."""
    slot = np.int64(p.hashes[state] & np.uint64(p.slots.size - 1))
    while p.slots[slot] >= 0:
        head = p.slots[slot]
        if p.hashes[head] == p.hashes[state] and same_row(p.executed, head, state):
            return slot
        slot = (slot + 1) & (p.slots.size - 1)
    return slot


@compiled
def enter_if_undominated(t: JointTables, p: Pool, state: int) -> bool:
    """Chain a state to its peers, unless one of them is as good; drop the peers it makes useless."""
    slot = slot_of(p, state)
    peer = p.slots[slot]
    while peer >= 0:
        if dominates(t, p, peer, state):
            return False
        peer = p.peers[peer]
    head = -1
    peer = p.slots[slot]
    while peer >= 0:
        following = p.peers[peer]
        if dominates(t, p, state, peer):
            p.is_dominated[peer] = 1
        else:
            p.peers[peer] = head
            head = peer
        peer = following
    p.peers[state] = head
    p.slots[slot] = state
    return True


@compiled
def rehash(p: Pool, states: int) -> None:
    """Enter all chains into a larger, empty table of slots."""
    p.slots[:] = -1
    p.peers[:states] = -1
    for state in range(states):
        if not p.is_dominated[state]:
            slot = slot_of(p, state)
            p.peers[state] = p.slots[slot]
            p.slots[slot] = state


# Evictions


@compiled
def eviction_candidates(t: JointTables, p: Pool, state: int, operator: int, w: SearchWorkspace) -> int:
    """List residents that may leave, largest first, with their place among all residents; return how many.

    Of the same size, those that are read last come first, so that `rather` comes before.
    """
    count = 0
    position = 0
    for index in range(p.resident.shape[1]):
        word = p.resident[state, index]
        while word != ZERO:
            tensor = (index << 6) + lowest_bit(word)
            word &= word - ONE
            if not reads(t, operator, tensor):
                next_reader = next_reader_at(t, p, state, tensor, t.readers_at[tensor])
                slot = count
                while slot > 0 and comes_before(t, p, state, tensor, next_reader, w.order[slot - 1]):
                    w.order[slot] = w.order[slot - 1]
                    w.place[slot] = w.place[slot - 1]
                    slot -= 1
                w.order[slot] = tensor
                w.place[slot] = position
                count += 1
            position += 1
    for slot in range(count):
        w.rather[slot] = -1
        other = slot - 1
        while w.rather[slot] < 0 and other >= 0 and t.units[w.order[other]] == t.units[w.order[slot]]:
            if leaves_rather(t, p, state, w.order[other], w.order[slot]):
                w.rather[slot] = other
            other -= 1
    return count if position <= MOST_RESIDENTS else -1


@compiled
def comes_before(t: JointTables, p: Pool, state: int, tensor: int, next_reader: int, other: int) -> bool:
    """Whether a tensor stands before another among the candidates, which is lower and stands there already."""
    if t.units[tensor] != t.units[other]:
        return bool(t.units[tensor] > t.units[other])
    others_next = next_reader_at(t, p, state, other, t.readers_at[other])
    return bool(t.readers[next_reader] > t.readers[others_next])


@compiled
def next_reader_at(t: JointTables, p: Pool, state: int, tensor: int, index: int) -> int:
    """Return where the first reader from `index` on stands that has not run; the end of the list if there is none."""
    while index < t.readers_at[tensor + 1] and has(p.executed, state, t.readers[index]):
        index += 1
    return index


@compiled
def leaves_rather(t: JointTables, p: Pool, state: int, rather: int, tensor: int) -> bool:
    """Whether the first of two that take the same units may leave in place of the second.

    They must be alike; and wait for the same operators, or the second for one alone, which runs before (or is) each
    that the first waits for.
    """
    if t.load_costs[rather] != t.load_costs[tensor] or t.store_costs[rather] != t.store_costs[tensor]:
        return False
    if t.may_end_short[rather] != t.may_end_short[tensor]:
        return False
    if has(p.copied, state, rather) != has(p.copied, state, tensor):
        return False
    ours = next_reader_at(t, p, state, rather, t.readers_at[rather])
    theirs = next_reader_at(t, p, state, tensor, t.readers_at[tensor])
    awaited = t.readers[theirs]
    if next_reader_at(t, p, state, tensor, theirs + 1) == t.readers_at[tensor + 1]:
        while ours < t.readers_at[rather + 1]:
            if t.readers[ours] != awaited and not has(t.ancestors, t.readers[ours], awaited):
                return False
            ours = next_reader_at(t, p, state, rather, ours + 1)
        return True
    while ours < t.readers_at[rather + 1] and theirs < t.readers_at[tensor + 1]:
        if t.readers[ours] != t.readers[theirs]:
            return False
        ours = next_reader_at(t, p, state, rather, ours + 1)
        theirs = next_reader_at(t, p, state, tensor, theirs + 1)
    return bool(ours >= t.readers_at[rather + 1] and theirs >= t.readers_at[tensor + 1])


@compiled
def reads(t: JointTables, operator: int, tensor: int) -> bool:
    for index in range(t.reads_at[operator], t.reads_at[operator + 1]):
        if t.reads[index] == tensor:
            return True
    return False


@compiled
def holds(t: JointTables, over: int, ends_short: int, w: SearchWorkspace, count: int) -> bool:
    """Whether what is left after the chosen have gone, `over` units above the capacity, fits."""
    if over <= 0:
        return True
    if over > 1:
        return False
    if ends_short:
        return True
    for index in range(count):
        if w.chosen[index] == 0 and t.may_end_short[w.order[index]]:
            return True
    return False


@compiled
def is_minimal(t: JointTables, over: int, ends_short: int, w: SearchWorkspace, count: int) -> bool:
    """Whether no chosen tensor could have stayed."""
    for index in range(count):
        if w.chosen[index] == 1:
            w.chosen[index] = 0
            could_stay = holds(t, over + t.units[w.order[index]], ends_short, w, count)
            w.chosen[index] = 1
            if could_stay:
                return False
    return True


@compiled
def defer_children(t: JointTables, p: Pool, h: Deferred, w: SearchWorkspace, state: int, counters: Integers) -> int:
    """Put every child of a state on the heap; return FOUND if all went well."""
    for index in range(members(p.ready, state, w.operators)):
        operator = w.operators[index]
        if counters[STOP]:
            return STOPPED
        if fits(t, p, state, operator):
            push(p, h, counters, p.cost[state], state, operator, ZERO, A_CHILD)
            continue
        code = defer_evictions(t, p, h, w, state, operator, ZERO, 0, counters)
        if code != FOUND:
            return code
    return FOUND


@compiled
def defer_evictions(
    t: JointTables,
    p: Pool,
    h: Deferred,
    w: SearchWorkspace,
    state: int,
    operator: int,
    evicted: np.uint64,
    following: int,
    counters: Integers,
) -> int:
    """Push a child for each inclusion-minimal set of evictions that makes the operator fit.

    Of the sets with `evicted` and beyond it only candidates from `following` on. Depth first over the candidates,
    largest first: `stack` holds the chosen ones. After so many nodes what is left is put on the heap, not listed.
    """
    count = eviction_candidates(t, p, state, operator, w)
    if count < 0:
        return TOO_MANY_RESIDENTS
    ends_short = operands_end_short(t, operator)
    over = p.used_units[state] + missing_units(t, p, state, operator) - t.scalars[0]
    depth, cost = 0, p.cost[state]
    for index in range(count):
        w.chosen[index] = np.int64((evicted >> np.uint64(w.place[index])) & ONE)
        if w.chosen[index]:
            over -= t.units[w.order[index]]
            cost += evict_cost(t, p, state, w.order[index])
    for _ in range(NODES_OF_A_CHOICE):
        fitting = holds(t, over, ends_short, w, count)
        if fitting and is_minimal(t, over, ends_short, w, count):
            if counters[HEAP] + 1 >= h.priority.size:
                return HEAP_FULL
            push(p, h, counters, cost, state, operator, evicted, A_CHILD)
        while following < count and w.rather[following] >= 0 and w.chosen[w.rather[following]] == 0:
            following += 1
        if fitting or following >= count or cost >= counters[UPPER_BOUND]:
            if depth == 0:
                return FOUND
            depth -= 1
            last = w.stack[depth]
            w.chosen[last] = 0
            over += t.units[w.order[last]]
            cost -= evict_cost(t, p, state, w.order[last])
            evicted ^= ONE << np.uint64(w.place[last])
            following = last + 1
        else:
            w.stack[depth] = following
            depth += 1
            w.chosen[following] = 1
            over -= t.units[w.order[following]]
            cost += evict_cost(t, p, state, w.order[following])
            evicted |= ONE << np.uint64(w.place[following])
            following += 1
    return defer_rest(t, p, h, w, state, operator, evicted, following, counters, count, over, cost, depth)


@compiled
def defer_rest(
    t: JointTables,
    p: Pool,
    h: Deferred,
    w: SearchWorkspace,
    state: int,
    operator: int,
    evicted: np.uint64,
    following: int,
    counters: Integers,
    count: int,
    over: int,
    cost: int,
    depth: int,
) -> int:
    """Put what is left of the sets on the heap: from `following` on at this depth, and beside each chosen one."""
    worth = worth_of_a_unit(t, p, state, operator, w, count)
    while True:
        if counters[HEAP] + 1 >= h.priority.size:
            return HEAP_FULL
        least = least_cost_from(t, p, state, w, count, following, over, worth)
        if least >= 0:
            push(p, h, counters, cost + least, state, operator, evicted, following)
        if depth == 0:
            return FOUND
        depth -= 1
        last = w.stack[depth]
        over += t.units[w.order[last]]
        cost -= evict_cost(t, p, state, w.order[last])
        evicted ^= ONE << np.uint64(w.place[last])
        following = last + 1


@compiled
def worth_of_a_unit(t: JointTables, p: Pool, state: int, operator: int, w: SearchWorkspace, count: int) -> int:
    """Return the price of a unit that gives the greatest bound for all candidates: the dual of a knapsack."""
    over = p.used_units[state] + missing_units(t, p, state, operator) - t.scalars[0]
    best, best_bound = 0, 0
    for index in range(count):
        price = evict_cost(t, p, state, w.order[index]) // t.units[w.order[index]]
        bound = least_cost_from(t, p, state, w, count, 0, over, price)
        if bound > best_bound:
            best, best_bound = price, bound
    return best


@compiled
def least_cost_from(
    t: JointTables, p: Pool, state: int, w: SearchWorkspace, count: int, following: int, over: int, worth: int
) -> int:
    """Return a bound on what more has to leave from `following` on, at any price of a unit; -1 if that is too little.

    The last, partial unit is taken for free.
    """
    units = max(0, over - 1)
    bound, left = worth * units, 0
    for index in range(following, count):
        tensor = w.order[index]
        left += t.units[tensor]
        bound -= max(0, worth * t.units[tensor] - evict_cost(t, p, state, tensor))
    return -1 if left < units else max(0, bound)


# Best first


@compiled
def push(
    p: Pool,
    h: Deferred,
    counters: Integers,
    cost: int,
    parent: int,
    operator: int,
    evicted: np.uint64,
    following: int,
) -> None:
    """Defer a child (or many, from `following` on) below the upper bound.

    Greed lets every executed operator count as so much saved.
    """
    if cost >= counters[UPPER_BOUND]:
        return
    counters[PUSHED] += 1
    steps = p.steps[parent] + 1
    priority = cost - counters[GREED] * steps
    rank = tie_break(counters) - steps * RANK_OF_A_STEP
    index = counters[HEAP]
    counters[HEAP] += 1
    while index > 0:
        above = (index - 1) >> 1
        if h.priority[above] < priority or (h.priority[above] == priority and h.rank[above] < rank):
            break
        _move_entry(h, above, index)
        index = above
    _set_entry(h, index, priority, rank, parent, operator, evicted, following)


@compiled
def tie_break(counters: Integers) -> np.int64:
    """Return first come first served, or (another seed) an order that only depends on how many came."""
    if counters[SEED] == 0:
        return np.int64(counters[PUSHED])
    scrambled = np.uint64(counters[PUSHED] + counters[SEED] * RANK_OF_A_STEP) * SCRAMBLE
    return np.int64(scrambled >> np.uint64(25))


@compiled
def drop_first(h: Deferred, counters: Integers) -> None:
    counters[HEAP] -= 1
    last = counters[HEAP]
    priority, rank = h.priority[last], h.rank[last]
    index = 0
    while True:
        below = 2 * index + 1
        if below >= last:
            break
        right = below + 1
        if right < last and (
            h.priority[right] < h.priority[below]
            or (h.priority[right] == h.priority[below] and h.rank[right] < h.rank[below])
        ):
            below = right
        if priority < h.priority[below] or (priority == h.priority[below] and rank <= h.rank[below]):
            break
        _move_entry(h, below, index)
        index = below
    _move_entry(h, last, index)


@compiled
def _move_entry(h: Deferred, source: int, target: int) -> None:
    _set_entry(
        h,
        target,
        h.priority[source],
        h.rank[source],
        h.parent[source],
        h.operator[source],
        h.evicted[source],
        h.following[source],
    )


@compiled
def _set_entry(
    h: Deferred,
    index: int,
    priority: int,
    rank: np.int64,
    parent: int,
    operator: int,
    evicted: np.uint64,
    following: int,
) -> None:
    h.priority[index] = priority
    h.rank[index] = rank
    h.parent[index] = parent
    h.operator[index] = operator
    h.evicted[index] = evicted
    h.following[index] = following


@compiled
def start(t: JointTables, p: Pool, counters: Integers) -> None:
    """Enter the state 0, after its safe moves; its children are pending."""
    p.moves_at[1] = 0
    run_safe_moves(t, p, 0)
    counters[STATES] = 1
    enter_if_undominated(t, p, 0)
    if p.steps[0] == t.hashes.size:
        counters[GOAL] = 0
    counters[PENDING] = 0


@compiled
def defer_all(t: JointTables, p: Pool, h: Deferred, w: SearchWorkspace, state: int, counters: Integers) -> int:
    """Defer the children; if the heap is full, remember to do it again (what stands twice is dominated)."""
    code = defer_children(t, p, h, w, state, counters)
    if code == HEAP_FULL:
        counters[PENDING] = state
    return code


@compiled
def best_first(t: JointTables, p: Pool, h: Deferred, w: SearchWorkspace, counters: Integers) -> int:
    """Build the cheapest deferred child until one is a whole plan; say why it returned."""
    operators = t.hashes.size
    if counters[PENDING] >= 0:
        pending = counters[PENDING]
        counters[PENDING] = -1
        code = defer_all(t, p, h, w, pending, counters)
        if code != FOUND:
            return code
    while counters[GOAL] < 0:
        state = counters[STATES]
        if counters[HEAP] == 0:
            return EXHAUSTED
        if counters[STOP] or state + counters[CHOICES] >= counters[STATE_LIMIT]:
            return STOPPED
        if state + 1 >= p.cost.size or p.moves_at[state] + operators >= p.moves.size:
            return STATES_FULL
        if counters[HEAP] + HEAP_RESERVE >= h.priority.size:
            return HEAP_FULL
        priority, parent, operator, evicted = h.priority[0], h.parent[0], h.operator[0], h.evicted[0]
        following = h.following[0]
        drop_first(h, counters)
        cost = priority + counters[GREED] * (p.steps[parent] + 1)
        if p.is_dominated[parent] or cost >= counters[UPPER_BOUND]:
            continue
        if counters[GREED] == 0:
            counters[BOUND] = cost
        if following != A_CHILD:
            counters[CHOICES] += 1
            code = defer_evictions(t, p, h, w, parent, operator, evicted, following, counters)
            if code != FOUND:
                return code
            continue
        build(t, p, parent, operator, evicted, cost, state)
        if p.steps[state] == operators:
            counters[GOAL] = state
        if enter_if_undominated(t, p, state):
            counters[STATES] += 1
            code = defer_all(t, p, h, w, state, counters)
            if code != FOUND:
                return code
    return FOUND
