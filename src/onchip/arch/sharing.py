"""Which operators may write to bytes of what they read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

EVERY_KIND: Final = ("*",)


class Share(StrEnum):
    """Which outputs may share bytes with inputs: none, those computed in place, parts of a whole, or both."""

    NONE = "none"
    IN_PLACE = "in-place"
    ALIAS = "alias"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class SharedKinds:
    """The kinds of operators whose kernels compute `in_place`, and those that are an `alias` where nothing moves.

    `EVERY_KIND` stands for every kind of which that can be said.
    """

    in_place: tuple[str, ...] = ()
    alias: tuple[str, ...] = ()

    @classmethod
    def of(cls, share: Share) -> SharedKinds:
        """What is meant by a word."""
        return cls(
            EVERY_KIND if share in (Share.IN_PLACE, Share.ALL) else (),
            EVERY_KIND if share in (Share.ALIAS, Share.ALL) else (),
        )

    def computes_in_place(self, kind: str) -> bool:
        """Whether an operator of that kind may write where it reads."""
        return self.in_place == EVERY_KIND or kind in self.in_place

    def is_alias(self, kind: str) -> bool:
        """Whether an operator of that kind need not move anything."""
        return self.alias == EVERY_KIND or kind in self.alias


NO_SHARING: Final = SharedKinds()
