"""Networks and machines as plain numbers, read from the public formats, for the oracles of instructions.

Nothing of the program is used: sizes, addresses and costs follow from the text of the formats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DRAM = "dram"
Json = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """An operator: the numbers of the tensors that it reads (each once) and writes."""

    name: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True)
class Net:
    """Tensors by number, without uncounted ones; operators in the given order."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    roles: tuple[str, ...]
    steps: tuple[Step, ...]

    @classmethod
    def of_graph(cls, graph: Json, count: str) -> Net:
        tensors = [one for one in graph["tensors"] if count == "all" or one["role"] != "parameter"]
        number = {one["name"]: i for i, one in enumerate(tensors)}

        def numbers(names: list[str]) -> tuple[int, ...]:
            return tuple(dict.fromkeys(number[name] for name in names if name in number))

        steps = (
            Step(o["name"], numbers([*o["inputs"], *o.get("parameters", [])]), numbers(o["outputs"]))
            for o in graph["operators"]
        )
        sizes = tuple(one["bytes"] for one in tensors)
        return cls(tuple(number), sizes, tuple(one["role"] for one in tensors), tuple(steps))

    def comes_from_outside(self, tensor: int) -> bool:
        return self.roles[tensor] in ("input", "parameter")

    def operand(self, tensor: int) -> str:
        """Return the operand kind of a tensor for its readers."""
        return "weight" if self.roles[tensor] == "parameter" else "input"

    def readers(self, tensor: int) -> int:
        return sum(1 << i for i, step in enumerate(self.steps) if tensor in step.reads)

    def may_run(self, step: int, ran: int) -> bool:
        """Return True if all writers of the step's inputs have run."""
        return all(ran >> i & 1 for i, one in enumerate(self.steps) if set(one.writes) & set(self.steps[step].reads))


@dataclass(frozen=True)
class Pad:
    name: str
    capacity: int
    alignment: int
    holds: frozenset[str]


@dataclass(frozen=True)
class Machine:
    """Scratchpads by number, with DRAM as -1; `prices` is the cost of each possible copy of a tensor."""

    pads: tuple[Pad, ...]
    prices: dict[tuple[int, int, int], int]

    @classmethod
    def of_accelerator(cls, accelerator: Json, net: Net, objective: str) -> Machine:
        memories = [one for one in accelerator["memories"] if one.get("scratchpad")]
        numbers = {one["name"]: i for i, one in enumerate(memories)} | {DRAM: -1}
        pads = tuple(
            Pad(
                one["name"],
                one["capacity"],
                one.get("alignment", 1),
                frozenset(one.get("holds", ("input", "weight", "output"))),
            )
            for one in memories
        )
        ways: dict[tuple[str, str], Json] = {
            (one["source"], one["target"]): one for one in accelerator.get("links", [])
        }
        for one in memories:
            ways |= {(DRAM, one["name"]): {}, (one["name"], DRAM): {}}
        ends = {one["name"]: one for one in memories} | {DRAM: accelerator.get("dram", {})}
        prices = {
            (tensor, numbers[source], numbers[target]): _price(
                size, ends[source], ends[target], link, objective, accelerator
            )
            for tensor, size in enumerate(net.sizes)
            for (source, target), link in ways.items()
        }
        return cls(pads, prices)


def _price(size: int, source: Json, target: Json, link: Json, objective: str, accelerator: Json) -> int:
    if objective == "dma-energy":
        return _energy(size, source, "read_energy_pj") + _energy(size, target, "write_energy_pj")
    if objective == "dma-cycles":
        rates = [int(port["bits_per_cycle"]) for end in (source, target) for port in end.get("ports", [])]
        rates += [int(link["bits_per_cycle"])] if "bits_per_cycle" in link else []
        return int(accelerator.get("dma", {}).get("setup_cycles", 0)) + -(-size * 8 // min(rates))
    return size


def _energy(size: int, end: Json, key: str) -> int:
    """Return the energy in femtojoules: the number of shortest accesses, each at its share of a whole access."""
    whole, energy = int(end["access_bits"]), float(end[key])
    shortest = int(end.get("shortest_access_bits", whole))
    return -(-size * 8 // shortest) * round(energy * 1000 * shortest / whole)
