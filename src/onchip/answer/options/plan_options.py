"""Options of a search for plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onchip.answer.operator_tiles import TilesOption
from onchip.answer.options.choices import COST, as_choices, described
from onchip.answer.problem import Count, Order, Placement, Recompute
from onchip.arch.sharing import Share
from onchip.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Options of the verb `plan`.

    Attributes
    ----------
    order
        Allowed operator orders; by default those that the method searches.
    method
        Name of the search: by default `exact`, and `timed` for latency.
    placement
        Whether tensors may be evicted (dynamic) or have one address (static).
    count
        Planned tensors: by default activations; all for latency if a scratchpad holds weights.
    tiles
        Whether fused groups in tiles are searched (`auto`); by default where an operator does not fit whole.
    cap_tensors
        Count tensors that are larger than the largest scratchpad as that scratchpad.
    share
        Outputs that may share bytes with inputs; by default as the accelerator says, else none.
    bands
        Number of channel slices by operator, for operators whose file states the cost of slices.
    recompute, recompute_price
        Whether operators may run again, and the price of a million cycles of these runs in the objective's unit.
    cost
        Cycle model of operators without stated cycles: `mapping`, `macs` or the name of a plug-in.
    alignment_bytes
        Every offset is a multiple of it; by default as the memory says.

    """

    order: Order | None = field(
        default=None,
        metadata=described(
            "Operator orders: any, the order of the file, or one of minimum peak.", default="as the method"
        ),
    )
    method: str | None = field(
        default=None, metadata=described("Name of the search.", "NAME", "exact; timed for latency")
    )
    placement: Placement = field(
        default=Placement.DYNAMIC,
        metadata=described(
            "dynamic: tensors may be evicted and reloaded. static: one address per tensor, or DRAM only."
        ),
    )
    count: Count | None = field(
        default=None,
        metadata=described(
            "Planned tensors: all, or all but parameters.",
            default="activations; all for latency if a scratchpad holds weights",
        ),
    )
    tiles: TilesOption | None = field(
        default=None,
        metadata=described(
            "Search tiles of operators and of fused groups (auto), or run operators whole.",
            default="auto if an operator does not fit whole in the only scratchpad",
        ),
    )
    cap_tensors: bool = field(
        default=False,
        metadata=described("Clamp larger tensors to the size of the largest scratchpad, for analysis only."),
    )
    share: Share | None = field(
        default=None,
        metadata=described(
            "Outputs that may share bytes with inputs: computed in place, parts of a whole (alias), or both.",
            default="as the accelerator states, else none",
        ),
    )
    bands: Mapping[str, int] = field(default_factory=dict, hash=False)
    recompute: Recompute = field(
        default=Recompute.NEVER,
        metadata=described("Allow operators to run again instead of keeping or reloading their outputs."),
    )
    recompute_price: float | None = field(
        default=None,
        metadata=described(
            "Cost of a million recomputation cycles, in units of the objective.",
            "N",
            "as the accelerator states",
            least=0,
        ),
    )
    cost: str = field(default="mapping", metadata=COST)
    alignment_bytes: int | None = None

    def __post_init__(self) -> None:
        as_choices(
            self, order=Order, placement=Placement, count=Count, share=Share, recompute=Recompute, tiles=TilesOption
        )
        if self.cap_tensors and self.tiles is TilesOption.AUTO:
            raise UsageError(
                "`cap_tensors` and `tiles` exclude each other", place="cap_tensors, tiles", expected="one of them"
            )
