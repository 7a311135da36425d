"""Options of a search for plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onchip.answer.operator_tiles import TilesOption
from onchip.answer.options.choices import as_choices
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

    order: Order | None = None
    method: str | None = None
    placement: Placement = Placement.DYNAMIC
    count: Count | None = None
    tiles: TilesOption | None = None
    cap_tensors: bool = False
    share: Share | None = None
    bands: Mapping[str, int] = field(default_factory=dict, hash=False)
    recompute: Recompute = Recompute.NEVER
    recompute_price: float | None = None
    cost: str = "mapping"
    alignment_bytes: int | None = None

    def __post_init__(self) -> None:
        as_choices(
            self, order=Order, placement=Placement, count=Count, share=Share, recompute=Recompute, tiles=TilesOption
        )
        if self.cap_tensors and self.tiles is TilesOption.AUTO:
            raise UsageError("both are given", place="cap_tensors, tiles", expected="one of them")
