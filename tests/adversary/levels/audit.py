"""`onchip audit`: proven answers are never refuted, suboptimal ones always, also beyond the reach of oracles."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

from adversary.frame import Ended, Facts, Program, Verdict
from adversary.levels.pack import PackLevel
from adversary.levels.scratchpads import Case, ScratchpadsLevel, new_accelerator, new_case
from oracles.replay import IllegalError

SECONDS, SECONDS_LARGE = 20, 4
KINDS = ("plan",) * 6 + ("large",) * 2 + ("pack",) * 2


@dataclass(frozen=True, slots=True)
class AuditLevel:
    """Tiny problems of several scratchpads and of packing; and networks five to ten times as large."""

    name: str = "audit"
    weight: float = 1.0

    def generate(self, chance: random.Random) -> Facts:
        """Make a case of one of the kinds."""
        kind = chance.choice(KINDS)
        if kind == "pack":
            return {"kind": kind, **_packing(chance)}
        facts = new_case(chance) | {"method": "exact", "kind": kind}
        return facts if kind == "plan" else facts | _large(chance)

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Plan or pack, audit the answer, then audit something worse."""
        if facts["kind"] == "pack":
            return _judged_packing(facts, program)
        if facts["kind"] == "large":
            return _judged_large(facts, program)
        return _judged_plan(facts, program)

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield the smaller cases of the level from which the case comes."""
        yield from ScratchpadsLevel().smaller(facts) if facts["kind"] != "pack" else ()


def _packing(chance: random.Random) -> Facts:
    facts = PackLevel().generate(chance)
    while facts["question"] == "fits":
        facts = PackLevel().generate(chance)
    return facts


def _large(chance: random.Random) -> Facts:
    """Return twelve to thirty operators and up to three unlinked scratchpads, at about the need of one operator."""
    tensors = [{"name": f"x{i}", "bytes": chance.randint(1, 9), "role": "input"} for i in range(2)]
    operators = []
    for index in range(chance.randint(12, 30)):
        recent = [tensor["name"] for tensor in tensors][-chance.choice((4, 8, 20)) :]
        inputs = [chance.choice(recent) for _ in range(chance.choice((1, 2, 2)))]
        operators.append({"name": f"o{index}", "kind": "Op", "inputs": inputs, "outputs": [f"t{index}"]})
        tensors.append({"name": f"t{index}", "bytes": chance.randint(1, 20), "role": "activation"})
    read = {name for one in operators for name in one["inputs"]}
    for tensor in tensors[2:]:
        tensor["role"] = "activation" if tensor["name"] in read else "output"
    graph = {"format": "onchip-graph", "version": 1, "name": "large", "tensors": tensors, "operators": operators}
    sizes: dict[object, int] = {tensor["name"]: int(str(tensor["bytes"])) for tensor in tensors}
    need = max(sum(sizes[name] for name in {*one["inputs"], *one["outputs"]}) for one in operators)
    accelerator = new_accelerator(chance, "traffic")
    accelerator["memories"] = accelerator["memories"][: chance.choice((1, 1, 2))]
    accelerator.pop("links", None)
    for memory in accelerator["memories"]:
        memory["capacity"] = need + chance.randint(0, 12)
        memory.pop("holds", None)
    objective = chance.choice(("traffic", "traffic", "peak"))
    return {"graph": graph, "accelerator": accelerator, "objective": objective, "placement": "dynamic"}


def _plan(program: Program, facts: Facts, name: str, *more: object, **instead: str) -> Ended:
    graph = program.write("graph.json", facts["graph"])
    accelerator = program.write("machine.yaml", facts["accelerator"])
    asked = {key: facts[key] for key in ("objective", "order", "placement", "method", "count")} | instead
    options = [f"--{key}={value}" for key, value in asked.items()]
    return program.ask(
        "plan",
        graph,
        "--accelerator",
        accelerator,
        "--tiles",
        "never",
        *options,
        "-o",
        program.folder / name,
        "--json",
        *more,
    )


def _audit(program: Program, name: str, *more: object, seconds: int = SECONDS) -> Ended:
    limit = ["--time-limit", seconds, "--json"]
    return program.ask("audit", program.folder / name, program.folder / "graph.json", *limit, *more)


def _judged_plan(facts: Facts, program: Program) -> Verdict:
    planned = _plan(program, facts, "plan.json")
    if planned.code == 2:
        return Verdict(refused=True)
    if planned.code != 0:
        return Verdict()
    value, bound = planned.answer["objective_value"], planned.answer["lower_bound"]
    audited = _audit(program, "plan.json")
    if fault := _fault_of_ruling(audited, "confirmed", may_be_open=_has_links(facts)):
        return Verdict(1, f"{fault} of {value} with bound {bound}")
    if planned.answer["status"] != "OPTIMAL" or facts["order"] == "min-peak":
        return Verdict(int(audited.code == 0))
    return _judged_worse(facts, program, value)


def _judged_worse(facts: Facts, program: Program, value: int) -> Verdict:
    """Judge a suboptimal answer: no value is below the optimum, and an optimum plus one is refuted by a plan."""
    other = (
        {"method": "exact", "order": "given"} if facts["objective"] == "peak" else {"method": "naive", "order": "given"}
    )
    worse = _plan(program, facts, "worse.json", **other)
    if worse.code != 0 or worse.answer["objective_value"] <= value:
        return Verdict(1)
    order = ["--order", facts["order"]]
    held = _audit(program, "worse.json", "--bound", value, *order)
    may_be_open = _has_links(facts)
    if fault := _fault_of_ruling(held, "confirmed", may_be_open=may_be_open):
        return Verdict(2, f"{fault} for a bound of {value}")
    better = program.folder / "better.json"
    better.unlink(missing_ok=True)
    raised = _audit(program, "worse.json", "--bound", value + 1, "-o", better, *order)
    if fault := _fault_of_ruling(raised, "refuted", may_be_open=may_be_open):
        return Verdict(3, f"{fault} for a bound of {value + 1}, one too high")
    if raised.code != 1:
        return Verdict(2)
    try:
        found = Case.of(facts).replayed(json.loads(better.read_text()))
    except IllegalError as error:
        return Verdict(3, f"illegal better plan: {error}")
    return Verdict(3, None if found.value == value else f"better plan of another value: {found.value} for {value}")


def _has_links(facts: Facts) -> bool:
    """Return True if the machine has links: the exact model then bounds chains of copies, and may stay undecided."""
    return "links" in facts["accelerator"]


def _fault_of_ruling(ended: Ended, expected: str, *, may_be_open: bool) -> str | None:
    ruling = ended.answer.get("ruling")
    if ruling is None:
        return f"ends badly: {ended.code} {ended.err[-300:]}"
    if ruling == expected or (ruling == "undecided" and may_be_open):
        return None
    return f"{ruling}: {ended.answer['claims'][0]['detail']}, {ended.answer['claims'][0]['better_value']}"


def _judged_large(facts: Facts, program: Program) -> Verdict:
    """Judge a large case: the claimed bound is never refuted; if confirmed, it is proven by two provers."""
    planned = _plan(program, facts, "plan.json", "--time-limit", SECONDS_LARGE)
    if planned.code == 2:
        return Verdict(refused=True)
    if planned.code != 0:
        return Verdict()
    audited = _audit(program, "plan.json", seconds=SECONDS_LARGE)
    fault = _fault_of_ruling(audited, "confirmed", may_be_open=True)
    return Verdict(int(audited.code == 0), fault and f"{fault} of bound {planned.answer['lower_bound']}")


def _judged_packing(facts: Facts, program: Program) -> Verdict:
    lines = [f"b{i},{start},{stop},{size}" for i, (start, stop, size) in enumerate(facts["buffers"])]
    buffers = program.write("buffers.csv", "\n".join(("id,lower,upper,size", *lines)) + "\n")
    packing = program.folder / "packing.csv"
    options: list[object] = ["--alignment", facts["alignment"]]
    options += ["--minimize"] if facts["question"] == "minimize" else ["--overflow", "--capacity", facts["capacity"]]
    packed = program.ask("pack", buffers, *options, "-o", packing, "--json")
    if packed.code != 0 or packed.answer["status"] != "OPTIMAL":
        return Verdict(refused=packed.code == 2)
    value = packed.answer["outside_bytes" if facts["question"] == "overflow" else "arena_bytes"]
    for bound, expected in ((value, "confirmed"), (value + 1, "refuted")):
        asked = ["--bound", bound, "--time-limit", SECONDS, "--json", "-o", program.folder / "better.csv"]
        audited = program.ask("audit", packing, buffers, *options, *asked)
        if fault := _fault_of_ruling(audited, expected, may_be_open=False):
            return Verdict(1, f"{fault} for a bound of {bound}, the best is {value}")
    return Verdict(2)
