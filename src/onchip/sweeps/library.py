"""The verbs of the Python API about many questions and comparisons: `sweep`, `capacity`, `diff`, and `report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from onchip.answer.document import Reading
from onchip.answer.options.verb_options import CapacityOptions
from onchip.answer.result import Status
from onchip.api.answers import Answer, answer_file, page_of_answer
from onchip.api.inputs import GivenNetwork, NetworkLike, TargetLike, machine_of
from onchip.api.networks import text_of
from onchip.api.results import Report, Result, View
from onchip.api.verbs import Listener, Search
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Memory
from onchip.errors import UsageError
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer

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
    from onchip.sweeps.capacity import capacity_curve, capacity_object, capacity_request, capacity_tables

    if isinstance(target, Memory):
        raise UsageError("the capacity of the memory is varied", place="target", expected="an accelerator, or nothing")
    given, search = GivenNetwork.of(network), Search.of(time_limit, workers, seed, progress)
    machine = None if target is None else machine_of(target)
    request = capacity_request(
        given.source, given.reading, machine, minimize, options or CapacityOptions(), search.limits
    )
    objective, outcome = request.objective, capacity_curve(request, search.start)
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
    from onchip.sweeps.diff import DiffRequest, diff_files

    source = None if network is None else GivenNetwork.of(network).source
    if source is None and isinstance(after, Result) and not isinstance(after.source, Layer):
        source = after.source
    with answer_file(before) as first, answer_file(after) as second:
        found = diff_files(DiffRequest(first, second, source))
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
    from onchip.sweeps.sweep import SweepRequest, run_sweep

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
        outcome = run_sweep(SweepRequest(study, file, processes, dask_address=dask))
        rows = rows_of_store(file)
    return SweepRows(tuple(row for row in rows if row.study_sha256 == outcome.study_sha256))


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
