"""Options of the curve of minimum cost by capacity."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.operator_tiles import TilesOption
from onchip.answer.options.choices import as_choices
from onchip.answer.problem import Count, Order
from onchip.arch.sharing import Share


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityOptions:
    """Options of the verb `capacity`.

    Attributes
    ----------
    order
        Allowed operator orders.
    count
        Planned tensors: by default activations; all for latency if the scratchpad holds weights.
    share
        Outputs that may share bytes with inputs.
    cost
        Cycle model of operators without stated cycles: `mapping`, `macs` or the name of a plug-in.
    alignment_bytes
        Every offset is a multiple of it; by default as the accelerator says, else 1.
    tiles
        Whether tilings are searched (`auto`), in a scratchpad without an accelerator.

    """

    order: Order = Order.FREE
    count: Count | None = None
    share: Share = Share.NONE
    cost: str = "mapping"
    alignment_bytes: int | None = None
    tiles: TilesOption = TilesOption.NEVER

    def __post_init__(self) -> None:
        as_choices(self, order=Order, count=Count, share=Share, tiles=TilesOption)
