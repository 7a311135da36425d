"""The search of `uneven` compiled: from the empty tile, one factor or one cut at a time, with labels at each state.

A state is a tile, how many cuts of each operand are placed, and whether sums leave the last of them complete. A label
is the energy so far and the bits that placed cuts take of memories which others still have to fit in; it goes where
another of its state is no worse in all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba

from onchip.cost.layer.tables import Flags, Integers, Reals

F = TypeVar("F", bound=Callable[..., Any])

OUTPUT = 2


class Field(NamedTuple):
    """Tiles, steps from tile to tile, and cuts; states number the cuts placed of each operand in a mixed radix."""

    kind_step: Integers
    kind_count: Integers
    cut_step: Integers  # of each operand
    cut_count: Integers  # of each operand
    energy_pj: Reals  # operand, cut, tile
    need_bits: Integers  # whether sums arrive complete, operand, cut, memory, tile
    leaves_complete: Integers  # cut of sums, tile
    placings: int  # states for each of both: incomplete sums first
    capacity_bits: Integers  # of each memory that more than one cut needs, or sums
    is_open: Flags  # state, memory: whether cuts that need it are still to be placed
    least_to_come: Reals  # operand, placed, tile
    worst_pj: float  # what the best known mapping costs, without what is fixed


class Labels(NamedTuple):
    """Lists of labels by tile and state; `action` is a kind of factors or, after the kinds, an operand's cut."""

    first: Integers  # tile, state: -1 for none
    next: Integers
    energy_pj: Reals
    used_bits: Integers  # label, memory
    before: Integers
    action: Integers
    used: Integers  # how many labels there are
    trial_bits: Integers  # of each memory


def compiled(function: F) -> F:
    """Compile into the caller, cache on disk, release the interpreter lock while running."""
    return cast("F", numba.njit(cache=True, nogil=True, _nrt=False, forceinline=True)(function))  # type: ignore[call-overload]


@compiled
def grow(field: Field, labels: Labels, first: int, stop: int) -> int:
    """Goes on from tiles `first` to `stop`; returns the one at which room for labels ran out, else `stop`."""
    states = labels.first.shape[1]
    most = states * (field.kind_step.size + 3)
    for tile in range(first, stop):
        for state in range(states):
            label = labels.first[tile, state]
            while label >= 0:
                if labels.used[0] + most >= labels.next.size:
                    return tile
                place_cuts(field, labels, label, tile, state)
                add_factors(field, labels, label, tile, state)
                label = labels.next[label]
    return stop


@compiled
def place_cuts(field: Field, labels: Labels, label: int, tile: int, state: int) -> None:
    for operand in range(3):
        placed = state // field.cut_step[operand] % (field.cut_count[operand] + 1)
        if placed < field.cut_count[operand]:
            complete = state // field.placings
            after = state + field.cut_step[operand]
            if operand == OUTPUT:
                after += (field.leaves_complete[placed, tile] - complete) * field.placings
            fits = True
            for memory in range(field.capacity_bits.size):
                used = labels.used_bits[label, memory] + field.need_bits[complete, operand, placed, memory, tile]
                fits = fits and used <= field.capacity_bits[memory]
                labels.trial_bits[memory] = used if field.is_open[after, memory] else 0
            if fits:
                energy = labels.energy_pj[label] + field.energy_pj[operand, placed, tile]
                offer(field, labels, label, tile, after, energy, field.kind_step.size + operand)


@compiled
def add_factors(field: Field, labels: Labels, label: int, tile: int, state: int) -> None:
    for memory in range(field.capacity_bits.size):
        labels.trial_bits[memory] = labels.used_bits[label, memory]
    for kind in range(field.kind_step.size):
        if tile // field.kind_step[kind] % (field.kind_count[kind] + 1) < field.kind_count[kind]:
            offer(field, labels, label, tile + field.kind_step[kind], state, labels.energy_pj[label], kind)


@compiled
def offer(field: Field, labels: Labels, before: int, tile: int, state: int, energy: float, action: int) -> None:
    """A label with the bits of the trial, unless it cannot become the best or another is no worse."""
    bound = energy
    for operand in range(3):
        placed = state // field.cut_step[operand] % (field.cut_count[operand] + 1)
        bound += field.least_to_come[operand, placed, tile]
    if bound > field.worst_pj:
        return
    other, last = labels.first[tile, state], -1
    while other >= 0:
        if labels.energy_pj[other] <= energy and uses_no_more(labels, other):
            return
        following = labels.next[other]
        if energy <= labels.energy_pj[other] and is_used_no_less(labels, other):
            if last < 0:
                labels.first[tile, state] = following
            else:
                labels.next[last] = following
        else:
            last = other
        other = following
    one = labels.used[0]
    labels.used[0] = one + 1
    labels.energy_pj[one], labels.before[one], labels.action[one] = energy, before, action
    for memory in range(labels.trial_bits.size):
        labels.used_bits[one, memory] = labels.trial_bits[memory]
    labels.next[one] = labels.first[tile, state]
    labels.first[tile, state] = one


@compiled
def uses_no_more(labels: Labels, other: int) -> bool:
    for memory in range(labels.trial_bits.size):
        if labels.used_bits[other, memory] > labels.trial_bits[memory]:
            return False
    return True


@compiled
def is_used_no_less(labels: Labels, other: int) -> bool:
    for memory in range(labels.trial_bits.size):
        if labels.used_bits[other, memory] < labels.trial_bits[memory]:
            return False
    return True
