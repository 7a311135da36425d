"""How far the mapping of a network is, told for all of its layers: what is known of a single one is no answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.result import Result
from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.budget.limits import Progress, Run


@dataclass(slots=True)
class LayerProgress:
    """`times` says how often each distinct layer runs, in the order in which they are mapped.

    Where objective values do not add up, as products of energy and latency do not, only the phase is told.
    """

    run: Run
    times: Sequence[int]
    adds_up: bool
    _done: int = 0
    _value: int | None = 0
    _lower_bound: int = 0

    def run_of_next(self, name: str) -> Run:
        """Return a run with a clock and an equal share of what time is left, ended by the same interrupt."""
        run, left = self.run, len(self.times) - self._done
        phase = f"layer {self._done + 1} of {len(self.times)}, {name}"

        def listen(heard: Progress) -> None:
            told = f"{phase}: {heard.phase}" if heard.phase else phase
            run.listener(Progress(run.seconds, *self._of_all(heard.best, heard.lower_bound), told))

        listen(Progress(0.0, None, 0, ""))
        share = max(0.0, run.seconds_left) / left
        return replace(run, listener=listen, deadline=Deadline.after(share), watch=Stopwatch())

    def tell(self, how: str) -> None:
        """Tell how many layers are mapped where several are at once."""
        value = self._value if self.adds_up and self._done == len(self.times) else None
        phase = f"{self._done} of {len(self.times)} layers, {how}"
        self.run.listener(Progress(self.run.seconds, value, self._lower_bound if self.adds_up else 0, phase))

    def take(self, place: int, result: Result[LayerMapping]) -> None:
        """Count the layer at this place; one without a mapping leaves the network without an answer."""
        times, value = self.times[place], result.objective_value
        self._value = None if self._value is None or value is None else self._value + times * value
        self._lower_bound += times * result.lower_bound
        self._done += 1

    def _of_all(self, best: int | None, lower_bound: int) -> tuple[int | None, int]:
        """Return the value of all layers, known with the last of them, and a bound of it."""
        times, is_last = self.times[self._done], self._done + 1 == len(self.times)
        if not self.adds_up:
            return (best, lower_bound) if len(self.times) == 1 else (None, 0)
        value = None if best is None or self._value is None or not is_last else self._value + times * best
        return value, self._lower_bound + times * lower_bound
