"""What a search of chains is asked, without an answer."""

from __future__ import annotations

import pytest

from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.mapping.wide import together
from onchip.solve.mapping.wide.together import ChainsTogether
from oracles.chains import Searched

ENOUGH = float(1 << 60)


def asked_of(
    chains: ChainsTogether, monkeypatch: pytest.MonkeyPatch, objective: MappingObjective = MappingObjective.EDP
) -> Searched | None:
    """None where there is nothing to place."""
    asked = list[Searched]()

    def note(*rows: object) -> tuple[float, bool, int, list[int], list[list[int]], list[int]]:
        asked.append(Searched(*rows[:17]))  # type: ignore[arg-type]
        return 0.0, True, 0, [], [], []

    monkeypatch.setattr(together, "least_chain_below", note)
    chains.least(objective, ENOUGH)
    return asked[0] if asked else None
