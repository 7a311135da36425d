"""`onchip map` by all mappers except plain `exact`: their claims in their own spaces, and common upper bounds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf, isclose

from adversary.frame import Ended, Facts, Json, Program, Verdict
from adversary.levels.baselines_cases import machine_of, random_facts, renamed
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError
from onchip.ir.layer import Layer
from onchip.model.accounting.accounting import AccountingName
from onchip.model.layer.cost import layer_cost
from onchip.ops.layers_of import Precision
from onchip.verify.mapping import verify_mapping
from oracles.mapping_cosa import least_objective
from oracles.mapping_unrolled import filled_mappings, least_uneven_pj
from oracles.mapspace import least_values

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
        return _mapping(self.ended.answer.get("mapping"))

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
        """Any of the questions, the slow ones seldom."""
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
    """Ask again: the same seed gives the same mapping, other names the same value."""
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


def _mapping(fields: Json) -> LayerMapping | None:
    """Parse a printed mapping."""
    if fields is None:
        return None
    nest = []
    for text in fields["nest"]:
        size, _, along = text[1:].partition("@")
        nest.append(Loop(text[0], int(size), along or None))
    kept = (
        tuple(Kept(one["memory"], one["loops"]) for one in fields[operand]) for operand in ("input", "weight", "output")
    )
    return LayerMapping(tuple(nest), *kept)
