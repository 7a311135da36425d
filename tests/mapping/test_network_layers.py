"""Layers and traffic of a network on a chip, held against a simulation of every cycle."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from random import Random

import pytest
from cosa.layer_floor import floor_of_layer
from cosa.mesh import (
    COSA_BUFFER,
    COSA_DRAM,
    COSA_NETWORK,
    ElementRounds,
    MeshEndpoint,
    MeshNetwork,
    NetworkRun,
    RouterPort,
    TaskKind,
    TrafficTask,
    element_rounds,
    floor_of_rounds,
    layer_on_network,
    reduction_chain,
    run_tasks,
    tasks_of,
)

from onchip.answer.layer_mapping import LayerMapping, Loop, Move, even
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import DRAM
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import INPUT, OUTPUT, WEIGHT, Layer
from onchip.model.layer.cost import layer_cost
from oracles.network_on_chip import PlainNetwork
from support.network_mappings import SIMBA, mappings_for_the_network
from support.series import series

pytestmark = pytest.mark.skipif(shutil.which(os.environ.get("CXX", "c++")) is None, reason="there is no compiler")

# The mapping of a layer on the network on chip: its transfers, their times and durations


HOLDERS = {
    INPUT: ("input_buffer", "global_buffer"),
    WEIGHT: ("register", "weight_buffer"),
    OUTPUT: ("accumulation_buffer", "global_buffer"),
}


def nested(**loops: str) -> LayerMapping:
    """Return loops by memory, `P7 K4@pe` innermost first; `dram` lists the loops outside."""
    parsed = {
        memory: [Loop(one[0], int(one[1:].partition("@")[0]), one.partition("@")[2] or None) for one in text.split()]
        for memory, text in loops.items()
    }
    names = [level.memory.name for level in SIMBA.levels]
    return even([(name, parsed.get(name, ())) for name in names], HOLDERS, parsed.get("dram", ()))


AUTHORS_LAYER = Layer(k=64, c=64, p=56, q=56)
AUTHORS_MAPPING = nested(
    register="P7",
    accumulation_buffer="C4@lane K2@lane C16 K4",
    weight_buffer="K2",
    input_buffer="P2@vector Q4@vector",
    global_buffer="P2@pe Q2@pe K4@pe",
    dram="P2 Q7",
)
"""The example in ucb-bar/cosa's src/nocsim/runs, with 64 lanes as 8 vectors of 8."""


def authors_rounds() -> ElementRounds:
    return element_rounds(LayerProblem(AUTHORS_LAYER, SIMBA), AUTHORS_MAPPING, has_refills=False)


def test_the_example_of_cosas_authors_has_the_packets_that_their_program_makes() -> None:
    rounds = authors_rounds()
    first = [task for task in tasks_of(rounds, 1) if task.kind is not TaskKind.BARRIER]
    assert (rounds.count, rounds.cycles, rounds.elements) == (14, 896, 16)
    sent = Counter((one.actor, one.size, one.receivers) for one in first if one.kind is TaskKind.SEND)
    expected = {
        (COSA_DRAM, 448, (COSA_BUFFER,)),
        *((COSA_BUFFER, 112, (column, column + 4, column + 8, column + 12)) for column in range(4)),
        *((COSA_DRAM, 32, tuple(range(row, row + 4))) for row in (0, 4, 8, 12)),
        *((element, 84, (COSA_BUFFER,)) for element in range(16)),
        (COSA_BUFFER, 1344, (COSA_DRAM,)),
    }
    assert sent == Counter(expected)
    assert Counter(one.size for one in first if one.kind is TaskKind.COMPUTE) == {896: 16}


def test_the_example_of_cosas_authors_takes_about_as_long_as_on_their_simulator() -> None:
    found = layer_on_network(LayerProblem(AUTHORS_LAYER, SIMBA), AUTHORS_MAPPING, has_refills=False)
    assert found is not None
    assert found.rounds_simulated == found.rounds
    assert found.cycles == pytest.approx(197_566, rel=0.025)  # refreshes of their DRAM are not in our model


def moved_bits(rounds: ElementRounds, layer: Layer) -> dict[tuple[str, str], int]:
    """Return bits by operand and direction (from DRAM, to DRAM) without packet padding; sums count partial bits."""
    moved: Counter[tuple[str, str]] = Counter()
    for operand, movement in rounds.movements.items():
        flow, copies = (movement.shared, 1) if movement.shared else (movement.element, len(movement.groups))
        for round_number in range(0, rounds.count, flow.period):
            if operand == OUTPUT:
                moved["to", operand] += copies * flow.bits
                is_continued = rounds.is_continued(round_number, flow.period)
                moved["from", operand] += copies * (flow.bits if is_continued else flow.revisited_bits)
            else:
                moved["from", operand] += copies * flow.bits
    return {key: bits for key, bits in moved.items() if bits}


@pytest.mark.parametrize("seed", series(range(40), 13))
def test_what_moves_from_and_to_dram_is_what_the_cost_model_counts(seed: int) -> None:
    problem, mappings = mappings_for_the_network(seed)
    layer = problem.layer
    for mapping in mappings:
        counted: Counter[tuple[str, str]] = Counter()
        for one in layer_cost(problem, mapping).accesses:
            if one.memory == DRAM:
                direction = "from" if one.move is Move.READ_FOR_BELOW else "to"
                bits = layer.partial_bits if one.operand == OUTPUT else layer.bits(one.operand)
                counted[direction, one.operand] += one.elements * bits
        assert moved_bits(element_rounds(problem, mapping), layer) == counted, mapping


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("has_refills", [False, True])
def test_a_mapping_runs_as_on_the_plain_network(seed: int, has_refills: bool) -> None:
    problem, mappings = mappings_for_the_network(seed)
    rounds = element_rounds(problem, mappings[0], has_refills=has_refills)
    tasks = tasks_of(rounds, min(rounds.count, 4))
    assert run_tasks(COSA_NETWORK, tasks) == PlainNetwork(COSA_NETWORK, tasks).run(200_000)


def computed(rounds: ElementRounds, count: int) -> list[TrafficTask]:
    return [one for one in tasks_of(rounds, count) if one.kind is TaskKind.COMPUTE]


def test_each_element_computes_every_step() -> None:
    rounds = authors_rounds()
    assert Counter(one.actor for one in computed(rounds, 5)) == dict.fromkeys(range(16), 5)


def test_sums_go_along_the_rows_and_then_down() -> None:
    assert reduction_chain(range(16)) == [
        (0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7), (8, 9), (9, 10), (10, 11), (12, 13), (13, 14), (14, 15),
        (3, 7), (7, 11), (11, 15),
    ]  # fmt: skip
    assert reduction_chain([5, 2, 1]) == [(1, 2), (2, 5)]
    assert reduction_chain([7]) == []


def test_sums_of_channels_side_by_side_are_added_before_they_are_stored() -> None:
    mapping = nested(register="P4", global_buffer="C4@pe", dram="K2")
    tasks = tasks_of(element_rounds(LayerProblem(Layer(k=2, c=4, p=4), SIMBA), mapping), 1)
    sums = [(one.actor, one.receivers) for one in tasks if one.kind is TaskKind.SEND and one.actor in range(16)]
    assert sums == [(0, (1,)), (1, (2,)), (2, (3,)), (3, (COSA_BUFFER,))]


def test_a_mapping_of_more_steps_than_are_simulated_goes_on_as_before() -> None:
    problem = LayerProblem(Layer(k=64, c=8, p=8), SIMBA)
    mapping = nested(register="P8", accumulation_buffer="C8@lane", dram="K64")
    whole, part = layer_on_network(problem, mapping), layer_on_network(problem, mapping, 32)
    assert whole is not None
    assert part is not None
    assert (whole.rounds_simulated, part.rounds_simulated) == (whole.rounds, 32)
    assert part.cycles == pytest.approx(whole.cycles, rel=0.05)


def test_a_mapping_of_more_elements_than_the_network_has_is_refused() -> None:
    machine = load_accelerator("simba-64-pes")
    mapping = even([(level.memory.name, ()) for level in machine.levels], HOLDERS, (Loop("K", 32, "pe"),))
    with pytest.raises(InputError, match="32 elements"):
        layer_on_network(LayerProblem(Layer(k=32), machine), mapping)


def test_a_machine_without_a_shared_memory_above_all_elements_is_refused() -> None:
    problem = LayerProblem(Layer(k=2), load_accelerator("meta-prototype-df"))
    with pytest.raises(InputError, match="no elements with memories of their own"):
        layer_on_network(problem, LayerMapping((Loop("K", 2),)))


WHOLE = 1 << 20


@pytest.mark.parametrize("seed", series(range(40), 13))
@pytest.mark.parametrize("has_refills", [False, True])
def test_no_simulation_ends_before_the_floors_of_its_mapping_and_of_its_layer(seed: int, has_refills: bool) -> None:
    problem, mappings = mappings_for_the_network(seed)
    least = floor_of_layer(problem)
    for mapping in mappings[:3]:
        rounds = element_rounds(problem, mapping, has_refills=has_refills)
        run = layer_on_network(problem, mapping, WHOLE, has_refills=has_refills)
        assert run is not None
        assert run.rounds_simulated == run.rounds
        floor = floor_of_rounds(rounds)
        assert least <= floor, mapping
        assert floor <= run.cycles, mapping


def test_a_product_whose_weights_come_once_is_close_to_its_floor() -> None:
    """DRAM reads take nearly all of the time."""
    problem = LayerProblem(Layer(k=64, c=64), SIMBA)
    mapping = LayerMapping((Loop("C", 8, "lane"), Loop("K", 8, "vector"), Loop("K", 8, "pe"), Loop("C", 8)))
    run = layer_on_network(problem, mapping)
    assert run is not None
    assert floor_of_layer(problem) <= run.cycles <= 1.25 * floor_of_layer(problem)


def test_rows_that_a_stride_skips_need_not_come() -> None:
    dense, strided = Layer(c=512, p=8, q=8), Layer(c=512, p=8, q=8, stride=(2, 2))
    floors = [floor_of_layer(LayerProblem(one, SIMBA)) for one in (dense, strided)]
    assert floors[0] == floors[1]


def test_a_machine_without_a_shared_memory_above_all_elements_has_no_floor() -> None:
    with pytest.raises(InputError, match="no elements with memories of their own"):
        floor_of_layer(LayerProblem(Layer(k=2), load_accelerator("meta-prototype-df")))


# Tasks on a network on chip: equal to the plain version, and to the simulator of CoSA's authors


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
