"""`onchip map --method exact`: the least energy, latency and product of a layer on a machine."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import comb, inf, isclose, isfinite, prod
from unittest.mock import patch

from adversary.frame import Ended, Facts, Program, Verdict
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem, leaves_something_out
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Status
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import with_assumed_energies
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.mapping_yaml import read_mappings
from onchip.ir.layer import Layer
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.model.layer.tables import LayerCosts
from onchip.search.budget.limits import Limits, Run
from onchip.verify.mapping import verify_mapping
from oracles.mapping import energy_and_cycles
from oracles.mapspace import all_mappings
from oracles.mapspace_members import like_in_mapspace

MOST_SPLITS = 1100
"""Most ways to split the bounds over memories and the array, so that all mappings can be listed."""
OPERANDS = ("input", "weight", "output")
ARRAYS: tuple[Facts, ...] = (
    {"dimensions": {"lane": 4}},
    {"dimensions": {"lane": 2, "pe": 2}},
    {"dimensions": {"lane": 3, "pe": 4}},
    {"dimensions": {"K": 2, "OX": 3}},
    {"dimensions": {"C": 4, "pe": 2}},
    {"dimensions": {"lane": 2, "pe": 2, "FX": 3}},
    {"dimensions": {"lane": 6, "pe": 2}, "unrolls": {"lane": ["P", "C", "R"]}},
    {"dimensions": {"lane": 4}, "unrolls": {"lane": ["Q", "S", "N"]}},
    {"free": 1},
    {"free": 4},
    {"free": 7},
)
LARGE_ARRAYS: tuple[Facts, ...] = ({"dimensions": {"lane": 32, "pe": 16}}, {"dimensions": {"pe": 24}}, {"free": 60})
"""Arrays with more than forty spatial mappings, most of which are pruned before their tiles are examined."""
ROOMY_BYTES = 1 << 20


def random_machine(chance: random.Random) -> Facts:
    """Return one to four memories: some for one operand, some replicated, with slow, shared or no ports."""
    is_large = chance.random() < 0.2
    array = dict(chance.choice(LARGE_ARRAYS if is_large else ARRAYS))
    array["mac_energy_pj"] = chance.choice((0, 0.5, 1, 3.7))
    memories: list[Facts] = []
    for number in range(chance.choice((1, 1, 2) if is_large else (1, 2, 2, 3, 3, 4))):
        memories.append(_memory(chance, f"m{number}", list(array.get("dimensions", {})), memories))
    memories[-1]["scratchpad"] = True
    dram = _accesses(chance, chance.choice((10, 60)), chance.choice((0, 1, 1, 1)))
    return {
        "format": "onchip-accelerator", "version": 1, "name": "odd", "array": array, "memories": memories, "dram": dram,
    }  # fmt: skip


def _memory(chance: random.Random, name: str, dimensions: list[str], below: list[Facts]) -> Facts:
    holds = [operand for operand in OPERANDS if chance.random() < 0.55] or [chance.choice(OPERANDS)]
    memory: Facts = {"name": name, "holds": holds}
    nearer = [one for one in below if set(one["holds"]) & set(holds)]
    if all("serves" in one for one in nearer) and chance.random() < 0.7:
        least = {dimension for one in nearer for dimension in one["serves"]}
        memory["serves"] = [one for one in dimensions if one in least or chance.random() < 0.4]
    memory["double_buffered"] = chance.random() < 0.25
    one_element = len(holds)
    memory["capacity"] = chance.choice((one_element, one_element + 1, one_element + 3, 4, 6, 9, 16, 33, ROOMY_BYTES))
    memory["capacity"] = max(memory["capacity"], one_element)
    return memory | _accesses(chance, 1, chance.choice((0, 1, 1, 1)))


def _accesses(chance: random.Random, times: int, has_ports: int) -> Facts:
    """Return the access energies of a memory, and its ports, if it has some."""
    bits = chance.choice((1, 8, 8, 16, 24, 64))
    found: Facts = {
        "access_bits": bits,
        "read_energy_pj": times * chance.choice((0, 1, 2.5, 7)),
        "write_energy_pj": times * chance.choice((0, 1, 3, 4.25)),
    }
    if bits % 8 == 0 and chance.random() < 0.4:
        found["shortest_access_bits"] = chance.choice((1, 2, 4, 8))
    if has_ports:
        kinds = chance.choice((("read_write",), ("read", "write"), ("read", "read", "write"), ("read_write", "write")))
        kinds = ("read_write", "read") if kinds == ("read_write", "write") and chance.random() < 0.5 else kinds
        found["ports"] = [
            {"direction": kind, "bits_per_cycle": chance.choice((1, 2, 3, 5, 8, 16, 64))} for kind in kinds
        ]
    return found


def random_layer(chance: random.Random, machine: Facts) -> str:
    """Return a layer with few enough loop splits; every loop may be the long one."""
    places = 1 + len(machine["memories"]) + len(machine["array"].get("dimensions", "1"))
    is_large = sum(machine["array"].get("dimensions", {"free": machine["array"].get("free")}).values()) > 20
    most, sizes = (MOST_SPLITS, (1, 1, 2, 2, 3)) if is_large else (MOST_SPLITS // 2, (1, 1, 1, 1, 2, 2, 3, 4))
    while True:
        if chance.random() < 0.12:
            bounds = {letter: chance.choice((1, 2, 3, 4, 6, 7)) for letter in "mnk"}
            if _splits(list(bounds.values()), places) <= most:
                return "gemm:" + "".join(f"{letter}{bound}" for letter, bound in bounds.items())
            continue
        bounds = {letter: chance.choice(sizes) for letter in "nkcpqrs"}
        if chance.random() < 0.3:
            bounds[chance.choice("nkcpqrs")] = chance.choice((5, 6, 7, 8, 9, 13))
        groups = chance.choice((1, 1, 1, 2, 3))
        if _splits([*bounds.values(), groups], places) <= most:
            bounds["k"], bounds["c"] = groups * bounds["k"], groups * bounds["c"]
            text = "conv:" + "".join(f"{letter}{bound}" for letter, bound in bounds.items()) + _options(chance, groups)
            return text if _leaves_input(text) else text.partition(":pad")[0]


def _leaves_input(layer: str) -> bool:
    try:
        Layer.of_text(layer)
    except InputError:
        return False
    return True


def _options(chance: random.Random, groups: int) -> str:
    text = f":groups{groups}" if groups > 1 else ""
    if chance.random() < 0.4:
        text += f":stride{chance.choice(('2', '3', '2x1', '1x3'))}"
    if chance.random() < 0.25:
        text += f":dilation{chance.choice(('2', '3', '1x2', '3x1'))}"
    if chance.random() < 0.25:
        text += f":pad{chance.choice(('1', '1x1x0x0', '0x1x1x0', '2x0x0x1'))}"
    return text


def _splits(bounds: list[int], places: int) -> int:
    """Return the number of ways to distribute the prime factors of the bounds over the given places."""
    return prod(comb(count + places - 1, places - 1) for bound in bounds for count in _prime_counts(bound))


def _prime_counts(number: int) -> list[int]:
    counts, prime = [], 2
    while number > 1:
        count = 0
        while number % prime == 0:
            number, count = number // prime, count + 1
        counts.append(count)
        prime += 1
    return counts


TURNED = {"P": "Q", "Q": "P", "R": "S", "S": "R", "OX": "OY", "FX": "FY"}


def loops_of(bounds: str) -> dict[str, int]:
    """Read `n1k64` as bounds by letter."""
    found: dict[str, int] = {}
    letter = ""
    for sign in bounds:
        if sign.isdigit():
            found[letter] = 10 * found[letter] + int(sign)
        else:
            letter, found[sign] = sign, 0
    return found


def renamed(machine: Facts, chance: random.Random) -> Facts:
    """Give memories and dimensions of the array other names, and these another order."""
    dimensions = machine["array"].get("dimensions", {})
    own = {name: f"row{at}" if name in ("lane", "pe") else name for at, name in enumerate(dimensions)}
    order = chance.sample(list(dimensions), len(dimensions))
    array = dict(machine["array"])
    if dimensions:
        array["dimensions"] = {own[name]: dimensions[name] for name in order}
    if "unrolls" in array:
        array["unrolls"] = {own[name]: loops for name, loops in array["unrolls"].items()}
    memories = [
        memory
        | {"name": f"store{len(machine['memories']) - at}"}
        | ({"serves": [own[name] for name in memory["serves"]]} if "serves" in memory else {})
        for at, memory in enumerate(machine["memories"])
    ]
    return machine | {"array": array, "memories": memories, "name": "other"}


def widened(machine: Facts, chance: random.Random) -> Facts:
    """Give one memory more capacity or faster ports."""
    memories = [dict(memory) for memory in machine["memories"]]
    one = chance.choice(memories)
    if "ports" in one and chance.random() < 0.6:
        one["ports"] = [port | {"bits_per_cycle": 2 * port["bits_per_cycle"]} for port in one["ports"]]
    else:
        one["capacity"] += chance.choice((1, 2, 7))
    return machine | {"memories": memories}


def turned_machine(machine: Facts) -> Facts:
    """Exchange height and width in the machine's unrolled dimensions."""
    array = dict(machine["array"])
    if "dimensions" in array:
        array["dimensions"] = {TURNED.get(name, name): units for name, units in array["dimensions"].items()}
    if "unrolls" in array:
        array["unrolls"] = {name: [TURNED.get(loop, loop) for loop in all_] for name, all_ in array["unrolls"].items()}
    memories = [
        memory | ({"serves": [TURNED.get(name, name) for name in memory["serves"]]} if "serves" in memory else {})
        for memory in machine["memories"]
    ]
    return machine | {"array": array, "memories": memories}


def turned_layer(layer: str) -> str:
    """Exchange height and width of a layer."""
    kind, bounds, *options = layer.split(":")
    if kind == "gemm":
        return layer
    loops = loops_of(bounds)
    turned = "".join(f"{letter}{loops[TURNED.get(letter.upper(), letter).lower()]}" for letter in loops)
    return ":".join((kind, turned, *map(_turned_option, options)))


def _turned_option(option: str) -> str:
    name = option.rstrip("0123456789x")
    sizes = option.removeprefix(name).split("x")
    if name == "pad" and len(sizes) == 4:
        sizes = [sizes[1], sizes[0], sizes[3], sizes[2]]
    elif name != "groups":
        sizes = sizes[::-1]
    return name + "x".join(sizes)


OBJECTIVES = ("energy", "latency", "edp")
QUESTIONS = ("any order", "limited", "cached", "renamed", "wider", "turned", "baseline")
BASELINES = ("hybrid", "random", "loma", "cosa")
PRESETS = ("eyeriss-like", "simba", "tpu-like", "meta-prototype-df")
SECONDS_OF_A_BASELINE = 2
MOST_MAPPINGS = 6000
ROUNDED = 1e-9
"""Sums of the same energies in another order differ by less."""


@dataclass(frozen=True, slots=True)
class MapLevel:
    """Tiny layers on odd machines, whose mappings can all be listed; sometimes bundled machines against baselines."""

    name: str = "map"
    weight: float = 2.0

    def generate(self, chance: random.Random) -> Facts:
        """Return a question: mostly the optimality of the best mapping, else a comparison with a related question."""
        question = chance.choice(("best",) * 12 + QUESTIONS)
        machine: Facts = random_machine(chance)
        facts: Facts = {"question": question, "layer": random_layer(chance, machine), "machine": machine}
        facts["objectives"] = list(OBJECTIVES) if question == "best" else [chance.choice(OBJECTIVES)]
        facts["bits"] = chance.choice((8, 8, 8, 8, 4, 1, 5))
        facts["partial_bits"] = chance.choice((None, None, facts["bits"], facts["bits"] + 3, 24))
        facts["nodes"] = chance.choice((0, 1, 2, 5, 20, 100))
        if question == "any order":
            facts["objectives"] = ["energy"]
        if question == "baseline":
            facts["baseline"] = chance.choice(BASELINES)
            if chance.random() < 0.5:
                facts |= {"machine": chance.choice(PRESETS), "layer": _small_layer(chance), "seconds": 5}
        if question == "limited":
            facts["seconds"] = chance.choice((0.001, 0.003, 0.01))
        if question in ("renamed", "wider"):
            facts["seed"] = chance.randrange(1000)
        return facts

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Compare with all mappings, with an equivalent question, or with a baseline's mapping."""
        machine = facts["machine"]
        name = machine if isinstance(machine, str) else program.write("machine.yaml", machine)
        try:
            case = MapCase(facts, load_accelerator(str(name)), str(name), program)
        except InputError:
            return Verdict(refused=True)
        proofs = 0
        for objective in facts["objectives"]:
            verdict = case.judged(objective)
            proofs += verdict.proofs
            if verdict.fault is not None or verdict.refused:
                return Verdict(proofs, verdict.fault, verdict.refused)
        return Verdict(proofs)

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield the case with a loop of one iteration fewer, an option less, or a memory less."""
        kind, _, text = facts["layer"].partition(":")
        bounds, *options = text.split(":")
        for option in options:
            yield facts | {"layer": ":".join((kind, bounds, *(one for one in options if one != option)))}
        loops = loops_of(bounds)
        for letter, size in loops.items():
            for less in (1, size // 2, size - 1):
                if 0 < less < size:
                    fewer = "".join(f"{one}{bound}" for one, bound in (loops | {letter: less}).items())
                    yield facts | {"layer": ":".join((kind, fewer, *options))}
        if isinstance(facts["machine"], dict):
            memories = facts["machine"]["memories"]
            for number in range(len(memories) - 1):
                fewer_memories = [one for at, one in enumerate(memories) if at != number]
                yield facts | {"machine": facts["machine"] | {"memories": fewer_memories}}


def _small_layer(chance: random.Random) -> str:
    bounds = {letter: chance.choice((1, 1, 2, 3, 4)) for letter in "nk"} | {"c": chance.choice((1, 2, 4, 16))}
    bounds |= {letter: chance.choice((1, 4, 7, 8, 28)) for letter in "pq"}
    bounds |= {letter: chance.choice((1, 1, 3, 5, 7)) for letter in "rs"}
    return "conv:" + "".join(f"{letter}{bound}" for letter, bound in bounds.items()) + chance.choice(("", ":stride2"))


@dataclass(slots=True)
class MapCase:
    """A case of `map`: the question and the judgement of its answers."""

    facts: Facts
    accelerator: Accelerator
    machine: str
    program: Program
    listed: dict[str, float] | None = None

    @property
    def layer(self) -> Layer:
        """Return the layer with the requested bits.

        By default, partial sums as wide as every output memory can hold.
        """
        layer, bits, partial = Layer.of_text(self.facts["layer"]), self.facts["bits"], self.facts["partial_bits"]
        if partial is None:
            rooms = [8 * one.memory.capacity_bytes for one in self.accelerator.levels if "output" in one.memory.holds]
            partial = max(bits, min(max(bits, min(bits + 16, 32)), *rooms, 32))
        return replace(layer, input_bits=bits, weight_bits=bits, output_bits=bits, partial_bits=partial)

    @property
    def problem(self) -> LayerProblem:
        """Return the problem with all operands in DRAM, tiles of up to whole memories, and assumed energies."""
        return LayerProblem(self.layer, with_assumed_energies(self.accelerator))

    def judged(self, objective: str) -> Verdict:
        """Return the verdict for one objective."""
        seconds = self.facts.get("seconds")
        limit = () if seconds is None else ("--time-limit", seconds)
        ended, mapping = self.ask(objective, "exact-even", "--no-cache", *limit)
        if ended.code == 2:
            return Verdict(refused=True)
        fault = self.false_value(objective, ended, mapping) or self.false_claim(objective, ended)
        if fault is None and "nodes" in self.facts:
            fault = self.cut_short(objective)
        asked_again = {
            "cached": self.cached, "renamed": self.renamed, "wider": self.wider, "turned": self.turned,
            "baseline": self.beaten,
        }  # fmt: skip
        again = asked_again.get(self.facts["question"])
        if fault is None and again is not None:
            fault = again(objective, ended)
        is_held = self.least(objective) is not None or again is not None
        return Verdict(int(is_held), fault)

    def ask(
        self, objective: str, method: str, *options: object, machine: str = "", layer: str = ""
    ) -> tuple[Ended, LayerMapping | None]:
        """Return the end of the command and the mapping that it printed."""
        partial = self.layer.partial_bits
        given = () if self.facts["partial_bits"] is None and not machine else ("--partial-bits", partial)
        ended = self.program.ask(
            "map", layer or self.facts["layer"], "--accelerator", machine or self.machine, "--objective", objective,
            "--method", method, "--bits", self.facts["bits"], *given, *options, "--json",
        )  # fmt: skip
        fields = ended.answer.get("mapping")
        return ended, None if fields is None else printed_mapping(fields)

    # Judgement of an answer

    def false_value(self, objective: str, ended: Ended, mapping: LayerMapping | None) -> str | None:
        """Return a fault if the mapping is illegal or has another cost."""
        if ended.code not in (0, 3, 4):
            return f"ends with {ended.code}: {ended.err[-300:]}"
        if mapping is None:
            return None if ended.code else f"writes no mapping: {ended.out[:200]}"
        if broken := verify_mapping(self.problem, mapping):
            return f"illegal mapping: {broken[0]}"
        value, bound = ended.answer["objective_value"], ended.answer["lower_bound"]
        if bound > value or (ended.answer["status"] == "OPTIMAL" and bound != value):
            return f"contradiction: bound {bound}, value {value}, {ended.answer['status']}"
        if self.layer.macs > 400:
            return None
        cost = _value(objective, *energy_and_cycles(self.problem, mapping))
        return None if is_same(value, cost) else f"false cost: {value} for {cost}"

    def false_claim(self, objective: str, ended: Ended) -> str | None:
        """Return a fault if the list of all mappings contradicts a proof, a bound or a value."""
        least = self.least(objective)
        if least is None:
            return None
        status, value = ended.answer["status"], ended.answer["objective_value"]
        if status == "INFEASIBLE":
            return f"false infeasible: {least} can be had" if isfinite(least) else None
        if not isfinite(least):
            return None if status == "UNKNOWN" else f"impossible: {status} {value}, but nothing fits"
        if ended.answer["lower_bound"] > rounded_up(least):
            return f"false bound: {ended.answer['lower_bound']} above {least}"
        if value is not None and value < least and not is_same(value, least):
            return f"impossible value: {value} below {least}"
        if status == "OPTIMAL" and not is_same(value, least):
            return f"false proof: {value} for {least}"
        is_complete = "seconds" in self.facts or status == "OPTIMAL"
        return None if is_complete else f"no proof without a limit: {status}"

    def least(self, objective: str) -> float | None:
        """Return the minimum of all mappings; infinite if none fits, None if there are too many."""
        if self.listed is None:
            in_any_order = self.facts["question"] == "any order"
            is_bundled = isinstance(self.facts["machine"], str)
            self.listed = {} if is_bundled else _least_values(self.problem, in_any_order=in_any_order)
        return self.listed.get(objective)

    # Equivalent questions

    def cached(self, objective: str, ended: Ended) -> str | None:
        """Return a fault unless an answer is the same when it is written to the cache and when it is read."""
        with patch.dict(os.environ, {"ONCHIP_CACHE": str(self.program.folder / "kept")}):
            path = self.program.folder / "mapping.yaml"
            for _ in range(2):
                path.unlink(missing_ok=True)
                again, mapping = self.ask(objective, "exact-even", "-o", path)
                if mapping is not None and read_mappings(path).answer[0].mapping != mapping:
                    return f"another mapping is written: {path.read_text()}"
                same = [ended.answer.get(name) == again.answer.get(name) for name in ("status", "objective_value")]
                if not all(same):
                    return f"the cache answers otherwise: {again.answer['objective_value']}"
                if fault := self.false_value(objective, again, mapping):
                    return fault
        return None

    def renamed(self, objective: str, ended: Ended) -> str | None:
        """Return a fault if other names of memories and dimensions, or an order of dimensions, change the value."""
        return self._otherwise(objective, ended, renamed(self.facts["machine"], random.Random(self.facts["seed"])))

    def wider(self, objective: str, ended: Ended) -> str | None:
        """Return a fault if more capacity or faster ports cost more.

        Machines with a memory that cannot hold an element are skipped: with more capacity it has to hold one.
        """
        if leaves_something_out(self.problem.levels, self.problem.layer):
            return None
        machine = widened(self.facts["machine"], random.Random(self.facts["seed"]))
        return self._otherwise(objective, ended, machine, may_be_less=True)

    def _otherwise(self, objective: str, ended: Ended, machine: Facts, *, may_be_less: bool = False) -> str | None:
        path = self.program.write("other.yaml", machine)
        again, _ = self.ask(objective, "exact-even", "--no-cache", machine=str(path))
        before, after = ended.answer.get("objective_value"), again.answer.get("objective_value")
        if before is None or after is None:
            agrees = before is after or (may_be_less and before is None)
        else:
            agrees = is_same(before, after) or (may_be_less and after < before)
        return None if agrees else f"{self.facts['question']} it costs otherwise: {before} and {after}"

    def turned(self, objective: str, ended: Ended) -> str | None:
        """Return a fault if the exchange of height and width changes the value."""
        machine, layer = turned_machine(self.facts["machine"]), turned_layer(self.facts["layer"])
        path = self.program.write("other.yaml", machine)
        again, _ = self.ask(objective, "exact-even", "--no-cache", machine=str(path), layer=layer)
        before, after = ended.answer.get("objective_value"), again.answer.get("objective_value")
        agrees = before is after if before is None or after is None else is_same(before, after)
        return None if agrees else f"turned it costs otherwise: {before} and {after}"

    def cut_short(self, objective: str) -> str | None:
        """Return a fault if a search with a node limit depends on the machine or makes a false claim.

        The command has no node limit, and a tiny layer is searched before the time limit is checked.
        """
        run = Run(Limits(node_limit=self.facts["nodes"]))
        found = solve_exactly(self.problem, MappingObjective(objective), run)
        least = self.least(objective)
        if least is None or not isfinite(least):
            return None
        if found.status is Status.INFEASIBLE:
            return f"false infeasible when cut short: {least} can be had"
        is_false = found.lower_bound > rounded_up(least)
        return f"false bound when cut short: {found.lower_bound} above {least}" if is_false else None

    def beaten(self, objective: str, ended: Ended) -> str | None:
        """Return a fault if a baseline's mapping, or its equivalent in the mapspace, costs less."""
        _, mapping = self.ask(objective, self.facts["baseline"], "--time-limit", SECONDS_OF_A_BASELINE)
        if mapping is None:
            return None
        if fault := self.beaten_beyond(objective, mapping):
            return fault
        like = like_in_mapspace(self.problem, mapping, any_order=objective == "energy")
        if like is None or verify_mapping(self.problem, like):
            return None
        cost = _costs(self.problem, [like])[objective]
        status, bound = ended.answer["status"], ended.answer["lower_bound"]
        if status == "INFEASIBLE" or bound > rounded_up(cost):
            return f"false proof: {status}, at least {bound}, but {cost} by {self.facts['baseline']}"
        return None

    def beaten_beyond(self, objective: str, mapping: LayerMapping) -> str | None:
        """Return a fault of `exact`: a false answer, a bound above a baseline's cost, or a better LOMA mapping."""
        ended, found = self.ask(objective, "exact", "--no-cache")
        if fault := self.false_value(objective, ended, found):
            return f"beyond even mappings: {fault}"
        if self.layer.macs > 400:
            return None
        cost, name = _value(objective, *energy_and_cycles(self.problem, mapping)), self.facts["baseline"]
        value, bound = ended.answer["objective_value"], ended.answer["lower_bound"]
        if bound > rounded_up(cost):
            return f"false bound of mappings without bypass: {bound}, and {name} has {cost}"
        is_worse = value is None or (value > cost and not is_same(value, cost))
        return f"{name} has {cost}, and exact {value}" if name == "loma" and is_worse else None


def printed_mapping(fields: Facts) -> LayerMapping:
    """Return the mapping that `map --json` printed."""
    nest = []
    for text in fields["nest"]:
        size, _, along = text[1:].partition("@")
        nest.append(Loop(text[0], int(size), along or None))
    kept = (tuple(Kept(one["memory"], one["loops"]) for one in fields.get(name, ())) for name in OPERANDS)
    return LayerMapping(tuple(nest), *kept, ragged=tuple(fields.get("ragged", ())))


def _least_values(problem: LayerProblem, *, in_any_order: bool) -> dict[str, float]:
    """Return the minimum for each objective; empty if there are too many mappings."""
    mappings = list(islice(all_mappings(problem, in_any_order=in_any_order), MOST_MAPPINGS + 1))
    return {} if len(mappings) > MOST_MAPPINGS else _costs(problem, mappings)


def _costs(problem: LayerProblem, mappings: list[LayerMapping]) -> dict[str, float]:
    found = LayerCosts(problem).of(mappings)
    best = dict.fromkeys(OBJECTIVES, inf)
    for energy, cycles in zip(found.energy_pj.tolist(), found.cycles.tolist(), strict=True):
        if isfinite(energy):
            for objective in OBJECTIVES:
                best[objective] = min(best[objective], _value(objective, energy, cycles))
    return best


def _value(objective: str, energy_pj: float, cycles: float) -> float:
    return {"energy": 1000 * energy_pj, "latency": cycles, "edp": 1000 * energy_pj * cycles}[objective]


def is_same(one: float, other: float) -> bool:
    """Return True if two values differ only by rounding."""
    return isclose(one, other, rel_tol=ROUNDED, abs_tol=0.51)


def rounded_up(value: float) -> float:
    """Return the greatest bound that the value of a mapping does not contradict."""
    return value * (1 + ROUNDED) + 0.51
