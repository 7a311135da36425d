"""A network on a chip, simulated directly: every cycle visits every actor, router, input and output."""

from __future__ import annotations

from dataclasses import dataclass, field

from cosa.mesh import MeshNetwork, NetworkRun, RouterPort, TaskKind, TrafficTask

LOCAL, NORTH, EAST, SOUTH, WEST = RouterPort
STEPS = {NORTH: (0, -1), EAST: (1, 0), SOUTH: (0, 1), WEST: (-1, 0)}
OPPOSITE = {NORTH: SOUTH, SOUTH: NORTH, EAST: WEST, WEST: EAST}
IN_TURN = (WEST, SOUTH, EAST, NORTH, LOCAL)


@dataclass(frozen=True)
class Flit:
    task: int
    position: int
    targets: frozenset[int]
    is_multicast: bool


@dataclass
class Queue:
    """A FIFO with all flits that ever entered, and the cycles in which they entered and left."""

    capacity: int
    latency: int
    credit: int
    flits: list[Flit] = field(default_factory=list)
    entered: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)

    def front(self, now: int) -> Flit | None:
        first = len(self.left)
        return self.flits[first] if first < len(self.flits) and self.entered[first] + self.latency <= now else None

    def has_room(self, now: int, count: int) -> bool:
        taken = len(self.flits) - sum(when + self.credit <= now for when in self.left)
        return taken + count <= self.capacity


@dataclass
class Router:
    """A router; `route` is the next hop of the packet at an input, `owner` the input whose packet holds an output."""

    queues: dict[RouterPort, Queue]
    route: dict[RouterPort, tuple[RouterPort, ...]] = field(default_factory=dict)
    owner: dict[RouterPort, RouterPort] = field(default_factory=dict)
    last_served: dict[RouterPort, RouterPort] = field(default_factory=dict)


class PlainNetwork:
    def __init__(self, network: MeshNetwork, tasks: list[TrafficTask]) -> None:
        self.network, self.tasks, self.now, self.flit_hops = network, tasks, 0, 0
        self.at = {(one.router, one.port): number for number, one in enumerate(network.endpoints)}
        self.routers = [self._router(number) for number in range(network.columns * network.rows)]
        self.begins, self.ends = [-1] * len(tasks), [-1] * len(tasks)
        self.packets_in = [dict.fromkeys(task.receivers, 0) for task in tasks]
        self.doing: dict[int, int] = {}
        self.sent: dict[int, tuple[int, int, int]] = {}  # packets, flits of the next packet, its first cycle
        self.tails: list[tuple[int, int, int]] = []  # cycle in which it counts, task, endpoint

    def run(self, last_cycle: int) -> NetworkRun:
        while min(self.ends, default=0) < 0:
            assert self.now <= last_cycle, "it never ends"
            self._packets_count()
            self._barriers_end()
            self._computations_end()
            self._barriers_end()
            for actor in range(len(self.network.endpoints)):
                self._act(actor)
            moves = [move for number, router in enumerate(self.routers) for move in self._moves(number, router)]
            for number, port, outputs in moves:
                self._move(number, port, outputs)
            self.now += 1
        return NetworkRun(max(self.ends, default=0), self.flit_hops, tuple(self.begins), tuple(self.ends))

    def _router(self, number: int) -> Router:
        network, queues = self.network, {}
        for port in RouterPort:
            is_way_in = (number, port) in self.at
            flits = network.injection_flits if is_way_in else network.buffer_flits
            latency = network.injection_cycles if is_way_in else network.hop_cycles
            queues[port] = Queue(flits, latency, network.credit_cycles)
        return Router(queues)

    def _packets_count(self) -> None:
        for when, task, endpoint in self.tails:
            if when == self.now:
                self.packets_in[task][endpoint] += 1
                if all(count == self.tasks[task].size for count in self.packets_in[task].values()):
                    self.ends[task] = self.now

    def _computations_end(self) -> None:
        for actor, number in list(self.doing.items()):
            task = self.tasks[number]
            if task.kind is TaskKind.COMPUTE and self.now == self.begins[number] + task.size + 1:
                self.ends[number] = self.now
                del self.doing[actor]

    def _barriers_end(self) -> None:
        for number, task in enumerate(self.tasks):
            if task.kind is TaskKind.BARRIER and self.ends[number] < 0 and self._may_begin(number):
                self.begins[number] = self.ends[number] = self.now

    def _may_begin(self, number: int) -> bool:
        task = self.tasks[number]
        return task.earliest <= self.now and all(self._has_ended(one, task.actor) for one in task.waits_for)

    def _has_ended(self, number: int, actor: int | None) -> bool:
        task = self.tasks[number]
        if actor is not None and actor in task.receivers:
            return self.packets_in[number][actor] == task.size
        return self.ends[number] >= 0

    def _act(self, actor: int) -> None:
        if actor not in self.doing:
            ready = (
                number
                for number, task in enumerate(self.tasks)
                if task.actor == actor and self.begins[number] < 0 and self._may_begin(number)
            )
            number = next(ready, None)
            if number is None:
                return
            self.doing[actor], self.begins[number], self.sent[actor] = number, self.now, (0, 0, self.now)
        number = self.doing[actor]
        if self.tasks[number].kind is TaskKind.SEND:
            self._send(actor, number)

    def _send(self, actor: int, number: int) -> None:
        place, task = self.network.endpoints[actor], self.tasks[number]
        packets, position, begun = self.sent[actor]
        is_tail = position == self.network.packet_flits - 1
        queue = self.routers[place.router].queues[place.port]
        if (is_tail and self.now < begun + place.read_cycles) or not queue.has_room(self.now, 1):
            return
        queue.flits.append(Flit(number, position, frozenset(task.receivers), len(task.receivers) > 1))
        queue.entered.append(self.now)
        self.sent[actor] = (packets + 1, 0, self.now + 1) if is_tail else (packets, position + 1, begun)
        if is_tail and packets + 1 == task.size:
            del self.doing[actor]

    def _way(self, router: int, endpoint: int) -> RouterPort:
        place, columns = self.network.endpoints[endpoint], self.network.columns
        across, down = place.router % columns - router % columns, place.router // columns - router // columns
        if across:
            return EAST if across > 0 else WEST
        if down:
            return SOUTH if down > 0 else NORTH
        return place.port

    def _moves(self, number: int, router: Router) -> list[tuple[int, RouterPort, tuple[RouterPort, ...]]]:
        """Return the moves of this cycle: multicasts, local input first, then one other input per output in turn."""
        asked: dict[RouterPort, tuple[RouterPort, ...]] = {}
        fronts = {port: router.queues[port].front(self.now) for port in RouterPort}
        for port, flit in fronts.items():
            if flit is not None:
                outputs = self._outputs(number, router, port, flit)
                if all(self._is_free(number, router, port, flit, output) for output in outputs):
                    asked[port] = outputs
        granted: dict[RouterPort, tuple[RouterPort, ...]] = {}
        for port in (port for port in RouterPort if port in asked and fronts[port].is_multicast):  # type: ignore[union-attr]
            if not any(output in some for some in granted.values() for output in asked[port]):
                granted[port] = asked[port]
        taken = {output for some in granted.values() for output in some}
        for output in (output for output in RouterPort if output not in taken):
            after = IN_TURN.index(router.last_served.get(output, LOCAL)) + 1
            for port in (*IN_TURN[after:], *IN_TURN[:after]):
                if port in asked and not fronts[port].is_multicast and asked[port] == (output,):  # type: ignore[union-attr]
                    granted[port] = (output,)
                    router.last_served[output] = port
                    break
        return [(number, port, outputs) for port, outputs in granted.items()]

    def _outputs(self, number: int, router: Router, port: RouterPort, flit: Flit) -> tuple[RouterPort, ...]:
        if flit.position:
            return router.route[port]
        return tuple(sorted({self._way(number, target) for target in flit.targets}))

    def _is_free(self, number: int, router: Router, port: RouterPort, flit: Flit, output: RouterPort) -> bool:
        if router.owner.get(output) != (port if flit.position else None):
            return False
        if (number, output) in self.at:
            return True
        need = self.network.packet_flits if flit.is_multicast and not flit.position else 1
        return self._queue_after(number, output).has_room(self.now, need)

    def _queue_after(self, number: int, output: RouterPort) -> Queue:
        across, down = STEPS[output]
        return self.routers[number + across + down * self.network.columns].queues[OPPOSITE[output]]

    def _move(self, number: int, port: RouterPort, outputs: tuple[RouterPort, ...]) -> None:
        router = self.routers[number]
        queue = router.queues[port]
        flit = queue.flits[len(queue.left)]
        queue.left.append(self.now)
        router.route[port] = outputs
        is_tail = flit.position == self.network.packet_flits - 1
        for output in outputs:
            self.flit_hops += 1
            router.owner[output] = port
            if is_tail:
                del router.owner[output]
            if (number, output) in self.at:
                self._arrive(flit, self.at[number, output], is_tail)
                continue
            targets = frozenset(target for target in flit.targets if self._way(number, target) == output)
            after = self._queue_after(number, output)
            after.flits.append(Flit(flit.task, flit.position, targets, flit.is_multicast))
            after.entered.append(self.now)

    def _arrive(self, flit: Flit, endpoint: int, is_tail: bool) -> None:
        if is_tail:
            when = self.now + self.network.ejection_cycles + self.network.endpoints[endpoint].write_cycles
            self.tails.append((when, flit.task, endpoint))
