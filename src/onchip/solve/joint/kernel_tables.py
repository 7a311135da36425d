"""The search in flat arrays: what the compiled search reads (tables) and writes (pool, heap).

Sets are rows of 64-bit words. `NamedTuple`s of arrays are what numba takes as one argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from onchip.facts.indexed import IndexedProblem, bits
from onchip.solve.joint.evictions import ancestors_of

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
ArraysT = TypeVar("ArraysT", "Pool", "Deferred")
WORD_BITS = 64


class JointTables(NamedTuple):
    """The problem. Lists of lists are flat: those of `i` are `x[x_at[i]:x_at[i + 1]]`.

    `store_costs` is 0 for tensors of which DRAM has a copy anyway. `ancestors` has a row per operator: all that
    run before it. `scalars` holds the capacity in units of the alignment.
    """

    units: Integers
    load_costs: Integers
    store_costs: Integers
    may_end_short: Integers
    reads_at: Integers
    reads: Integers
    writes_at: Integers
    writes: Integers
    readers_at: Integers
    readers: Integers
    predecessors_at: Integers
    predecessors: Integers
    successors_at: Integers
    successors: Integers
    ancestors: Words
    hashes: Words
    scalars: Integers


class Pool(NamedTuple):
    """The states built so far, a row each; `moves` are the operators each ran after its parent.

    `evicted` is a mask over the residents of the parent, lowest tensor first. `peers` chains the
    states with the same executed set; `slots` is the hash table of the chains' heads.
    """

    executed: Words
    ready: Words
    resident: Words
    copied: Words
    evicted: Words
    hashes: Words
    cost: Integers
    used_units: Integers
    steps: Integers
    parent: Integers
    moves_at: Integers
    peers: Integers
    is_dominated: Integers
    moves: Integers
    slots: Integers


class Deferred(NamedTuple):
    """Children not built yet: a binary heap by `priority` (the cost), then `rank` (most operators executed first).

    `following` is -1 for a child. Else the entry stands for children not listed yet: those that evict at least
    `evicted`, and beyond it only candidates from the place `following` on.
    """

    priority: Integers
    rank: Integers
    parent: Integers
    operator: Integers
    following: Integers
    evicted: Words


class SearchWorkspace(NamedTuple):
    """Scratch for one state: its ready operators; the residents that may leave.

    `order` has them largest first, `place` among all residents; `rather` is the earlier candidate that would rather
    leave (-1: none); `chosen` and `stack` are the choice so far.
    """

    operators: Integers
    order: Integers
    place: Integers
    rather: Integers
    chosen: Integers
    stack: Integers


def empty_workspace(indexed: IndexedProblem) -> SearchWorkspace:
    """Return scratch for any state of the problem."""
    operators = np.zeros(words_for(indexed.operator_count) * WORD_BITS, np.int64)
    tensors = words_for(len(indexed.tensors)) * WORD_BITS + 1
    order, place, rather, chosen, stack = (np.zeros(tensors, np.int64) for _ in range(5))
    return SearchWorkspace(operators, order, place, rather, chosen, stack)


def tables_of(indexed: IndexedProblem) -> JointTables:
    """Flatten an indexed problem into the arrays that the kernel reads."""
    chance = np.random.default_rng(0)
    reads_at, reads = _flat(indexed.read_lists)
    writes_at, writes = _flat(indexed.write_lists)
    readers_at, readers = _flat(tuple(bits(mask)) for mask in indexed.readers)
    predecessors_at, predecessors = _flat(tuple(bits(mask)) for mask in indexed.predecessors)
    successors_at, successors = _flat(indexed.successors)
    store_costs = [0 if indexed.backed >> t & 1 else cost for t, cost in enumerate(indexed.store_costs)]
    return JointTables(
        units=_integers(indexed.room.units),
        load_costs=_integers(indexed.load_costs),
        store_costs=_integers(store_costs),
        may_end_short=_integers([indexed.room.may_end_short >> t & 1 for t in range(len(indexed.tensors))]),
        reads_at=reads_at,
        reads=reads,
        writes_at=writes_at,
        writes=writes,
        readers_at=readers_at,
        readers=readers,
        predecessors_at=predecessors_at,
        predecessors=predecessors,
        successors_at=successors_at,
        successors=successors,
        ancestors=_words(ancestors_of(indexed), words_for(indexed.operator_count)),
        hashes=chance.integers(0, 2**63, indexed.operator_count, dtype=np.uint64),
        scalars=_integers([indexed.room.capacity_units]),
    )


def empty_pool(indexed: IndexedProblem, states: int) -> Pool:
    """Return room for this many states (a power of two), the first of them the start."""
    operator_words = words_for(indexed.operator_count)
    tensor_words = words_for(len(indexed.tensors))
    pool = Pool(
        executed=np.zeros((states, operator_words), np.uint64),
        ready=np.zeros((states, operator_words), np.uint64),
        resident=np.zeros((states, tensor_words), np.uint64),
        copied=np.zeros((states, tensor_words), np.uint64),
        evicted=np.zeros(states, np.uint64),
        hashes=np.zeros(states, np.uint64),
        cost=np.zeros(states, np.int64),
        used_units=np.zeros(states, np.int64),
        steps=np.zeros(states, np.int64),
        parent=np.full(states, -1, np.int64),
        moves_at=np.zeros(states + 1, np.int64),
        peers=np.full(states, -1, np.int64),
        is_dominated=np.zeros(states, np.int64),
        moves=np.zeros(4 * states + 4 * indexed.operator_count, np.int64),
        slots=np.full(2 * states, -1, np.int64),
    )
    for operator, befores in enumerate(indexed.predecessors):
        if not befores:
            pool.ready[0, operator // WORD_BITS] |= np.uint64(1 << operator % WORD_BITS)
    return pool


def empty_heap(entries: int) -> Deferred:
    """Return room for this many deferred children."""
    priority, rank, parent, operator, following = (np.zeros(entries, np.int64) for _ in range(5))
    return Deferred(priority, rank, parent, operator, following, np.zeros(entries, np.uint64))


def grown(arrays: ArraysT) -> ArraysT:
    """Return the arrays with twice the rows, the new ones zero."""
    doubled = {name: np.concatenate((array, np.zeros_like(array))) for name, array in arrays._asdict().items()}
    return arrays._replace(**doubled)


def words_for(count: int) -> int:
    """Return how many words a set over so many things takes."""
    return max(1, -(-count // WORD_BITS))


def _flat(lists: Iterable[Sequence[int]]) -> tuple[Integers, Integers]:
    rows = [list(row) for row in lists]
    starts = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)
    return starts, _integers([item for row in rows for item in row])


def _words(masks: Sequence[int], words: int) -> Words:
    rows = [[mask >> WORD_BITS * word & (1 << WORD_BITS) - 1 for word in range(words)] for mask in masks]
    return np.array(rows, dtype=np.uint64).reshape(len(masks), words)


def _integers(values: Sequence[int]) -> Integers:
    return np.array(values, dtype=np.int64)
