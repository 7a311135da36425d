"""A study's questions resolved to points: networks and machines read, hashed, and every field checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from onchip.answer.problem import Objective
from onchip.api.budgets import Budget
from onchip.api.networks import network_to_plan
from onchip.api.plan import Request
from onchip.api.target import Target, TargetFinder, one_scratchpad
from onchip.arch.accelerator import Accelerator
from onchip.arch.sharing import Share
from onchip.errors import InputError
from onchip.formats.canonical import canonical_sha256
from onchip.formats.foreign_files import load_any_accelerator
from onchip.search.budget.limits import Limits
from onchip.sweeps.machine import changed, machine_of
from onchip.sweeps.method_version import method_version
from onchip.sweeps.point import SweepPoint, SweptMachine
from onchip.sweeps.point_networks import network_sha256, reading_of
from onchip.sweeps.study import SRAM, Study, StudyQuestion
from onchip.sweeps.values import Scalar
from onchip.sweeps.verbs import VERBS, SweptVerb


@dataclass(slots=True)
class PointResolver:
    """Turns a study's combinations into points; networks and machines are read once."""

    study: Study
    _accelerators: dict[str | None, Accelerator] = field(default_factory=dict)
    _machines: dict[tuple[object, ...], tuple[SweptMachine, int | None]] = field(default_factory=dict)
    _networks: dict[str, str] = field(default_factory=dict)
    _budgets: dict[str, int] = field(default_factory=dict)

    def questions(self) -> tuple[StudyQuestion, ...]:
        """All questions in the study's order; raises InputError where its constraints allow none."""
        with self._located():
            questions = tuple(self.study.combinations(self._size))
            if not questions:
                what = "no combination of its parameters is allowed"
                raise InputError(what, place="constraints", expected="at least one")
        return questions

    def _size(self, network: str, objective: str, said: Mapping[str, object], budget: Budget) -> int:
        """A budget of a network as the options of a plan read it; each is found once."""
        options: dict[str, Any] = {**VERBS[SweptVerb.PLAN].defaults(objective), **said}
        place = repr((network, options, budget))
        if place not in self._budgets:
            share = None if options["share"] is None else Share(options["share"])
            asked = Request(network, reading_of(options), Target(budget, None, options["alignment"]), share=share)
            reading = asked.reading_as_shared
            finder = TargetFinder(network_to_plan(network, reading), reading.count, Limits(options["time_limit"]))
            accelerator, _ = finder.accelerator(asked.target, Objective(objective))
            self._budgets[place] = accelerator.scratchpads[0].capacity_bytes
        return self._budgets[place]

    def points(self, questions: tuple[StudyQuestion, ...]) -> tuple[SweepPoint, ...]:
        """The points of questions, in their order; raises InputError for what cannot be read or does not fit."""
        with self._located():
            return tuple(self._point(one) for one in questions)

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Say of what is wrong with the study itself where it stands in its file, if it has one."""
        try:
            yield
        except InputError as error:
            if error.file is not None or self.study.located is None:
                raise
            names = {one.path: one.name for one in self.study.parameters}
            if error.place in names:
                error.place = f"parameters.{names[error.place]}"
            raise self.study.located(error) from None

    def _point(self, asked: StudyQuestion) -> SweepPoint:
        verb = self.study.verb
        machine, sram_bytes = self._machine(asked)
        defaults = VERBS[verb].defaults(asked.objective)
        options = {name: value for name, value in sorted(asked.options.items()) if value != defaults[name]}
        network = self._network(verb, asked.network, {**defaults, **options})
        decided = {
            "method_version": method_version(),
            "verb": str(verb),
            "network": network,
            "machine": machine.sha256,
            "objective": asked.objective,
            "options": options,
        }
        key = canonical_sha256(decided, InputError)
        return SweepPoint(
            key,
            verb,
            asked.network,
            network,
            asked.accelerator or SRAM,
            machine,
            sram_bytes,
            asked.objective,
            options,
            asked.parameters,
            asked.costs,
        )

    def _network(self, verb: SweptVerb, network: str, options: dict[str, Any]) -> str:
        place = repr((network, options))
        if place not in self._networks:
            self._networks[place] = network_sha256(verb, network, options)
        return self._networks[place]

    def _machine(self, asked: StudyQuestion) -> tuple[SweptMachine, int | None]:
        values = self.study.paths_of(asked)
        place = (asked.accelerator, *values.items())
        if place not in self._machines:
            self._machines[place] = self._made(asked.accelerator, values)
        return self._machines[place]

    def _made(self, accelerator: str | None, values: dict[str, Scalar]) -> tuple[SweptMachine, int | None]:
        if accelerator is None:
            sized = changed(one_scratchpad(1), values)
            return machine_of(sized), sized.scratchpads[0].capacity_bytes
        if accelerator not in self._accelerators:
            self._accelerators[accelerator] = load_any_accelerator(accelerator)
        return machine_of(changed(self._accelerators[accelerator], values)), None
