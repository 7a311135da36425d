"""The verbs of the Python API about many questions and comparisons: `sweep`, `capacity`, `diff`, and `report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from onchip.answer.document import Claim, Document, NamedMapping, PlanDocument, Reading
from onchip.answer.options.choices import choice
from onchip.answer.options.verb_options import CapacityOptions
from onchip.answer.problem import Objective
from onchip.answer.program import Plan
from onchip.answer.result import Status
from onchip.answer.schedule import Schedule
from onchip.answer.strategy import FusionStrategy
from onchip.api.answers import Answer, answer_file, page_of_answer
from onchip.api.check import check_file
from onchip.api.check_request import CheckRequest
from onchip.api.inputs import MINIMIZE, GivenNetwork, NetworkLike, TargetLike, machine_of
from onchip.api.networks import Network, text_of
from onchip.api.phases import phase
from onchip.api.results import Report, Result, View
from onchip.api.verbs import Listener, Search
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Memory
from onchip.errors import UsageError
from onchip.formats.files import format_of_answer
from onchip.formats.own.answers import AnswerDocument, read_answer
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.reports.explain.difference import (
    AnswerDifference,
    Figure,
    TensorChange,
    TensorChangeKind,
    figure_changes,
    mapping_changes,
    plan_difference,
)
from onchip.reports.explain.history import History, ReloadCause, reload_causes
from onchip.reports.program.outcome import Check
from onchip.sweeps.store import is_store, rows_of_store

if TYPE_CHECKING:
    from onchip.sweeps.capacity import CurveStep
    from onchip.sweeps.stored_row import SweepRows


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CapacityResult(Result["tuple[CurveStep, ...]"]):
    """The minimum cost of a network at every capacity, as steps from the smallest feasible capacity on."""

    is_proven: bool
    required_bytes: int
    min_peak_bytes: int | None

    @property
    def steps(self) -> tuple[CurveStep, ...]:
        """The steps of the curve: a range of capacities, the minimum cost, and its lower bound."""
        return self.answer or ()

    def __repr__(self) -> str:
        steps = ", ".join(f"{one.value:,} from {one.first:,} bytes" for one in self.steps[:4] if one.value is not None)
        return (
            f"{self.status}  {len(self.steps)} steps  {self.minimize}: {steps}{', ...' if len(self.steps) > 4 else ''}"
        )

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        return str(self.view.details._repr_html_()) if self.view is not None else super()._repr_html_()


class DiffReport(Report[Any]):
    """The differences between two answers or two stores."""

    @property
    def is_equal(self) -> bool:
        """True if there is no difference."""
        return bool(self.details.is_equal)

    def change(self, figure: str) -> float | None:
        """Return by how much a figure, such as `traffic_bytes`, grows; None if a file does not state it.

        Raises OnchipError for an unknown figure.
        """
        found: float | None = self.details.found.figure(figure).change
        return found


def capacity(
    network: NetworkLike,
    target: TargetLike | None = None,
    *,
    minimize: str = "traffic",
    options: CapacityOptions | None = None,
    time_limit: float | None = None,
    workers: int = 1,
    seed: int = 0,
    progress: Listener | None = None,
) -> CapacityResult:
    """Find the minimum cost of a network at every capacity of its scratchpad.

    Parameters
    ----------
    network
        A graph, a bundled name or a file.
    target
        The accelerator whose only scratchpad takes all capacities; `traffic` and `peak` need none.
    minimize, options, time_limit, workers, seed, progress
        As for `plan`.

    Returns
    -------
    CapacityResult
        The exact start and value of each step; OPTIMAL if every step is proven.

    Raises
    ------
    OnchipError
        An input is unreadable, or the accelerator has several scratchpads.

    Examples
    --------
    >>> import onchip as oc
    >>> oc.capacity(oc.load_network("lenet5", bits=8))
    OPTIMAL  1 steps  traffic: 0 from 40,064 bytes

    """
    from onchip.sweeps.capacity import CapacityRequest, capacity_curve, capacity_object, capacity_tables

    if isinstance(target, Memory):
        raise UsageError("the capacity of the memory is varied", place="target", expected="an accelerator, or nothing")
    given, search = GivenNetwork.of(network), Search.of(time_limit, workers, seed, progress)
    machine = None if target is None else machine_of(target)
    objective = choice(Objective, minimize, MINIMIZE)
    asked = machine, objective, options or CapacityOptions(), given.reading, search.limits
    outcome = capacity_curve(CapacityRequest(given.source, *asked), search.start)
    status = Status.OPTIMAL if outcome.is_proven else Status.FEASIBLE
    return CapacityResult(
        status=status if outcome.unfit is None else Status.INFEASIBLE,
        minimize=objective,
        unit=objective.unit,
        objective=None,
        lower_bound=None,
        answer=outcome.steps or None,
        seconds=outcome.seconds,
        source=given.source,
        machine=machine,
        view=View(outcome, capacity_object, capacity_tables),
        is_proven=outcome.is_proven,
        required_bytes=outcome.budgets.required_bytes,
        min_peak_bytes=outcome.budgets.min_peak_bytes,
    )


def diff(before: Answer, after: Answer, network: NetworkLike | None = None) -> DiffReport:
    """Compare two answers of one kind, or two stores.

    Parameters
    ----------
    before, after
        Results or files.
    network
        The network of both, which verifies them and gives the causes of spills; by default that of the results.

    Returns
    -------
    DiffReport
        The differences of figures, order, addresses, moves and mappings.

    Raises
    ------
    OnchipError
        A file is unreadable, an answer is illegal, or the answers are of two kinds.

    Examples
    --------
    >>> import onchip as oc
    >>> plan = oc.plan("lenet5", oc.Memory("sram", "96KiB"))
    >>> oc.diff(plan, plan).is_equal
    True

    """
    from onchip.reports.explain.difference import difference_lines, difference_object

    source = None if network is None else GivenNetwork.of(network).source
    if source is None and isinstance(after, Result) and not isinstance(after.source, Layer):
        source = after.source
    with answer_file(before) as first, answer_file(after) as second:
        found = diff_files(first, second, source)
    view = View[Any](found, lambda one: difference_object(one.found), lambda one: difference_lines(one.found))
    return DiffReport(headline="equal" if found.is_equal else "different", view=view)


def report(
    answer: Answer, output: str | Path, network: NetworkLike | None = None, *, target: TargetLike | None = None
) -> None:
    """Draw an answer, or the store of a sweep, as one HTML page for offline use.

    Parameters
    ----------
    answer
        A result or a file: a plan, a schedule or a store.
    output
        The file to write.
    network
        As for `check`.
    target
        An accelerator on which a plan is timed.

    Raises
    ------
    OnchipError
        The answer is illegal or unreadable, or the file cannot be written.

    """
    from onchip.formats.files import write_file
    from onchip.sweeps.store import is_store, shown_store
    from onchip.sweeps.stored_row import sweep_html

    asked = f"onchip.report(..., {str(output)!r})"
    if isinstance(answer, str | Path) and is_store(Path(answer)):
        page = sweep_html(shown_store(Path(answer)), asked)
    else:
        page = page_of_answer(answer, network, target, asked)
    write_file(Path(output), page.encode())


def sweep(
    networks: Sequence[NetworkLike] | str | Path,
    targets: Sequence[Accelerator | str | Path] = (),
    *,
    verb: str = "plan",
    minimize: str | Sequence[str] = (),
    sram: str | Sequence[int | str] | None = None,
    parameters: Mapping[str, object] | None = None,
    options: Mapping[str, object] | None = None,
    constraints: Sequence[str] = (),
    costs: Mapping[str, object] | None = None,
    store: str | Path | None = None,
    workers: int | str = 1,
) -> SweepRows:
    """Answer every combination of networks, targets, sizes and objectives.

    Parameters
    ----------
    networks
        Graphs, bundled names or files; or one study file, which then defines all else but the store and the workers.
    targets
        Accelerators, their names or their files.
    verb
        `plan`, `map`, `fuse` or `schedule`.
    minimize
        One objective of the verb, or several.
    sram
        Sizes of one scratchpad: a list, or a range such as `"1MiB..6MiB"`.
    parameters
        Values of fields of the accelerators, as in a study file: `{"memories.x.capacity": "1MiB..2MiB"}`.
    options
        Options of the verb by name.
    constraints, costs
        Expressions that points must satisfy, and figures of each point, as in a study file.
    store
        File that keeps every answer: points in it are not computed again. By default nothing is kept.
    workers
        Number of processes, or the address of a Dask scheduler.

    Returns
    -------
    SweepRows
        A row for each point; `to_pandas` returns a data frame.

    Raises
    ------
    OnchipError
        An input is unreadable, or another process writes the store.

    """
    from onchip.sweeps.store import rows_of_store
    from onchip.sweeps.stored_row import SweepRows
    from onchip.sweeps.study import read_study, study_of, study_of_value
    from onchip.sweeps.sweep import run_sweep

    objectives = [minimize] if isinstance(minimize, str) else list(minimize)
    given = {"sram": sram if isinstance(sram, str) else [*sram]} if sram is not None else {}
    said: dict[str, object] = {
        "parameters": {**given, **(parameters or {})},
        "objectives": objectives,
        "constraints": [*constraints],
        "costs": dict(costs or {}),
    }
    with ExitStack() as stack:
        file = (
            Path(stack.enter_context(TemporaryDirectory(prefix="onchip-"))) / "s.db" if store is None else Path(store)
        )
        if isinstance(networks, str | Path):
            if targets or options or any(said.values()):
                what = "a study file defines all other choices"
                raise UsageError(what, place="sweep", expected="the study file, its store and the workers alone")
            study = read_study(Path(networks))
        else:
            files = _Files(file.with_suffix(".inputs"))
            said |= {"accelerators": [files.machine(one) for one in targets]}
            sources, read = files.networks(networks)
            fields = {name: value for name, value in said.items() if value}
            fields["options"] = {**read, **(options or {})}
            study = study_of(study_of_value({"networks": sources, "verb": verb, **fields}), "sweep")
        dask, processes = (workers, 1) if isinstance(workers, str) else (None, workers)
        outcome = run_sweep(study, file, processes=processes, dask_address=dask)
        rows = rows_of_store(file)
    return SweepRows(row for row in rows if row.study_sha256 == outcome.study_sha256)


@dataclass(frozen=True, slots=True)
class _Files:
    """Files of the networks and accelerators of a sweep that are given as objects; its processes read them."""

    folder: Path

    def networks(self, networks: Sequence[NetworkLike]) -> tuple[list[str], dict[str, object]]:
        """Return the names and files of networks, and the options that read them; raises UsageError if these differ."""
        found = [GivenNetwork.of(one) for one in networks]
        readings = [one.reading for one in found]
        if any(reading != readings[0] for reading in readings):
            raise UsageError("they are read in different ways", place="networks", expected="networks loaded alike")
        return [self._network(one) for one in found], _reading_options(readings[0]) if readings else {}

    def machine(self, machine: Accelerator | str | Path) -> str:
        """Return the name or file of an accelerator."""
        from onchip.formats.own.accelerator_yaml import accelerator_to_yaml

        if not isinstance(machine, Accelerator):
            return str(machine)
        return self._written(machine.name, ".yaml", accelerator_to_yaml(machine))

    def _network(self, network: GivenNetwork) -> str:
        from onchip.formats.own.graph_json import graph_to_json

        source = network.source
        if isinstance(source, Graph) and source.origin is None:
            return self._written(source.name, ".json", graph_to_json(source))
        return text_of(source)

    def _written(self, name: str, suffix: str, text: str) -> str:
        from onchip.formats.files import make_folder, write_file

        make_folder(self.folder)
        file = self.folder / f"{''.join(one if one.isalnum() or one in '-_.@' else '_' for one in name)}{suffix}"
        write_file(file, text.encode())
        return str(file)


def _reading_options(reading: Reading) -> dict[str, object]:
    """Return the options of a study that read a network like this; raises UsageError for options that studies lack."""
    if reading.values or reading.states:
        raise UsageError("a study binds no values and no states", place="networks", expected="dims and shapes alone")
    shapes = {name: list(shape) for name, shape in reading.shapes.items()}
    said = {"bits": reading.bits, "dims": dict(reading.dims), "shapes": shapes}
    granularity = {} if reading.granularity == Reading().granularity else {"granularity": str(reading.granularity)}
    return {**{name: value for name, value in said.items() if value}, **granularity}


AnswerT = TypeVar("AnswerT")
MachineT = TypeVar("MachineT")
AnyAnswer: TypeAlias = Plan | Schedule | FusionStrategy | tuple[NamedMapping, ...]

STORE: Final = "sweep"
MORE_BEFORE = (TensorChangeKind.STAYS, TensorChangeKind.FEWER_MOVES)
MORE_AFTER = (TensorChangeKind.SPILLS, TensorChangeKind.MORE_MOVES)
MOST_NAMED = 3
"""Maximum number of tensors named as the cause of one spill."""


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
def diff_files(before: Path, after: Path, network: Network | None = None) -> FileDifference:
    """Return the differences between two answers or two stores.

    With their network both are verified, and their figures recomputed.

    Raises InputError for unreadable files, UsageError for two kinds of files, and for an illegal answer.
    """
    kinds = _kind(before), _kind(after)
    if kinds[0] != kinds[1]:
        for kind, path in zip(kinds, (before, after), strict=True):
            (rows_of_store if kind == STORE else read_answer)(path)  # let the reader report a file that is no answer
        what = f"the file is a {kinds[1]}, and {before} is a {kinds[0]}"
        raise UsageError(what, file=str(after), expected="two answers of one kind")
    if kinds[0] == STORE:
        return FileDifference(_stores(before, after))
    documents = read_answer(before), read_answer(after)
    if isinstance(documents[0], PlanDocument) and isinstance(documents[1], PlanDocument):
        return _plans((before, after), network, documents[0], documents[1])
    if network is not None:
        for path in (before, after):
            if not check_file(CheckRequest(path, network)).is_legal:
                raise _illegal(path)
    first, second, order = documents[0].answer, documents[1].answer, None
    tensors: tuple[TensorChange, ...] = ()
    if isinstance(first, Schedule) and isinstance(second, Schedule):
        order, tensors = plan_difference(first.program, second.program)
    changes = (*mapping_changes(_groups(first), _groups(second)), *mapping_changes(_nests(first), _nests(second)))
    figures, notes = figure_changes(*map(_figures, documents)), _same_network(*documents)
    files = str(before), str(after)
    return FileDifference(AnswerDifference(kinds[0], *files, figures, order, tensors, changes, notes))


def _kind(path: Path) -> str:
    return STORE if is_store(path) else format_of_answer(path).removeprefix("onchip-")


def _plans(
    paths: tuple[Path, Path], network: Network | None, first: PlanDocument, second: PlanDocument
) -> FileDifference:
    order, tensors = plan_difference(first.answer, second.answer)
    figures, histories = (_claimed(first.claim), _claimed(second.claim)), None
    if network is not None:
        checks = [_plan_check(path, network) for path in paths]
        figures = {**figures[0], **_plan_figures(checks[0])}, {**figures[1], **_plan_figures(checks[1])}
        histories = History(checks[0].problem, first.answer), History(checks[1].problem, second.answer)
        tensors = _with_causes(tensors, histories)
    notes = _same_network(first, second)
    found = AnswerDifference("plan", str(paths[0]), str(paths[1]), figure_changes(*figures), order, tensors, (), notes)
    return FileDifference(found, histories)


def _plan_check(path: Path, network: Network) -> Check:
    check = check_file(CheckRequest(path, network))
    if not isinstance(check, Check) or not check.is_legal:
        raise _illegal(path)
    return check


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


def _figures(document: AnswerDocument) -> Mapping[str, Figure]:
    """Return the claimed figures; of mappings, the value of each layer and their sum."""
    if not isinstance(document.answer, tuple):
        return _claimed(document.claim)
    values = {name: one.claim.objective_value for one in document.answer for name in one.names if one.claim}
    return {**values, "all_layers": sum(values.values())}


def _groups(answer: AnyAnswer) -> dict[str, str]:
    """Return the fused groups of a schedule or a strategy in words, by their operators."""
    if isinstance(answer, Schedule):
        tilings = {", ".join(one.operators): one.tiling for one in answer.stacks}
        return {name: "group" if tiling is None else f"group {tiling}" for name, tiling in tilings.items()}
    stacks = answer.stacks if isinstance(answer, FusionStrategy) else ()
    return {", ".join(one.layers): f"{one.tiling} to {one.output_home}" for one in stacks}


def _nests(answer: AnyAnswer) -> dict[str, str]:
    """Return the mappings of an answer in words, by what they map."""
    if isinstance(answer, tuple):
        return {name: str(one.mapping) for one in answer for name in one.names}
    if isinstance(answer, Schedule):
        named = [(answer.stacks[one.stack].operators, one) for one in answer.mappings]
        return {f"{', '.join(names)}: {one.layer}, {one.homes}": str(one.mapping) for names, one in named}
    mappings = answer.mappings if isinstance(answer, FusionStrategy) else ()
    return {f"{', '.join(one.names)}: {one.layer}, {one.homes}": str(one.mapping) for one in mappings}


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


def _stores(before: Path, after: Path) -> AnswerDifference:
    """Return the differences between points of the same question, by status and value."""
    sides: list[Mapping[str, Figure]] = []
    for path in (before, after):
        found: dict[str, Figure] = {}
        for row in rows_of_store(path):
            asked = {**row.options, **row.parameters}
            named = ", ".join(f"{name}={value}" for name, value in asked.items())
            name = " ".join(filter(None, (row.verb, row.network, row.accelerator, row.objective, named)))
            value = row.answer.objective_value
            found[name] = str(row.answer.status) if value is None else value
        sides.append(found)
    return AnswerDifference(STORE, str(before), str(after), figure_changes(*sides))
