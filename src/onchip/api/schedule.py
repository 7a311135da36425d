"""The `schedule` use case, for one objective or a Pareto front: read, bound, solve, verify, return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Final

from onchip.answer.document import Claim, Document, Reading, ScheduleDocument, Source, schedule_claim_figures
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import LAYERS, ScheduleOptions, Softmax
from onchip.answer.problem import Count
from onchip.answer.result import SearchResult, Status, Stop
from onchip.answer.schedule import Schedule
from onchip.api.check_request import CheckRequest
from onchip.api.check_schedule import PricedSchedule, check_schedule_file, priced_schedule, relaxation_of
from onchip.api.inputs import VerbRequest
from onchip.api.networks import Network, network_to_schedule, text_of
from onchip.api.phases import phase
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import states_energies, with_assumed_energies
from onchip.bounds.network.relaxation import Relaxation
from onchip.errors import AcceleratorError, InputError, InternalError, UsageError, errors_in_file
from onchip.formats.foreign_files import accelerator_text, load_any_accelerator
from onchip.formats.own.graph_json import graph_sha256
from onchip.ir.graph import Graph
from onchip.model.program.compute_cost import nest_cost
from onchip.ops.layers_of import Precision
from onchip.ops.views import views_that_join
from onchip.reports.schedule.outcome import FrontOutcome, ScheduleOutcome, ScheduleSeconds, ShownPoint
from onchip.scheduling.program.composition import FoundSchedule, ScheduleQuestion
from onchip.scheduling.program.usable import ensure_usable
from onchip.scheduling.search.front import FrontAxis, FrontPoint, least_along_axes, solve_front, thinned
from onchip.scheduling.search.solve import METHOD, solve_schedule
from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.strategy.start import RunStarter, silent_run
from onchip.transform.rewrite.key_slices import slice_counts, sliced_together
from onchip.verify.schedule.machine import ScheduleSetting
from onchip.verify.schedule.verifier import verify_schedule
from onchip.without_collecting import without_collecting


@dataclass(frozen=True, slots=True)
class ScheduleRequest(VerbRequest[Network, ScheduleObjective, ScheduleOptions]):
    """The request of `schedule`; the search may begin from the schedule in `start_file`."""

    objective: ScheduleObjective = ScheduleObjective.ENERGY
    options: ScheduleOptions = field(default_factory=ScheduleOptions)
    start_file: Path | None = None


CHECKING_TO_READING: Final = 2.5
"""Maximum ratio of the time for checking and writing an answer to the time for reading; a time limit covers both."""
SECONDS_TO_CHECK: Final = 0.2
"""Maximum processor time for a check, to which SECONDS_TO_CHECK_AN_OPERATOR is added for each operator."""
SECONDS_TO_CHECK_AN_OPERATOR: Final = 0.0012
ALONE: Final = ScheduleOptions(groups=LAYERS)
"""Options of the fallback if no stacks as requested were found."""


@dataclass(frozen=True, slots=True)
class ReadScheduleQuestion:
    """A request with its inputs read; the relaxation covers all mappings without bypassed memories."""

    network: Graph
    accelerator: Accelerator
    precision: Precision
    reading: Reading
    relaxation: Relaxation
    seconds: float
    options: ScheduleOptions
    """The options of the request, with the schedule of its start file."""
    seconds_to_check: float
    """Typical maximum time for checking and writing an answer, at the machine's load while reading."""

    def question(self, objective: ScheduleObjective, *, uses_cache: bool) -> ScheduleQuestion:
        """Return the question for the schedule search."""
        bound = objective.value_of(self.relaxation)
        machine = with_assumed_energies(self.accelerator)
        views = views_that_join(self.network)
        return ScheduleQuestion(self.network, machine, self.precision, objective, bound, uses_cache, views)


@phase("scheduling")
def schedule_network(request: ScheduleRequest, start: RunStarter = silent_run) -> ScheduleOutcome:
    """Return the best schedule found, and the lower bound proven for the space that it names.

    Raises InputError for a network or an accelerator that is unreadable or unusable, or for options that do not fit
    them.
    """
    asked, found = _solved(request, start)
    outcome = outcome_of(request, asked, request.objective, found)
    if found.answer is None:
        ended = "" if found.stopped_by is Stop.COMPLETED else ", as far as was seen in time"
        return replace(outcome, why_not=f"{found.why_not}{ended}")
    if found.answer.why_alone is not None:
        outcome = replace(outcome, space=ALONE.space, remark=f"{found.answer.why_alone}: every operator runs alone")
    elif found.answer.left_alone:
        among = ", ".join(f"{first!r} to {last!r}" for first, last in found.answer.left_alone)
        outcome = replace(
            outcome,
            remark=f"unfused operators: no requested groups were found among {among}: each operator there runs alone",
        )
    return with_verified_schedule(outcome, asked, found.answer)


def _solved(request: ScheduleRequest, start: RunStarter) -> tuple[ReadScheduleQuestion, SearchResult[FoundSchedule]]:
    """Return the network as it is scheduled best, and the schedule: softmaxes may be in slices of the keys if online.

    The bound is the least of all numbers of slices. Each number has an equal share of the time left.
    """
    deadline = Deadline.after(request.limits.time_limit_seconds)
    every = read_schedule_questions(request)
    bound = min(request.objective.value_of(one.relaxation) for one in every)
    best: tuple[ReadScheduleQuestion, SearchResult[FoundSchedule]] | None = None
    for at, asked in enumerate(every):
        slices = asked.reading.key_slices
        question = asked.question(request.objective, uses_cache=request.options.uses_cache)
        groups = sliced_together(every[0].network, slices) if slices > 1 else ()
        question = replace(question, lower_bound=bound, together=groups)
        within = deadline.within((deadline.seconds_left - asked.seconds_to_check) / (len(every) - at))
        with start(request.limits, within) as run:
            found = solve_schedule(question, asked.options, run)
        if best is None or _value(found) < _value(best[1]):
            best = asked, found
        if found.status is Status.OPTIMAL or found.stopped_by is Stop.INTERRUPTED:
            break
    assert best is not None
    return best


def read_schedule_questions(request: ScheduleRequest) -> Sequence[ReadScheduleQuestion]:
    """Return the question with whole rows of softmaxes and, if they may be online, one for each number of slices.

    Raises InputError for unreadable or unusable inputs, and UsageError for a start if softmaxes may be online.
    """
    is_online = request.options.softmax is Softmax.ONLINE
    if is_online and request.start_file is not None:
        raise UsageError("a start has a number of slices", place="softmax, start", expected="one of them")
    plain = read_schedule_question(request)
    counts = slice_counts(plain.network)[1:] if is_online else ()
    return plain, *(_in_slices(request, plain, count) for count in counts)


def _value(found: SearchResult[FoundSchedule]) -> float:
    return inf if found.objective_value is None else found.objective_value


def _in_slices(request: ScheduleRequest, plain: ReadScheduleQuestion, count: int) -> ReadScheduleQuestion:
    """Return the question with softmaxes in slices of the keys; its bound covers all that `plain` must move.

    Every needed element of an input is read from DRAM, in slices or not.
    """
    asked, least = read_schedule_question(request, count), plain.relaxation
    once = replace(
        asked.relaxation,
        dram_read_pj=max(asked.relaxation.dram_read_pj, least.dram_read_pj),
        dram_read_bits=max(asked.relaxation.dram_read_bits, least.dram_read_bits),
        dram_cycles=max(asked.relaxation.dram_cycles, least.dram_cycles),
    )
    return replace(asked, relaxation=once)


def outcome_of(
    request: ScheduleRequest,
    asked: ReadScheduleQuestion,
    objective: ScheduleObjective,
    found: SearchResult[FoundSchedule],
) -> ScheduleOutcome:
    """Return the outcome of a search before verification."""
    answer = None if found.answer is None else found.answer.composition.schedule
    proof = found.objective_value, found.lower_bound, found.seconds, found.method, found.stopped_by
    return ScheduleOutcome(
        text_of(request.source),
        asked.network,
        asked.accelerator,
        objective,
        objective.unit,
        SearchResult(found.status, answer, *proof),
        asked.relaxation,
        request.options.space,
        ScheduleSeconds(asked.seconds, found.seconds, 0.0),
        weighed=request.options.weighed(objective),
    )


def with_verified_schedule(
    outcome: ScheduleOutcome, asked: ReadScheduleQuestion, found: FoundSchedule
) -> ScheduleOutcome:
    """Return the outcome with the schedule found, after verification."""
    watch = Stopwatch()
    source = Source(asked.network.name, graph_sha256(asked.network))
    document: ScheduleDocument = Document(source, asked.accelerator, asked.reading, found.composition.schedule)
    priced = PricedSchedule(found.composition.costs, found.figures)
    if not states_energies(asked.accelerator):  # the search used assumed energies
        priced = priced_schedule(document, found.tiles)
    result, sums = outcome.result, priced.figures
    figures = schedule_claim_figures(sums.stated_energy_fj, sums.latency_cycles, sums.traffic_bytes)
    proof = outcome.objective, result.objective_value or 0, result.lower_bound, figures, outcome.space
    document = replace(document, claim=Claim(result.method, result.status, *proof))
    not_checked = _verified(asked, document, found)
    return replace(
        outcome,
        tiles=found.tiles,
        figures=priced.figures,
        document=document,
        compute_costs=priced.costs,
        not_checked=not_checked,
        seconds=replace(outcome.seconds, verify=watch.seconds),
    )


@phase("verifying")
@without_collecting()
def _verified(asked: ReadScheduleQuestion, document: ScheduleDocument, found: FoundSchedule) -> tuple[str, ...]:
    """Return the facts that the verifier assumed; raises InternalError for a schedule or claim that it rejects."""
    setting = ScheduleSetting(asked.network, asked.accelerator, found.tiles.graph, asked.precision.sum_bits)
    verdict = verify_schedule(setting, document.answer, document.claim, nest_cost)
    if verdict.violations:
        count, first = len(verdict.violations), verdict.violations[0]
        raise InternalError(f"the schedule has {count} violations, the first: {first}", place="schedule")
    return verdict.not_checked


@phase("reading")
def read_schedule_question(request: ScheduleRequest, key_slices: int = 1) -> ReadScheduleQuestion:
    """Read network and accelerator, and compute the bound; raises InputError for unreadable or unusable inputs.

    With several `key_slices` the bound does not depend on capacities.
    """
    watch = Deadline()
    accelerator = load_any_accelerator(request.accelerator)
    with errors_in_file(accelerator_text(request.accelerator)):
        ensure_usable(accelerator, request.objective)
    reading = replace(request.plain_reading, bits=request.reading.bits, count=Count.ALL, key_slices=key_slices)
    network = network_to_schedule(request.source, reading)
    precision = Precision(reading.bits, request.options.partial_bits).on(accelerator)
    try:
        is_whole = key_slices == 1
        bound = relaxation_of(network, accelerator, precision, every_memory_keeps=True, prices_room=is_whole)
    except AcceleratorError as error:
        raise error.in_file(accelerator_text(request.accelerator)) from None
    reading = replace(reading, partial_bits=precision.partial_bits)
    to_check = seconds_to_check(watch, len(network.operators))
    options = request.options
    if request.start_file is not None:
        options = replace(options, start=start_from_file(request.start_file, request.source, network))
    return ReadScheduleQuestion(network, accelerator, precision, reading, bound, watch.seconds, options, to_check)


def seconds_to_check(reading: Deadline, operators: int) -> float:
    """Return the typical maximum time for checking that many operators, given the reading time."""
    by_operators = reading.seconds_for(SECONDS_TO_CHECK + SECONDS_TO_CHECK_AN_OPERATOR * operators)
    return min(CHECKING_TO_READING * reading.seconds, by_operators)


SAME: Final = "a schedule of this network, read with the same options"


@phase("reading the start")
def start_from_file(path: Path, source: Network, network: Graph) -> Schedule:
    """Return the schedule in a file, verified on the accelerator in the file.

    `network` is `source` as the search reads it. Raises InputError for an unreadable file, a schedule of another
    network or of the same network read with other options, and an illegal schedule.
    """
    check = check_schedule_file(CheckRequest(path, source))
    if check.sha256 != graph_sha256(network):
        what = f"the schedule is for {check.network.name!r} read otherwise"
        raise InputError(what, file=str(path), place="graph", expected=SAME)
    if not check.is_legal:
        violations = check.verdict.violations
        what = f"the schedule has {len(violations)} violations, the first: {violations[0]}"
        raise InputError(what, file=str(path), expected=SAME)
    return check.document.answer


SHARE_OF_VERIFYING: Final = 0.1
"""Share of a time limit for verifying points; if it is used up, only points that are minimal along an axis are
verified.
"""


def axes_of(text: str, most_points: int) -> tuple[FrontAxis, ...]:
    """Return the axes of a text such as `energy,latency`.

    Raises UsageError for an unknown name, fewer than two axes, and fewer points than axes.
    """
    names = [name.strip() for name in text.split(",")]
    expected = f"two or more of {', '.join(FrontAxis)}"
    for name in names:
        if name not in tuple(FrontAxis):
            raise UsageError(f"unknown objective {name!r}", place="pareto", expected=expected)
    if len(set(names)) < max(2, len(names)):
        raise UsageError(f"{', '.join(names)!r} is one objective", place="pareto", expected="two axes or more")
    if most_points < len(names):
        raise UsageError(f"there are {most_points}", place="points", expected=f"at least {len(names)}")
    return tuple(map(FrontAxis, names))


@phase("scheduling")
def front_of_schedules(
    request: ScheduleRequest, axes: Sequence[FrontAxis], most_points: int, start: RunStarter = silent_run
) -> FrontOutcome:
    """Return verified schedules that form a Pareto front along the axes: none dominates another.

    The objective of the request is ignored. Raises InputError for a network or an accelerator that is unreadable or
    unusable, or for options that do not fit them.
    """
    limits, watch, options = request.limits, Stopwatch(), request.options
    if options.softmax is Softmax.ONLINE:
        raise UsageError("a front has whole rows of softmaxes", place="softmax, pareto", expected="one of them")
    deadline = Deadline.after(limits.time_limit_seconds)
    needed = ScheduleObjective.ENERGY if FrontAxis.ENERGY in axes else ScheduleObjective.TRAFFIC
    asked = read_schedule_question(replace(request, objective=needed))
    share = SHARE_OF_VERIFYING * (limits.time_limit_seconds or 0.0)
    within = deadline.within(deadline.seconds_left - share - asked.seconds_to_check)
    with start(limits, within) as run:
        question = asked.question(ScheduleObjective.ENERGY, uses_cache=options.uses_cache)
        found = solve_front(question, asked.options, axes, asked.relaxation, run)
        stop = run.stop or Stop.COMPLETED
    bounds = tuple(axis.bound_of(asked.relaxation) for axis in axes)
    points = tuple(_verified_points(request, asked, thinned(found, most_points), deadline))
    names = asked.network.name, asked.accelerator.name
    return FrontOutcome(*names, axes, bounds, points, len(found), options.space, stop, watch.seconds)


def _verified_points(
    request: ScheduleRequest, asked: ReadScheduleQuestion, points: Sequence[FrontPoint], deadline: Deadline
) -> Iterator[ShownPoint]:
    """Yield the points in order: those that are minimal along an axis, and the others while there is time."""
    least = {one.values for one in least_along_axes(points)}
    for point in points:
        if point.values not in least and deadline.is_past:
            continue
        found, bound = point.found(asked.accelerator), point.objective.value_of(asked.relaxation)
        value = point.objective.value_of(found.figures)
        status = Status.OPTIMAL if value == bound else Status.FEASIBLE
        result = SearchResult(status, found, value, bound, 0.0, METHOD)
        outcome = outcome_of(request, asked, point.objective, result)
        yield ShownPoint(point.values, with_verified_schedule(outcome, asked, found))
