"""Checks that a fusion strategy is legal and its claim true; every layer is compared with every other.

The caller supplies the cost of the strategy; `stack.verifier` computes it from the strategy's own mappings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isclose

from onchip.answer.document import Claim, as_written
from onchip.answer.result import Status
from onchip.answer.stacks import LayerInNetwork, StackStrategy
from onchip.answer.strategy import ENERGIES, FusionStrategy, StrategyFigures
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand
from onchip.verify.rules import UNKNOWN_ENERGY, Rule, Violation
from onchip.verify.stack.verifier import RELATIVE_TOLERANCE, ObjectiveRange

REAL_FIGURES = ("energy_pj", "latency_cycles", ENERGIES)
"""Figures that are sums of real numbers, whose last digits depend on the order of addition."""


def verify_strategy(
    layers: Sequence[LayerInNetwork], accelerator: Accelerator, strategy: FusionStrategy, outside: Sequence[str] = ()
) -> tuple[Violation, ...]:
    """Return all violations of a strategy; stacks are checked only if they cover the network's layers in order.

    `outside` names the operators that must run outside of all stacks.
    """
    found = [*_cover(layers, strategy), *_beside(outside, strategy)]
    if not found:
        found += [*_branches(layers, strategy), *_tiles(layers, strategy), *_homes(layers, accelerator, strategy)]
    return tuple(found)


def verify_strategy_claim(
    claim: Claim, figures: StrategyFigures | None, objectives: ObjectiveRange | None = None
) -> tuple[Violation, ...]:
    """Return the differences between the claim and the figures of the same objective; OPTIMAL itself is not checked.

    If `figures` is None, only contradictions within the claim are reported. `objectives` is the range of values that
    rounding allows; without it the claimed value must equal that of the figures.
    """
    found = [] if figures is None else [*_wrong_figures(claim, figures, objectives)]
    claimed = claim.objective_value
    bound = f"{claim.lower_bound} with an objective value of {claimed}"
    if claim.lower_bound > claimed:
        found.append(Violation(Rule.BOUND_ABOVE_OBJECTIVE, "result.lower_bound", bound))
    if claim.bound_among is not None and not claim.lower_bound <= claim.bound_among <= claimed:
        detail = f"{claim.bound_among} with a lower bound of {bound}"
        found.append(Violation(Rule.BOUND_ABOVE_OBJECTIVE, "result.bound_among", detail))
    if claim.status is Status.OPTIMAL and claim.lower_bound < claimed:
        found.append(Violation(Rule.OPTIMAL_UNPROVEN, "result.lower_bound", bound))
    if claim.status not in (Status.OPTIMAL, Status.FEASIBLE):
        found.append(Violation(Rule.ANSWER_DENIED, "result.status", f"it is {claim.status}"))
    return tuple(found)


def _wrong_figures(claim: Claim, figures: StrategyFigures, objectives: ObjectiveRange | None) -> Iterator[Violation]:
    """Yield the claimed figures that differ; whole numbers must be equal, and a group is compared only if claimed."""
    value = figures.objective_value
    least, greatest = (objectives.least, objectives.greatest) if objectives else (value, value)
    if not as_written(least) <= as_written(claim.objective_value) <= as_written(greatest):
        detail = f"{claim.objective_value} is claimed, and it is {value}"
        yield Violation(Rule.FIGURE_DIFFERS, "result.objective_value", detail)
    said, is_so = claim.figures, figures.named
    for name in dict.fromkeys((*is_so, *said)):
        group = name.split(".")[0]
        if not any(other.split(".")[0] == group for other in said):
            continue
        one, other = said.get(name, 0), is_so.get(name, 0)
        if figures.energy_pj is None and _is_unknown(name, figures):
            yield Violation(Rule.FIGURE_DIFFERS, f"result.{name}", f"{one} is claimed, and it is {UNKNOWN_ENERGY}")
            continue
        is_whole = group not in REAL_FIGURES
        if one != other if is_whole else not isclose(one, other, rel_tol=RELATIVE_TOLERANCE):
            yield Violation(Rule.FIGURE_DIFFERS, f"result.{name}", f"{one} is claimed, and it is {other}")


def _is_unknown(name: str, figures: StrategyFigures) -> bool:
    """Return True for an energy that the machine does not state: the sum, or the energy of a place without any."""
    known = {one.rpartition(".")[0] for one in figures.named}
    return name == "energy_pj" or (name.startswith(f"{ENERGIES}.") and name.rpartition(".")[0] not in known)


def _cover(layers: Sequence[LayerInNetwork], strategy: FusionStrategy) -> Iterator[Violation]:
    places = {layer.name: at for at, layer in enumerate(layers)}
    given = [name for stack in strategy.stacks for name in stack.layers]
    for name in given:
        if name not in places:
            yield Violation(Rule.UNKNOWN_LAYER, name, "the network has no such layer")
    for name in places:
        if name not in given:
            yield Violation(Rule.LAYER_MISSING, name, "it is in no stack")
    known = [name for name in given if name in places]
    for at, name in enumerate(known):
        if later := [other for other in known[:at] if places[other] > places[name]]:
            yield Violation(Rule.OUT_OF_ORDER, name, f"it runs after {later[0]!r}")


def _beside(outside: Sequence[str], strategy: FusionStrategy) -> Iterator[Violation]:
    for name in strategy.outside:
        if name not in outside:
            yield Violation(Rule.UNKNOWN_LAYER, name, "the network has no such operator outside of all stacks")
        if strategy.outside.count(name) > 1:
            yield Violation(Rule.OUT_OF_ORDER, name, "it is outside of all stacks more than once")
    for name in outside:
        if name not in strategy.outside:
            yield Violation(Rule.LAYER_MISSING, name, "it is neither in a stack nor outside of all")


def _branches(layers: Sequence[LayerInNetwork], strategy: FusionStrategy) -> Iterator[Violation]:
    for stack in strategy.stacks:
        for layer in layers:
            if layer.name not in stack.layers[:-1]:
                continue
            readers = [other.name for other in layers if layer.writes in other.reads]
            if layer.is_output or not readers:
                yield Violation(Rule.OUTPUT_LOST, layer.name, f"{layer.writes!r} leaves the network")
            for reader in readers:
                if reader not in stack.layers:
                    detail = f"{reader!r} reads {layer.writes!r} outside the stack that ends with {stack.layers[-1]!r}"
                    yield Violation(Rule.OVER_A_BRANCH, layer.name, detail)


def _tiles(layers: Sequence[LayerInNetwork], strategy: FusionStrategy) -> Iterator[Violation]:
    for at, stack in enumerate(strategy.stacks):
        last, tiling = _last(layers, stack), stack.tiling
        if tiling.columns > last.columns or tiling.rows > last.rows:
            detail = f"tiles of {tiling.columns} x {tiling.rows} in a map of {last.columns} x {last.rows}"
            yield Violation(Rule.TILE_EXCEEDS_MAP, f"stack {at}", detail)
        alone = [layer.name for layer in layers if layer.name in stack.layers and layer.runs_alone]
        if alone and (len(stack.layers) > 1 or (tiling.columns, tiling.rows) != (last.columns, last.rows)):
            yield Violation(Rule.NOT_IN_TILES, f"stack {at}", f"{alone[0]!r} runs alone and in one tile")


def _homes(layers: Sequence[LayerInNetwork], accelerator: Accelerator, strategy: FusionStrategy) -> Iterator[Violation]:
    lasts = [_last(layers, stack) for stack in strategy.stacks]
    stack_of = {name: at for at, stack in enumerate(strategy.stacks) for name in stack.layers}
    read_until: dict[str, int] = {}
    for layer in layers:
        for name in layer.reads:
            read_until[name] = max(read_until.get(name, 0), stack_of[layer.name])
    for at, (stack, last) in enumerate(zip(strategy.stacks, lasts, strict=True)):
        home = stack.output_home
        if home == DRAM:
            continue
        if last.is_output or last.writes not in read_until:
            yield Violation(Rule.OUTPUT_NOT_IN_DRAM, last.name, f"{last.writes!r} lies in {home!r}")
        levels = [level for level in accelerator.levels if level.memory.name == home]
        if not levels:
            yield Violation(Rule.NO_SUCH_HOME, home, f"{last.writes!r} lies in it")
            continue
        (level,) = levels
        dimensions = accelerator.array.dimensions if accelerator.array else {}
        is_one = level.serves is None or all(name in level.serves for name in dimensions)
        if not is_one or Operand.INPUT not in level.memory.holds or Operand.OUTPUT not in level.memory.holds:
            yield Violation(Rule.NOT_HELD, home, f"{last.writes!r} lies in it")
        there = (one for one, other in zip(lasts[:at], strategy.stacks, strict=False) if other.output_home == home)
        need = last.output_bits + sum(one.output_bits for one in there if read_until.get(one.writes, -1) >= at)
        if need > level.memory.capacity_bytes * 8:
            detail = f"{need} bits in {level.memory.capacity_bytes * 8} while stack {at} runs"
            yield Violation(Rule.HOME_EXCEEDED, home, detail)


def _last(layers: Sequence[LayerInNetwork], stack: StackStrategy) -> LayerInNetwork:
    return next(layer for layer in layers if layer.name == stack.layers[-1])
