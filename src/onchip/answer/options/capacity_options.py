"""Options of the curve of minimum cost by capacity."""

from __future__ import annotations

from dataclasses import dataclass, field

from onchip.answer.operator_tiles import TilesOption
from onchip.answer.options.choices import ALIGNMENT, as_choices, described
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
        Planned tensors: by default activations.
    share
        Outputs that may share bytes with inputs.
    alignment_bytes
        Every offset is a multiple of it; by default as the accelerator says, else 1.
    tiles
        Whether tilings are searched (`auto`), in a scratchpad without an accelerator.

    """

    order: Order = field(
        default=Order.FREE, metadata=described("Operator orders: any, the order of the file, or one of minimum peak.")
    )
    count: Count | None = field(
        default=None,
        metadata=described(
            "Planned tensors: all, or all but parameters.",
            default="activations",
        ),
    )
    share: Share = field(
        default=Share.NONE,
        metadata=described(
            "Outputs that may share bytes with inputs: computed in place, parts of a whole (alias), or both."
        ),
    )
    alignment_bytes: int | None = field(default=None, metadata=ALIGNMENT)
    tiles: TilesOption = field(
        default=TilesOption.NEVER,
        metadata=described("Search tiles of operators and of fused groups (auto), or run operators whole."),
    )

    def __post_init__(self) -> None:
        as_choices(self, order=Order, count=Count, share=Share, tiles=TilesOption)
