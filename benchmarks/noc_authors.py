"""The network on a chip beside the simulator of CoSA's authors: the same tasks on both.

    python benchmarks/noc_authors.py SIMULATOR [--sets N] [--layers N] [--results FILE]

SIMULATOR is `sim_test` of ucb-bar/cosa's src/nocsim, built in a clone of NVlabs/matchlib's branch hybrid_router beside
DRAMSim2 (its README says how; Catapult's headers are those of hlslibs' ac_types and ac_simutils, and a stub of p2p).
Sets are of 40 messages at random, all at once and none of DRAM; layers are ResNet-50's with CoSA's mapping.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random

from cosa.mesh import COSA_DRAM, COSA_NETWORK, TaskKind, TrafficTask, element_rounds, run_tasks, tasks_of
from shared.runner import Row, asked_of, options_of, report, run

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table
from onchip.mapping.methods.registry import METHODS
from onchip.search.budget.limits import Limits, Run

THEIR_DRAM = 29
"""They count the edges' ports after the routers, clockwise."""
THEIR_CYCLES_MORE = 3
"""Two of reset before, and one until the first port sees that all is done."""
MOST_ROUNDS = 12
"""Most rounds of a layer, for the sake of the authors' simulator."""


def rows(asked: Namespace) -> Iterator[Row]:
    """Yield the cycles of each set and each layer in both simulators."""
    for name, tasks in (*random_sets(asked.sets), *layers(asked.layers)):
        ours, theirs = run_tasks(COSA_NETWORK, tasks), authors_cycles(asked.simulator, tasks)
        assert ours is not None
        difference = round(ours.cycles / theirs - 1, 5)
        yield {"tasks": name, "ours": ours.cycles, "authors": theirs, "difference": difference}


def random_sets(count: int) -> Iterator[tuple[str, list[TrafficTask]]]:
    """Make sets of messages, some to one receiver, some to many."""
    for seed in range(count):
        random, tasks = Random(seed), []
        for _ in range(40):
            actor = random.randrange(20)
            others = [one for one in range(20) if one != actor]
            receivers = random.sample(others, 1 if random.random() < 0.6 else random.randint(2, 8))
            tasks.append(TrafficTask(TaskKind.SEND, actor, random.randint(1, 30), tuple(receivers)))
        yield f"set {seed}", tasks


def layers(count: int) -> Iterator[tuple[str, list[TrafficTask]]]:
    """Map layers as CoSA does."""
    machine = load_accelerator("simba")
    for name, layer in list(layer_table("resnet50").items())[1 : 1 + count]:
        problem = LayerProblem(layer, machine)
        found = METHODS["cosa"].solve(problem, MappingObjective.LATENCY, Run(Limits(time_limit_seconds=10)))
        if found.answer is not None:
            rounds = element_rounds(problem, found.answer)
            yield f"{name}, {min(rounds.count, MOST_ROUNDS)} rounds", tasks_of(rounds, min(rounds.count, MOST_ROUNDS))


def authors_cycles(simulator: Path, tasks: Sequence[TrafficTask]) -> int:
    """Return the cycle in which the authors' simulator has done all tasks. Raises RuntimeError if it states none."""
    folder = simulator.resolve().parent
    (folder / "tasks.csv").write_text("\n".join(authors_lines(tasks)) + "\n")
    said = run([simulator.resolve(), "tasks"], folder).output
    finished = re.search(r"FINISH @(\d+)", said)
    if finished is None:
        raise RuntimeError(f"it does not finish: {said[-200:]}")
    return int(finished[1]) // 1000 - THEIR_CYCLES_MORE  # it says picoseconds


def authors_lines(tasks: Sequence[TrafficTask]) -> Iterator[str]:
    """Say tasks as they do; what waits for a barrier waits for all that it waits for."""
    waits: list[list[int]] = []
    for number, task in enumerate(tasks):
        some = [waits[one] if tasks[one].kind is TaskKind.BARRIER else [one] for one in task.waits_for]
        waits.append(list(dict.fromkeys(one for group in some for one in group)))
        if task.kind is TaskKind.BARRIER:
            continue
        kind = 2 if task.kind is TaskKind.COMPUTE else int(len(task.receivers) > 1)
        actor, receivers = _port(task.actor), " ".join(str(_port(one)) for one in task.receivers)
        yield f"{number},{actor},{kind},{task.size},{actor},{receivers},{' '.join(map(str, waits[-1]))}"


def _port(endpoint: int | None) -> int | None:
    return THEIR_DRAM if endpoint == COSA_DRAM else endpoint


def main() -> None:
    """Print the rows."""
    parser = options_of(__doc__)
    parser.add_argument("simulator", type=Path, help="the program; it is run in its folder")
    parser.add_argument("--sets", type=int, default=20, help="of messages at random")
    parser.add_argument("--layers", type=int, default=3, help="of ResNet-50, the first after the 7x7")
    asked = asked_of(parser)
    report(asked, {"rows": partial(rows, asked)})


if __name__ == "__main__":
    main()
