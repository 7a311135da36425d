"""Worker processes with memory and time limits per point, on this machine or in a Dask cluster."""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Final, TypeVar

from onchip.answer.bindings import Bindings
from onchip.answer.document import Granularity, Reading
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import FusionOptions, MapOptions, PlanOptions, ScheduleOptions
from onchip.answer.problem import Count, Problem, Recompute
from onchip.answer.stacks import tile_of_text
from onchip.api.inputs import plan_request
from onchip.api.networks import layers_named, network_to_plan, read_network
from onchip.api.results import Result
from onchip.api.target import Target
from onchip.errors import InputError, InternalError, UntiledError, UsageError
from onchip.formats.files import canonical_sha256
from onchip.formats.own.graph_json import graph_sha256
from onchip.ir.graph import Graph
from onchip.ops.layers_of import Precision
from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.budget.limits import Limits, WarmStart
from onchip.search.strategy.start import NoAnswerError
from onchip.sweeps.point import FIGURES, VERBS, PointAnswer, PointFigures, PointStatus, SweepPoint, SweptVerb
from onchip.sweeps.study import PointLimits

if TYPE_CHECKING:
    from distributed import Client, Future


SET_DEATH_SIGNAL: Final = 1
"""Linux's PR_SET_PDEATHSIG."""
OUT_OF_MEMORY: Final = "the point exceeds its memory limit"


def main() -> None:
    """Answer the points of a connection; the arguments are its descriptor and the parent's process id."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep handles Ctrl-C and ends its workers
    warnings.simplefilter("ignore")  # networks' warnings were shown by the parent; the cache's cost only time
    _die_with(int(sys.argv[2]))
    connection = Connection(int(sys.argv[1]))
    with suppress(EOFError, OSError):
        sys.path[:] = connection.recv()  # to find the function to call
        prepare, answer_point, memory_bytes = connection.recv()
        prepare()
        if memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
        connection.send(None)  # ready: the start does not count as time of a point
        while True:
            connection.send(answered(answer_point, connection.recv()))


def answered(answer_point: Callable[[SweepPoint], PointAnswer], point: SweepPoint) -> PointAnswer:
    """Return the answer of a point, or a failed one: no error of one point ends a sweep."""
    try:
        return answer_point(point)
    except MemoryError:
        return PointAnswer(PointStatus.FAILED, reason=OUT_OF_MEMORY)
    except Exception as error:  # a defect of one point must not end the others
        reason = " ".join(str(error).split()) or type(error).__name__
        return PointAnswer(PointStatus.FAILED, reason=f"{type(error).__name__}: {reason}")


def _die_with(parent: int) -> None:
    """Ask the system to end this process when its parent ends for any reason."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the call
        os._exit(1)


SERVE: Final = "from onchip.sweeps.processes import main; main()"
MOST_WAITING: Final = 64
SECONDS_OF_WAITING: Final = 0.2
"""Work queued at a worker in seconds, so that it never waits for the next point."""
SECONDS_BETWEEN_LOOKS: Final = 0.5
OF_THE_PAST: Final = 0.9
"""Weight of the past in the moving average of the time per point."""


@dataclass(slots=True)
class _Worker:
    """A process; it answers the first of its points. `watch` runs since it could begin with that one."""

    process: subprocess.Popen[bytes]
    connection: Connection
    points: list[SweepPoint] = field(default_factory=list)
    watch: Stopwatch = field(default_factory=Stopwatch)
    is_ready: bool = False

    def end(self) -> None:
        """End the process at once."""
        self.connection.close()
        self.process.kill()
        self.process.wait()


def _nothing() -> None:
    """Do nothing; the default preparation."""


@dataclass(slots=True)
class LocalProcesses:
    """A pool of `count` worker processes, which all call `answer_point`, a picklable function.

    Each first calls `prepare`, whose time counts for no point. The system enforces the memory limit; a point that
    exceeds it, or its time limit, has failed.
    """

    answer_point: Callable[[SweepPoint], PointAnswer]
    count: int
    limits: PointLimits
    prepare: Callable[[], None] = _nothing
    _workers: list[_Worker] = field(default_factory=list)
    _mean_seconds: float = SECONDS_OF_WAITING

    @property
    def room(self) -> int:
        """Return the number of points that can be submitted now: more points queue at a worker the shorter they are."""
        waiting = min(MOST_WAITING, int(SECONDS_OF_WAITING / max(self._mean_seconds, 1e-6)))
        return self.count * (1 + max(1, waiting)) - sum(len(worker.points) for worker in self._workers)

    def submit(self, point: SweepPoint) -> None:
        """Send a point to the worker with the fewest; a dead worker is noticed when its answers are read."""
        worker = min(self._workers, key=lambda one: len(one.points), default=None)
        if worker is None or (worker.points and len(self._workers) < self.count):
            worker = self._started()
        if not worker.points:
            worker.watch = Stopwatch()
        worker.points.append(point)
        with suppress(OSError):
            worker.connection.send(point)

    def begin(self, points: int) -> None:
        """Start the workers for that many points, so that they are ready for the first."""
        while len(self._workers) < min(self.count, points):
            self._started()

    def finished(self, seconds: float) -> Iterator[tuple[SweepPoint, PointAnswer]]:
        """Wait at most `seconds` for answers, and yield the available ones.

        Raises InternalError if a worker ends before it is ready.
        """
        busy = [worker for worker in self._workers if worker.points]
        limit = self.limits.seconds
        left = (limit - worker.watch.seconds for worker in busy if limit is not None and worker.is_ready)
        ready = wait([worker.connection for worker in busy], max(0.0, min((seconds, *left))))
        for worker in busy:
            if worker.connection in ready:
                yield from self._received(worker)
            elif limit is not None and worker.is_ready and worker.watch.seconds > limit:
                yield from self._ended(worker, f"the point exceeds its time limit of {limit:g} s")

    def close(self) -> None:
        """End all workers at once."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def _started(self) -> _Worker:
        ours, theirs = Pipe()
        with theirs:
            program = sys.executable, "-c", SERVE, str(theirs.fileno()), str(os.getpid())
            process = subprocess.Popen(program, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=2)
        worker = _Worker(process, ours)
        ours.send(sys.path)
        ours.send((self.prepare, self.answer_point, self.limits.memory_bytes))
        self._workers.append(worker)
        return worker

    def _received(self, worker: _Worker) -> Iterator[tuple[SweepPoint, PointAnswer]]:
        """Yield the answers of a worker, and handle its readiness and its end."""
        try:
            while True:
                answer = worker.connection.recv()
                worker.watch, worker.is_ready = Stopwatch(), True
                if answer is not None:
                    self._mean_seconds += (1 - OF_THE_PAST) * (answer.seconds - self._mean_seconds)
                    yield worker.points.pop(0), answer
                if not worker.connection.poll():
                    return
        except (EOFError, OSError):
            code = worker.process.wait()
            if not worker.is_ready:
                raise InternalError(f"a worker cannot begin: {_why(code)}", place="sweep") from None
            yield from self._ended(worker, _why(code))

    def _ended(self, worker: _Worker, reason: str) -> Iterator[tuple[SweepPoint, PointAnswer]]:
        """End a worker; its first point has failed, and other workers get the others."""
        worker.end()
        self._workers.remove(worker)
        for point in worker.points[1:]:
            self.submit(point)
        if worker.points:
            yield worker.points[0], PointAnswer(PointStatus.FAILED, reason=reason)


def _why(code: int) -> str:
    """Return the reason why a worker ended during a point."""
    if code == -signal.SIGKILL:
        return f"the worker was killed: {OUT_OF_MEMORY}, or it was ended from outside"
    name = signal.Signals(-code).name if code < 0 else f"code {code}"
    return f"the worker ended ({name})"


_own = threading.local()


def answer_in_own_process(
    answer_point: Callable[[SweepPoint], PointAnswer],
    limits: PointLimits,
    prepare: Callable[[], None],
    point: SweepPoint,
) -> PointAnswer:
    """Answer a point in a limited process, one for each thread, which lives as long as its thread."""
    asked = answer_point, limits, prepare
    if getattr(_own, "asked", None) != asked:
        _own.asked, _own.workers = asked, LocalProcesses(answer_point, 1, limits, prepare)
    workers: LocalProcesses = _own.workers
    workers.submit(point)
    answers: list[PointAnswer] = []
    while not answers:
        answers += [answer for _, answer in workers.finished(SECONDS_BETWEEN_LOOKS)]
    return answers[0]


LEAST_ROOM = 4
"""Number of points submitted while there is no worker."""


@dataclass(slots=True)
class DaskCluster:
    """The workers of a scheduler, which all call `answer_point`; only this process receives the answers.

    The scheduler reassigns the points of a lost worker; this class resubmits the points lost by a restarted scheduler.
    """

    answer_point: Callable[[SweepPoint], PointAnswer]
    client: Client
    _ended: SimpleQueue[tuple[SweepPoint, Future]] = field(default_factory=SimpleQueue)
    _futures: dict[str, Future] = field(default_factory=dict)

    @classmethod
    def at(cls, address: str, answer_point: Callable[[SweepPoint], PointAnswer]) -> DaskCluster:
        """Connect to a scheduler; raises UsageError if Dask is not installed, InputError if no scheduler answers."""
        return cls(answer_point, connected(address))

    @property
    def room(self) -> int:
        """Return the number of points that can be submitted now: two for each thread of a worker."""
        threads = sum(self.client.nthreads().values()) if self.client.status == "running" else 0
        return max(2 * threads, LEAST_ROOM) - len(self._futures)

    def begin(self, points: int) -> None:
        """Do nothing, because the workers exist."""

    def submit(self, point: SweepPoint) -> None:
        """Submit a point to the scheduler."""
        future = self.client.submit(answered, self.answer_point, point, key=f"onchip-{point.key}", pure=False)
        self._futures[point.key] = future
        future.add_done_callback(lambda ended: self._ended.put((point, ended)))

    def finished(self, seconds: float) -> Iterator[tuple[SweepPoint, PointAnswer]]:
        """Wait at most `seconds` for answers, and yield the available ones.

        Raises NoAnswerError if the scheduler has ended and does not come back.
        """
        deadline = Deadline.after(seconds)
        if self.client.status in ("closed", "closing"):
            what = "the scheduler of Dask is gone; what was answered is in the store"
            raise NoAnswerError(what, place="`dask`", expected="the same command, once there is a scheduler")
        while True:
            try:
                point, future = self._ended.get(timeout=max(0.0, deadline.seconds_left))
            except Empty:
                return
            if self._futures.get(point.key) is not future:
                continue  # it was resubmitted
            answer = _answer_of(future)
            if answer is None:
                if self.client.status not in ("closed", "closing"):
                    self.submit(point)
                continue
            del self._futures[point.key]
            yield point, answer
            deadline = Deadline.after(0)  # yield other available answers without waiting

    def close(self) -> None:
        """Cancel all pending points; the cluster keeps running."""
        with suppress(Exception):  # nothing to cancel if the scheduler is gone
            self.client.cancel(list(self._futures.values()), force=True)
        with suppress(Exception):
            self.client.close()


def _answer_of(future: Any) -> PointAnswer | None:  # noqa: ANN401 - the library has no types
    """Return the result of a task; None if it was lost with its scheduler, and must be resubmitted."""
    if future.status in ("cancelled", "lost"):
        return None
    if future.status == "error":
        reason = " ".join(str(future.exception()).split())
        return PointAnswer(PointStatus.FAILED, reason=f"the point was lost with several workers: {reason}")
    answer = future.result()
    return answer if isinstance(answer, PointAnswer) else None


SECONDS_TO_CONNECT = 10
WITHIN_A_PROCESS = "inproc://"
"""Scheme of addresses without host and port."""


def connected(address: str) -> Client:
    """Connect to a scheduler; raises UsageError if Dask is not installed, InputError if no scheduler answers."""
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError:
        expected = "the extra `dask`: pip install 'onchip[dask]'"
        raise UsageError("dask.distributed is not installed", place="`dask`", expected=expected) from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # lost connections are reported in our own messages
    try:
        if not address.startswith(WITHIN_A_PROCESS):
            get_address_host_port(address)  # a client that never connected hangs at exit
        return Client(address, timeout=SECONDS_TO_CONNECT, set_as_default=False)
    except (OSError, ValueError, ImportError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        what = f"no scheduler of Dask answers at {address!r} ({reason})"
        raise InputError(what, place="`dask`", expected="an address such as tcp://10.0.0.1:8786") from None


GRAPHS_KEPT: Final = 32
"""Size of the cache in a worker process: reading a network takes longer than planning a small one."""
_graphs: dict[tuple[str, str, str], Graph] = {}


def reading_of(options: Mapping[str, Any]) -> Reading:
    """Return the reading in a plan's options, without byte sharing."""
    return Reading(
        options["bits"],
        options["dims"] or {},
        Granularity(options["granularity"]),
        Count(options["count"]),
        options["cap_tensors"],
        shapes=shapes_of(options),
        recompute=Recompute(options["recompute"]),
    )


def shapes_of(options: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of network inputs in the options."""
    return {name: tuple(shape) for name, shape in (options["shapes"] or {}).items()}


def network_sha256(verb: SweptVerb, network: str, options: Mapping[str, Any]) -> str:
    """Return the hash of the parts of a network that a verb reads; raises InputError for an unreadable network."""
    if verb is SweptVerb.PLAN:
        return graph_sha256(network_to_plan(network, reading_of(options)))
    bindings = Bindings(options["dims"] or {}, shapes_of(options), {})
    reading = Reading.of(bindings, Granularity(options["granularity"]))
    if verb is not SweptVerb.MAP:
        return graph_sha256(read_network(network, reading))
    layers, _ = layers_named(network, reading, Precision(options["bits"], options["partial_bits"]))
    return canonical_sha256([repr(sorted(layers.layers.items())), repr(sorted(layers.times.items()))], InputError)


def graph_of_point(point: SweepPoint, named: Reading, reading: Reading) -> Graph:
    """Return the network of a plan's point, read as `reading` says and cached for the next point.

    Raises InputError if the network, read as `named` by the options, has changed since the sweep began.
    """
    place = point.network, point.network_sha256, repr(reading)
    if place not in _graphs:
        graph = network_to_plan(point.network, reading)
        as_named = graph if reading == named else network_to_plan(point.network, named)
        if graph_sha256(as_named) != point.network_sha256:
            raise InputError("the network has changed since the sweep began", place=point.network, expected="the same")
        if len(_graphs) >= GRAPHS_KEPT:
            _graphs.pop(next(iter(_graphs)))
        _graphs[place] = graph
    return _graphs[place]


PACKED: Final = 6
"""Compression level of documents, for zlib."""
SMALL: Final = "minerva"
"""A bundled network that is read quickly."""
Options = Mapping[str, Any]
OptionsT = TypeVar("OptionsT")


def answer_point(point: SweepPoint) -> PointAnswer:
    """Answer a point; if the verb rejects it, return a failed answer with the reason."""
    watch = Stopwatch()
    try:
        with _machine_file(point) as file:
            answer = _answer(point, _result(point, file, options_of(point)))
    except UntiledError as error:
        status = PointStatus.INFEASIBLE if error.is_proven else PointStatus.UNKNOWN
        answer = PointAnswer(status, reason=error.what)
    except NoAnswerError as error:
        answer = PointAnswer(PointStatus.UNKNOWN, reason=error.what)
    except (InputError, InternalError) as error:
        error.file = None  # it may be temporary
        answer = PointAnswer(PointStatus.FAILED, reason=str(error))
    return replace(answer, seconds=watch.seconds)


def prepare_for(verb: SweptVerb) -> None:
    """Import the modules of a verb and read a small network, so that the first point takes no longer than others."""
    import_module(f"onchip.api.{verb}")
    import_module("onchip.formats.own.answers")
    read_network(SMALL, Reading())


def options_of(point: SweepPoint) -> dict[str, Any]:
    """Return all options of a point's verb, including defaults."""
    return {**VERBS[point.verb].defaults(point.objective), **point.options}


def _result(point: SweepPoint, file: str | None, options: Options) -> Result[Any]:
    """Return the result of the point's verb on the machine in the file."""
    from onchip.api import fuse, map, plan, schedule, verbs  # noqa: A004 (a module)

    limits = Limits(options["time_limit"], seed=options["seed"])
    bindings = Bindings(options["dims"] or {}, shapes_of(options), {})
    reading = replace(Reading.of(bindings, Granularity(options["granularity"])), bits=options["bits"])
    source, machine = point.network, str(file)
    if point.verb is SweptVerb.MAP:
        objective, chosen = MappingObjective(point.objective), _chosen(MapOptions, options)
        mapping = map.MappingRequest(source, machine, objective, chosen, reading, limits)
        return verbs.mapping_result(map.map_layers(mapping), mapping)
    if point.verb is SweptVerb.FUSE:
        of_groups, groups = FusionObjective(point.objective), _chosen(FusionOptions, options)
        fusion = fuse.FusionRequest(source, machine, of_groups, groups, reading, limits)
        return verbs.fuse_result(fuse.fuse_network(fusion), fusion)
    if point.verb is SweptVerb.SCHEDULE:
        of_schedule, decided = ScheduleObjective(point.objective), _chosen(ScheduleOptions, options)
        request = schedule.ScheduleRequest(source, machine, of_schedule, decided, reading, limits)
        return verbs.schedule_result(schedule.schedule_network(request), source)
    deadline = Deadline.after(options["time_limit"])
    price = options["recompute_price"] if options["recompute"] == Recompute.ALLOWED else None
    more = {"alignment_bytes": options["alignment"], "recompute_price": price, "tiles": TilesOption.NEVER}
    planned = _chosen(PlanOptions, options, **more)
    asked = plan_request(source, reading, Target(point.sram_bytes, file), point.objective, planned, limits)
    named, asked = asked.reading, replace(asked, reading=asked.reading_as_shared)
    graph = graph_of_point(point, named, asked.reading)
    outcome = plan.plan_read_network(asked, graph, deadline, known=partial(_known, point))
    return verbs.plan_result(outcome, source, file)


def _answer(point: SweepPoint, result: Result[Any]) -> PointAnswer:
    """Return a verb's result as the answer of a point."""
    from onchip.formats.own.answers import answer_text

    figures = {name: result.figures.get(name) for name in FIGURES}
    details, reason = result.shown.details, None
    if result.answer is None:
        others = {SweptVerb.PLAN: result.stopped_by, SweptVerb.MAP: "a layer has no mapping"}
        reason = others.get(point.verb) or next(iter(result.notes), None)
    if point.verb is SweptVerb.PLAN:
        figures["non_compulsory_bytes"] = details.figures and details.figures.non_compulsory
    elif point.verb is SweptVerb.SCHEDULE and details.figures is not None:
        figures["peak_bytes"] = sum(memory.peak_bytes for memory in details.figures.memories.values())
    status, counted = PointStatus(result.status), PointFigures(**figures)  # type: ignore[arg-type]
    found = None if result.answer is None else result.document
    document = None if found is None else packed(answer_text(found))
    values = result.objective, result.lower_bound, result.unit
    return PointAnswer(status, *values, counted, reason=reason, document=document)


def _known(point: SweepPoint, problem: Problem) -> WarmStart | None:
    """Return the warm start that a plan's neighbours give for its problem."""
    from onchip.formats.own.plan_json import plan_from_json
    from onchip.transform.slices.emission import ChannelBands

    said = point.neighbours
    if said is None:
        return None
    plan, value = None, None
    if said.document is not None and said.value is not None:
        document = plan_from_json(zlib.decompress(said.document), point.key)
        banded = replace(problem, graph=ChannelBands(document.reading.bands)(problem.graph))
        plan, value = replace(document.answer, problem=banded), int(said.value)
    return WarmStart.of(problem, plan, value, int(said.lower_bound))


def packed(text: str) -> bytes:
    """Return an answer file as a store keeps it."""
    return zlib.compress(text.encode(), PACKED)


@contextmanager
def _machine_file(point: SweepPoint) -> Iterator[str | None]:
    """Yield the file of the point's machine while its verb runs; None if it is one scratchpad."""
    if point.sram_bytes is not None:
        yield None
        return
    with NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8", prefix="onchip-", delete=False) as file:
        file.write(point.machine.yaml)
    try:
        yield file.name
    finally:
        Path(file.name).unlink(missing_ok=True)


def _chosen(kind: type[OptionsT], options: Options, **more: object) -> OptionsT:
    """Return the options of a verb that a point states by the same names; `more` replaces some."""
    named: Any = kind  # a dataclass
    values = {one.name: options[one.name] for one in fields(named) if one.name in options}
    if values.get("tile") is not None:
        values["tile"] = tile_of_text(values["tile"])
    return kind(**{**values, **more})
