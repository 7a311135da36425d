"""Verification of a schedule and of its claims, level by level; each level is checked only if those above are legal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onchip.answer.document import Claim, as_written
from onchip.answer.program import Allocate, Compute, Copy
from onchip.answer.result import Status
from onchip.answer.schedule import WORKSPACE, Homes, Schedule
from onchip.ir.operator_kinds import kinds_of_plugins
from onchip.ir.tensor import Role
from onchip.verify.rules import UNKNOWN_ENERGY, Rule, Violation
from onchip.verify.schedule.costs import (
    BITS_PER_BYTE,
    Clock,
    Expense,
    expense_of_copy,
    expense_of_nests,
    expense_without_nest,
    with_own_workspace,
)
from onchip.verify.schedule.machine import (
    AddressedMachine,
    MappingsInUse,
    NestAtHomes,
    NestPrices,
    ScheduleSetting,
    ScheduleVerdict,
    VerifiedFigures,
)
from onchip.verify.schedule.nests import NestDerivation, Nests
from onchip.verify.schedule.streaming import (
    HomeOf,
    HomesOfProgram,
    StreamingReplay,
    homes_of_nests,
    tile_operands,
    tile_problem,
)
from onchip.verify.schedule.tiles import TileOfNetwork, tiles_of_network, verify_stacks, verify_tiles

PRICES = "energy, cycles and DRAM bits of {count} mappings are those of the cost model"
PORTS = "port contention between Computes and Copies, which is not modelled"
NESTS = "loop nests of operators of kind {kinds} are those that a plug-in says"
BOUND = "the lower bound itself"


def verify_schedule(
    setting: ScheduleSetting, schedule: Schedule, claim: Claim | None, nest_prices: NestPrices
) -> ScheduleVerdict:
    """Recompute a schedule's legality, figures and claims from the network, the accelerator and its own parts.

    Raises UsageError for an accelerator without an addressed memory, and AcceleratorError for a memory without a port
    of a direction. The content of a schedule never raises. The prices of `nest_prices` are not checked.
    """
    derivation = NestDerivation(setting.network, setting.partial_bits)
    found = verify_stacks(setting.network, schedule.stacks)
    found = found or verify_tiles(setting.network, setting.tiles, schedule.stacks, derivation)
    if found:
        return ScheduleVerdict(found, None, ())
    checked = _RunningSchedule(setting, schedule, nest_prices, derivation)
    figures = checked.figures()
    violations = tuple(checked.violations)
    if claim is not None:
        violations += tuple(claim_violations(claim, figures))
    prices = PRICES.format(count=checked.mappings.priced)
    nests = [NESTS.format(kinds=", ".join(kinds)) for kinds in [kinds_of_plugins(setting.network)] if kinds]
    return ScheduleVerdict(violations, figures, (prices, PORTS, *nests, *((BOUND,) if claim else ())))


class _RunningSchedule:
    """A schedule with legal stacks and tiles; `figures` finds the violations of everything else."""

    def __init__(
        self, setting: ScheduleSetting, schedule: Schedule, nest_prices: NestPrices, derivation: NestDerivation
    ) -> None:
        tiles = setting.tiles
        self.violations: list[Violation] = []
        self.mappings = MappingsInUse(schedule.mappings, setting.accelerator, nest_prices)
        self._setting = setting
        self._program = schedule.program.instructions
        self._derivation = derivation
        self._machine = AddressedMachine(setting.accelerator)
        self._problem = tile_problem(tiles, self._machine)
        runs = tiles_of_network(setting.network, tiles, schedule.stacks)
        self._runs = {run.operator.name: run for run in runs}
        self._operands = {name: tile_operands(tiles, run) for name, run in self._runs.items()}
        self._expenses: dict[tuple[int, Nests, Homes], Expense] = {}

    def figures(self) -> VerifiedFigures | None:
        """Return the schedule's figures; None if it has violations."""
        homes = HomesOfProgram(self._problem.memories, self._operands).run(self._program)
        known = {}
        for name in homes:
            expense = self._expense_of_compute(self._runs[name], homes[name])
            if expense is not None:
                own_bytes = self._runs[name].original.workspace_bytes
                known[name] = with_own_workspace(self._machine, expense, own_bytes)
        workspaces = {name: expense.workspaces for name, expense in known.items()}
        replay = StreamingReplay(self._problem, self._machine, self._operands, workspaces)
        for index, instruction in enumerate(self._program):
            replay.execute(index, instruction)
        replay.finish()
        self.violations += [*self.mappings.violations, *self.mappings.unused(), *replay.report.violations]
        return None if self.violations else self._sums(replay, known)

    def _expense_of_compute(self, run: TileOfNetwork, homes: HomeOf) -> Expense | None:
        """Return the expense of a tile operator; None if a loop nest has no legal mapping.

        Tiles with the same nests at the same homes have the same expense.
        """
        operator = run.operator.name
        nests = self._derivation.of(run.original, run.region)
        if nests is None:
            own_bytes, operands = run.original.workspace_bytes, self._operands[operator]
            return expense_without_nest(self._machine, self._setting.tiles, operands, homes, own_bytes)
        tensors = self._setting.network.tensor
        is_input = nests.weight is not None and tensors[nests.weight].role is not Role.PARAMETER
        at = homes_of_nests(nests, run.original.outputs[0], homes)
        key = run.stack, nests, at
        if key not in self._expenses:
            found = [self.mappings.run(operator, NestAtHomes(run.stack, layer, at, is_input)) for layer in nests.layers]
            priced = [one for one in found if one is not None]
            if len(priced) < len(found):
                return None
            left_over = nests.left_over * (tensors[run.original.outputs[0]].bits or BITS_PER_BYTE)
            self._expenses[key] = expense_of_nests(self._machine, priced, left_over, at.output)
        return self._expenses[key]

    def _sums(self, replay: StreamingReplay, computes: Mapping[str, Expense]) -> VerifiedFigures:
        """Return the figures of a legal program: energy, latency, traffic, peaks and arenas."""
        expenses = self._expenses_of_program(computes)
        in_place: dict[str, list[str]] = {}
        for pair in (pair for operator in self._setting.tiles.operators for pair in operator.in_place):
            in_place.setdefault(pair.output, []).append(pair.input)
        clock = Clock(self._sizes(computes), expenses, self._operands, replay.homes, self._machine.dma, in_place)
        energies = [expense.energy_fj for expense in expenses.values()]
        known = [energy_fj for energy_fj in energies if energy_fj is not None]
        return VerifiedFigures(
            sum(known) if known == energies else None,
            clock.run(self._program),
            sum(expense.traffic_bytes for expense in expenses.values()),
            replay.meter.peak_bytes,
            replay.meter.arenas,
        )

    def _expenses_of_program(self, computes: Mapping[str, Expense]) -> dict[int, Expense]:
        """Return the expenses of all Computes and Copies by instruction number.

        Copies of tensors of the same size and role between the same memories have the same expense.
        """
        found: dict[int, Expense] = {}
        copies: dict[tuple[int, Role, str, str], Expense] = {}
        for number, instruction in enumerate(self._program):
            if isinstance(instruction, Compute):
                found[number] = computes[instruction.operator]
            elif isinstance(instruction, Copy):
                tensor = self._setting.tiles.tensor[instruction.tensor]
                key = tensor.size_bytes, tensor.role, instruction.source, instruction.target
                if key not in copies:
                    copies[key] = expense_of_copy(self._machine, tensor, instruction)
                found[number] = copies[key]
        return found

    def _sizes(self, computes: Mapping[str, Expense]) -> dict[tuple[str, str], int]:
        """Return the bytes of every tensor and every workspace that the program allocates."""
        tensors = self._setting.tiles.tensor
        sizes = {
            (instruction.tensor, instruction.memory): tensors[instruction.tensor].size_bytes
            for instruction in self._program
            if isinstance(instruction, Allocate) and instruction.tensor in tensors
        }
        for name, expense in computes.items():
            sizes.update(((name + WORKSPACE, memory), size) for memory, size in expense.workspaces.items())
        return sizes


def claim_violations(claim: Claim, figures: VerifiedFigures | None) -> Iterator[Violation]:
    """Yield the violations of a schedule's claim; `figures` is None if the schedule is not legal.

    A claimed energy is wrong if the energy is unknown, because nothing confirms it.
    """
    value, bound = claim.objective_value, claim.lower_bound
    if figures is not None:
        recomputed = {
            "energy_pj": figures.energy_pj,
            "latency_cycles": figures.latency_cycles,
            "traffic_bytes": figures.traffic_bytes,
        }
        for name, figure in recomputed.items():
            if name in claim.figures and _differs(claim.figures[name], figure):
                detail = f"{claim.figures[name]} is claimed, and it is {_said(figure)}"
                yield Violation(Rule.FIGURE_DIFFERS, f"result.{name}", detail)
        true_value = figures.objective_value(claim.objective)
        if _differs(value, true_value):
            detail = f"{value} is claimed for {claim.objective}, it is {_said(true_value)}"
            yield Violation(Rule.OBJECTIVE_DIFFERS, "result.objective_value", detail)
    detail = f"{bound} is claimed, and an objective value of {value}"
    if bound > value:
        yield Violation(Rule.BOUND_ABOVE_OBJECTIVE, "result.lower_bound", detail)
    if claim.status is Status.OPTIMAL and bound < value:
        yield Violation(Rule.OPTIMAL_UNPROVEN, "result.status", f"OPTIMAL is claimed; {detail}")
    if claim.status in (Status.INFEASIBLE, Status.UNKNOWN):
        yield Violation(Rule.ANSWER_DENIED, "result.status", f"{claim.status} is claimed, but there is a schedule")


def _differs(claimed: float, figure: float | None) -> bool:
    return figure is None or as_written(claimed) != as_written(figure)


def _said(figure: float | None) -> str:
    return UNKNOWN_ENERGY if figure is None else str(figure)
