"""A chip with little capacity for maps, all paths through a search space, and made-up costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from onchip.answer.options.fusion_objective import Criteria
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.scheduling.choice.ways import Arc
from onchip.scheduling.fronts.cost_table import UnsureError
from onchip.transform.groups.stacks import StackChoice

MEMORIES = """\
format: onchip-accelerator
version: 1
name: chip
array: {dimensions: {K: 2, OX: 2}, mac_energy_pj: 0}
memories:
  - {name: register, capacity: 1KiB, serves: [K]}
  - {name: weights, capacity: 1KiB, holds: [weight]}
  - {name: near, capacity: 32B, scratchpad: true}
  - {name: buffer, capacity: 64B}
"""
CHIP = accelerator_from_yaml(MEMORIES, "chip.yaml")


def ways_through(arcs: Sequence[Arc[StackChoice]], last: int, place: int = 0) -> Iterator[tuple[StackChoice, ...]]:
    if place == last:
        yield ()
    for arc in arcs:
        if arc.source == place:
            for rest in ways_through(arcs, last, arc.target):
                yield from ((choice, *rest) for choice in arc.choices)


@dataclass
class RandomCosts:
    """A random but reproducible cost for each choice; bounds are somewhere below."""

    seed: int
    criteria: int

    def _random(self, choice: StackChoice) -> Random:
        return Random(f"{self.seed} {choice}")

    def bound(self, choice: StackChoice) -> Criteria:
        (cost,) = self.costs([choice])
        share = self._random(choice).random()
        return tuple(int(part * share) for part in cost)

    def closer(self, choice: StackChoice) -> Criteria:
        (cost,), chance = self.costs([choice]), Random(f"{self.seed} {choice} closer")
        if chance.random() < 0.3:
            raise UnsureError
        return tuple(int(part * chance.random()) for part in cost)

    def least(self, choices: Sequence[StackChoice]) -> Criteria:
        return tuple(0 for _ in self.bound(choices[0]) or ())

    def parts(self, choice: StackChoice) -> Sequence[StackChoice]:
        return choice.parts()

    def by_bound(self, choice: StackChoice) -> Iterator[StackChoice]:
        yield from choice.singly()

    def costs(self, choices: Sequence[StackChoice]) -> list[Criteria]:
        return [tuple(self._random(one).choices(range(50), k=self.criteria)) for one in choices]
