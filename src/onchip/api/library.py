"""The functions of `import onchip` that search: the commands as Python functions.

Each returns the outcome that its command shows; the fields of a result are available by name (`answer`, `gap`, ...).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from onchip.answer.bindings import Bindings
from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Objective
from onchip.arch.sharing import Share
from onchip.errors import UsageError
from onchip.search.budget.limits import Limits

if TYPE_CHECKING:
    from onchip.answer.options.fusion_options import FusionOptions
    from onchip.answer.options.schedule_options import ScheduleOptions
    from onchip.api.schedule import ScheduleRequest
    from onchip.reports.mapping.outcome import MappingOutcome
    from onchip.reports.packing import PackingOutcome
    from onchip.reports.program.outcome import Outcome
    from onchip.reports.schedule.outcome import FrontOutcome, ScheduleOutcome
    from onchip.reports.stack.outcome import FusionOutcome

ChoiceT = TypeVar("ChoiceT", bound=StrEnum)
File: TypeAlias = str | Path


@dataclass(frozen=True, slots=True)
class Elements:
    """The conversion of a network to layers: bits of an element and of a partial sum (None: limited by the memories).

    Without `bits`, which only `schedule` accepts, each tensor has its own. `dims`, `shapes` and `values` bind open
    sizes and values of a network file, as in `Reading`.
    """

    bits: int | None = 8
    partial_bits: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    granularity: Granularity = Granularity.FUSED
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def bindings(self) -> Bindings:
        """Return the bindings of open sizes and values."""
        return Bindings(self.dims, self.shapes, self.values)


def schedule(
    network: File,
    accelerator: File,
    objective: str = "energy",
    *,
    options: ScheduleOptions | None = None,
    elements: Elements = Elements(),
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    dask: str | None = None,
) -> ScheduleOutcome:
    """Schedule a network on an accelerator, each a bundled name or a file, for minimum energy, latency, edp or traffic.

    With the address `dask` of a Dask scheduler, its workers map loop nests and layers of fused tiles. Raises InputError
    for unreadable or unusable inputs, UsageError for an unknown objective.
    """
    from onchip.api.schedule import schedule_network

    request = _schedule_request(network, accelerator, objective, options, elements, limits)
    return schedule_network(replace(request, dask_address=dask))


def schedule_front(
    network: File,
    accelerator: File,
    pareto: str,
    *,
    options: ScheduleOptions | None = None,
    elements: Elements = Elements(),
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    points: int = 12,
    dask: str | None = None,
) -> FrontOutcome:
    """Return the schedules not dominated along the axes in `pareto`: `energy,latency`, also `traffic` and `peak`.

    With the address `dask` of a Dask scheduler, its workers map loop nests and layers of fused tiles. Raises InputError
    for unreadable or unusable inputs, UsageError for unknown axes.
    """
    from onchip.api.schedule_front import FrontRequest, axes_of, front_of_schedules

    request = _schedule_request(network, accelerator, "energy", options, elements, limits)
    of_schedules = replace(request, dask_address=dask)
    return front_of_schedules(FrontRequest(of_schedules, axes_of(pareto), points))


def _schedule_request(
    network: File,
    accelerator: File,
    objective: str,
    options: ScheduleOptions | None,
    elements: Elements,
    limits: Limits,
) -> ScheduleRequest:
    from onchip.answer.options.schedule_objective import ScheduleObjective
    from onchip.answer.options.schedule_options import ScheduleOptions
    from onchip.api.schedule import ScheduleRequest

    read_as = elements.bits, elements.partial_bits, elements.bindings, elements.granularity
    asked = str(network), str(accelerator), _one_of(ScheduleObjective, objective), options or ScheduleOptions()
    return ScheduleRequest(*asked, *read_as, limits)


def plan(
    network: File,
    *,
    sram: int | str | None = None,
    accelerator: File | None = None,
    objective: str = "traffic",
    reading: Reading = Reading(),  # noqa: B008 (frozen)
    share: str | None = None,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
) -> Outcome:
    """Plan a network for one scratchpad (bytes, `512KiB`, or a budget: `m_r`, `m_h`, `m_p`) or an accelerator's own.

    `share` allows outputs to share bytes with inputs: `none`, `in-place`, `alias` or `all`; the accelerator gives the
    default. Raises InputError for unreadable inputs, UsageError if both or neither of `sram` and `accelerator` are
    given.
    """
    from onchip.api.plan import Request, plan_network
    from onchip.api.target import Target

    chip = None if accelerator is None else str(accelerator)
    target = Target(sram, chip) if isinstance(sram, int) else Target.of_text(sram, chip, None)
    shared, wanted = None if share is None else _one_of(Share, share, "share"), _one_of(Objective, objective)
    return plan_network(Request(str(network), reading, target, wanted, limits=limits, share=shared))


def map_layer(
    layer: str,
    accelerator: File,
    objective: str = "energy",
    *,
    method: str = "exact",
    elements: Elements = Elements(),
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    dask: str | None = None,
) -> MappingOutcome:
    """Map a layer (`conv:n1k64c64p56q56r3s3:pad1`, `NETWORK:LAYER`), or each layer of a network, onto an accelerator.

    With the address `dask` of a Dask scheduler, its workers search the layers. Raises InputError for unreadable inputs
    or layers that cannot be mapped, and if no scheduler answers.
    """
    from onchip.answer.options.mapping_objective import MappingObjective
    from onchip.api.map import MappingRequest, map_layers

    wanted = _one_of(MappingObjective, objective)
    request = MappingRequest(
        layer,
        str(accelerator),
        wanted,
        method,
        _said(elements.bits),
        elements.bindings,
        elements.granularity,
        limits,
        partial_bits=elements.partial_bits,
        dask_address=dask,
    )
    return map_layers(request)


def fuse(
    network: File,
    accelerator: File,
    objective: str = "energy",
    *,
    options: FusionOptions | None = None,
    elements: Elements = Elements(),
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    dask: str | None = None,
) -> FusionOutcome:
    """Find the best fused stacks of a network's layers; raises InputError for unreadable inputs or unfusable layers.

    With the address `dask` of a Dask scheduler, its workers map the layers of tiles.
    """
    from onchip.answer.options.fusion_objective import FusionObjective
    from onchip.answer.options.fusion_options import FusionOptions
    from onchip.api.fuse import FusionRequest, fuse_network

    read_as = _said(elements.bits), elements.partial_bits, elements.bindings, elements.granularity
    asked = str(network), str(accelerator), _one_of(FusionObjective, objective), options or FusionOptions()
    return fuse_network(FusionRequest(*asked, None, *read_as, limits, dask_address=dask))


def pack(buffers: File, capacity_bytes: int | None = None, *, limits: Limits = Limits()) -> PackingOutcome:  # noqa: B008
    """Pack the buffers of a CSV file into a capacity, or into the minimum capacity.

    Raises InputError for unreadable files.
    """
    from onchip.api.pack import pack_file

    return pack_file(Path(buffers), capacity_bytes, None, limits, minimize=capacity_bytes is None)


def _one_of(choices: type[ChoiceT], name: str, place: str = "objective") -> ChoiceT:
    try:
        return choices(name)
    except ValueError:
        expected = f"one of {', '.join(choices)}"
        raise UsageError(f"it is {name!r}", place=place, expected=expected) from None


def _said(bits: int | None) -> int:
    if bits is None:
        raise UsageError("it says nothing", place="elements.bits", expected="a number: `schedule` alone has others")
    return bits
