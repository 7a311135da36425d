"""Plan files: the verdicts of `check` on files and mutants, against an independent replay."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path

from adversary.frame import Facts, Program
from adversary.levels.plan_cases import Case
from oracles.byte_replay import ByteMachine, IllegalError

MUTATIONS = 10
NUMBERS = (-4, -2, -1, 1, 1, 2, 4)


def fault_of_file(case: Case, path: Path, graph: Path, program: Program, answer: Facts) -> str | None:
    """Return a fault unless a file just written is legal, for `check` and the replay, and agrees with the answer."""
    document = json.loads(path.read_text())
    machine = _replayed(case, document)
    if isinstance(machine, str):
        return f"illegal plan: {machine}"
    moved = machine.moved_bytes - case.network.compulsory_bytes
    value = machine.arena_bytes if case.facts["objective"] == "peak" else moved
    if value != answer["objective_value"]:
        return f"another value: {answer['objective_value']} is claimed, the plan has {value}"
    if case.facts["order"] == "given" and machine.order != [case.operator(o) for o in range(len(machine.order))]:
        return f"not in the given order: {machine.order}"
    return _fault_of_check(case, document, path, graph, program)


def mutated_files(
    case: Case, path: Path, graph: Path, program: Program, chance: random.Random
) -> tuple[int, str | None]:
    """Change a plan file here and there; return how often both agreed, and where they do not."""
    original = json.loads(path.read_text())
    for number in range(MUTATIONS):
        document = copy.deepcopy(original)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            mutate(case, document, chance)
        changed = program.write("mutated.json", document)
        fault = _fault_of_check(case, document, changed, graph, program)
        if fault is not None:
            return number, f"{fault} after a mutation"
    return MUTATIONS, None


def _replayed(case: Case, document: Facts) -> ByteMachine | str:
    """Return the machine after the whole plan, or its fault."""
    memory, result = document["memories"][0], document["result"]
    machine = ByteMachine(
        case.network, memory["capacity_bytes"], memory["alignment_bytes"], result["objective"] == "peak"
    )
    try:
        machine.run(document["instructions"])
    except IllegalError as error:
        return str(error)
    return machine


def _fault_of_check(case: Case, document: Facts, path: Path, graph: Path, program: Program) -> str | None:
    ended = program.ask("check", path, graph, "--json")
    machine, result = _replayed(case, document), document["result"]
    if ended.code not in (0, 1, 2):
        return f"check ends badly: {ended.code} {ended.err[-300:]}"
    if isinstance(machine, str):
        return None if ended.code in (1, 2) else f"check passes an illegal plan: {machine}"
    moved = machine.moved_bytes - case.network.compulsory_bytes
    value = machine.arena_bytes if result["objective"] == "peak" else moved
    is_true = value == result["objective_value"] >= result["lower_bound"] and (
        result["status"] == "FEASIBLE" or (result["status"] == "OPTIMAL" and result["lower_bound"] == value)
    )
    if (ended.code == 0) is not is_true:
        return f"check misjudges a legal plan: {ended.code}, {result} of {value}, {ended.answer.get('violations')}"
    recomputed = ended.answer["recomputed"]
    figures = {"peak_bytes": machine.peak_bytes, "arena_bytes": machine.arena_bytes}
    wrong = {key: (recomputed[key], figure) for key, figure in figures.items() if recomputed[key] != figure}
    if recomputed["traffic"]["total"] != machine.moved_bytes:
        wrong["traffic"] = (recomputed["traffic"]["total"], machine.moved_bytes)
    return f"check counts otherwise: {wrong}" if wrong else None


def mutate(case: Case, document: Facts, chance: random.Random) -> None:
    """Change one place of a plan file, or its claim."""
    instructions = document["instructions"]
    at, to = chance.randrange(len(instructions)), chance.randrange(len(instructions))
    kind = chance.choice(("drop", "again", "swap", "move", "field", "field", "field", "claim", "memory"))
    if kind == "drop" and len(instructions) > 1:
        del instructions[at]
    elif kind == "again":
        instructions.insert(to, copy.deepcopy(instructions[at]))
    elif kind == "swap":
        at = min(at, len(instructions) - 2)
        if at >= 0:
            instructions[at : at + 2] = instructions[at : at + 2][::-1]
    elif kind == "move":
        instructions.insert(to, instructions.pop(at))
    elif kind == "claim":
        key = chance.choice(("objective_value", "lower_bound"))
        document["result"][key] = max(0, document["result"][key] + chance.choice(NUMBERS))
        document["result"]["status"] = chance.choice(("OPTIMAL", "FEASIBLE", "FEASIBLE", "UNKNOWN"))
    elif kind == "memory":
        memory = document["memories"][0]
        memory["capacity_bytes"] = max(1, memory["capacity_bytes"] + chance.choice(NUMBERS))
    else:
        _change_field(case, instructions[at], chance)


def _change_field(case: Case, instruction: Facts, chance: random.Random) -> None:
    ((kind, what),) = instruction.items()
    if kind == "compute":
        instruction[kind] = case.operator(chance.randrange(len(case.facts["operators"])))
        return
    key = chance.choice(list(what))
    if key == "offset_bytes":
        what[key] = max(0, what[key] + chance.choice(NUMBERS))
    elif key == "tensor":
        what[key] = case.tensor(chance.randrange(len(case.facts["tensors"])))
    elif kind == "copy":
        what["source"], what["target"] = what["target"], what["source"]
