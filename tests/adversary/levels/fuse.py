"""`onchip fuse` against every strategy of the requested space, costed by the model of stacks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from typing import Final

from adversary.frame import Ended, Facts, Program, Verdict
from adversary.fusing import (
    ODD_KINDS,
    bits_for_weights,
    graph_file,
    homes_of,
    moved_elements,
    oracle_network,
    random_machine,
    random_network,
    reads_less_than_its_padding,
    roomy_machine,
    shapes_of,
)
from adversary.fusing_costs import StackTable
from oracles.fusion import (
    DRAM,
    MODES,
    Asked,
    Network,
    Run,
    Tile,
    dram_bits,
    is_in_space,
    least_value,
    macs,
    partitions,
    placements,
)

SIZES: Final = ("sweep", "halves", "powers", "divisors", "all", "case-study")
OBJECTIVES: Final = ("energy", "energy", "latency", "edp", "edp", "dram", "dram")
METHODS: Final = ("loma",) * 60 + ("exact",) * 40
MOST_STACKS: Final = {"loma": 80, "exact": 30, "uneven": 50}
"""Most stacks in tiles that are costed per case. The level `baselines` covers mappers that draw at random."""

FLAGS = {"stacks": ("--groups",), "maps-in-dram": ("--placements", "dram")}
"""Options of `fuse` that have another name in stored cases."""


@dataclass(frozen=True, slots=True)
class FuseLevel:
    """Networks of one to four layers over a few pixels."""

    name: str = "fuse"
    weight: float = 2.0

    def generate(self, chance: random.Random) -> Facts:
        """Draw until every layer can be fused, and the oracle has few enough stacks to cost."""
        while True:
            network = random_network(chance, ODD_KINDS)
            if not oracle_network(network).layers:
                continue
            if reads_less_than_its_padding(network):
                continue
            is_roomy = chance.random() < 0.15
            machine = roomy_machine(chance) if is_roomy else random_machine(chance)
            options = _random_options(chance, shapes_of(network), is_roomy=is_roomy)
            facts = {**network, "machine": machine, "options": options, "also": _random_checks(chance, options)}
            if is_roomy:
                facts["roomy"] = True
            elif chance.random() < 0.2:
                _limit_room_for_maps(chance, facts)
            oracle = oracle_network(facts)
            legal = islice(partitions(oracle, _asked({**facts, "options": {**options, "stacks": "optimal"}})), 100)
            if options["stacks"] == "given":
                runs = chance.choice(list(legal))
                options["stacks"] = ",".join(f"{start}-{stop - 1}" for start, stop in runs)
            if 0 < _stacks_to_cost(oracle, _asked(facts)) <= MOST_STACKS[options["method"]]:
                return facts

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Compare with exhaustive search; a case that the program refuses has no verdict."""
        case = _Case(facts, program)
        verdict = case.asked_once(facts["options"])
        for extra in facts["also"]:
            if verdict.fault is not None or verdict.refused:
                break
            found = _CHECKS[extra](case)
            verdict = Verdict(verdict.proofs + found.proofs, found.fault)
        return verdict

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield the case without its last layer, and without an option."""
        for key in list(facts["options"]):
            if key not in ("objective", "method", "stacks"):
                yield {**facts, "options": {one: value for one, value in facts["options"].items() if one != key}}
        if len(facts["layers"]) > 1:
            yield {**facts, "layers": facts["layers"][:-1]}


def _random_options(chance: random.Random, shapes: list[list[int]], *, is_roomy: bool) -> Facts:
    """Draw options; a tile is at most as large as some layer's map, mostly the last one's."""
    options: Facts = {
        "objective": chance.choice(OBJECTIVES),
        "method": "exact" if is_roomy else chance.choice(METHODS),
        "stacks": chance.choice(("optimal", "optimal", "optimal", "one", "greedy", "layers", "given")),
        "tile-sizes": chance.choice(SIZES),
    }
    if is_roomy:
        options["objective"] = chance.choice(("energy", "dram"))
    elif chance.random() < 0.25:
        options |= {"accounting": "defines", "method": chance.choice(("loma", "uneven"))}
        if options["method"] == "uneven":
            options["objective"] = chance.choice(("energy", "dram"))
    if chance.random() < 0.4:
        _, rows, columns = shapes[-1] if chance.random() < 0.8 else chance.choice(shapes[1:])
        options["tile"] = [chance.randint(1, columns), chance.randint(1, rows)]
    if chance.random() < 0.4:
        options["mode"] = chance.choice(MODES)
    if chance.random() < 0.4:
        options["combination"] = "single"
    if chance.random() < 0.3:
        options["maps-in-dram"] = True
    if chance.random() < 0.2:
        options["partial-bits"] = chance.choice((8, 16, 32))
    return options


def _limit_room_for_maps(chance: random.Random, facts: Facts) -> None:
    """Give the outermost memory room for some of the maps between layers, but rarely for all."""
    between = [prod(shape) for shape in shapes_of(facts)[1:-1]]
    if len(between) > 1:
        facts["machine"]["memories"][-1]["capacity"] = chance.randint(max(between), max(between) + sum(between))


def _random_checks(chance: random.Random, options: Facts) -> list[str]:
    found = []
    if chance.random() < 0.5:
        found.append("combination")
    shares = {"rename": 0.1, "limit": 0.1, "room": 0.1, "emit": 0.03, "workers": 0.003}
    return [*found, *(name for name, share in shares.items() if chance.random() < share)]


def _asked(facts: Facts) -> Asked:
    options, machine = facts["options"], facts["machine"]
    tile = options.get("tile")
    return Asked(
        options["stacks"],
        None if tile is None else (tile[0], tile[1]),
        options.get("mode"),
        options.get("tile-sizes", "sweep"),
        options.get("combination") == "single",
        {} if options.get("maps-in-dram") or options.get("accounting") == "defines" else homes_of(machine),
        bits_for_weights(machine),
    )


def _stacks_to_cost(network: Network, asked: Asked) -> int:
    every = {one for _, stacks in placements(network, asked) for choices in stacks for one in choices}
    return len(every)


@dataclass(slots=True)
class _Case:
    """A case whose files are written, with the costs of stacks that it has needed so far."""

    facts: Facts
    program: Program
    network: Network = field(init=False)
    _tables: dict[str, StackTable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.network = oracle_network(self.facts)

    def ask(self, options: Facts, *more: object, facts: Facts | None = None) -> Ended:
        """Run `fuse` with the options, on the case or on one like it."""
        facts = facts or self.facts
        graph = self.program.write("graph.json", graph_file(facts))
        machine = self.program.write("machine.yaml", facts["machine"])
        arguments: list[object] = ["fuse", graph, "--accelerator", machine, "--bits", 8, "--no-cache", "--json"]
        for name, value in options.items():
            if value is True:
                arguments += FLAGS.get(name, (f"--{name}",))
            else:
                arguments += [
                    *FLAGS.get(name, (f"--{name}",)),
                    "x".join(map(str, value)) if isinstance(value, list) else value,
                ]
        return self.program.ask(*arguments, *more)

    def least(self, options: Facts, method: str | None = None) -> int | None:
        """Return the least value of any strategy, as the oracle has it."""
        asked = _asked({**self.facts, "options": options})
        table = self.table(options, method)
        return least_value(self.network, asked, table.cost, table.outside)

    def table(self, options: Facts, method: str | None = None) -> StackTable:
        """Return the costs of stacks by a method, which may differ from the method of the question."""
        own = {**options, "method": method or options["method"]}
        key = f"{own['method']} {own['objective']}"
        if key not in self._tables:
            self._tables[key] = StackTable(self.facts, own)
        return self._tables[key]

    def asked_once(self, options: Facts) -> Verdict:
        """Check the value, the bound, the strategy, its figures and the verdict of `--check`."""
        strategy = self.program.folder / "strategy.json"
        strategy.unlink(missing_ok=True)
        ended = self.ask(options, "-o", strategy)
        if ended.code == 2:
            return Verdict(refused=True)
        truth = self.least(options)
        if truth is None:
            is_sum = options["objective"] != "edp"
            must_know = options["stacks"] != "optimal" and options.get("maps-in-dram") and is_sum
            is_right = ended.code == 4 and (not must_know or _is_proven_empty(ended.answer))
            return Verdict(1, None if is_right else f"fuses what cannot be: {ended.code} {ended.out[:200]}{ended.err}")
        if ended.code != 0:
            return Verdict(1, f"ends without an answer: {ended.code} {ended.err}")
        answer = ended.answer
        among = answer["bound_among"]
        figures = f"{answer['status']} {answer['objective_value']} with bound {among}, it is {truth}"
        if max(answer["lower_bound"], among or 0) > truth:
            return Verdict(1, f"false bound: {figures}")
        if answer["objective_value"] < truth:
            return Verdict(1, f"impossible value: {figures}")
        is_proven, is_product = answer["optimal_among"] is not None, options["objective"] == "edp"
        if is_proven and answer["objective_value"] != truth:
            return Verdict(1, f"not the best: {figures}")
        if not is_proven and options["stacks"] != "optimal" and options.get("maps-in-dram") and not is_product:
            return Verdict(1, f"given groups are not proven: {figures}")
        return Verdict(1, self._strategy_is_so(options, answer) or self._check_says(strategy, answer))

    def _strategy_is_so(self, options: Facts, answer: Facts) -> str | None:
        """Return a fault unless the strategy is in the space, with the work and DRAM traffic counted pixel by pixel."""
        numbers = {layer.name: at for at, layer in enumerate(self.network.layers)}
        stacks: list[tuple[Run, Tile, str]] = []
        for one in answer["stacks"]:
            run = numbers[one["layers"][0]], numbers[one["layers"][-1]] + 1
            tile = one["tile"]["columns"], one["tile"]["rows"], one["mode"]
            stacks.append((run, tile, one.get("output") or DRAM))
        if not is_in_space(self.network, _asked({**self.facts, "options": options}), stacks):
            return f"outside the space: {stacks}"
        work = [macs(self.network, run, tile) for run, tile, _ in stacks]
        if None in work or sum(one or 0 for one in work) != answer["macs"]:
            return f"wrong multiply-accumulates: {answer['macs']} for {work}"
        if options.get("accounting") == "defines":
            return None
        least = dram_bits(self.network, stacks, is_roomy=bool(self.facts.get("roomy")))
        least += 8 * sum(sum(read) + written for read, written in moved_elements(self.facts))
        if answer["dram_bits"] < least or (self.facts.get("roomy") and answer["dram_bits"] != least):
            return f"wrong traffic: {answer['dram_bits']} bits where {least} move at least"
        return None

    def _check_says(self, strategy: object, answer: Facts) -> str | None:
        graph, machine = self.program.folder / "graph.json", self.program.folder / "machine.yaml"
        ended = self.program.ask("fuse", graph, "--accelerator", machine, "--check", strategy, "--no-cache", "--json")
        recomputed: Facts = next(iter(ended.answer.get("recomputed", ())), {})
        same = all(recomputed.get(key) == answer[key] for key in ("macs", "dram_bits"))
        return None if ended.code == 0 and same else f"check disagrees: {ended.code} {ended.out[:300]}{ended.err}"


def _other_combination(case: _Case) -> Verdict:
    """Compare a single tiling for all stacks with a tiling per stack: both are proven, and single is never better."""
    options = case.facts["options"]
    other = "best" if options.get("combination") == "single" else "single"
    verdict = case.asked_once({**options, "combination": other})
    best, single = (case.least({**options, "combination": one}) for one in ("best", "single"))
    if verdict.fault is None and single is not None and (best is None or single < best):
        return Verdict(1, f"the oracle is wrong: single {single}, best {best}")
    return verdict


def _renamed(case: _Case) -> Verdict:
    """Check that other names give the same value."""
    count = len(case.facts["layers"]) + 1
    names = [f"{chr(ord('z') - at)}{at}" for at in range(count)]
    options = case.facts["options"]
    value = case.ask(options, facts={**case.facts, "names": names}).answer.get("objective_value")
    before = case.ask(options).answer.get("objective_value")
    return Verdict(1, None if value == before else f"names matter: {value} for {before}")


def _with_little_time(case: _Case) -> Verdict:
    """Check the claims of a run with a tiny time limit: a quicker mapper than the requested one may have answered."""
    options = case.facts["options"]
    answer = case.ask(options, "--time-limit", "0.02").answer
    truth = case.least(options, answer.get("method"))
    if _is_proven_empty(answer):
        return Verdict(1, None if truth is None else f"a false claim in no time: nothing fits for {truth}")
    bound, value = answer.get("bound_among"), answer.get("objective_value")
    if truth is not None and bound is not None and bound > truth:
        return Verdict(1, f"a false claim in no time: bound {bound} for {truth}")
    if value is not None and (truth is None or value < truth):
        return Verdict(1, f"a false claim in no time: value {value} for {truth}")
    is_false = answer.get("optimal_among") is not None and value != truth
    return Verdict(1, f"a false claim in no time: optimal {value} for {truth}" if is_false else None)


def _is_proven_empty(answer: Facts) -> bool:
    """Return True if no strategy of the space fits: none was found, and the search was complete."""
    return answer.get("status") == "UNKNOWN" and "have no strategy that fits" in str(answer.get("error"))


def _with_more_room_for_maps(case: _Case) -> Verdict:
    """Check that maps on the chip or in DRAM are never worse than all maps in DRAM."""
    options = {key: value for key, value in case.facts["options"].items() if key != "maps-in-dram"}
    values = [case.ask(one).answer.get("objective_value") for one in (options, {**options, "maps-in-dram": True})]
    is_worse = values[1] is not None and (values[0] is None or values[0] > values[1])
    return Verdict(1, f"more freedom is worse: {values}" if is_worse else None)


def _emitted(case: _Case) -> Verdict:
    """Plan the tile graph of the strategy, and run it with the network's values."""
    folder, options = case.program.folder, case.facts["options"]
    tiled, plan = folder / "tiled.json", folder / "plan.json"
    ended = case.ask(options, "--emit-graph", tiled)
    if ended.code != 0:
        return Verdict()
    planned = case.program.ask("plan", tiled, "--sram", "m_r", "--method", "belady", "-o", plan)
    ran = case.program.ask("run", plan, tiled, "--json")
    is_right = planned.code == 0 and ran.code == 0 and ran.answer.get("right") is True
    return Verdict(1, None if is_right else f"tiles compute other values: {planned.err}{ran.out[:200]}{ran.err}")


def _in_two_processes(case: _Case) -> Verdict:
    """Check that two processes find the same value as one."""
    options = case.facts["options"]
    both, alone = (case.ask(options, *more).answer.get("objective_value") for more in (("--workers", 2), ()))
    return Verdict(1, None if both == alone else f"two processes find another value: {both} for {alone}")


_CHECKS: Final = {
    "combination": _other_combination,
    "rename": _renamed,
    "limit": _with_little_time,
    "room": _with_more_room_for_maps,
    "emit": _emitted,
    "workers": _in_two_processes,
}
