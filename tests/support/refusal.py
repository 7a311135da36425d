"""A case that breaks one rule, paired with the nearest legal one."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.verify.rules import Rule
from support.programs import Case


@dataclass(frozen=True)
class Refusal:
    """`illegal` breaks `rule` once and nothing else, at `instruction` and `step` (None: the whole plan).

    The reported text contains `says`.
    """

    rule: Rule
    what: str
    legal: Case
    illegal: Case
    instruction: int | None = None
    step: int | None = None
    says: str = ""

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}".replace(" ", "-")
