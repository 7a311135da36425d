"""One order with addresses, proven: choose what stays where, pack, and learn from what does not pack."""

from __future__ import annotations

from collections.abc import Sequence

from onchip.answer.packing import Buffer, PackingProblem
from onchip.answer.result import Status
from onchip.memory.allocate.construct.chains import packing_problem
from onchip.memory.allocate.exact.attempt import Attempt
from onchip.memory.allocate.exact.branching import Knowledge
from onchip.memory.allocate.exact.cp_sat import pack_by_cp_sat
from onchip.memory.allocate.exact.postponed import core_of
from onchip.memory.allocate.exact.windows import unpackable_stretch
from onchip.memory.decisions.compose import OperatorSchedule, PlannedResidency
from onchip.memory.decisions.incumbent import PlanIncumbent
from onchip.memory.effort import STEP
from onchip.memory.retention.kept_gaps import KeptGaps
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run

MOST_ROUNDS = 400
NODES_OF_WORK = 500_000
"""Of packing, for what CP-SAT counts as 1: about a second."""
FULLEST_STEPS = 40
APART = 4


class ConflictLearning:
    """Benders' decomposition for one order: the model of what stays is the master, packing the rest.

    Its bound grows with each conflict, and holds for the order only. It ends after about so much work, which CP-SAT
    counts: the same on every machine.
    """

    def __init__(
        self, incumbent: PlanIncumbent, order: Sequence[int], run: Run, most_work: float = float("inf")
    ) -> None:
        self._incumbent = incumbent
        self._indexed: IndexedProblem = incumbent.indexed
        self._run = run
        self._work_left = most_work
        self._master = KeptGaps(self._indexed, order)
        if incumbent.schedule is not None and incumbent.schedule.order == tuple(order):
            self._master.begin_with(incumbent.schedule)

    def solve(self, *, is_the_only_order: bool) -> None:
        """Offer the first choice that packs; raise the bound if no other order is allowed."""
        for _ in range(MOST_ROUNDS):
            chosen = self._master.solve(self._run, self._work_left)
            self._work_left -= self._master.work_done
            if is_the_only_order:
                self._incumbent.raise_bound(chosen.lower_bound)
            if chosen.answer is None or chosen.objective_value is None:
                return
            if self._incumbent.value is not None and chosen.objective_value >= self._incumbent.value:
                return
            conflicts = self._offer_or_explain(chosen.answer, chosen.objective_value)
            if not conflicts or chosen.status is not Status.OPTIMAL or self._work_left <= 0:
                return
            for conflict in conflicts:
                self._master.forbid(conflict)

    def _offer_or_explain(self, schedule: OperatorSchedule, cost: int) -> list[list[PlannedResidency]]:
        """Offer the schedule if it packs; else return sets of residencies that have no addresses, if any are found."""
        offsets_bytes: dict[PlannedResidency, int] = {}
        conflicts: list[list[PlannedResidency]] = []
        for memory, view in enumerate(self._indexed.views):
            part = schedule.in_memory(memory)
            packing = PackingOfPart(view, part, self._run)
            conflicts += packing.conflicts
            self._work_left -= packing.nodes / NODES_OF_WORK
            offsets_bytes |= zip(part.residencies, packing.offsets_bytes or (), strict=False)
        if len(offsets_bytes) == len(schedule.residencies):
            placed = [offsets_bytes[residency] for residency in schedule.residencies]
            self._incumbent.offer(schedule, placed, cost, "packed after conflicts")
        return conflicts


class PackingOfPart:
    """The residencies of one scratchpad, packed (`offsets_bytes`) or with `conflicts`, or neither, if that stays open.

    A conflict is a set of residencies that have no addresses together.
    """

    def __init__(self, view: IndexedProblem, part: OperatorSchedule, run: Run) -> None:
        self._view = view
        self._part = part
        self._run = run
        self.offsets_bytes: tuple[int, ...] | None = None
        self.conflicts: list[list[PlannedResidency]] = []
        self.nodes = 0
        self._pack(packing_problem(view, part))

    def _pack(self, problem: PackingProblem) -> None:
        attempt = Attempt(problem, self._run)
        finding = attempt.go_on(STEP.round_nodes)
        self.offsets_bytes = attempt.offsets_bytes
        if finding is Knowledge.OPEN:
            stretches = self._unpackable_stretches(problem)
            if stretches:
                self.conflicts = [self._core(stretch) for stretch in stretches]
                return
            packing = pack_by_cp_sat(problem, self._run, STEP.patient_work).answer
            finding = Knowledge.PACKED if packing else attempt.go_on(STEP.proof_nodes)
            self.offsets_bytes = packing.offsets_bytes if packing else attempt.offsets_bytes
        self.nodes = attempt.nodes
        if finding is Knowledge.UNPACKABLE:
            self.conflicts = [self._core(attempt.stretch or problem.steps)]

    def _unpackable_stretches(self, problem: PackingProblem) -> list[range]:
        """Look around the fullest steps, which lie apart, for stretches that do not pack."""
        live = [0] * problem.steps.stop
        for buffer in problem.buffers:
            for step in range(buffer.start, buffer.stop):
                live[step] += buffer.size_bytes
        stretches: list[range] = []
        looked_at: list[int] = []
        for step in sorted(problem.steps, key=lambda at: -live[at]):
            if len(looked_at) == FULLEST_STEPS or self._run.stop is not None:
                break
            if any(abs(step - other) < APART for other in looked_at) or any(
                _is_near(step, found) for found in stretches
            ):
                continue
            looked_at.append(step)
            stretch = unpackable_stretch(problem, self._run, step, STEP.stretch_nodes)
            if stretch is not None:
                stretches.append(stretch)
        return stretches

    def _core(self, stretch: range) -> list[PlannedResidency]:
        """Return what of a stretch that does not pack is to blame, clipped to it: what always finds a place is not."""
        lived = [
            PlannedResidency(r.tensor, max(r.start, stretch.start), min(r.stop, stretch.stop), r.memory)
            for r in self._part.residencies
            if r.start < stretch.stop and r.stop > stretch.start
        ]
        memory, sizes = self._view.memory, self._view.sizes_bytes
        buffers = tuple(Buffer(r.start, r.stop, sizes[r.tensor]) for r in lived)
        core = core_of(PackingProblem(buffers, memory.capacity_bytes, memory.alignment_bytes))
        return [lived[index] for index in core.kept] or lived


def _is_near(step: int, stretch: range) -> bool:
    """Whether a step lies in a stretch or within its length of it: looking there would find it again."""
    return stretch.start - len(stretch) <= step < stretch.stop + len(stretch)
