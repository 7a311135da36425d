"""`onchip map` by all mappers except plain `exact`: their claims in their own spaces, and common upper bounds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from math import inf, isclose, sqrt

from adversary.frame import Ended, Facts, Json, Program, Verdict
from adversary.levels.map import printed_mapping
from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from onchip.model.accounting.accounting import AccountingName
from onchip.model.layer.cost import layer_cost
from onchip.ops.layers_of import Precision
from onchip.verify.mapping import verify_mapping
from oracles.mapping_cosa import least_objective
from oracles.mapping_unrolled import filled_mappings, least_uneven_pj
from oracles.mapspace import least_values

QUESTIONS = {"uneven": 6, "loma": 5, "cosa": 4, "mapspace": 3, "random": 1, "hybrid": 0.05}
"""Relative frequency of each question; `hybrid` takes two seconds."""
OPERANDS = ("input", "weight", "output")
LETTERS = {"input": "Inputs", "weight": "Weights", "output": "Outputs"}


def random_facts(chance: random.Random) -> Facts:
    """Return a question with a layer for which exhaustive search can find the answer.

    If hardly anything fits, `random` and `hybrid` draw for minutes, so they have a time limit.
    """
    question = chance.choices(list(QUESTIONS), list(QUESTIONS.values()))[0]
    most = {"uneven": 3, "loma": 4, "cosa": 4, "mapspace": 3}.get(question, 4)
    widths = {"bits": chance.choice((8, 8, 8, 4, 1)), "partial_bits": chance.choice((8, 8, 16, 24))}
    if question == "mapspace":
        machine = _timeloop_machine(chance, widths)
    else:
        machine = _machine(chance, widths, is_chain=question == "cosa")
    objective = "energy" if question == "uneven" else chance.choice(("energy", "latency", "edp"))
    accounting = "interpreter"
    if question in ("uneven", "loma"):
        accounting = chance.choice(
            ("zigzag", "defines") if question == "uneven" else ("interpreter", "zigzag", "defines")
        )
    return {
        "question": question,
        "layer": _layer(chance, chance.randint(1, most)),
        "machine": machine,
        "objective": objective,
        "accounting": accounting,
        **widths,
        "seed": chance.randint(0, 3),
        "time_limit": 0.5 if question in ("random", "hybrid") else chance.choice((None, None, None, None, 0.001, 0.02)),
        "variant": chance.choice((None, None, None, None, None, "again", "renamed")),
    }


def _layer(chance: random.Random, factors: int) -> str:
    """Return the text of a layer."""
    sizes = dict.fromkeys("nkcpqrs", 1)
    groups = chance.choice((1, 1, 1, 1, 2))
    for loop in chance.choices("nkcpqrskcp", k=factors):
        sizes[loop] *= chance.choice((2, 2, 2, 3, 3, 5, 7) if factors < 4 else (2, 2, 3))
    bounds = "".join(f"{loop}{size * groups if loop in 'kc' else size}" for loop, size in sizes.items())
    stride, dilation = chance.choice(((1, 1), (1, 1), (2, 2), (1, 3), (2, 1))), chance.choice(((1, 1), (2, 2), (3, 1)))
    options = [f"stride{stride[0]}x{stride[1]}", f"dilation{dilation[0]}x{dilation[1]}", f"groups{groups}"]
    spans = [
        (sizes[output] - 1) * stride[axis] + (sizes[taps] - 1) * dilation[axis] + 1
        for axis, (output, taps) in enumerate((("p", "r"), ("q", "s")))
    ]
    top, left, bottom, right = chance.choice(((0, 0, 0, 0), (1, 1, 1, 1), (1, 0, 0, 1), (0, 1, 1, 0)))
    if top + bottom < spans[0] and left + right < spans[1]:
        options.append(f"pad{top}x{left}x{bottom}x{right}")
    return ":".join(("conv", bounds, *options))


def _machine(chance: random.Random, widths: dict[str, int], *, is_chain: bool) -> Json:
    """Return one to three memories; in a chain the last one serves the whole array."""
    dimensions = chance.choice(({"lane": 2}, {"lane": 2, "pe": 3}, {"K": 2, "OX": 2}, {"C": 4}, {"lane": 3}, None))
    array: Json = {"mac_energy_pj": 0.5} | ({"free": chance.choice((1, 2, 4))} if dimensions is None else {})
    if dimensions is not None:
        array["dimensions"] = dimensions
    memories: list[Json] = []
    served: list[str] = []
    count = chance.choice((1, 2, 2, 3))
    for number in range(count):
        is_last = number == count - 1
        free = [name for name in (dimensions or {"free": 1}) if name not in served]
        if chance.random() < 0.5 and dimensions is not None:
            served = [*served, *chance.sample(free, min(len(free), 1))]
        held = chance.sample(OPERANDS, chance.choice((1, 1, 2, 3)))
        if is_chain and is_last:
            held = chance.choice((["input", "output"], ["input", "output"], list(OPERANDS), ["weight", "output"]))
        memories.append(_memory(chance, f"m{number}", held, None if is_last else list(served), widths))
    return {
        "format": "onchip-accelerator",
        "version": 1,
        "name": "odd",
        "array": array,
        "memories": memories,
        "dram": {"access_bits": 8, "read_energy_pj": 60, "write_energy_pj": 70, "ports": _ports(chance, least=1)},
    }


def _memory(
    chance: random.Random, name: str, held: list[str], serves: list[str] | None, widths: dict[str, int]
) -> Json:
    """Return a random memory; `serves` is None if it serves all units."""
    is_last = serves is None
    capacity = _bytes_of_one(held, widths) + chance.choice((0, 0, 1, 1, 2, 3, 5, 8, 16)) * (2 if is_last else 1)
    bits = chance.choice((8, 8, 16, 32))
    memory: Json = {"name": name, "capacity": f"{capacity}B", "holds": held, "access_bits": bits}
    memory |= {"read_energy_pj": chance.choice((1, 3, 10)), "write_energy_pj": chance.choice((1, 4, 9))}
    memory |= {"ports": _ports(chance, least=0)}
    memory |= {"scratchpad": True} if is_last else {"serves": serves}
    memory |= {"double_buffered": True} if chance.random() < 0.2 else {}
    memory |= {"shortest_access_bits": 8} if bits > 8 and chance.random() < 0.5 else {}
    return memory


def _bytes_of_one(held: list[str], widths: dict[str, int]) -> int:
    """Return the bytes of one element of each operand together: a smaller memory is rejected."""
    bits = sum(widths["partial_bits"] if operand == "output" else widths["bits"] for operand in held)
    return -(-bits // 8)


def _ports(chance: random.Random, least: int) -> list[Json]:
    widths = (1, 3, 4, 8, 16, 64)
    kinds: tuple[list[tuple[str, int]], ...] = (
        [],
        [("read_write", chance.choice(widths))],
        [("read", chance.choice(widths)), ("write", chance.choice(widths))],
        [("read", 8), ("read", chance.choice(widths)), ("write", chance.choice(widths)), ("write", 8)],
    )
    return [{"direction": direction, "bits_per_cycle": bits} for direction, bits in chance.choice(kinds[least:])]


def _timeloop_machine(chance: random.Random, widths: dict[str, int]) -> Json:
    """Return a flat architecture: registers, perhaps a buffer for some units, one for all, and the operands of each."""
    units = chance.choice((1, 2, 4))
    between = chance.choice([one for one in (1, 2, 4) if units % one == 0])
    instances = {"reg": units, "local": between, "shared": 1}
    names = ["reg", "local", "shared"] if chance.random() < 0.6 else ["local", "shared"]
    memories = []
    for name in names:
        word = chance.choice((8, 8, 16))
        keep = chance.sample(OPERANDS, chance.choice((1, 2, 2, 3)))
        words = -(-_bytes_of_one(keep, widths) * 8 // word)
        memories.append(
            {
                "name": name,
                "entries": words + chance.choice((0, 0, 1, 2, 4, 8)) * (4 if name == "shared" else 1),
                "instances": instances[name],
                "meshX": instances[name],
                "word-bits": word,
                "block-size": chance.choice((1, 1, 2)),
                "keep": keep,
                "multiple-buffering": chance.choice((1, 1, 1, 2)),
            }
        )
    return {"units": units, "memories": memories, "dram": {"word-bits": 8, "block-size": chance.choice((1, 2))}}


def machine_of(facts: Facts, program: Program) -> Accelerator:
    """Write the machine's files for the program; return the accelerator for the oracles."""
    machine = facts["machine"]
    if facts["question"] != "mapspace":
        return load_accelerator(str(program.write("machine.yaml", machine)))
    own = [{key: value for key, value in one.items() if key != "keep"} for one in machine["memories"]]
    dram = machine["dram"] | {"name": "DRAM", "technology": "DRAM", "instances": 1}
    arithmetic = {"instances": machine["units"], "meshX": machine["units"], "word-bits": 8}
    program.write("machine.yaml", {"arch": {"arithmetic": arithmetic, "storage": [*own, dram]}})
    constraints = [
        {
            "target": one["name"],
            "type": "datatype",
            "keep": [LETTERS[operand] for operand in one["keep"]],
            "bypass": [LETTERS[operand] for operand in OPERANDS if operand not in one["keep"]],
        }
        for one in machine["memories"]
    ]
    program.write("mapspace.yaml", {"mapspace": {"constraints": constraints}})
    return _as_documented(machine)


def _as_documented(machine: Json) -> Accelerator:
    """Return the accelerator that docs/timeloop.md describes for such a file."""
    memories, dimensions, serves = machine["memories"], dict[str, int](), list[list[str]]()
    inner, count = "MAC", machine["units"]
    for one in memories:
        if count > one["instances"]:
            dimensions[f"{inner} units"] = count // one["instances"]
        serves.append(list(dimensions))
        inner, count = one["name"], one["instances"]
    of_inputs = [at for at, one in enumerate(memories) if "input" in one["keep"]]
    chosen = of_inputs[-1] if of_inputs else len(memories) - 1
    levels = []
    for at, one in enumerate(memories):
        bits = one["word-bits"] * one["block-size"]
        capacity = one["entries"] * one["word-bits"] // 8
        each_pj = 10 * sqrt(capacity / 8192) * bits / 64
        held = tuple(Operand(operand) for operand in OPERANDS if operand in one["keep"])
        ports = Port(Direction.READ, bits), Port(Direction.WRITE, bits)
        access = Access(bits, each_pj, each_pj, None if bits % 8 else 8)
        is_doubled = one["multiple-buffering"] == 2
        memory = Memory(one["name"], capacity, holds=held)
        levels.append(MemoryLevel(memory, tuple(serves[at]), at == chosen, is_doubled, access, ports))
    bits = machine["dram"]["word-bits"] * machine["dram"]["block-size"]
    dram = Dram(Access(bits, 1300 * bits / 64, 1300 * bits / 64, 8), (Port(Direction.READ_WRITE, bits),))
    array = ComputeArray(dimensions or {"MAC": 1}, mac_energy_pj=0.3)
    return Accelerator("machine", (levels[chosen].memory,), tuple(levels), None, array, dram)


def renamed(facts: Facts) -> Facts:
    """Return the same machine with other names of memories, and of dimensions without a loop's name."""
    other = deepcopy(facts)
    for one in other["machine"]["memories"]:
        one["name"] = f"z{one['name']}"
        if "serves" in one:
            one["serves"] = [_other(name) for name in one["serves"]]
    array = other["machine"].get("array", {})
    if "dimensions" in array:
        array["dimensions"] = {_other(name): units for name, units in array["dimensions"].items()}
    return other


def _other(name: str) -> str:
    return f"z{name}" if name in ("lane", "pe") else name


MOST_MAPPINGS = 400
MOST_SCHEDULES = 4000
CLOSE = 1e-9
BITS_OF_A_TIE = 2e-4
"""CoSA's objective is stated in ten-thousandths of a bit; a proof is within one unit."""


@dataclass(frozen=True, slots=True)
class Case:
    """A layer and a machine as the program reads them, and the answer of one run; `mapping` is None without one."""

    facts: Facts
    layer: Layer
    accelerator: Accelerator
    ended: Ended

    @property
    def mapping(self) -> LayerMapping | None:
        """Return the printed mapping."""
        fields = self.ended.answer.get("mapping")
        return None if fields is None else printed_mapping(fields)

    @property
    def objective(self) -> MappingObjective:
        """Return the objective of the case."""
        return MappingObjective(self.facts["objective"])


@dataclass(frozen=True, slots=True)
class BaselinesLevel:
    """Tiny layers on odd machines: memories at the edge, of one operand, doubled, with slow ports."""

    name: str = "baselines"
    weight: float = 1.0

    def generate(self, chance: random.Random) -> Facts:
        """Return a random question; slow questions are rare."""
        return random_facts(chance)

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Compare with trying everything in the space that the method names."""
        try:
            accelerator = machine_of(facts, program)
            layer = Precision(facts["bits"], facts["partial_bits"]).on(accelerator).of(Layer.of_text(facts["layer"]))
        except InputError:
            return Verdict(refused=True)
        case = Case(facts, layer, accelerator, _asked(facts, program))
        if case.ended.code == 2:
            return Verdict(refused=True)
        if case.ended.code not in (0, 1, 3, 4):
            return Verdict(1, f"ends without an answer: {case.ended.code} {case.ended.err}")
        fault = _fault_of_claim(case) or _JUDGES[facts["question"]](case) or _fault_of_variant(case, program)
        return Verdict(1, fault)

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield the same without one memory, or with a loop of one iteration."""
        for at in range(len(facts["machine"]["memories"]) - 1):
            kept = [one for number, one in enumerate(facts["machine"]["memories"]) if number != at]
            yield facts | {"machine": facts["machine"] | {"memories": kept}}


def _asked(facts: Facts, program: Program, *more: object) -> Ended:
    question = facts["question"]
    arguments: list[object] = ["map", facts["layer"], "--json", "--no-cache", "--bits", facts["bits"]]
    arguments += ["--partial-bits", facts["partial_bits"], "--objective", facts["objective"]]
    arguments += ["--accounting", facts["accounting"], "--seed", facts["seed"]]
    arguments += [] if facts["time_limit"] is None else ["--time-limit", facts["time_limit"]]
    if question in ("uneven", "loma", "cosa", "random", "hybrid"):
        arguments += ["--method", question]
    if question == "mapspace":
        arguments += ["--method", "exact-even"]
    suffix: list[object] = [program.folder / "machine.yaml"]
    if question == "mapspace":
        suffix += ["--mapspace", program.folder / "mapspace.yaml"]
    return program.ask(*arguments, "--accelerator", *suffix, *more)


def _fault_of_claim(case: Case) -> str | None:
    """Return a fault of any answer: its mapping's legality, its value, its bound."""
    answer, mapping = case.ended.answer, case.mapping
    if (mapping is None) != (case.ended.code != 0) and case.facts["question"] != "cosa":
        return f"the exit code does not fit: {case.ended.code} with {mapping}"
    if mapping is None:
        return None
    if verify_mapping(LayerProblem(mapping.layer(case.layer), case.accelerator), mapping):
        return f"illegal mapping: {mapping}"
    if case.facts["question"] == "cosa":
        return None
    accounting = AccountingName(case.facts["accounting"]).accounting
    cost = layer_cost(LayerProblem(case.layer, case.accelerator), mapping, accounting)
    value = case.objective.of(cost.energy_pj, cost.cycles)
    if not isclose(answer["objective_value"], value, rel_tol=CLOSE, abs_tol=1):
        return f"a value that is not its mapping's: {answer['objective_value']} for {value}"
    if answer["lower_bound"] > answer["objective_value"]:
        return f"a bound above the value: {answer['lower_bound']} above {answer['objective_value']}"
    return None


def _fault_against(case: Case, least: float) -> str | None:
    """Return a fault against `least`, the minimum of the space; it is infinite if nothing fits."""
    answer = case.ended.answer
    if answer["lower_bound"] > least * (1 + CLOSE) + 1:
        return f"false bound: {answer['lower_bound']} above {least}"
    if answer["status"] == "INFEASIBLE" and least < inf:
        return f"false infeasible: {least} is there"
    if answer["objective_value"] is None:
        done = case.facts["time_limit"] is None and answer["status"] != "INFEASIBLE"
        return f"no answer without a limit: {answer['status']}" if done else None
    if answer["objective_value"] < least * (1 - CLOSE) - 1:
        return f"impossible value: {answer['objective_value']} below {least}"
    is_proven = answer["status"] == "OPTIMAL"
    if case.facts["time_limit"] is None and not is_proven:
        return f"no proof without a limit: {answer['status']}"
    if is_proven and answer["objective_value"] > least * (1 + CLOSE) + 1:
        return f"false proof: {answer['objective_value']} for {least}"
    return None


def _judged_uneven(case: Case) -> str | None:
    accounting = AccountingName(case.facts["accounting"]).accounting
    least = least_uneven_pj(case.layer, case.accelerator, accounting)
    return _fault_against(case, 1000 * least)


def _values_of_filled_orders(case: Case) -> Iterator[float]:
    accounting = AccountingName(case.facts["accounting"]).accounting
    for mapping in filled_mappings(case.layer, case.accelerator):
        try:
            cost = layer_cost(LayerProblem(case.layer, case.accelerator), mapping, accounting)
        except MappingError:
            continue
        yield case.objective.of(cost.energy_pj, cost.cycles)


def _judged_loma(case: Case) -> str | None:
    """Judge the best of the loop orders that fit, as the method allocates them; no optimality is claimed."""
    answer = case.ended.answer
    if answer["lower_bound"] != 0 or answer["status"] not in ("FEASIBLE", "UNKNOWN"):
        return f"a claim that nobody proved: {answer['status']} {answer['lower_bound']}"
    if case.facts["time_limit"] is not None:
        return None
    values = [inf, *_values_of_filled_orders(case)]
    found = answer["objective_value"] if answer["objective_value"] is not None else inf
    is_best = found == min(values) or isclose(found, min(values), rel_tol=CLOSE, abs_tol=1)
    return None if is_best else f"not the best of the filled orders: {found} for {min(values)}"


def _judged_cosa(case: Case) -> str | None:
    answer = case.ended.answer
    least = least_objective(case.layer, case.accelerator, MOST_SCHEDULES)
    if least is None:
        return None
    if answer["status"] == "INFEASIBLE":
        return f"false infeasible: {least} is there" if least < inf else None
    if answer["objective_value"] is None:
        return None if case.facts["time_limit"] is not None else f"no answer without a limit: {answer['status']}"
    if answer["lower_bound"] > least + BITS_OF_A_TIE:
        return f"false bound: {answer['lower_bound']} above {least}"
    if answer["objective_value"] < least - BITS_OF_A_TIE:
        return f"impossible value: {answer['objective_value']} below {least}"
    if answer["status"] == "OPTIMAL" and answer["objective_value"] > least + BITS_OF_A_TIE:
        return f"false proof: {answer['objective_value']} for {least}"
    return None


def _judged_mapspace(case: Case) -> str | None:
    problem = LayerProblem(case.layer, case.accelerator)
    for operand in ("input", "weight", "output"):
        kept = [one.memory for one in case.mapping.kept(operand)] if case.mapping is not None else []
        if case.mapping is not None and kept != [one.memory.name for one in problem.keepers(operand)]:
            return f"kept elsewhere: {operand} in {kept}"
    values = least_values(LayerProblem(case.layer, case.accelerator), MOST_MAPPINGS)
    return None if values is None else _fault_against(case, values[case.objective])


def _judged_random(case: Case) -> str | None:
    """Judge random mappings, which are in the space of `exact`, except for orders that affect only latency."""
    answer = case.ended.answer
    if answer["lower_bound"] != 0 or answer["status"] not in ("FEASIBLE", "UNKNOWN"):
        return f"a claim that nobody proved: {answer['status']} {answer['lower_bound']}"
    values = least_values(LayerProblem(case.layer, case.accelerator), MOST_MAPPINGS)
    if values is None or answer["objective_value"] is None or case.objective is not MappingObjective.ENERGY:
        return None
    least = values[case.objective]
    if answer["objective_value"] < least * (1 - CLOSE) - 1:
        return f"below what is proven best: {answer['objective_value']} below {least}"
    return None


_JUDGES: dict[str, Callable[[Case], str | None]] = {
    "uneven": _judged_uneven,
    "loma": _judged_loma,
    "cosa": _judged_cosa,
    "mapspace": _judged_mapspace,
    "random": _judged_random,
    "hybrid": _judged_random,
}


def _fault_of_variant(case: Case, program: Program) -> str | None:
    """Return a fault if the same seed gives another mapping, or other names give another value."""
    facts, answer = case.facts, case.ended.answer
    if facts.get("variant") is None or answer["stopped_by"] != "completed":
        return None
    if facts["variant"] == "again":
        again = _asked(facts, program).answer
        same = again["mapping"] == answer["mapping"] or again["stopped_by"] != "completed"
        return None if same else f"another mapping from the same seed: {again['mapping']}"
    other = renamed(facts)
    machine_of(other, program)
    told = _asked(other, program).answer
    value = told["objective_value"]
    same = value == answer["objective_value"] or told["stopped_by"] != "completed"
    return None if same else f"another value under other names: {value} for {answer['objective_value']}"
