"""Tasks on a network on chip: equal to the plain version, and to the simulator of CoSA's authors."""

from __future__ import annotations

from random import Random

import pytest
from cosa.mesh import (
    COSA_DRAM,
    COSA_NETWORK,
    MeshEndpoint,
    MeshNetwork,
    NetworkRun,
    RouterPort,
    TaskKind,
    TrafficTask,
    run_tasks,
)

from onchip.errors import InputError
from oracles.network_on_chip import PlainNetwork
from support.series import series

SEND, COMPUTE, BARRIER = TaskKind


def random_network(random: Random) -> MeshNetwork:
    """Draw a small mesh; its last endpoint reads and writes slowly."""
    columns, rows = random.choice([(1, 1), (2, 1), (1, 3), (2, 2), (3, 2), (3, 3)])
    places = [(router, RouterPort.LOCAL) for router in range(columns * rows)]
    places += [(columns * (rows - 1), RouterPort.SOUTH), (columns - 1, RouterPort.EAST)]
    slow = MeshEndpoint(*places[-1], read_cycles=random.choice([0, 7]), write_cycles=random.choice([0, 5]))
    packet_flits = random.choice([1, 2, 5])
    return MeshNetwork(
        columns=columns,
        rows=rows,
        endpoints=(*(MeshEndpoint(*place) for place in places[:-1]), slow),
        packet_flits=packet_flits,
        buffer_flits=packet_flits + random.randint(0, 4),
        hop_cycles=random.randint(1, 4),
        credit_cycles=random.randint(1, 3),
        injection_flits=random.randint(1, 4),
        injection_cycles=random.randint(1, 2),
        ejection_cycles=random.randint(1, 3),
    )


def random_tasks(random: Random, endpoints: int, *, most_receivers: int) -> list[TrafficTask]:
    """Draw up to 14 tasks; some wait for earlier ones or for a cycle."""
    tasks: list[TrafficTask] = []
    for number in range(random.randint(1, 14)):
        waits = tuple(random.sample(range(number), min(number, random.choice([0, 0, 1, 2]))))
        earliest = 0 if waits else random.choice([0, 0, 9])
        kind = random.choice([SEND, SEND, SEND, COMPUTE, BARRIER])
        actor = None if kind is BARRIER else random.randrange(endpoints)
        receivers: tuple[int, ...] = ()
        if kind is SEND:
            receivers = tuple(random.sample(range(endpoints), random.randint(1, min(endpoints, most_receivers))))
        size = 0 if kind is BARRIER else random.randint(1, 6)
        tasks.append(TrafficTask(kind, actor, size, receivers, waits, earliest))
    return tasks


SEND, COMPUTE, BARRIER = TaskKind


def ran(network: MeshNetwork, tasks: list[TrafficTask]) -> NetworkRun:
    run = run_tasks(network, tasks)
    assert run is not None
    return run


@pytest.mark.parametrize("most_receivers", [1, 4])
@pytest.mark.parametrize("seed", series(range(60), 20))
def test_tasks_begin_and_end_as_in_the_plain_network(seed: int, most_receivers: int) -> None:
    random = Random(seed)
    network = random_network(random)
    tasks = random_tasks(random, len(network.endpoints), most_receivers=most_receivers)
    assert ran(network, tasks) == PlainNetwork(network, tasks).run(20_000)


MEASURED: dict[str, tuple[list[tuple[int, int, tuple[int, ...]]], list[int]]] = {
    "one packet over six hops": ([(0, 1, (15,))], [33]),
    "a stream": ([(0, 100, (3,))], [516]),
    "a multicast along a row and a column": ([(19, 100, (0, 1, 2, 3))], [532]),
    "three senders for one": ([(0, 100, (5,)), (1, 100, (5,)), (4, 100, (5,))], [1508, 1503, 1003]),
    "all to the global buffer": (
        [(element, 30, (19,)) for element in range(16)],
        [2408, 2403, 2248, 1948, 2253, 2243, 1943, 1638, 1653, 1643, 1343, 1038, 1053, 1043, 743, 448],
    ),
    "multicasts across": (
        [
            (0, 50, (5, 10, 15)),
            (15, 50, (0, 5, 10)),
            (3, 50, (12, 5, 6)),
            (12, 50, (3, 9, 6)),
            (7, 50, (4,)),
            (4, 50, (7,)),
        ],
        [528, 768, 279, 1017, 266, 266],
    ),
    "reads, of DRAM that sleeps no more": ([(COSA_DRAM, 1, (19,))], [22 - 1]),
    "writes": ([(19, 10, (COSA_DRAM,))], [67]),
}
"""Senders, packets, receivers, and the arrival times in ucb-bar/cosa's simulator (it begins at cycle 2), at c4798a7."""


@pytest.mark.parametrize("name", MEASURED)
def test_packets_arrive_when_they_do_in_the_simulator_of_cosas_authors(name: str) -> None:
    sent, ends = MEASURED[name]
    tasks = [TrafficTask(SEND, actor, packets, receivers) for actor, packets, receivers in sent]
    assert list(ran(COSA_NETWORK, tasks).ends) == ends


def test_what_waits_at_a_receiver_goes_on_before_the_other_receivers_have_all() -> None:
    tasks = [
        TrafficTask(SEND, 0, 3, (1, 15)),
        TrafficTask(COMPUTE, 1, 1, (), (0,)),
        TrafficTask(COMPUTE, 2, 1, (), (0,)),
    ]
    run = ran(COSA_NETWORK, tasks)
    assert run.begins[1] < run.ends[0] <= run.begins[2]


@pytest.mark.parametrize(
    "task",
    [
        TrafficTask(SEND, 0, 0, (1,)),
        TrafficTask(SEND, 0, 1, ()),
        TrafficTask(SEND, 0, 1, (21,)),
        TrafficTask(SEND, 21, 1, (1,)),
        TrafficTask(SEND, None, 1, (1,)),
        TrafficTask(COMPUTE, 0, 1, (1,)),
        TrafficTask(BARRIER, 0),
        TrafficTask(COMPUTE, 0, 1, (), (0,)),
        TrafficTask(COMPUTE, 0, 1, earliest=-1),
    ],
    ids=str,
)
def test_a_task_that_no_network_has_is_refused(task: TrafficTask) -> None:
    with pytest.raises(InputError, match=r"\(entry 0\)"):
        run_tasks(COSA_NETWORK, [task])


def test_a_network_of_more_endpoints_than_it_can_have_is_refused() -> None:
    with pytest.raises(InputError, match="9x8 routers"):
        MeshNetwork(columns=9, rows=8, endpoints=(MeshEndpoint(0),))


@pytest.mark.parametrize("receiver", [-1, 64])
def test_a_receiver_that_no_network_has_is_refused(receiver: int) -> None:
    with pytest.raises(InputError, match="a task sends to"):
        run_tasks(COSA_NETWORK, [TrafficTask(SEND, 0, 1, (receiver,))])


def test_two_endpoints_have_no_port_in_common() -> None:
    with pytest.raises(InputError, match="a port of its own"):
        run_tasks(MeshNetwork(columns=1, rows=1, endpoints=(MeshEndpoint(0), MeshEndpoint(0))), [])
