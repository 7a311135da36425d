"""`onchip map` at short and long limits through one cache folder: claims of each answer against all others."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from unittest.mock import patch

from adversary.frame import Facts, Program, Verdict
from adversary.levels.map import OBJECTIVES, MapCase, MapLevel, is_same, random_layer, random_machine, rounded_up
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator

PRESETS = ("eyeriss-like", "simba", "simba-cosa", "meta-prototype-df", "edge-tpu-like")
SECONDS = (0.3, 0.3, 0.5, 0.5, 1.0, 2.0, 5.0)
FRESH = "exact without cache"
WITHOUT_BYPASS = ("exact", "exact-even", "loma", "random")
"""Methods whose mappings bypass no memory."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The claim of `map` by one method with one time limit."""

    method: str
    seconds: float
    status: str
    value: float
    bound: float
    bound_of_any: float | None
    optimal_among: str | None

    @property
    def words(self) -> str:
        """Return the claim as text for a fault."""
        return f"{self.method} at {self.seconds} s: {self.status}, {self.value}, at least {self.bound}"


@dataclass(frozen=True, slots=True)
class MapLimitsLevel:
    """The same question at varied limits, `exact` most often: on odd machines and bundled ones."""

    name: str = "map-limits"
    weight: float = 2.0

    def generate(self, chance: random.Random) -> Facts:
        """Make a case; half of the layers are tiny, so that their even mappings can be listed.

        Larger ones are also run without the cache, at the longest limit.
        """
        odd = random_machine(chance)
        machine: Facts | str = odd
        layer = random_layer(chance, odd)
        is_larger = chance.random() < 0.5
        if is_larger:
            machine = chance.choice((odd, *PRESETS))
            layer = _larger_layer(chance)
        methods = ("exact", "exact", "exact", *chance.sample(WITHOUT_BYPASS, 2))
        asked = [[method, chance.choice(SECONDS)] for method in chance.sample(methods, len(methods))]
        return {
            "question": "limits",
            "layer": layer,
            "machine": machine,
            "objective": chance.choice(OBJECTIVES),
            "bits": 8,
            "partial_bits": None,
            "asked": [*asked, [FRESH, SECONDS[-1]]] if is_larger else asked,
        }

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Ask one question after the other; each claim has to hold for all answers."""
        machine = facts["machine"]
        name = machine if isinstance(machine, str) else program.write("machine.yaml", machine)
        try:
            case = MapCase(facts, load_accelerator(str(name)), str(name), program)
        except InputError:
            return Verdict(refused=True)
        kept = program.folder / "kept"
        shutil.rmtree(kept, ignore_errors=True)
        answers: list[_Answer] = []
        with patch.dict(os.environ, {"ONCHIP_CACHE": str(kept)}):
            for method, seconds in facts["asked"]:
                options = ("--no-cache",) if method == FRESH else ()
                by = "exact" if method == FRESH else method
                ended, mapping = case.ask(facts["objective"], by, "--time-limit", seconds, *options)
                if ended.code == 2:
                    return Verdict(refused=True)
                if fault := case.false_value(facts["objective"], ended, mapping):
                    return Verdict(fault=fault)
                answers.append(_answer(method, seconds, ended.answer))
        return Verdict(len(answers), _contradiction(answers, case.least(facts["objective"])))

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield the case with a question less, or with a smaller layer or machine."""
        asked = facts["asked"]
        for number in range(len(asked)):
            yield facts | {"asked": [*asked[:number], *asked[number + 1 :]]}
        yield from MapLevel().smaller(facts)


def _larger_layer(chance: random.Random) -> str:
    bounds = {"k": chance.choice((7, 16, 31, 64)), "c": chance.choice((3, 12, 37, 64))}
    bounds |= dict.fromkeys("pq", chance.choice((7, 13, 28))) | dict.fromkeys("rs", chance.choice((1, 3, 5)))
    return "conv:" + "".join(f"{letter}{bound}" for letter, bound in bounds.items()) + chance.choice(("", ":stride2"))


def _answer(method: str, seconds: float, fields: Facts) -> _Answer:
    value, of_any = fields["objective_value"], fields["lower_bound_of_any"]
    bound, among = fields["lower_bound"] or 0, fields["optimal_among"]
    return _Answer(method, seconds, fields["status"], inf if value is None else value, bound, of_any, among)


def _contradiction(answers: Sequence[_Answer], listed: float | None) -> str | None:
    """Return a claim that another answer refutes, or the list of all even mappings; None if there is none."""
    least_even = min([inf if listed is None else listed, *(one.value for one in answers if one.method == "exact-even")])
    least = min([least_even, *(one.value for one in answers)])
    for one in answers:
        reached = {"exact": least, FRESH: least, "exact-even": least_even}.get(one.method, inf)
        if one.bound > rounded_up(reached):
            return f"false bound: {one.words}, but {reached} can be had"
        if one.bound_of_any is not None and one.bound_of_any > rounded_up(least):
            return f"false bound of any mapping: {one.bound_of_any}, but {least} can be had"
        if one.status == "OPTIMAL" and one.value > reached and not is_same(one.value, reached):
            return f"false proof: {one.words}, but {reached} can be had"
        if one.optimal_among and one.value > least_even and not is_same(one.value, least_even):
            return f"not the best even mapping: {one.words}, but {least_even} can be had"
    return _worse_later([one for one in answers if one.method == "exact"])


def _worse_later(answers: Sequence[_Answer]) -> str | None:
    """Return a fault if an answer is worse than an earlier answer from the same cache folder."""
    for at, later in enumerate(answers):
        for earlier in answers[:at]:
            if later.value > earlier.value or later.bound < earlier.bound:
                return f"worse later: {earlier.words}; then {later.words}"
    return None
