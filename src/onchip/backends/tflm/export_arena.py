"""A plan written into a copy of its TFLite model, for TFLite Micro: offsets in its arena, and the operators' order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Final

from onchip.answer.document import Runtime
from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.answer.program import Compute, residencies_of
from onchip.answer.result import Status
from onchip.answer.words import counted, picked, printable
from onchip.api.check import Check, check_plan, ensure_whole_model
from onchip.api.networks import network_in_runtime
from onchip.api.pack import smallest_arena, verify_packing
from onchip.api.phases import phase
from onchip.api.target import Target
from onchip.errors import InputError, InternalError
from onchip.formats.files import write_file
from onchip.formats.networks import network_of_file, read_tflite_network
from onchip.formats.tflite.arena import (
    ALIGNMENT_BYTES,
    AT_RUN_TIME,
    ArenaContents,
    arena_contents,
    arena_plan_of,
    has_known_scratch,
    with_arena_plan,
)
from onchip.formats.tflite.file import model_file
from onchip.formats.tflite.graph import ReadNetwork


@dataclass(frozen=True, slots=True)
class ArenaExport:
    """The arena's head in TFLite Micro, in bytes; `greedy_bytes` is the head by its own planner.

    `tensors_bytes` is the end of the highest tensor, `most_scratch_bytes` the largest scratch demand of one kernel.
    `lower_bound_bytes` holds for the file's tensors in the order written, with any offsets. `not_modelled` names
    operators with unknown scratch demands.
    """

    arena_bytes: int
    tensors_bytes: int
    most_scratch_bytes: int
    lower_bound_bytes: int
    greedy_bytes: int
    moved_operators: int
    not_modelled: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """OPTIMAL if no smaller arena holds these tensors in this order."""
        return Status.OPTIMAL if self.arena_bytes == self.lower_bound_bytes else Status.FEASIBLE


def arena_export_object(export: ArenaExport) -> dict[str, object]:
    """Say what the arena takes as a JSON object."""
    sizes = ("arena_bytes", "tensors_bytes", "most_scratch_bytes", "lower_bound_bytes")
    figures = picked(export, *sizes, "status", "greedy_bytes", "moved_operators")
    return {**figures, "not_modelled": list(export.not_modelled)}


def arena_export_lines(export: ArenaExport) -> list[str]:
    """Say it in a few lines of words."""
    proof = "proven minimum for this order" if export.status is Status.OPTIMAL else "not proven minimum"
    scratch = f", up to {export.most_scratch_bytes:,} of scratch" if export.most_scratch_bytes else ""
    lines = [
        f"the tensors of the arena take {export.arena_bytes:,} bytes{scratch}: {proof} "
        f"(the runtime's own planner: {export.greedy_bytes:,})"
    ]
    if export.moved_operators:
        lines.append(f"{counted(export.moved_operators, 'operator')} of the file moved")
    if export.not_modelled:
        first = printable(export.not_modelled[0])
        others = f" and {len(export.not_modelled) - 1:,} more" if len(export.not_modelled) > 1 else ""
        lines.append(f"not modelled: the scratch buffers of {first}{others}, which may make it larger")
    return lines


def lower_bound_bytes(contents: ArenaContents) -> int:
    """Return a lower bound on the arena's head for tensors and scratch buffers, from a search of ten seconds."""
    scratch = [one for some in contents.scratch for one in _in_units(some)]
    return ALIGNMENT_BYTES * smallest_arena(PackingProblem((*_in_units(contents.buffers), *scratch), 1))[2]


def offsets_of_groups(
    read: ReadNetwork, contents: ArenaContents, placed: Mapping[str, int], plan: Path
) -> tuple[int, ...]:
    """Return the plan's offset of each group of tensors, by the offsets of tensors by name.

    Groups that the plan does not name, such as results of constants, fill the lowest gaps found. Raises InputError if
    the runtime cannot use the plan's offsets.
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
        what = f"TFLite Micro cannot use its offsets: {violation.detail}"
        place = f"tensor {read.network.tensors[group[0]].name!r}"
        raise InputError(what, file=str(plan), place=place, expected=_MICRO_PLAN)
    if len(known) == len(found):
        return offsets
    return smallest_arena(PackingProblem(tuple(buffers), 1, ALIGNMENT_BYTES))[0]


def arena_taken(contents: ArenaContents, places: Sequence[int]) -> int:
    """Return the head in units of 16 bytes with groups at `places`, in such units, and the runtime's own placements."""
    buffers = [*_in_units(contents.buffers), *(one for scratch in contents.scratch for one in _in_units(scratch))]
    fixed = [*places, *[None] * (len(buffers) - len(places))]
    return max(at + one.size_bytes for at, one in zip(place_as_micro(buffers, fixed), buffers, strict=True))


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


_ONE_PLACE: Final = "a plan of `minimize='peak'` in one scratchpad"
_MICRO_PLAN: Final = f"a plan of `runtime='{Runtime.MICRO}'`"


@phase("exporting")
def export_arena(plan: Path, network: str, output: Path) -> tuple[Check, ArenaExport | None]:
    """Verify a plan file and, if it is legal, write the model with its order and offsets, else return None.

    Raises InputError for a plan that the runtime cannot obey, or that is not for this model.
    """
    check = check_plan(plan, network, Target(), {})
    if check.graph_differs:
        what = f"it is for another network than {network}, or for that as it was before a change"
        raise InputError(what, file=str(plan), place="graph", expected=f"sha256 {check.sha256}")
    if not check.is_legal:
        return check, None
    placed = _places_of(check, plan)
    try:
        read = read_tflite_network(Path(network))
        count = len(read.file.subgraphs)
        if count > 1 or read.network.variables:
            what = f"it has {count} subgraphs, whose lives overlap" if count > 1 else "it has resource variables"
            raise InputError(what, expected="a model of one graph, whose state is in variable tensors")
        read = network_in_runtime(network, check.document.reading).read
        order = places_in_order(read, _run(check))
        contents = arena_contents(read, order)
        offsets = offsets_of_groups(read, contents, placed, plan)
        export = _export(read, contents, offsets, order)
        content = with_arena_plan(read.file, _offsets(read, contents, offsets), order)
        _ensure_it_is_as_planned(content, read, contents, export.arena_bytes)
    except InputError as error:
        raise error if error.file else error.in_file(network) from None
    write_file(output, content)
    return check, replace(export, moved_operators=0) if check.document.reading.tiles else export


def _places_of(check: Check, plan: Path) -> dict[str, int]:
    """Return the plan's offset of each tensor; raises InputError for a plan with transfers."""
    if check.document.reading.runtime is None:
        what = "the plan is for no runtime: it counts neither the lives of tensors in one nor its scratch buffers"
        raise InputError(what, file=str(plan), place="reading: runtime", expected=_MICRO_PLAN)
    ensure_whole_model(check, plan, "TFLite Micro", own_shapes=True, takes_tiles=True)
    places: dict[str, int] = {}
    residencies = residencies_of(check.document.answer, check.problem.graph)
    for one in residencies:
        if one.tensor in places:
            what = "it comes to the chip twice, and TFLite Micro moves nothing"
            raise InputError(what, file=str(plan), place=f"tensor {one.tensor!r}", expected=_ONE_PLACE)
        places[one.tensor] = one.offset_bytes
    if len({one.memory for one in residencies}) > 1:
        raise InputError("it uses several scratchpads", file=str(plan), place="memories", expected=_ONE_PLACE)
    return places


def _run(check: Check) -> list[str]:
    """Return the operators of the file in the plan's order."""
    return [line.operator for line in check.document.answer.instructions if isinstance(line, Compute)]


def _offsets(read: ReadNetwork, contents: ArenaContents, offsets: Sequence[int]) -> list[int]:
    found = [AT_RUN_TIME] * len(read.network.tensors)
    for group, offset in zip(contents.groups, offsets, strict=True):
        for index in group:
            found[index] = offset
    return found


def _ensure_it_is_as_planned(content: bytes, read: ReadNetwork, contents: ArenaContents, arena_bytes: int) -> None:
    """Read the new file back and verify its plan; raises InternalError if it differs from the plan."""
    written = arena_plan_of(network_of_file(model_file(content), read.graph.name))
    violations = verify_packing(
        PackingProblem(written.buffers, arena_bytes, ALIGNMENT_BYTES), Packing(written.offsets_bytes)
    )
    if violations or sum(map(len, written.names)) != sum(map(len, contents.groups)):
        first = violations[0] if violations else "tensors without a place"
        raise InternalError(f"the model written has no legal plan: {first}", place="export")


def _export(read: ReadNetwork, contents: ArenaContents, offsets: Sequence[int], order: Sequence[int]) -> ArenaExport:
    ends = (at + one.size_bytes for at, one in zip(offsets, contents.buffers, strict=True))
    return ArenaExport(
        ALIGNMENT_BYTES * arena_taken(contents, [at // ALIGNMENT_BYTES for at in offsets]),
        max(ends, default=0),
        max((sum(one.size_bytes for one in buffers) for buffers in contents.scratch), default=0),
        lower_bound_bytes(contents),
        ALIGNMENT_BYTES * arena_taken(arena_contents(read, range(len(order)), views_apart=True), ()),
        sum(place != at for at, place in enumerate(order)),
        tuple(one.name for one in read.network.operators if not has_known_scratch(one)),
    )


def places_in_order(read: ReadNetwork, names: Sequence[str]) -> tuple[int, ...]:
    """Return the positions of all operators of the file, in the order in which a plan runs those of `names`.

    Copies that only the plan has are skipped. Views and constant operators come as late as possible, or stay in place
    if nothing else moves.
    """
    operators = read.network.operators
    place = {operator.name: at for at, operator in enumerate(operators)}
    run = [place[name] for name in names if name in read.source]
    if run == sorted(run):
        return tuple(range(len(operators)))
    writer = {index: at for at, operator in enumerate(operators) for index in operator.outputs}
    order: dict[int, None] = {}
    for at in (*run, *range(len(operators))):
        needed, waiting = set[int](), [at]  # with its unfinished predecessors, for which the order of the file is valid
        while waiting:
            one = waiting.pop()
            if one not in order and one not in needed:
                needed.add(one)
                waiting += (writer[index] for index in operators[one].inputs if index in writer)
        order |= dict.fromkeys(sorted(needed))
    return tuple(order)
