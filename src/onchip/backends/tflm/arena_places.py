"""Addresses of tensors in the arena of TFLite Micro, with its scratch buffers: of a plan, or of the smallest arena."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.api.packing import Rule, smallest_arena, verify_packing
from onchip.errors import InternalError
from onchip.formats.tflite.arena import ALIGNMENT_BYTES, ArenaContents
from onchip.formats.tflite.graph import ReadNetwork

PACKING_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class ArenaPlaces:
    """An offset for each group of tensors; `taken_bytes` is the arena's head, `lower_bound_bytes` no head is below."""

    offsets_bytes: tuple[int, ...]
    taken_bytes: int
    lower_bound_bytes: int = 0


def least_places(contents: ArenaContents) -> ArenaPlaces:
    """Return the smallest arena for tensors and scratch buffers that is found in ten seconds, with a bound.

    If the runtime would place scratch buffers elsewhere and higher than planned, the scratch buffers of an operator are
    planned as one, in which the runtime fits them.
    """
    apart, bound = _packed(contents, (one for scratch in contents.scratch for one in _in_units(scratch)))
    taken = arena_taken(contents, apart)
    if taken > bound and any(len(scratch) > 1 for scratch in contents.scratch):
        together, _ = _packed(contents, _as_one(contents.scratch))
        apart, taken = min((apart, taken), (together, arena_taken(contents, together)), key=lambda found: found[1])
    return ArenaPlaces(tuple(ALIGNMENT_BYTES * at for at in apart), ALIGNMENT_BYTES * taken, ALIGNMENT_BYTES * bound)


def own_places(read: ReadNetwork, contents: ArenaContents, placed: Mapping[str, int]) -> tuple[ArenaPlaces | None, str]:
    """Return a plan's places of tensors by name, or None and why the runtime cannot use them.

    Groups of tensors that the plan does not name, as those within a fused operator, go around the others, as low as
    they are found to fit.
    """
    by_index = {read.index[name]: at for name, at in placed.items() if name in read.index}
    found = [next((by_index[at] for at in group if at in by_index), None) for group in contents.groups]
    buffers = [replace(one, offset_bytes=offset) for one, offset in zip(contents.buffers, found, strict=True)]
    known = [number for number, offset in enumerate(found) if offset is not None]
    offsets = tuple(offset for offset in found if offset is not None)
    top = max((one.offset_bytes or 0) + one.size_bytes for one in buffers)
    problem = PackingProblem(tuple(buffers[number] for number in known), top, ALIGNMENT_BYTES)
    for violation in verify_packing(problem, Packing(offsets)):
        group = contents.groups[known[int(violation.subject.removeprefix("buffer "))]]
        name = read.network.tensors[group[0]].name
        if violation.rule is Rule.MISALIGNED:
            return None, f"tensor {name!r}: {violation.detail}"
        return None, f"tensor {name!r}: {violation.rule} while the runtime needs it"
    if len(known) < len(found):
        offsets, _ = _least(PackingProblem(tuple(buffers), 1, ALIGNMENT_BYTES))
    return ArenaPlaces(offsets, ALIGNMENT_BYTES * arena_taken(contents, [at // ALIGNMENT_BYTES for at in offsets])), ""


def arena_taken(contents: ArenaContents, places: Sequence[int]) -> int:
    """Return the arena in units of 16 bytes for groups at `places`, in units; the runtime places the rest."""
    buffers = [*_in_units(contents.buffers), *(one for scratch in contents.scratch for one in _in_units(scratch))]
    fixed = [*places, *[None] * (len(buffers) - len(places))]
    return max(at + one.size_bytes for at, one in zip(place_as_micro(buffers, fixed), buffers, strict=True))


def _packed(contents: ArenaContents, scratch: Iterable[Buffer]) -> tuple[tuple[int, ...], int]:
    """Return the places of groups in the smallest arena with these scratch buffers, and its bound; both in units."""
    offsets, bound = _least(PackingProblem((*_in_units(contents.buffers), *scratch), 1))
    return offsets[: len(contents.buffers)], bound


def _least(problem: PackingProblem) -> tuple[tuple[int, ...], int]:
    """Return the offsets of the smallest arena found in ten seconds, for any capacity, and a bound."""
    problem = replace(problem, capacity_bytes=max(problem.roomy_bytes, 1))
    result = smallest_arena(problem, PACKING_SECONDS)
    if result.answer is None:
        raise InternalError("nothing packs in an arena of all buffers side by side", place="export")
    return result.answer.offsets_bytes, result.lower_bound


def _as_one(scratch: Iterable[Sequence[Buffer]]) -> Iterable[Buffer]:
    for buffers in scratch:
        if buffers:
            size = sum(one.size_bytes for one in _in_units(buffers))
            yield Buffer(buffers[0].start, buffers[0].stop, size)


def _in_units(buffers: Iterable[Buffer]) -> list[Buffer]:
    return [Buffer(one.start, one.stop, -(-one.size_bytes // ALIGNMENT_BYTES)) for one in buffers]


def place_as_micro(buffers: Sequence[Buffer], fixed: Sequence[int | None]) -> tuple[int, ...]:
    """Return an offset for each buffer as TFLite Micro's `greedy_memory_planner.cc` chooses it.

    Offsets have the unit of the sizes, and `fixed[i]` is that of a buffer that has a place. All others are placed by
    size, the largest first, ties from the last one created to the first, each in the lowest gap that takes it.
    """
    placed = [(offset, buffer) for offset, buffer in zip(fixed, buffers, strict=True) if offset is not None]
    offsets = {index: offset for index, offset in enumerate(fixed) if offset is not None}
    left = [index for index, offset in enumerate(fixed) if offset is None]
    for index in sorted(left, key=lambda at: (-buffers[at].size_bytes, -at)):
        offsets[index] = _lowest_gap(buffers[index], placed)
        placed.append((offsets[index], buffers[index]))
    return tuple(offsets[index] for index in range(len(buffers)))


def _lowest_gap(wanted: Buffer, placed: Sequence[tuple[int, Buffer]]) -> int:
    """Return where the first gap begins that takes a buffer, among those that live when it does."""
    candidate = 0
    for offset, other in sorted(((at, one) for at, one in placed if one.overlaps(wanted)), key=itemgetter(0)):
        if offset - candidate >= wanted.size_bytes:
            break
        candidate = max(candidate, offset + other.size_bytes)
    return candidate
