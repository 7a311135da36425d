"""A layer's mapping as tasks of CoSA's network: loads, multicasts, computation, reductions, stores.

Inputs and sums pass the global buffer, weights come from DRAM straight to the elements; whatever has room for it in
pairs, so that a round may be prepared while the one before is computed. docs/network_on_chip.md has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from onchip.backends.noc.mesh import COSA_BUFFER, COSA_DRAM, COSA_NETWORK, MeshNetwork
from onchip.backends.noc.rounds import ElementRounds, TileFlow
from onchip.backends.noc.traffic import TaskKind, TrafficTask
from onchip.ir.layer import INPUT, OUTPUT, WEIGHT

MOVED: Final = (OUTPUT, INPUT, WEIGHT)
"""In this order within a round."""


def tasks_of(rounds: ElementRounds, first_rounds: int) -> list[TrafficTask]:
    """Return what happens in the first rounds of a mapping, on CoSA's network."""
    made = _Tasks(rounds)
    for round_number in range(first_rounds):
        made.add_round(round_number)
    return made.tasks


def reduction_chain(elements: Sequence[int], columns: int = COSA_NETWORK.columns) -> list[tuple[int, int]]:
    """Who sends its sums to whom: along each row, then from the last of one row to the last of the next."""
    rows: dict[int, list[int]] = {}
    for element in sorted(elements):
        rows.setdefault(element // columns, []).append(element)
    across = [pair for row in rows.values() for pair in pairwise(row)]
    lasts = [row[-1] for row in rows.values()]
    return across + list(pairwise(lasts))


@dataclass(slots=True)
class _Tasks:
    """Each list of numbers is of tasks that later ones wait for; `_before` are the rounds one and two earlier."""

    rounds: ElementRounds
    network: MeshNetwork = COSA_NETWORK
    tasks: list[TrafficTask] = field(default_factory=list)
    _computed: list[list[int]] = field(default_factory=list)
    _given_away: list[dict[int, list[int]]] = field(default_factory=list)
    _came: dict[tuple[str, int], int] = field(default_factory=dict)
    _loaded: dict[str, int] = field(default_factory=dict)
    _used_up: dict[str, list[int]] = field(default_factory=dict)
    _stored: list[int] = field(default_factory=list)
    _written: list[int] = field(default_factory=list)

    def add_round(self, round_number: int) -> None:
        for operand, movement in self.rounds.movements.items():
            if movement.shared is not None:
                self._load(operand, movement.shared, round_number)
        for operand in MOVED:
            if operand in self.rounds.movements:
                self._send_to_elements(operand, round_number)
        self._compute()
        self._give_away(round_number)
        self._store(round_number)
        for operand, movement in self.rounds.movements.items():
            if movement.shared is not None and (round_number + 1) % movement.shared.period == 0:
                self._used_up.setdefault(operand, []).append(self._barrier(self._computed[-1]))

    def _load(self, operand: str, flow: TileFlow, round_number: int) -> None:
        """From DRAM to the global buffer, which holds two tiles: of the one before last all must be computed."""
        bits = self._bits(operand, flow, round_number)
        if not bits:
            return
        generation, used_up = round_number // flow.period, self._used_up.get(operand, [])
        waits = [used_up[generation - 2]] if generation >= 2 else []
        waits += self._written if operand == OUTPUT else []
        self._loaded[operand] = self._send(COSA_DRAM, (COSA_BUFFER,), bits, waits)

    def _send_to_elements(self, operand: str, round_number: int) -> None:
        """Once to all elements that need the same; each must have computed the round before last."""
        movement = self.rounds.movements[operand]
        bits = self._bits(operand, movement.element, round_number)
        if not bits:
            return
        source = COSA_DRAM if movement.shared is None else COSA_BUFFER
        ready = [self._loaded[operand]] if operand in self._loaded else []
        ready += self._stored if operand == OUTPUT else []
        for group in movement.groups:
            before = [self._computed[-2][element] for element in group] if len(self._computed) > 1 else []
            sent = self._send(source, group, bits, [*before, *ready])
            for element in group:
                self._came[operand, element] = sent

    def _bits(self, operand: str, flow: TileFlow, round_number: int) -> int:
        """What moves before a round; of sums only those that have been begun."""
        if round_number % flow.period:
            return 0
        return (
            flow.bits_brought(self.rounds.is_continued(round_number, flow.period)) if operand == OUTPUT else flow.bits
        )

    def _compute(self) -> None:
        """When all operands are there, and what was summed two rounds before has left."""
        computed: list[int] = []
        for element in range(self.rounds.elements):
            waits = [self._came[operand, element] for operand in MOVED if (operand, element) in self._came]
            waits += [self._computed[-1][element]] if self._computed else []
            waits += self._given_away[-2].get(element, []) if len(self._given_away) > 1 else []
            computed.append(self._add(TaskKind.COMPUTE, element, self.rounds.cycles, (), waits))
        self._computed = [*self._computed[-1:], computed]

    def _give_away(self, round_number: int) -> None:
        """Add up sums along the elements that share them, and send these to the global buffer, or else to DRAM."""
        movement, given = self.rounds.movements[OUTPUT], dict[int, list[int]]()
        self._given_away = [*self._given_away[-1:], given]
        if (round_number + 1) % movement.element.period:
            return
        computed, arrived = self._computed[-1], dict[int, list[int]]()
        for group in movement.groups:
            for source, target in reduction_chain(group):
                sent = self._send(
                    source, (target,), movement.element.bits, [computed[source], *arrived.get(source, [])]
                )
                arrived.setdefault(target, []).append(sent)
                given.setdefault(source, []).append(sent)
        summed = self._barrier([*computed, *(one for some in arrived.values() for one in some), *self._stored])
        target = COSA_DRAM if movement.shared is None else COSA_BUFFER
        stored: list[int] = []
        for group in movement.groups:
            chain = reduction_chain(group)
            last = chain[-1][1] if chain else group[0]
            stored.append(self._send(last, (target,), movement.element.bits, [summed]))
            given.setdefault(last, []).append(stored[-1])
        self._stored = [self._barrier(stored)]

    def _store(self, round_number: int) -> None:
        """From the global buffer to DRAM, when the buffer's tile of sums is complete or makes room for another."""
        flow = self.rounds.movements[OUTPUT].shared
        if flow is not None and (round_number + 1) % flow.period == 0:
            self._written = [self._send(COSA_BUFFER, (COSA_DRAM,), flow.bits, self._stored)]

    def _send(self, source: int, receivers: tuple[int, ...], bits: int, waits_for: Iterable[int]) -> int:
        return self._add(TaskKind.SEND, source, self.network.packets(bits), receivers, waits_for)

    def _barrier(self, waits_for: Iterable[int]) -> int:
        return self._add(TaskKind.BARRIER, None, 0, (), waits_for)

    def _add(
        self, kind: TaskKind, actor: int | None, size: int, receivers: tuple[int, ...], waits_for: Iterable[int]
    ) -> int:
        self.tasks.append(TrafficTask(kind, actor, size, receivers, tuple(dict.fromkeys(waits_for))))
        return len(self.tasks) - 1
