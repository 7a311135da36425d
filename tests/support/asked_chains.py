"""The arguments of a search of chains, captured without running it."""

from __future__ import annotations

import numpy as np
import pytest

from onchip.answer.options.mapping_objective import MappingObjective
from onchip.mapping.prove import together
from onchip.mapping.prove.together import ChainsTogether
from oracles.chains import Searched

ENOUGH = float(1 << 60)


def asked_of(
    chains: ChainsTogether, monkeypatch: pytest.MonkeyPatch, objective: MappingObjective = MappingObjective.EDP
) -> Searched | None:
    """Return the arguments of the search, or None if there is nothing to place."""
    asked = list[Searched]()

    def note(shape: list[int], *rows: object) -> tuple[float, bool, int, list[int], list[list[int]], list[int]]:
        asked.append(Searched(shape, *(_of_each_point(shape, row) for row in rows[:16])))  # type: ignore[arg-type]
        return 0.0, True, 0, [], [], []

    monkeypatch.setattr(together, "least_chain_below", note)
    chains.least(objective, ENOUGH)
    return asked[0] if asked else None


def _of_each_point(shape: list[int], row: object) -> object:
    """Return tables flat, broadcast along dimensions in which they are constant."""
    if isinstance(row, np.ndarray):
        return np.broadcast_to(row, shape).ravel()
    return type(row)(_of_each_point(shape, one) for one in row) if isinstance(row, list | tuple) else row
