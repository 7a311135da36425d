"""The `map` use case: read, search the layers one after another or in threads, verify, cost, document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.pool import AsyncResult, ThreadPool
from typing import Final, TypeAlias

from onchip.answer.bindings import Bindings
from onchip.answer.document import Claim, Document, Granularity, NamedMapping, Reading, Source
from onchip.answer.layer_mapping import Kept, LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status, Stop
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
from onchip.model.program.compute_cost import FEMTOJOULES_PER_PICOJOULE, OperandAtHome, cost_without_nest
from onchip.model.timeline.mac_count import uncosted_operators
from onchip.ops.layers_of import PLAIN_BITS, NetworkLayers, Precision
from onchip.ops.nests import operands_of
from onchip.reports.mapping.outcome import MappedLayer, MappingOutcome, MovedOperator
from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.budget.limits import Limits, Progress, Run
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
        if self.method == UNEVEN or self.accounting is not AccountingName.INTERPRETER:
            return self._accounted_solver()
        method = method_named(self.method)
        if method.name == COSA:
            return method.solve  # its own capacity model may admit illegal mappings
        cache = MappingCache.opened() if self.use_cache else None
        return method if cache is None else partial(cache.solve, method)

    def _accounted_solver(self) -> Solver:
        """Return a method with another accounting, without caching; raises UsageError for conflicting options."""
        if self.method not in (LOMA, UNEVEN):
            expected = f"`method='{LOMA}'` or {UNEVEN}"
            raise UsageError(f"`method='{self.method}'` has its own", place="accounting", expected=expected)
        if self.accounting is AccountingName.INTERPRETER:
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
        """Yield the result of each layer in order, or the error of a layer that cannot be mapped."""
        return self._one_by_one() if threads == 1 else _Together(self, threads).found()

    def _one_by_one(self) -> Iterator[SearchedLayer]:
        """Search the layers in order, each with an equal share of the time left."""
        for place, (name, problem) in enumerate(self.problems.items()):
            found = self.searched(problem, self.progress.run_of_next(name))
            if isinstance(found, SearchResult):
                self.progress.take(place, found)
            yield found

    def searched(self, problem: LayerProblem, run: Run) -> SearchedLayer:
        """Search one layer in this process, unless the run was interrupted."""
        if run.interrupt.is_set():
            return SearchResult(Status.UNKNOWN, None, None, 0, 0.0, self.search.method, Stop.INTERRUPTED)
        return self.search((problem, run))


@dataclass(slots=True)
class _Together:
    """Layers searched by threads; layers that no thread begins in time are searched here for a moment."""

    asked: LayerSearches
    room: int
    answers: dict[int, SearchedLayer] = field(default_factory=dict)
    pending: dict[int, AsyncResult[SearchedLayer]] = field(default_factory=dict)

    def found(self) -> Iterator[SearchedLayer]:
        """Yield the result of each layer in the network's order, regardless of completion order."""
        problems, run = list(self.asked.problems.values()), self.asked.run
        waiting = list(enumerate(problems))
        with ThreadPool(self.room) as pool:
            while self.pending or (waiting and run.stop is None):
                while waiting and len(self.pending) < self.room and run.stop is None:
                    own = self._run_of_next(len(waiting))
                    place, problem = waiting.pop(0)
                    self.pending[place] = pool.apply_async(self.asked.search, ((problem, own),))
                self._take()
        for place, problem in enumerate(problems):
            yield self.answers[place] if place in self.answers else self.asked.searched(problem, run.within(0.0))

    def _run_of_next(self, waiting: int) -> Run:
        """Return the run of the next of `waiting` layers, with its share of the common time."""
        run = self.asked.run
        workers = max(1, run.limits.workers // self.room)
        deadline = Deadline.after(max(0.0, run.seconds_left) * min(1.0, self.room / waiting))
        return Run(replace(run.limits, workers=workers), interrupt=run.interrupt, deadline=deadline)

    def _take(self) -> None:
        """Collect the available answers, waiting a moment for one."""
        for place in [place for place, one in self.pending.items() if one.ready()]:
            answer = self.answers[place] = self.pending.pop(place).get()
            if isinstance(answer, SearchResult):
                self.asked.progress.take(place, answer)
        for one in [*self.pending.values()][:1]:
            self.asked.progress.tell(f"{self.room} at a time")
            one.wait(SECONDS_BETWEEN_LOOKS)


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
class MappingRequest:
    """The request of `map`: a network and an accelerator, an objective, and options.

    The layers share a time limit. `bits` is the element width of every operand (None: each tensor's own),
    `partial_bits` that of a partial sum (None: limited by the machine's memories). `accounting` defines how energy and
    cycles are counted, also in the searches of `loma` and `uneven`. `mapspace` is a file that accompanies a Timeloop
    architecture. Several layers are searched in parallel with several workers.
    """

    source: Network | Layer
    accelerator: str | Accelerator
    objective: MappingObjective = MappingObjective.ENERGY
    method: str = "exact"
    bits: int | None = None
    bindings: Bindings = field(default_factory=Bindings)
    granularity: Granularity = Granularity.FUSED
    limits: Limits = field(default_factory=Limits)
    use_cache: bool = True
    mapspace: str | None = None
    partial_bits: int | None = None
    accounting: AccountingName = AccountingName.INTERPRETER

    @property
    def text(self) -> str:
        """Return the source as text."""
        return self.source.text if isinstance(self.source, Layer) else text_of(self.source)

    @property
    def element_bits(self) -> int | None:
        """Return the element width; a layer without a network has its own, or 8 bits."""
        if self.bits is None and isinstance(self.source, Layer):
            return self.source.output_bits
        is_text = isinstance(self.source, str) and self.source.startswith((*TEXTS, TABLE))
        return PLAIN_BITS if self.bits is None and is_text else self.bits

    @property
    def search(self) -> LayerSearch:
        """Return the search of each layer."""
        return LayerSearch(self.method, self.objective, self.use_cache, self.accounting)

    @property
    def may_pad(self) -> bool:
        """Return True if a mapping's loops may be longer than the layer's."""
        return self.accounting is not AccountingName.INTERPRETER


@phase("mapping")
def map_layers(request: MappingRequest, start: RunStarter = silent_run) -> MappingOutcome:
    """Map each distinct layer once; raises InternalError if a found mapping is not legal."""
    deadline = Deadline.after(request.limits.time_limit_seconds)
    request.search.solver()  # report conflicting options before reading anything
    accelerator = load_any_accelerator(request.accelerator, request.mapspace)
    layers, is_one_layer = layers_asked_for(request, accelerator)
    for layer, names in layers.distinct.items():
        _can_be_mapped(layer, names[0], accelerator, request)
    moved = _moved(layers, accelerator, request)
    # CoSA's program is solved by all workers together: some are better at proofs, others at solutions.
    threads = 1 if request.method == COSA else max(1, min(request.limits.workers, len(layers.distinct)))
    with start(request.limits, deadline) as run:
        searched = _searches(request, layers, with_assumed_energies(accelerator), run).found(threads)
        each = zip(layers.distinct.items(), searched, strict=True)
        mapped = tuple(_mapped(found, layer, names, accelerator, request) for (layer, names), found in each)
    mappings = tuple(
        NamedMapping(one.names, one.mapping.layer(one.layer), one.mapping, one.claim)
        for one in mapped
        if one.mapping is not None
    )
    is_cosa = request.method == COSA
    return MappingOutcome(
        request.text,
        layers,
        accelerator,
        request.method,
        COSA if is_cosa else request.objective,
        "bits" if is_cosa else UNITS[request.objective],
        mapped,
        Document(Source(layers.name or ""), accelerator_source(accelerator), Reading(), mappings),
        is_one_layer,
        _mapspace(request, accelerator),
        request.accounting,
        moved,
    )


def _moved(layers: NetworkLayers, accelerator: Accelerator, request: MappingRequest) -> tuple[MovedOperator, ...]:
    """Return the cost of each operator without a loop nest; raises InputError if the accelerator lacks information."""
    with errors_in_file(accelerator_text(request.accelerator)):
        return moved_operators(layers, accelerator)


def _searches(request: MappingRequest, layers: NetworkLayers, accelerator: Accelerator, run: Run) -> LayerSearches:
    adds_up = request.method != COSA and request.objective is not MappingObjective.EDP
    counts = [sum(layers.times.get(name, 1) for name in names) for names in layers.distinct.values()]
    problems = {names[0]: LayerProblem(layer, accelerator) for layer, names in layers.distinct.items()}
    return LayerSearches(request.search, problems, LayerProgress(run, counts, adds_up), run)


def _mapped(
    found: SearchedLayer,
    layer: Layer,
    names: tuple[str, ...],
    accelerator: Accelerator,
    request: MappingRequest,
) -> MappedLayer:
    """Verify and cost the mapping found for a layer; raises InputError for a layer that cannot be mapped."""
    if isinstance(found, InputError):
        raise _in_layer(found, names[0], request) from None
    problem, result = LayerProblem(layer, accelerator), found
    claim = _claim(result, request)
    if result.answer is None:
        return MappedLayer(names, layer, result, claim, None, None)
    if violations := verify_mapping(problem, result.answer, may_pad=request.may_pad):
        if request.method == COSA:
            refusal = f"CoSA's schedule breaks a true limit: {violations[0]}"
            return MappedLayer(names, layer, result, claim, None, None, refusal)
        raise InternalError(
            f"the mapping of {names[0]!r} has {len(violations)} violations, the first: {violations[0]}",
            place=f"method {request.method}",
        )
    mapping = result.answer.without_loops_of_one()
    try:
        cost = layer_cost(problem, mapping, request.accounting.accounting)
    except InputError as error:
        raise _in_layer(error, names[0], request) from None
    if request.method != COSA:
        _ensure_it_costs_what_is_claimed(result, request.objective.of(cost.stated_energy_pj, cost.cycles), names[0])
    floor = _floor(LayerProblem(layer, with_assumed_energies(accelerator)), request)
    return MappedLayer(names, layer, result, claim, mapping, cost, lower_bound_of_any=floor)


def _floor(problem: LayerProblem, request: MappingRequest) -> int | None:
    """Return a lower bound for every legal mapping on a machine that states all energies.

    The bound is None for methods with another objective value.
    """
    if request.method not in (EXACT, EVEN) or request.may_pad:
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
    if request.method == COSA:
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
        ensure_energies(accelerator, COSA if request.method == COSA else request.objective)
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
    precision = Precision(request.element_bits, request.partial_bits).on(accelerator)
    file = layer_file(request.source) if isinstance(request.source, str) else None
    if file is None:
        return layers_named(request.source, Reading.of(request.bindings, request.granularity), precision)
    path, wanted = file
    found = read_layers(path)
    if list(found) == [path.stem]:
        return NetworkLayers(None, {name: precision.of(layer) for name, layer in found.items()}), True
    network = NetworkLayers(path.stem, found)
    return (network, False) if wanted is None else (network.only(wanted), True)


def _mapspace(request: MappingRequest, accelerator: Accelerator) -> MapSpace | None:
    """Return the mappings for which the method's status and bound hold; None if it proves nothing."""
    space, without = SPACES.get(request.method), accelerator.restriction
    if space is None or without is None:
        return space
    return MapSpace(f"{space.name}, accelerator {without}", "; ".join((space.definition, *accelerator.notes)))


def moved_operators(layers: NetworkLayers, accelerator: Accelerator) -> tuple[MovedOperator, ...]:
    """Return the operators without a loop nest, in order; raises AcceleratorError if DRAM lacks a port of a direction.

    Each reads every operand once and writes every output once, as in a schedule that streams all of them.
    """
    graph = layers.graph
    if graph is None:
        return ()
    found = []
    for one in uncosted_operators(graph, {one.operator for one in layers.left_out}):
        operands = operands_of(graph, graph.operator[one.operator])
        cost = cost_without_nest((OperandAtHome(each.operand, each.bits, 0, None) for each in operands), accelerator)
        found.append(
            MovedOperator(
                one.operator,
                one.kind,
                one.why,
                one.macs,
                one.operations,
                None if cost.stated_energy_fj is None else cost.stated_energy_fj / FEMTOJOULES_PER_PICOJOULE,
                cost.cycles,
                cost.dram_read_bits,
                cost.dram_written_bits,
            )
        )
    return tuple(found)
