"""`onchip check` and `audit` of mutated answer files: no file that breaks a rule passes, and no run ends with 70."""

from __future__ import annotations

import copy
import csv
import io
import json
import pickle
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import isclose, prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from adversary.frame import Facts, Json, Program, Verdict
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from oracles.mapping import energy_and_cycles
from oracles.packing import is_legal, items_of, least_capacity
from support.fused_files import CHIP, three_convolutions

FORMATS: Final = ("mapping", "mapping", "schedule", "strategy", "packing", "packing")
OBJECTIVES: Final = ("energy", "latency", "edp")
MUTANTS: Final = 20
NUMBERS: Final = (0, 1, -1, 2, 3, 7, 2**31, 2**53 - 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 0.5)
FIGURES: Final = ("objective_value", "energy_pj", "latency_cycles", "traffic_bytes")
BUFFERS: Final = ((0, 3, 4), (0, 2, 2), (1, 5, 3), (3, 6, 4), (2, 6, 2))
HELD: Final = {
    "register": ("weight",),
    "buffer": ("input", "weight", "output"),
    "global": ("input", "weight", "output"),
}
"""Operands that each memory on chip holds, nearest first."""
CAPACITY_BITS: Final = {"register": 8, "buffer": 512 * 8, "global": 1024 * 8}
SIDES: Final = {"K": 2, "OX": 2}
LAYERS: Final = ({"K": 4, "C": 2, "Q": 3}, {"K": 2, "C": 4, "P": 2}, {"K": 6, "C": 2})
RELEVANT: Final = {"input": "NCPQRSG", "weight": "KCRSG", "output": "NKPQG"}


@dataclass(frozen=True, slots=True)
class MutantsLevel:
    """Answers of the program to a few questions, each changed in one to three places."""

    name: str = "mutants"
    weight: float = 9.0

    def generate(self, chance: random.Random) -> Facts:
        """Make a case: a format, a question in it, and the seeds of its mutants."""
        seeds = [chance.randrange(2**31) for _ in range(MUTANTS)]
        return {"format": chance.choice(FORMATS), "base": chance.randrange(len(OBJECTIVES)), "seeds": seeds}

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Mutate the answer and compare each verdict with an independent rule."""
        if facts["format"] not in FORMATS:
            return Verdict(refused=True)
        base = 0 if facts["format"] == "packing" else facts["base"] % len(OBJECTIVES)
        question, original = _answer(facts["format"], base)
        copied = pickle.dumps(original)
        program.write("network.json", question)
        program.write("chip.yaml", CHIP)
        for seed in facts["seeds"]:
            document = mutated(pickle.loads(copied), random.Random(seed))
            fault = _fault(facts["format"], question, document, original, program)
            if fault is not None:
                return Verdict(1, f"{facts['format']}, {fault}")
        return Verdict(len(facts["seeds"]))

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield no cases beyond the general reductions."""
        yield from ()


# Answers


def _network(base: int) -> str:
    """Return a network of separate products, none with more than 24 multiply-accumulates."""
    tensors: list[Json] = [{"name": "x", "shape": [1, LAYERS[0]["C"], 1, 3], "bits": 8, "role": "input"}]
    operators: list[Json] = []
    for at in range(1 + base % len(LAYERS)):
        bounds = LAYERS[at]
        columns = bounds.get("Q", 1)
        tensors += [
            {"name": f"x{at}", "shape": [1, bounds["C"], bounds.get("P", 1), columns], "bits": 8, "role": "input"},
            {"name": f"w{at}", "shape": [bounds["K"], bounds["C"], 1, 1], "bits": 8, "role": "parameter"},
            {"name": f"y{at}", "shape": [1, bounds["K"], bounds.get("P", 1), columns], "bits": 8, "role": "output"},
        ]
        named = {"name": f"l{at}", "kind": "Conv", "attributes": {"kernel_shape": [1, 1]}}
        operators.append({**named, "inputs": [f"x{at}"], "parameters": [f"w{at}"], "outputs": [f"y{at}"]})
    return json.dumps(
        {"format": "onchip-graph", "version": 1, "name": "n", "tensors": tensors[1:], "operators": operators}
    )


@cache
def _answer(form: str, base: int) -> tuple[str, Json]:
    """Return the text of the network, and the answer file as a value."""
    if form == "packing":
        rows = [{"id": f"b{at}", "lower": a, "upper": b, "size": size} for at, (a, b, size) in enumerate(BUFFERS)]
        lines = ["id,lower,upper,size", *(",".join(map(str, row.values())) for row in rows)]
        arguments: tuple[object, ...] = ("pack", "--minimize")
        question = "\n".join(lines) + "\n"
    else:
        verb = {"mapping": "map", "strategy": "fuse", "schedule": "schedule"}[form]
        arguments = (verb, "--accelerator", "chip.yaml", "--objective", OBJECTIVES[base], "--time-limit", 3)
        question = _network(base) if form == "mapping" else three_convolutions()
    with TemporaryDirectory() as folder:
        program = Program(Path(folder))
        chip = program.write("chip.yaml", CHIP)
        source = program.write("buffers.csv" if form == "packing" else "network.json", question)
        out = program.folder / ("out.csv" if form == "packing" else "out.yaml" if form == "mapping" else "out.json")
        asked, *others = (chip if one == "chip.yaml" else one for one in arguments)
        ended = program.ask(asked, source, *others, "-o", out)
        if ended.code != 0:
            raise AssertionError(f"{asked} has no answer: {ended.code} {ended.err}")
        text = out.read_text()
    if form == "packing":
        return question, list(csv.DictReader(io.StringIO(text)))
    return question, yaml.safe_load(text) if form == "mapping" else json.loads(text)


# Mutants


def mutated(value: Json, chance: random.Random) -> Json:
    """Change one to three places of the value and return it: numbers, texts, entries missing, doubled or moved."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = list(_places(value))
        if places:
            _change(chance.choice(places), places, chance)
    return value


def _places(value: Json) -> Iterator[tuple[Any, Any]]:
    """Yield each container with the key or index of a value in it."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        for key, one in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if isinstance(one, dict | list):
                waiting.append(one)
            yield holder, key


def _change(place: tuple[Any, Any], places: Sequence[tuple[Any, Any]], chance: random.Random) -> None:
    holder, key = place
    value, how = holder[key], chance.random()
    if how < 0.12:
        del holder[key]
    elif isinstance(holder, list) and how < 0.25:
        holder.insert(chance.randrange(len(holder) + 1), copy.deepcopy(value))
    elif isinstance(holder, list) and how < 0.35:
        holder.insert(chance.randrange(len(holder)), holder.pop(key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        holder[key] = chance.choice((value + 1, value - 1, max(0, value // 2), 2 * value, chance.choice(NUMBERS)))
    elif isinstance(value, str) and value.isdecimal() and how < 0.8:
        holder[key] = str(max(-1, int(value) + chance.choice((-4, -2, -1, 1, 2, 4))))
    else:
        alike = [one[other] for one, other in places if type(one[other]) is type(value)]
        holder[key] = copy.deepcopy(chance.choice(alike))


# Verdicts


def _fault(form: str, question: str, document: Json, original: Json, program: Program) -> str | None:
    """Return the fault of the verdict on a mutant; None if there is none."""
    if form == "packing":
        return _fault_of_packing(question, document, program)
    network, chip = program.folder / "network.json", program.folder / "chip.yaml"
    path = program.write("mutant.yaml" if form == "mapping" else "mutant.json", document)
    machine = () if form == "schedule" else ("--accelerator", chip)
    ended = program.ask("check", path, network, *machine, "--json")
    if ended.code not in (0, 1, 2):
        return f"check ends badly: {ended.code} {ended.err[-300:]}"
    if ended.code != 0:
        return None
    broken = _broken_mappings(document, question, chip) if form == "mapping" else _broken_claims(document, original)
    return None if broken is None else f"check passes an illegal file: {broken}"


def _broken_claims(document: Json, original: Json) -> str | None:
    """Return a fault: other figures in an equal file, a bound above the value, or an operator not run once."""
    claim, before = document.get("result"), original.get("result")
    if claim is None:
        return None
    if claim["lower_bound"] > claim["objective_value"] and not isclose(claim["lower_bound"], claim["objective_value"]):
        return f"a bound of {claim['lower_bound']} above {claim['objective_value']}"
    is_alike = {**document, "result": None} == {**original, "result": None}
    for figure in FIGURES if is_alike and claim.get("objective") == before.get("objective") else ():
        if figure in claim and not isclose(claim[figure], before[figure], rel_tol=1e-6, abs_tol=0.5):
            return f"{figure} {claim[figure]} for {before[figure]}"
    stacked = Counter(name for stack in document["stacks"] for name in stack.get("operators", stack.get("layers", ())))
    expected = Counter(name for stack in original["stacks"] for name in stack.get("operators", stack.get("layers", ())))
    if stacked.keys() != expected.keys() or max(stacked.values()) > 1:
        return f"stacks of {sorted(stacked.elements())}"
    return None


def _fault_of_packing(question: str, rows: Json, program: Program) -> str | None:
    """Return a fault unless `audit` rejects invalid packings and refutes packings that are not minimal."""
    source, text = program.folder / "network.json", io.StringIO(newline="")
    columns = ("id", "lower", "upper", "size", "offset")
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    ended = program.ask("audit", program.write("mutant.csv", text.getvalue()), source, "--minimize", "--json")
    if ended.code not in (0, 1, 2, 4):
        return f"audit ends badly: {ended.code} {ended.err[-300:]}"
    if ended.code != 0:
        return None
    at = {row["id"]: row.get("offset") or "" for row in rows if "id" in row}
    offsets = [at.get(f"b{number}", "") for number in range(len(BUFFERS))]
    if len(rows) != len(BUFFERS) or not all(one.isdecimal() for one in offsets):
        return f"audit passes another packing: {at}"
    least = least_capacity(BUFFERS, 1)
    is_so = is_legal(items_of(BUFFERS), [int(one) for one in offsets], least)
    return None if is_so else f"audit confirms an illegal packing: {offsets}"


def _broken_mappings(document: Json, question: str, chip: Path) -> str | None:
    """Return a fault in layers, loops, tiles or claims by rules of this file, or in figures by executing the nest."""
    expected = [one["name"] for one in json.loads(question)["operators"]]
    named = [name for entry in document["layers"] for name in entry["names"]]
    if sorted(named) != expected:
        return f"mappings of {named}"
    for entry in document["layers"]:
        for name in entry["names"]:
            if fault := _broken_mapping(entry, LAYERS[int(name[1:])], chip):
                return f"{name}: {fault}"
    return None


def _broken_mapping(entry: Json, bounds: dict[str, int], chip: Path) -> str | None:
    said = {loop: size for loop, size in entry["layer"].get("loops", {}).items() if size > 1}
    if any(said.get(loop, 1) < size for loop, size in bounds.items()):
        return f"loops {said} for {bounds}"
    loops = [(one[0], int(one[1:].partition("@")[0]), one.partition("@")[2]) for one in entry["nest"]]
    for loop in RELEVANT["input"] + "K":
        run = prod(size for name, size, _ in loops if name == loop)
        if run < said.get(loop, 1) or (run > said.get(loop, 1) and loop not in entry.get("ragged", ())):
            return f"{loop} runs {run} times, of {said.get(loop, 1)}"
    for side, units in SIDES.items():
        if prod(size for _, size, along in loops if along == side) > units:
            return f"more than {units} along {side}"
    bits = dict.fromkeys(("input", "weight", "output"), 8) | {"partial": 24} | entry["layer"].get("bits", {})
    held = dict.fromkeys(HELD, 0)
    for operand, loop_names in RELEVANT.items():
        kept = entry.get(operand, [])
        order = [list(HELD).index(one["memory"]) for one in kept]
        spans = [one["loops"] for one in kept]
        if order != sorted(set(order)) or spans != sorted(spans) or any(not 0 <= one <= len(loops) for one in spans):
            return f"{operand} is kept in {kept}"
        for one in kept:
            if operand not in HELD[one["memory"]]:
                return f"{one['memory']} does not hold the {operand}"
            inside = loops[: one["loops"]]
            if one["memory"] == "register":
                inside = [each for each in inside if each[2] != "K"]
            held[one["memory"]] += bits[operand] * prod(size for name, size, _ in inside if name in loop_names)
    for memory, taken in held.items():
        if taken > CAPACITY_BITS[memory]:
            return f"{taken} bits in {memory}"
    return _false_claim(entry, said, loops, chip)


def _false_claim(entry: Json, said: dict[str, int], loops: Sequence[tuple[str, int, str]], chip: Path) -> str | None:
    claim = entry.get("result")
    if claim is None:
        return None
    if claim["lower_bound"] > claim["objective_value"]:
        return f"a bound of {claim['lower_bound']} above {claim['objective_value']}"
    if entry["layer"].keys() - {"loops"} or entry.get("ragged") or prod(size for _, size, _ in loops) > 100:
        return None
    layer = Layer(**{loop.lower(): size for loop, size in said.items()})  # type: ignore[arg-type]
    kept = (tuple(Kept(one["memory"], one["loops"]) for one in entry.get(each, ())) for each in RELEVANT)
    mapping = LayerMapping(tuple(Loop(name, size, along or None) for name, size, along in loops), *kept)
    energy_pj, cycles = energy_and_cycles(LayerProblem(layer, load_accelerator(str(chip))), mapping)
    values = {"energy": energy_pj * 1000, "latency": cycles, "edp": energy_pj * 1000 * cycles}
    value = values.get(claim["objective"])
    if value is None or isclose(value, claim["objective_value"], rel_tol=1e-6, abs_tol=0.51):
        return None
    return f"{claim['objective']} {claim['objective_value']}, executed {value}"
