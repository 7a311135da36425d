"""The functions of `import onchip` for many questions and comparisons: `sweep`, `capacity`, `diff`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from onchip.answer.document import Reading
from onchip.errors import UsageError
from onchip.search.budget.limits import Limits

if TYPE_CHECKING:
    from onchip.api.library import File
    from onchip.sweeps.capacity import CapacityOutcome
    from onchip.sweeps.diff import FileDifference
    from onchip.sweeps.stored_row import SweepRows


@dataclass(frozen=True, slots=True)
class SweepChoices:
    """The parts of a study other than its networks, as in a study file: values as a list, or the text of a range."""

    accelerators: Sequence[str] = ()
    parameters: Mapping[str, object] = field(default_factory=dict)
    objectives: Sequence[str] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    constraints: Sequence[str] = ()
    costs: Mapping[str, object] = field(default_factory=dict)
    verb: str = "plan"


def sweep(
    *networks: File,
    store: File,
    sram: str | Sequence[int | str] | None = None,
    choices: SweepChoices = SweepChoices(),
    workers: int = 1,
    dask: str | None = None,
) -> SweepRows:
    """Answer every point of a study and return its rows; `networks` may be one study file, which then defines all else.

    `sram` is a range (`1MiB..6MiB`) or a list of sizes. Points in the store are not recomputed. Raises InputError for
    unreadable or unsuitable inputs, and for a store that another process writes, UsageError for other choices with a
    file.
    """
    from onchip.formats.own.study_yaml import study_of_value
    from onchip.sweeps.store import rows_of_store
    from onchip.sweeps.stored_row import SweepRows
    from onchip.sweeps.study import read_study, study_of
    from onchip.sweeps.sweep import SweepRequest, run_sweep

    if len(networks) == 1 and str(networks[0]).endswith((".yaml", ".yml")):
        if sram is not None or choices != SweepChoices():
            raise UsageError("a study file says it", place="sram, choices", expected="the file alone")
        study = read_study(Path(networks[0]))
    else:
        study = study_of(study_of_value(_fields(networks, sram, choices)), "sweep")
    outcome = run_sweep(SweepRequest(study, Path(store), workers, dask_address=dask))
    rows = rows_of_store(Path(store))
    return SweepRows(tuple(row for row in rows if row.study_sha256 == outcome.study_sha256))


def capacity(
    network: File,
    *,
    reading: Reading = Reading(),  # noqa: B008 (frozen)
    order: str = "free",
    alignment: int | None = None,
    objective: str = "traffic",
    accelerator: str | None = None,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
) -> CapacityOutcome:
    """Return the minimum cost of a network at every size of its scratchpad, or of an accelerator's scratchpad.

    `reading` selects the counted tensors, which should include weights for latency. Raises InputError for unreadable
    inputs, UsageError for an unknown order or objective.
    """
    from onchip.answer.problem import Objective, Order
    from onchip.sweeps.capacity import CapacityRequest, capacity_curve

    if order not in tuple(Order):
        raise UsageError(f"it is {order!r}", place="order", expected=f"one of {', '.join(Order)}")
    if objective not in tuple(Objective):
        raise UsageError(f"it is {objective!r}", place="objective", expected=f"one of {', '.join(Objective)}")
    how = Objective(objective), Order(order), alignment
    return capacity_curve(CapacityRequest(str(network), reading, *how, limits=limits, accelerator=accelerator))


def diff(before: File, after: File, network: File | None = None) -> FileDifference:
    """Return the differences between two answer files or two stores.

    Raises InputError for unreadable files, UsageError for two kinds of files.
    """
    from onchip.sweeps.diff import DiffRequest, diff_files

    return diff_files(DiffRequest(Path(before), Path(after), None if network is None else str(network)))


def _fields(
    networks: Sequence[File], sram: str | Sequence[int | str] | None, choices: SweepChoices
) -> dict[str, object]:
    """Return the equivalent fields of a study file."""
    given = {"sram": sram if isinstance(sram, str) else [*sram]} if sram is not None else {}
    said: dict[str, object] = {
        "accelerators": [*choices.accelerators],
        "parameters": {**given, **choices.parameters},
        "objectives": [*choices.objectives],
        "options": {**choices.options},
        "constraints": [*choices.constraints],
        "costs": {**choices.costs},
    }
    present = {name: value for name, value in said.items() if value}
    return {"networks": [str(network) for network in networks], "verb": choices.verb, **present}
