"""Comparison of two answers or two stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from onchip.answer.document import Claim, Document
from onchip.api.check import CheckRequest, check_file
from onchip.api.networks import Network
from onchip.api.phases import phase
from onchip.errors import UsageError
from onchip.formats.files import AnswerFormat, format_of_answer
from onchip.formats.own.mapping_yaml import read_mappings
from onchip.formats.own.plan_json import read_plan
from onchip.formats.own.schedule_json import read_schedule
from onchip.formats.own.strategy_json import read_strategy
from onchip.reports.explain.difference import (
    AnswerDifference,
    Figure,
    MappingChange,
    OrderDifference,
    TensorChange,
    TensorChangeKind,
    figure_changes,
    mapping_changes,
    plan_difference,
)
from onchip.reports.explain.history import History, ReloadCause, reload_causes
from onchip.reports.program.outcome import Check
from onchip.sweeps.store import is_store, rows_of_store

AnswerT = TypeVar("AnswerT")
MachineT = TypeVar("MachineT")

STORE = "sweep"
READERS: Final[Mapping[str, Callable[[Path], object]]] = {
    AnswerFormat.PLAN: read_plan,
    AnswerFormat.SCHEDULE: read_schedule,
    AnswerFormat.STRATEGY: read_strategy,
    AnswerFormat.MAPPING: read_mappings,
    STORE: rows_of_store,
}
MORE_BEFORE = (TensorChangeKind.STAYS, TensorChangeKind.FEWER_MOVES)
MORE_AFTER = (TensorChangeKind.SPILLS, TensorChangeKind.MORE_MOVES)
MOST_NAMED = 3
"""Maximum number of tensors named as the cause of one spill."""


@dataclass(frozen=True, slots=True)
class DiffRequest:
    """Two files, and optionally their network, with which both are verified and their figures recomputed."""

    before: Path
    after: Path
    network: Network | None = None


@dataclass(frozen=True, slots=True)
class FileDifference:
    """The differences, and the histories of both plans if a network gives the sizes of their tensors."""

    found: AnswerDifference
    histories: tuple[History, History] | None = None

    @property
    def is_equal(self) -> bool:
        """Return True if there is no difference."""
        return self.found.is_equal

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        from onchip.reports.explain.difference import html_of_difference

        return html_of_difference(self.found)


@phase("comparing")
def diff_files(request: DiffRequest) -> FileDifference:
    """Return the differences between two answers or two stores.

    Raises InputError for unreadable files, UsageError for two kinds of files, and for an illegal answer.
    """
    kinds = _kind(request.before), _kind(request.after)
    if kinds[0] != kinds[1]:
        for kind, path in zip(kinds, (request.before, request.after), strict=True):
            READERS[kind](path)  # let the reader report a file that is no answer
        before, after = (kind.removeprefix("onchip-") for kind in kinds)
        what = f"the file is a {after}, and {request.before} is a {before}"
        raise UsageError(what, file=str(request.after), expected="two answers of one kind")
    if kinds[0] == STORE:
        return FileDifference(_stores(request))
    match kinds[0]:
        case AnswerFormat.PLAN:
            return _plans(request)
        case AnswerFormat.SCHEDULE:
            return FileDifference(_schedules(request))
        case AnswerFormat.STRATEGY:
            return FileDifference(_strategies(request))
        case _:
            return FileDifference(_mappings(request))


def _kind(path: Path) -> str:
    return STORE if is_store(path) else format_of_answer(path)


def _plans(request: DiffRequest) -> FileDifference:
    first, second = read_plan(request.before), read_plan(request.after)
    order, tensors = plan_difference(first.answer, second.answer)
    figures, histories = (_claimed(first.claim), _claimed(second.claim)), None
    if request.network is not None:
        checks = _plan_check(request.before, request.network), _plan_check(request.after, request.network)
        figures = {**figures[0], **_plan_figures(checks[0])}, {**figures[1], **_plan_figures(checks[1])}
        histories = History(checks[0].problem, first.answer), History(checks[1].problem, second.answer)
        tensors = _with_causes(tensors, histories)
    notes = _same_network(first, second)
    found = AnswerDifference(
        "plan", str(request.before), str(request.after), figure_changes(*figures), order, tensors, (), notes
    )
    return FileDifference(found, histories)


def _plan_check(path: Path, network: Network) -> Check:
    check = check_file(CheckRequest(path, network))
    if not isinstance(check, Check) or not check.is_legal:
        raise _illegal(path)
    return check


def _ensure_legal(request: DiffRequest) -> None:
    if request.network is not None:
        for path in (request.before, request.after):
            if not check_file(CheckRequest(path, request.network)).is_legal:
                raise _illegal(path)


def _illegal(path: Path) -> UsageError:
    return UsageError(
        "the answer is not legal (`onchip check` lists the violations)", file=str(path), expected="a legal answer"
    )


def _claimed(claim: Claim | None) -> dict[str, Figure]:
    if claim is None:
        return {}
    named = {"method": claim.method, "status": str(claim.status), "objective": claim.objective}
    among = {} if claim.bound_among is None else {"bound_among": claim.bound_among}
    bounds = {"lower_bound": claim.lower_bound, **among}
    return {**named, "objective_value": claim.objective_value, **bounds, **claim.figures}


def _plan_figures(check: Check) -> dict[str, Figure]:
    figures = check.verdict.figures
    return {
        "traffic_bytes": figures.total,
        "non_compulsory_bytes": figures.non_compulsory,
        "loads_bytes": figures.loads,
        "write_backs_bytes": figures.write_backs,
        "peak_bytes": figures.peak_bytes,
        "arena_bytes": figures.arena_bytes,
        **{f"capacity_bytes.{memory.name}": memory.capacity_bytes for memory in check.problem.memories},
    }


def _with_causes(changes: Sequence[TensorChange], histories: tuple[History, History]) -> tuple[TensorChange, ...]:
    """Return the changes with the reason for each eviction in the plan with more moves, as `explain` gives it."""
    first, second = (
        {cause.tensor.name: _why(cause, plan) for cause in reversed(reload_causes(history))}
        for plan, history in zip(("first", "second"), histories, strict=True)
    )
    sides = dict.fromkeys(MORE_BEFORE, first) | dict.fromkeys(MORE_AFTER, second)
    return tuple(replace(change, why=sides.get(change.kind, {}).get(change.tensor)) for change in changes)


def _why(cause: ReloadCause, plan: str) -> str:
    """Return the reason why a tensor is evicted, in a few words."""
    others = [one.tensor for one in cause.pushed_out_by[:MOST_NAMED]]
    more = len(cause.pushed_out_by) - len(others)
    named = ", ".join(others) + (f" and {more} more" if more > 0 else "")
    pushed = f"evicted for {named}" if others else str(cause.way)
    return f"in the {plan}, steps {cause.left} to {cause.returned}: {pushed}; stays with {cause.bytes_to_stay} bytes"


def _same_network(first: Document[AnswerT, MachineT], second: Document[AnswerT, MachineT]) -> tuple[str, ...]:
    """Return a note if two answers are for different graphs, with the differences in how the network was read."""
    hashes = first.graph.sha256, second.graph.sha256
    if None in hashes or hashes[0] == hashes[1]:
        return ()
    readings = asdict(first.reading), asdict(second.reading)
    differing = [name for name in readings[0] if readings[0][name] != readings[1][name]]
    if first.graph.name != second.graph.name or not differing:
        return ("they are of different networks",)
    return (f"their network is read in different ways: {', '.join(differing)}",)


def _schedules(request: DiffRequest) -> AnswerDifference:
    _ensure_legal(request)
    both = first, second = read_schedule(request.before), read_schedule(request.after)
    order, tensors = plan_difference(first.answer.program, second.answer.program)
    texts = [
        {
            f"{', '.join(one.answer.stacks[each.stack].operators)}: {each.layer}, {each.homes}": str(each.mapping)
            for each in one.answer.mappings
        }
        for one in both
    ]
    groups = [
        {
            ", ".join(stack.operators): "group" if stack.tiling is None else f"group {stack.tiling}"
            for stack in one.answer.stacks
        }
        for one in both
    ]
    return _answers("schedule", request, both, (*mapping_changes(*groups), *mapping_changes(*texts)), order, tensors)


def _strategies(request: DiffRequest) -> AnswerDifference:
    _ensure_legal(request)
    both = read_strategy(request.before), read_strategy(request.after)
    groups = [
        {", ".join(stack.layers): f"{stack.tiling} to {stack.output_home}" for stack in one.answer.stacks}
        for one in both
    ]
    texts = [
        {f"{', '.join(each.names)}: {each.layer}, {each.homes}": str(each.mapping) for each in one.answer.mappings}
        for one in both
    ]
    return _answers("strategy", request, both, (*mapping_changes(*groups), *mapping_changes(*texts)))


def _answers(
    kind: str,
    request: DiffRequest,
    both: tuple[Document[AnswerT, MachineT], Document[AnswerT, MachineT]],
    changes: tuple[MappingChange, ...],
    order: OrderDifference | None = None,
    tensors: tuple[TensorChange, ...] = (),
) -> AnswerDifference:
    first, second = both
    figures, notes = figure_changes(_claimed(first.claim), _claimed(second.claim)), _same_network(first, second)
    return AnswerDifference(kind, str(request.before), str(request.after), figures, order, tensors, changes, notes)


def _mappings(request: DiffRequest) -> AnswerDifference:
    _ensure_legal(request)
    documents = read_mappings(request.before), read_mappings(request.after)
    texts: list[Mapping[str, str]] = []
    figures: list[Mapping[str, Figure]] = []
    for document in documents:
        texts.append({name: str(one.mapping) for one in document.answer for name in one.names})
        values = {name: one.claim.objective_value for one in document.answer for name in one.names if one.claim}
        figures.append({**values, "all_layers": sum(values.values())})
    changes: tuple[MappingChange, ...] = mapping_changes(*texts)
    return AnswerDifference(
        "mapping", str(request.before), str(request.after), figure_changes(*figures), None, (), changes
    )


def _stores(request: DiffRequest) -> AnswerDifference:
    """Return the differences between points of the same question, by status and value."""
    sides: list[Mapping[str, Figure]] = []
    for path in (request.before, request.after):
        found: dict[str, Figure] = {}
        for row in rows_of_store(path):
            asked = {**row.options, **row.parameters}
            named = ", ".join(f"{name}={value}" for name, value in asked.items())
            name = " ".join(filter(None, (row.verb, row.network, row.accelerator, row.objective, named)))
            value = row.answer.objective_value
            found[name] = str(row.answer.status) if value is None else value
        sides.append(found)
    return AnswerDifference(STORE, str(request.before), str(request.after), figure_changes(*sides))
