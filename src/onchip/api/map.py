"""The `map` use case: read, search the layers one after another or in threads, verify, cost, document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.pool import AsyncResult, ThreadPool
from typing import Final, TypeAlias

from onchip.answer.document import Claim, Document, NamedMapping, Reading, Source
from onchip.answer.layer_mapping import Kept, LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.choices import choice
from onchip.answer.options.mapping_objective import FEMTO_PER_PICO, MappingObjective
from onchip.answer.options.verb_options import MapOptions
from onchip.answer.result import SearchResult, Status, Stop
from onchip.api.inputs import VerbRequest
from onchip.api.networks import TABLE, TEXTS, Network, layers_named, text_of
from onchip.api.phases import phase
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import ensure_energies, with_assumed_energies
from onchip.arch.memory import Operand
from onchip.errors import AcceleratorError, InputError, InternalError, UsageError, errors_in_file
from onchip.formats.foreign_files import accelerator_text, layer_file, load_any_accelerator, read_layers
from onchip.formats.own.accelerator_yaml import accelerator_source
from onchip.ir.layer import Layer
from onchip.mapping.methods.cache import MappingCache
from onchip.mapping.methods.registry import SPACES, MapSpace, method_named
from onchip.model.accounting.accounting import AccountingName
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.limits import array_of, check_memories
from onchip.model.program.compute_cost import OperandAtHome, cost_without_nest
from onchip.model.timeline.mac_count import uncosted_operators
from onchip.ops.layers_of import PLAIN_BITS, NetworkLayers, Precision
from onchip.ops.nests import operands_of
from onchip.reports.mapping.outcome import MappedLayer, MappingOutcome, MovedOperator
from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.budget.limits import Progress, Run
from onchip.search.strategy.start import RunStarter, silent_run
from onchip.verify.mapping import verify_mapping

COSA, LOMA, UNEVEN = "cosa", "loma", "uneven"
EXACT, EVEN = "exact", "exact-even"
SECONDS_BETWEEN_LOOKS: Final = 0.05
Solver = Callable[[LayerProblem, MappingObjective, Run], SearchResult[LayerMapping]]
SearchedLayer: TypeAlias = SearchResult[LayerMapping] | InputError
"""The result of a search, or the reason why the layer cannot be mapped."""


@dataclass(frozen=True, slots=True)
class LayerSearch:
    """The search of each layer: method, objective, and accounting."""

    method: str
    objective: MappingObjective
    use_cache: bool = True
    accounting: AccountingName = AccountingName.INTERPRETER

    def __call__(self, question: tuple[LayerProblem, Run]) -> SearchedLayer:
        """Search one layer; return the error of a layer that cannot be mapped."""
        problem, run = question
        try:
            return self.solver()(problem, self.objective, run)
        except InputError as error:
            return error

    def solver(self) -> Solver:
        """Return the method; raises UsageError if it does not support the other options."""
        is_interpreter = self.accounting is AccountingName.INTERPRETER
        if self.method != UNEVEN and is_interpreter:
            method = method_named(self.method)
            if method.name == COSA:
                return method.solve  # its own capacity model may admit illegal mappings
            cache = MappingCache.opened() if self.use_cache else None
            return method if cache is None else partial(cache.solve, method)
        if self.method not in (LOMA, UNEVEN):
            expected = f"`method='{LOMA}'` or {UNEVEN}"
            raise UsageError(f"`method='{self.method}'` has its own", place="accounting", expected=expected)
        if is_interpreter:
            raise UsageError(f"`method='{UNEVEN}'` needs another", place="accounting", expected="zigzag or defines")
        from onchip.mapping.baselines.loma import solve_as_loma
        from onchip.mapping.tile_search.uneven import solve_uneven

        solve = solve_as_loma if self.method == LOMA else solve_uneven
        return partial(solve, accounting=self.accounting.accounting, has_stored_room=True)


@dataclass(frozen=True, slots=True)
class LayerSearches:
    """The problems of all layers by name, in the network's order, with a common run."""

    search: LayerSearch
    problems: Mapping[str, LayerProblem]
    progress: LayerProgress
    run: Run

    def found(self, threads: int) -> Iterator[SearchedLayer]:
        """Yield the result of each layer in order, or the error of a layer that cannot be mapped.

        One thread searches the layers in order, each with an equal share of the time left. Layers that no thread of
        several begins in time are searched here for a moment.
        """
        answers = {} if threads == 1 else self._together(threads)
        for place, (name, problem) in enumerate(self.problems.items()):
            if place in answers:
                yield answers[place]
                continue
            run = self.progress.run_of_next(name) if threads == 1 else self.run.within(0.0)
            if run.interrupt.is_set():
                yield SearchResult(Status.UNKNOWN, None, None, 0, 0.0, self.search.method, Stop.INTERRUPTED)
                continue
            found = self.search((problem, run))
            if threads == 1 and isinstance(found, SearchResult):
                self.progress.take(place, found)
            yield found

    def _together(self, threads: int) -> dict[int, SearchedLayer]:
        """Return the results, by place, of the layers that threads begin in time."""
        run, waiting = self.run, list(enumerate(self.problems.values()))
        limits = replace(run.limits, workers=max(1, run.limits.workers // threads))
        answers: dict[int, SearchedLayer] = {}
        pending: dict[int, AsyncResult[SearchedLayer]] = {}
        with ThreadPool(threads) as pool:
            while pending or (waiting and run.stop is None):
                while waiting and len(pending) < threads and run.stop is None:
                    share = Deadline.after(max(0.0, run.seconds_left) * min(1.0, threads / len(waiting)))
                    place, problem = waiting.pop(0)
                    own = Run(limits, interrupt=run.interrupt, deadline=share)
                    pending[place] = pool.apply_async(self.search, ((problem, own),))
                for place in [place for place, one in pending.items() if one.ready()]:
                    answer = answers[place] = pending.pop(place).get()
                    if isinstance(answer, SearchResult):
                        self.progress.take(place, answer)
                for one in [*pending.values()][:1]:
                    self.progress.tell(f"{threads} at a time")
                    one.wait(SECONDS_BETWEEN_LOOKS)
        return answers


@dataclass(slots=True)
class LayerProgress:
    """The progress of all layers; `times` is the number of repetitions of each distinct layer, in mapping order.

    If objective values do not add up, as products of energy and latency do not, only the phase is reported.
    """

    run: Run
    times: Sequence[int]
    adds_up: bool
    _done: int = 0
    _value: int | None = 0
    _lower_bound: int = 0

    def run_of_next(self, name: str) -> Run:
        """Return a run with its own clock and an equal share of the time left, ended by the same interrupt."""
        run, left = self.run, len(self.times) - self._done
        phase = f"layer {self._done + 1} of {len(self.times)}, {name}"

        def listen(heard: Progress) -> None:
            told = f"{phase}: {heard.phase}" if heard.phase else phase
            run.listener(Progress(run.seconds, *self._of_all(heard.best, heard.lower_bound), told))

        listen(Progress(0.0, None, 0, ""))
        share = max(0.0, run.seconds_left) / left
        return replace(run, listener=listen, deadline=Deadline.after(share), watch=Stopwatch())

    def tell(self, how: str) -> None:
        """Report the number of mapped layers while several are searched in parallel."""
        value = self._value if self.adds_up and self._done == len(self.times) else None
        phase = f"{self._done} of {len(self.times)} layers, {how}"
        self.run.listener(Progress(self.run.seconds, value, self._lower_bound if self.adds_up else 0, phase))

    def take(self, place: int, result: SearchResult[LayerMapping]) -> None:
        """Add the result of the layer at index `place`.

        A layer without a mapping leaves the network without an answer.
        """
        times, value = self.times[place], result.objective_value
        self._value = None if self._value is None or value is None else self._value + times * value
        self._lower_bound += times * result.lower_bound
        self._done += 1

    def _of_all(self, best: int | None, lower_bound: int) -> tuple[int | None, int]:
        """Return the value of all layers, known only with the last of them, and a lower bound on it."""
        times, is_last = self.times[self._done], self._done + 1 == len(self.times)
        if not self.adds_up:
            return (best, lower_bound) if len(self.times) == 1 else (None, 0)
        value = None if best is None or self._value is None or not is_last else self._value + times * best
        return value, self._lower_bound + times * lower_bound


UNITS = {MappingObjective.ENERGY: "fJ", MappingObjective.LATENCY: "cycles", MappingObjective.EDP: "fJ x cycles"}
GREATEST_MACS = 2**53
RELATIVE_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class MappingRequest(VerbRequest[Network | Layer, MappingObjective, MapOptions]):
    """The request of `map`, whose layers share the time limit; several workers search several layers in parallel."""

    objective: MappingObjective = MappingObjective.ENERGY
    options: MapOptions = field(default_factory=MapOptions)

    @property
    def text(self) -> str:
        """Return the source as text."""
        return self.source.text if isinstance(self.source, Layer) else text_of(self.source)

    @property
    def element_bits(self) -> int | None:
        """Return the element width; a layer without a network has its own, or 8 bits."""
        bits, source = self.reading.bits, self.source
        if bits is None and isinstance(source, Layer):
            return source.output_bits
        is_text = isinstance(source, str) and source.startswith((*TEXTS, TABLE))
        return PLAIN_BITS if bits is None and is_text else bits

    @property
    def accounting(self) -> AccountingName:
        """Return the cost model; raises UsageError for an unknown one."""
        return choice(AccountingName, self.options.accounting, "accounting")

    @property
    def search(self) -> LayerSearch:
        """Return the search of each layer."""
        return LayerSearch(self.options.method, self.objective, self.options.uses_cache, self.accounting)

    @property
    def may_pad(self) -> bool:
        """Return True if a mapping's loops may be longer than the layer's."""
        return self.accounting is not AccountingName.INTERPRETER


@phase("mapping")
def map_layers(request: MappingRequest, start: RunStarter = silent_run) -> MappingOutcome:
    """Map each distinct layer once; raises InternalError if a found mapping is not legal."""
    deadline = Deadline.after(request.limits.time_limit_seconds)
    request.search.solver()  # report conflicting options before reading anything
    accelerator = load_any_accelerator(request.accelerator, request.options.mapspace)
    layers, is_one_layer = layers_asked_for(request, accelerator)
    for layer, names in layers.distinct.items():
        _can_be_mapped(layer, names[0], accelerator, request)
    with errors_in_file(accelerator_text(request.accelerator)):
        moved = moved_operators(layers, accelerator)
    # CoSA's program is solved by all workers together: some are better at proofs, others at solutions.
    threads = 1 if request.options.method == COSA else max(1, min(request.limits.workers, len(layers.distinct)))
    with start(request.limits, deadline) as run:
        adds_up = request.options.method != COSA and request.objective is not MappingObjective.EDP
        counts = [sum(layers.times.get(name, 1) for name in names) for names in layers.distinct.values()]
        machine = with_assumed_energies(accelerator)
        problems = {names[0]: LayerProblem(layer, machine) for layer, names in layers.distinct.items()}
        searches = LayerSearches(request.search, problems, LayerProgress(run, counts, adds_up), run)
        searched = searches.found(threads)
        each = zip(layers.distinct.items(), searched, strict=True)
        mapped = tuple(_mapped(found, layer, names, accelerator, request) for (layer, names), found in each)
    mappings = tuple(
        NamedMapping(one.names, one.mapping.layer(one.layer), one.mapping, one.claim)
        for one in mapped
        if one.mapping is not None
    )
    is_cosa = request.options.method == COSA
    return MappingOutcome(
        request.text,
        layers,
        accelerator,
        request.options.method,
        COSA if is_cosa else request.objective,
        "bits" if is_cosa else UNITS[request.objective],
        mapped,
        Document(Source(layers.name or ""), accelerator_source(accelerator), Reading(), mappings),
        is_one_layer,
        _mapspace(request, accelerator),
        request.accounting,
        moved,
    )


def _mapped(
    found: SearchedLayer, layer: Layer, names: tuple[str, ...], accelerator: Accelerator, request: MappingRequest
) -> MappedLayer:
    """Verify and cost the mapping found for a layer; raises InputError for a layer that cannot be mapped."""
    if isinstance(found, InputError):
        raise _in_layer(found, names[0], request) from None
    problem, result = LayerProblem(layer, accelerator), found
    claim = _claim(result, request)
    if result.answer is None:
        return MappedLayer(names, layer, result, claim, None, None)
    if violations := verify_mapping(problem, result.answer, may_pad=request.may_pad):
        if request.options.method == COSA:
            refusal = f"CoSA's schedule breaks a true limit: {violations[0]}"
            return MappedLayer(names, layer, result, claim, None, None, refusal)
        raise InternalError(
            f"the mapping of {names[0]!r} has {len(violations)} violations, the first: {violations[0]}",
            place=f"method {request.options.method}",
        )
    mapping = result.answer.without_loops_of_one()
    try:
        cost = layer_cost(problem, mapping, request.accounting.accounting)
    except InputError as error:
        raise _in_layer(error, names[0], request) from None
    if request.options.method != COSA:
        _ensure_it_costs_what_is_claimed(result, request.objective.of(cost.stated_energy_pj, cost.cycles), names[0])
    floor = _floor(LayerProblem(layer, with_assumed_energies(accelerator)), request)
    return MappedLayer(names, layer, result, claim, mapping, cost, lower_bound_of_any=floor)


def _floor(problem: LayerProblem, request: MappingRequest) -> int | None:
    """Return a lower bound for every legal mapping on a machine that states all energies.

    The bound is None for methods with another objective value.
    """
    if request.options.method not in (EXACT, EVEN) or request.may_pad:
        return None
    from onchip.bounds.layer.floors import floor_with_bypass

    return floor_with_bypass(problem, request.objective)


def _ensure_it_costs_what_is_claimed(result: SearchResult[LayerMapping], value: float, name: str) -> None:
    """Raise InternalError if a mapping's cost differs from its method's claim by more than floating-point rounding."""
    claimed = result.objective_value
    if claimed is None or abs(value - claimed) > 0.5 + RELATIVE_TOLERANCE * abs(value):
        what = f"the mapping of {name!r} costs {value:.17g}, and it claims {claimed}"
        raise InternalError(what, place=f"method {result.method}")


def _claim(result: SearchResult[LayerMapping], request: MappingRequest) -> Claim | None:
    """Return the claim of a result; CoSA's objective is converted to its own unit, bits."""
    if result.objective_value is None:
        return None
    if request.options.method == COSA:
        from onchip.mapping.cosa.cosa import VALUE_PER_BIT

        value, bound = result.objective_value / VALUE_PER_BIT, result.lower_bound / VALUE_PER_BIT
        return Claim(COSA, result.status, COSA, value, bound)
    return Claim(result.method, result.status, request.objective, result.objective_value, result.lower_bound)


def _can_be_mapped(layer: Layer, name: str, accelerator: Accelerator, request: MappingRequest) -> None:
    """Raise if no mapping of the layer can be legal and costed: no array, missing energies, an unreachable memory."""
    if layer.macs > GREATEST_MACS:
        error = InputError(f"the layer has {layer.macs} multiply-accumulates", expected=f"at most {GREATEST_MACS}")
        raise _in_layer(error, name, request)
    one = Layer(
        input_bits=layer.input_bits,
        weight_bits=layer.weight_bits,
        output_bits=layer.output_bits,
        partial_bits=layer.partial_bits,
        has_weight=layer.has_weight,
    )
    problem = LayerProblem(one, accelerator)
    kept = (
        tuple(Kept(level.memory.name, 0) for level in problem.keepers(operand) if operand in layer.operands)
        for operand in Operand
    )
    mapping = LayerMapping((), *kept)
    with errors_in_file(accelerator_text(request.accelerator)):
        array_of(accelerator)
        ensure_energies(accelerator, COSA if request.options.method == COSA else request.objective)
        check_memories(problem, mapping)


def _in_layer(error: InputError, name: str, request: MappingRequest) -> InputError:
    """Return the error with the layer and the file that it concerns, the accelerator's file for an AcceleratorError."""
    error.place = f"layer {name!r}" if error.place in (None, "layer") else f"layer {name!r}: {error.place}"
    if isinstance(error, AcceleratorError):
        return error.in_file(accelerator_text(request.accelerator))
    return error if error.file or name == request.text else error.in_file(request.text)


@phase("reading")
def layers_asked_for(request: MappingRequest, accelerator: Accelerator) -> tuple[NetworkLayers, bool]:
    """Return the requested layers, and True if they are a single layer; ZigZag files state their own precision."""
    precision = Precision(request.element_bits, request.options.partial_bits).on(accelerator)
    file = layer_file(request.source) if isinstance(request.source, str) else None
    if file is None:
        return layers_named(request.source, request.plain_reading, precision)
    path, wanted = file
    found = read_layers(path)
    if list(found) == [path.stem]:
        return NetworkLayers(None, {name: precision.of(layer) for name, layer in found.items()}), True
    network = NetworkLayers(path.stem, found)
    return (network, False) if wanted is None else (network.only(wanted), True)


def _mapspace(request: MappingRequest, accelerator: Accelerator) -> MapSpace | None:
    """Return the mappings for which the method's status and bound hold; None if it proves nothing."""
    space, without = SPACES.get(request.options.method), accelerator.restriction
    if space is None or without is None:
        return space
    return MapSpace(f"{space.name}, accelerator {without}", "; ".join((space.definition, *accelerator.notes)))


def moved_operators(layers: NetworkLayers, accelerator: Accelerator) -> tuple[MovedOperator, ...]:
    """Return the operators without a loop nest, in order; raises AcceleratorError if DRAM lacks a port of a direction.

    Each reads every operand once and writes every output once, as in a schedule that streams all of them.
    """
    graph, found = layers.graph, list[MovedOperator]()
    if graph is None:
        return ()
    for one in uncosted_operators(graph, {one.operator for one in layers.left_out}):
        operands = operands_of(graph, graph.operator[one.operator])
        cost = cost_without_nest((OperandAtHome(each.operand, each.bits, 0, None) for each in operands), accelerator)
        energy_pj = None if cost.stated_energy_fj is None else cost.stated_energy_fj / FEMTO_PER_PICO
        of_kind = one.operator, one.kind, one.why, one.macs, one.operations
        found.append(MovedOperator(*of_kind, energy_pj, cost.cycles, cost.dram_read_bits, cost.dram_written_bits))
    return tuple(found)
