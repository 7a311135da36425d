"""Random meshes and tasks for the network on a chip."""

from __future__ import annotations

from random import Random

from cosa.mesh import MeshEndpoint, MeshNetwork, RouterPort, TaskKind, TrafficTask

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
