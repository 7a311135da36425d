"""A plan written into a copy of its TFLite model, for TFLite Micro: offsets in its arena, and the operators' order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Final

from onchip.answer.document import Runtime
from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.answer.problem import Objective, Order, Problem
from onchip.answer.program import Compute, residencies_of
from onchip.answer.result import Status
from onchip.answer.schedule import WORKSPACE
from onchip.answer.words import counted, picked, printable
from onchip.api.check import Check, check_plan, ensure_whole_model
from onchip.api.networks import network_in_runtime
from onchip.api.pack import Limits, Rule, smallest_arena, verify_packing
from onchip.api.phases import phase
from onchip.api.plan import plan_problem
from onchip.api.target import Target
from onchip.arch.memory import Memory
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
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor


@dataclass(frozen=True, slots=True)
class ArenaExport:
    """The arena's head in TFLite Micro, in bytes; `greedy_bytes` is the head by its own planner.

    `tensors_bytes` is the end of the highest tensor, `most_scratch_bytes` the largest scratch demand of one kernel.
    `lower_bound_bytes` holds for the file's tensors in the order written, with any offsets. `changes` say how the file
    differs from the plan; `not_modelled` names operators with unknown scratch demands.
    """

    arena_bytes: int
    tensors_bytes: int
    most_scratch_bytes: int
    lower_bound_bytes: int
    greedy_bytes: int
    moved_operators: int
    changes: tuple[str, ...] = ()
    not_modelled: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """OPTIMAL if no smaller arena holds these tensors in this order."""
        return Status.OPTIMAL if self.arena_bytes == self.lower_bound_bytes else Status.FEASIBLE


def arena_export_object(export: ArenaExport) -> dict[str, object]:
    """Say what the arena takes as a JSON object."""
    sizes = ("arena_bytes", "tensors_bytes", "most_scratch_bytes", "lower_bound_bytes")
    figures = picked(export, *sizes, "status", "greedy_bytes", "moved_operators")
    return {**figures, "changes": list(export.changes), "not_modelled": list(export.not_modelled)}


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
    lines += (printable(change) for change in export.changes)
    if export.not_modelled:
        first = printable(export.not_modelled[0])
        others = f" and {len(export.not_modelled) - 1:,} more" if len(export.not_modelled) > 1 else ""
        lines.append(f"not modelled: the scratch buffers of {first}{others}, which may make it larger")
    return lines


@dataclass(frozen=True, slots=True)
class ArenaPlaces:
    """An offset for each group of tensors; `taken_bytes` is the arena's head, `lower_bound_bytes` no head is below."""

    offsets_bytes: tuple[int, ...]
    taken_bytes: int
    lower_bound_bytes: int = 0


def least_places(contents: ArenaContents) -> ArenaPlaces:
    """Return the smallest arena for tensors and scratch buffers found in ten seconds, with its lower bound.

    If the runtime would place scratch buffers differently and higher, the buffers of each operator are planned as one,
    in which the runtime finds space for them.
    """
    apart = [one for scratch in contents.scratch for one in _in_units(scratch)]
    each = [_in_units(scratch) for scratch in contents.scratch if scratch]
    as_one = [Buffer(some[0].start, some[0].stop, sum(one.size_bytes for one in some)) for some in each]
    tensors, found, bound = _in_units(contents.buffers), [], 0
    for scratch in (apart, as_one):
        offsets, _, least = smallest_arena(PackingProblem((*tensors, *scratch), 1))
        offsets = offsets[: len(tensors)]
        found.append((arena_taken(contents, offsets), offsets))
        bound = bound or least
        if found[0][0] <= bound or all(len(some) == 1 for some in each):
            break
    taken, offsets = min(found, key=itemgetter(0))
    return ArenaPlaces(tuple(ALIGNMENT_BYTES * at for at in offsets), ALIGNMENT_BYTES * taken, ALIGNMENT_BYTES * bound)


def own_places(read: ReadNetwork, contents: ArenaContents, placed: Mapping[str, int]) -> tuple[ArenaPlaces | None, str]:
    """Return a plan's offsets of tensors by name, or None and the reason why the runtime cannot use them.

    Groups of tensors that the plan does not name, such as those within a fused operator, fill the lowest gaps found.
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
        offsets, _, _ = smallest_arena(PackingProblem(tuple(buffers), 1, ALIGNMENT_BYTES))
    return ArenaPlaces(offsets, ALIGNMENT_BYTES * arena_taken(contents, [at // ALIGNMENT_BYTES for at in offsets])), ""


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


SEARCH_SECONDS: Final = 10.0
_GIVEN, _KEPT, _END = "@inputs", "@outputs", "@end"

_ONE_PLACE: Final = "a plan of `minimize='peak'` in one scratchpad"


@dataclass(frozen=True, slots=True)
class _Choice:
    """An order of the file's operators, what the arena holds then, and where."""

    order: tuple[int, ...]
    contents: ArenaContents
    places: ArenaPlaces
    changes: tuple[str, ...] = ()


@phase("exporting")
def export_arena(
    plan: Path, network: str, output: Path, *, may_replan: bool = False
) -> tuple[Check, ArenaExport | None]:
    """Verify a plan file and, if it is legal, write the model with it; None where nothing is written.

    The plan's order and offsets are written. If `may_replan`, others are written where TFLite Micro cannot use these or
    a smaller arena holds the tensors. Raises InputError for a plan that the runtime cannot obey, or that is not for
    this model.
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
        if check.document.reading.runtime is not None:
            read = network_in_runtime(network, check.document.reading).read
        choice = _chosen(read, check, placed) if may_replan else _as_planned(read, check, placed, plan)
        content = with_arena_plan(read.file, _offsets(read, choice), choice.order)
        _ensure_it_is_what_was_chosen(content, read, choice)
    except InputError as error:
        raise error if error.file else error.in_file(network) from None
    write_file(output, content)
    export = _export(read, choice)
    return check, replace(export, moved_operators=0) if check.document.reading.tiles else export


def _places_of(check: Check, plan: Path) -> dict[str, int]:
    """Return the plan's offset of each tensor; raises InputError for a plan with transfers."""
    ensure_whole_model(check, plan, "TFLite Micro", own_shapes=True, takes_tiles=True)
    if any(operator.tile for operator in check.problem.graph.operators):
        what = "its tiles are read in parts, and kernels of TFLite Micro read dense tensors"
        expected = f"a plan of `runtime='{Runtime.MICRO}'`, which counts slices and concatenations"
        raise InputError(what, file=str(plan), place="reading: tiles", expected=expected)
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


def _as_planned(read: ReadNetwork, check: Check, placed: Mapping[str, int], plan: Path) -> _Choice:
    contents = arena_contents(read, order := places_in_order(read, _run(check)))
    own, why = own_places(read, contents, placed)
    if own is None:
        expected = (
            f"a plan of `alignment_bytes={ALIGNMENT_BYTES}` to keep the offsets, or `replan=True` to compute others"
        )
        raise InputError(f"TFLite Micro cannot use its offsets: {why}", file=str(plan), expected=expected)
    bound = least_places(contents).lower_bound_bytes
    return _Choice(order, contents, replace(own, lower_bound_bytes=bound))


def _run(check: Check) -> list[str]:
    """Return the operators of the file in the plan's order, with all members of a fused operator."""
    operator = check.problem.graph.operator
    lines = (line.operator for line in check.document.answer.instructions if isinstance(line, Compute))
    return [member for name in lines for member in operator[name].members or (name,)]


def _chosen(read: ReadNetwork, check: Check, placed: Mapping[str, int]) -> _Choice:
    """Return the order with the smallest arena by the runtime's lifetimes: the plan's, the file's, or a searched one.

    Of equal ones it is the file's, then the plan's. A plan with a given order is not searched.
    """
    stated = tuple(range(len(read.network.operators)))
    own = _in_order(read, places_in_order(read, _run(check)), placed)
    choices = [own]
    if own.order != stated:
        change = f"the file's own order is kept: with the plan's the arena takes {own.places.taken_bytes:,} bytes"
        choices = [replace(_in_order(read, stated, {}), changes=(change,)), own]
    end = max(at + read.graph.tensor[name].size_bytes for name, at in placed.items() if name in read.graph.tensor)
    least = min(one.places.taken_bytes for one in choices)
    if check.document.order is Order.FREE and least >= end + ALIGNMENT_BYTES:
        change = (
            "another operator order than the plan's: the runtime keeps inputs from the start, and outputs to the end"
        )
        order = places_in_order(read, searched_order(read, arena_contents(read, stated)))
        choices.append(replace(_in_order(read, order, {}), changes=(change,)))
    return min(choices, key=lambda one: one.places.taken_bytes)


def _in_order(read: ReadNetwork, order: tuple[int, ...], placed: Mapping[str, int]) -> _Choice:
    contents = arena_contents(read, order)
    least = least_places(contents)
    own, change = own_places(read, contents, placed)
    if own is not None and own.taken_bytes <= least.taken_bytes:
        return _Choice(order, contents, ArenaPlaces(own.offsets_bytes, own.taken_bytes, least.lower_bound_bytes))
    if own is not None:
        change = f"those of the plan would take {own.taken_bytes:,} bytes with the scratch buffers of kernels"
    return _Choice(order, contents, least, (f"offsets recomputed: {change}",))


def _offsets(read: ReadNetwork, choice: _Choice) -> list[int]:
    offsets = [AT_RUN_TIME] * len(read.network.tensors)
    for group, offset in zip(choice.contents.groups, choice.places.offsets_bytes, strict=True):
        for index in group:
            offsets[index] = offset
    return offsets


def _ensure_it_is_what_was_chosen(content: bytes, read: ReadNetwork, choice: _Choice) -> None:
    """Read the new file back and verify its plan; raises InternalError if it differs from the choice."""
    written = arena_plan_of(network_of_file(model_file(content), read.graph.name))
    problem = PackingProblem(written.buffers, choice.places.taken_bytes, ALIGNMENT_BYTES)
    violations = verify_packing(problem, Packing(written.offsets_bytes))
    if violations or sum(map(len, written.names)) != sum(map(len, choice.contents.groups)):
        first = violations[0] if violations else "tensors without a place"
        raise InternalError(f"the model written has no legal plan: {first}", place="export")


def _export(read: ReadNetwork, choice: _Choice) -> ArenaExport:
    contents, places = choice.contents, choice.places
    ends = (at + one.size_bytes for at, one in zip(places.offsets_bytes, contents.buffers, strict=True))
    moved = sum(place != at for at, place in enumerate(choice.order))
    return ArenaExport(
        places.taken_bytes,
        max(ends, default=0),
        max((sum(one.size_bytes for one in buffers) for buffers in contents.scratch), default=0),
        places.lower_bound_bytes,
        ALIGNMENT_BYTES * arena_taken(arena_contents(read, range(len(choice.order)), views_apart=True), ()),
        moved,
        choice.changes,
        tuple(one.name for one in read.network.operators if not has_known_scratch(one)),
    )


def searched_order(read: ReadNetwork, contents: ArenaContents) -> tuple[str, ...]:
    """Return the names of operators in the best order found in ten seconds, or none.

    `contents` belong to the file's own order. A plan may load an input late and write an output early, so that its
    order need not be the best for a runtime that does neither. The same search finds the best order on a graph in which
    one operator gives all inputs and one reads all outputs.
    """
    graph = _graph(read, contents)
    if graph is None:
        return ()
    room = sum(tensor.size_bytes + ALIGNMENT_BYTES for tensor in graph.tensors)
    problem = Problem(graph, (Memory("arena", room, ALIGNMENT_BYTES),), Objective.PEAK, Order.FREE)
    answer = plan_problem(problem, limits=Limits(time_limit_seconds=SEARCH_SECONDS)).answer
    lines = () if answer is None else answer.instructions
    return tuple(line.operator for line in lines if isinstance(line, Compute) and line.operator in read.source)


def _graph(read: ReadNetwork, contents: ArenaContents) -> Graph | None:
    """Return groups of tensors as tensors with the operators between them; None if inputs or outputs need no place."""
    network = read.network
    group = {index: f"group {at}" for at, group in enumerate(contents.groups) for index in group}
    given = tuple(dict.fromkeys(group[index] for index in network.inputs if index in group))
    kept = tuple(dict.fromkeys(group[index] for index in network.outputs if index in group))
    if not given or not kept:
        return None
    operators = [Operator(_GIVEN, _GIVEN, (), given)]
    spaces = []
    for operator, scratch in zip(network.operators, contents.scratch, strict=True):
        inputs = tuple(dict.fromkeys(group[index] for index in operator.inputs if index in group))
        outputs = tuple(group[index] for index in operator.outputs if index in group)
        if not outputs or set(outputs) <= set(inputs):
            continue
        if scratch:
            size = sum(-(-one.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for one in scratch)
            spaces.append(Tensor(operator.name + WORKSPACE, size, Role.ACTIVATION))
            outputs = (*outputs, spaces[-1].name)
        operators.append(Operator(operator.name, operator.kind, inputs, outputs))
    operators.append(Operator(_KEPT, _KEPT, kept, (_END,)))
    touched = {name for operator in operators for name in (*operator.inputs, *operator.outputs)}
    tensors = [
        Tensor(f"group {at}", buffer.size_bytes, Role.ACTIVATION)
        for at, buffer in enumerate(contents.buffers)
        if f"group {at}" in touched
    ]
    return Graph(read.graph.name, (*tensors, *spaces, Tensor(_END, 1, Role.OUTPUT)), tuple(operators))


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
