"""Ratios of the values of CoSA, Timeloop-Hybrid's rule and random mappings to those of `exact`, and to CoSA's."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from statistics import fmean, geometric_mean

from cosa import published

from onchip.answer import layer_mapping as plan
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Status
from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table
from onchip.ir.layer import RELEVANT, Layer
from onchip.mapping.methods.registry import METHODS
from onchip.model.layer.cost import layer_cost
from onchip.search.budget.clock import Stopwatch
from onchip.search.budget.limits import Limits, Run

EXACT, COSA = "exact", "cosa"
ROUNDING = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Compared:
    """The scope of a comparison; the time limit is per layer and method, and every `step`th layer is used."""

    machines: Sequence[str]
    workloads: Sequence[str]
    objectives: Sequence[MappingObjective]
    rivals: Sequence[str]
    seconds: float
    step: int = 1


@dataclass(frozen=True, slots=True)
class Found:
    """The mapping of one layer by one method; `value` is infinite without a mapping that the cost model accepts."""

    value: float
    seconds: float
    is_proven: bool
    is_even: bool


@dataclass(frozen=True, slots=True)
class Row:
    """The layers of a workload, and the result of each method by layer."""

    name: str
    layers: Mapping[str, Mapping[str, Found]]

    def ratio(self, rival: str, method: str) -> float | None:
        """Return the geometric mean of rival / method over layers with mappings by both; None if there are none."""
        both = [(one[rival].value, one[method].value) for one in self.layers.values()]
        ratios = [theirs / ours for theirs, ours in both if isfinite(theirs) and isfinite(ours)]
        return geometric_mean(ratios) if ratios else None

    def worse(self, rival: str) -> Iterator[str]:
        """Yield the layers that the rival maps better than `exact`."""
        for name, found in self.layers.items():
            if found[rival].value * ROUNDING < found[EXACT].value:
                yield name


def compare(compared: Compared) -> int:
    """Prints a row for each workload, and one for all; answers how often a proof of `exact` was contradicted."""
    wrong = 0
    for machine in compared.machines:
        accelerator = load_accelerator(machine)
        for objective in compared.objectives:
            print(f"\n{machine}, {objective}: how many times the method's value the other's is, geometric means")
            print(_head(compared.rivals), flush=True)
            rows = [row_of(workload, accelerator, objective, compared) for workload in compared.workloads]
            for row in (*rows, row_of_all(rows)) if len(rows) > 1 else rows:
                print(_line(row, compared.rivals), flush=True)
            print(f"{'CoSA says':27} {_published(machine, objective, compared.rivals)}")
            wrong += sum(_notes(row, compared.rivals) for row in rows)
    return wrong


def row_of(workload: str, accelerator: Accelerator, objective: MappingObjective, compared: Compared) -> Row:
    """Return the results of each method for the layers of a workload; print progress."""
    layers = dict(list(layer_table(workload).items())[:: compared.step])
    found: dict[str, dict[str, Found]] = {}
    for number, (name, layer) in enumerate(layers.items(), start=1):
        found[name] = {}
        for method in (EXACT, *compared.rivals):
            found[name][method] = _found(method, layer, accelerator, objective, compared.seconds)
        values = "  ".join(
            f"{method} {one.value:.4g}{'*' if one.is_proven else ''} {one.seconds:.2f} s"
            for method, one in found[name].items()
        )
        print(f"  {number:2} of {len(layers)} {workload} {name}: {values}", file=sys.stderr, flush=True)
    return Row(workload, found)


def _found(method: str, layer: Layer, accelerator: Accelerator, objective: MappingObjective, seconds: float) -> Found:
    watch = Stopwatch()
    result = METHODS[method].solve(LayerProblem(layer, accelerator), objective, Run(Limits(time_limit_seconds=seconds)))
    took = watch.seconds
    value, is_even = inf, True
    if result.answer is not None:
        value, is_even = _value(layer, accelerator, result.answer, objective), _is_even(layer, result.answer)
    return Found(value, took, method == EXACT and result.status is Status.OPTIMAL, is_even)


def _value(layer: Layer, accelerator: Accelerator, mapping: plan.LayerMapping, objective: MappingObjective) -> float:
    """Return the objective value.

    Infinite if the cost model, which counts halos and partial sums, rejects the mapping.
    """
    try:
        cost = layer_cost(LayerProblem(layer, accelerator), mapping)
    except InputError:
        return inf
    return objective.of(cost.energy_pj, cost.cycles)


def _is_even(layer: Layer, mapping: plan.LayerMapping) -> bool:
    """Return True if every memory cuts its operands at the same loops, apart from irrelevant loops right above."""
    kept = [(one, operand) for operand in layer.operands for one in mapping.kept(operand)]
    for one, operand in kept:
        least = min(other.loops for other, _ in kept if other.memory == one.memory)
        if any(loop.size > 1 and loop.dimension in RELEVANT[operand] for loop in mapping.nest[least : one.loops]):
            return False
    return True


def row_of_all(rows: Iterable[Row]) -> Row:
    """Return one row with the layers of all workloads."""
    return Row("all", {f"{row.name} {name}": found for row in rows for name, found in row.layers.items()})


def _pairs(rivals: Sequence[str]) -> list[tuple[str, str]]:
    """Whose value is divided by whose."""
    others = [rival for rival in rivals if rival != COSA] if COSA in rivals else []
    return [(rival, EXACT) for rival in rivals] + [(rival, COSA) for rival in others]


def _head(rivals: Sequence[str]) -> str:
    pairs = " ".join(f"{f'{rival}/{method}':>13}" for rival, method in _pairs(rivals))
    seconds = " ".join(f"{f'{method} s':>9}" for method in (EXACT, *rivals))
    return f"{'workload':27} {pairs} layers proven no mapping {seconds}"


def _line(row: Row, rivals: Sequence[str]) -> str:
    pairs = [row.ratio(rival, method) for rival, method in _pairs(rivals)]
    ratios = " ".join(f"{'-' if ratio is None else f'{ratio:.3f}':>13}" for ratio in pairs)
    each = list(row.layers.values())
    proven = sum(found[EXACT].is_proven for found in each)
    without = Counter(method for found in each for method, one in found.items() if not isfinite(one.value))
    none = ",".join(f"{method} {count}" for method, count in without.items()) or "0"
    seconds = " ".join(f"{fmean(found[method].seconds for found in each):9.2f}" for method in (EXACT, *rivals))
    return f"{row.name:27} {ratios} {len(each):6} {proven:6} {none:>10} {seconds}"


def _published(machine: str, objective: MappingObjective, rivals: Sequence[str]) -> str:
    """Under the columns of `_head`."""
    known: dict[tuple[str, str], float] = {}
    if objective is MappingObjective.LATENCY and machine in published.LATENCY:
        over_random, over_hybrid = published.LATENCY[machine]
        known = {("random", COSA): over_random, ("hybrid", COSA): over_hybrid}
    elif objective is MappingObjective.ENERGY and machine == published.BASELINE:
        known = {("hybrid", COSA): published.ENERGY_OVER_HYBRID}
    ratios = " ".join(f"{known.get(pair, '-'):>13}" for pair in _pairs(rivals))
    seconds = " ".join(f"{published.SECONDS.get(method, '-'):>9}" for method in (EXACT, *rivals))
    return f"{ratios} {'':24} {seconds}"


def _notes(row: Row, rivals: Sequence[str]) -> int:
    """Print why a rival is better than `exact`, and return the errors: better mappings inside a proof's mapspace."""
    wrong = 0
    for rival in rivals:
        for name in row.worse(rival):
            found = row.layers[name]
            if not isfinite(found[EXACT].value):
                print(f"  exact has no mapping in time of {row.name} {name}, {rival} has one")
                continue
            ratio = found[EXACT].value / found[rival].value
            why = "not proven in time" if not found[EXACT].is_proven else "uneven, so outside the mapspace"
            if found[EXACT].is_proven and found[rival].is_even:
                why, wrong = "AGAINST THE PROOF", wrong + 1
            print(f"  {rival} is {ratio:.4f} times better on {row.name} {name}: {why}")
    return wrong
