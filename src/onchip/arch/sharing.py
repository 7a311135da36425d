"""Operator kinds whose outputs may share bytes with inputs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

EVERY_KIND: Final = ("*",)


class Share(StrEnum):
    """The allowed byte sharing between outputs and inputs: none, in-place computation, aliases of parts, or both."""

    NONE = "none"
    IN_PLACE = "in-place"
    ALIAS = "alias"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class SharedKinds:
    """Operator kinds whose kernels compute `in_place`, and kinds that are an `alias` if they move no data.

    `EVERY_KIND` stands for every kind that can be in place or an alias.
    """

    in_place: tuple[str, ...] = ()
    alias: tuple[str, ...] = ()

    @classmethod
    def of(cls, share: Share) -> SharedKinds:
        """Return the operator kinds that a sharing option allows."""
        return cls(
            EVERY_KIND if share in (Share.IN_PLACE, Share.ALL) else (),
            EVERY_KIND if share in (Share.ALIAS, Share.ALL) else (),
        )

    def computes_in_place(self, kind: str) -> bool:
        """Return True if an operator of that kind may overwrite its input."""
        return self.in_place == EVERY_KIND or kind in self.in_place

    def is_alias(self, kind: str) -> bool:
        """Return True if an operator of that kind need not move any data."""
        return self.alias == EVERY_KIND or kind in self.alias


NO_SHARING: Final = SharedKinds()
