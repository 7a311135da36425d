"""Faults of the mappers other than `exact`."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

FAULTS: Final = (
    Planted(
        "the least that cuts still cost is too high by a thousandth",
        "src/onchip/mapping/tile_search/uneven.py",
        "grid = (cuts[placed].energy_pj + least[placed + 1]).reshape(shape)",
        "grid = (cuts[placed].energy_pj * (1 + 1e-3) + least[placed + 1]).reshape(shape)",
        "baselines",
    ),
    Planted(
        "a label's bits of shared memories are forgotten before all its cuts are placed",
        "src/onchip/mapping/tile_search/uneven.py",
        "is_open=_open(cuts, shared),",
        "is_open=[[False] * len(shared) for _ in _open(cuts, shared)],",
        "baselines",
    ),
    Planted(
        "uneven forgets the second tile of a double-buffered memory",
        "src/onchip/mapping/tile_search/uneven.py",
        "copies = np.where(self._machine.levels[lower].is_double_buffered & (self._episodes > 1), 2, 1)",
        "copies = np.where(self._machine.levels[lower].is_double_buffered & (self._episodes > 2), 2, 1)",
        "baselines",
    ),
    Planted(
        "loma takes sums of several instances for complete if other loops stand beside each other, too",
        "src/onchip/mapping/baselines/loma.py",
        "return serves is not None and any(",
        "return serves is not None and all(",
        "baselines",
    ),
    Planted(
        "rows that a stride skips take no room",
        "src/onchip/model/layer/tables.py",
        "positions = self._block(axis, sizes) if is_stored else self._positions(axis, sizes)",
        "positions = self._positions(axis, sizes)",
        "baselines",
    ),
    Planted(
        "CoSA's window weighs what it does where weights lie elsewhere",
        "src/onchip/mapping/cosa/program.py",
        "wide = round(self.objective_per_unit * window_weight(self.machine))",
        "wide = round(self.objective_per_unit * 0.1)",
        "baselines",
    ),
    Planted(
        "the floor of a padded layer forgets that units work beside each other",
        "src/onchip/bounds/layer/floors.py",
        "return energy_pj, layer.macs / array.macs",
        "return energy_pj, layer.macs / 1",
        "baselines",
    ),
    Planted(
        "a Timeloop memory keeps what it bypasses",
        "src/onchip/formats/timeloop/architecture.py",
        "if holds := described.keeps.get(one.name, tuple(Operand)):",
        "if holds := described.keeps.get(one.name, tuple(Operand)) and tuple(Operand):",
        "baselines",
    ),
)
