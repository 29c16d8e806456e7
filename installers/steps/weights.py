"""A model's weights, where they are asked for: one hub after the other, taken up where it was cut, then checked."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from envcheck.core.errors import StepError
from envcheck.core.units import GIB, MIB, gib
from installers.bundle import weights, weights_fetch
from installers.bundle.weights_fetch import Fetch
from installers.bundle.weights_plan import WeightsState
from installers.plan.step import Step
from installers.state.journal import Entry
from installers.state.progress import Event, Report
from installers.steps.shell_script import ScriptTarget, not_written
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import Work

POLL_S = 5.0  # the folder of a large model has some hundred files, on a disk that has enough to do


@dataclass(frozen=True, kw_only=True)
class FetchWeights(Step):
    """`weights` is where they go, and from which hubs they come."""

    name: ClassVar[str] = "weights"
    changes_environment: ClassVar[bool] = False

    weights: WeightsState


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[FetchWeights]:
    """Nothing of their size is fetched unasked."""
    recipe, seen = desired.recipe, current.weights
    if not desired.supply.fetch or (seen.checked and seen.checked.whole):
        return
    assert recipe.weights
    size = recipe.weights.size_gib
    first, hubs = seen.fetches[0], " or ".join(each.hub for each in seen.fetches)
    where = seen.path or "the hub's own cache" + (", which goes with the container" if seen.boxed else "")
    left = max(0, round(((size or 0) * GIB - seen.there_bytes) / MIB))
    yield FetchWeights(
        f"fetch the weights of {first.repository} from {hubs}",
        f"{seen.there_bytes / GIB:.1f} GiB of them are there" if seen.there_bytes else "they are not there",
        f"fills {where}",
        f"rm -r {seen.host}" if seen.host else "not needed",
        left,
        weights=seen,
    )


def apply(step: FetchWeights, work: Work) -> str:
    """One hub after the other, until one has them; StepError of the last."""
    last, seen = StepError("no hub is named", ""), step.weights
    total = work.recipe.weights.size_gib if work.recipe.weights else None
    with Growing(seen, int((total or 0) * GIB), work.report):
        for each in seen.fetches:
            try:
                return _checked(seen, _fetched(each, work))
            except StepError as err:
                last = err
                if each != seen.fetches[-1]:
                    work.say(f"{err.message}; trying the next hub")
    raise last


def verify(step: FetchWeights, work: Work) -> str | None:
    """Nothing more: every file was checked against its index, as each hub is tried until its files are whole."""
    return None


def undo(entry: Entry, folder: Path) -> str:
    """Nothing: weights are the user's, who asked for them."""
    return ""


def script(step: FetchWeights, at: ScriptTarget) -> Iterator[str]:
    return not_written()


def _fetched(fetch: Fetch, work: Work) -> str:
    env = {**work.target.surroundings(), **weights_fetch.passed(os.environ)}
    done = work.target.run(fetch.argv(work.target.python), timeout_s=weights_fetch.DEADLINE_S, env=env)
    return weights_fetch.fetched(fetch, done)


def _checked(seen: WeightsState, folder: str) -> str:
    """Every file against its index; what stands in a container alone cannot be looked at."""
    if seen.host is None and seen.boxed:
        return f"in {folder} of the container, not checked: it is in no mount"
    place = seen.host or Path(folder)  # a hub's cache holds links from snapshots/COMMIT to its blobs
    found = weights.check(place, within=seen.within or place.parent.parent)
    for flaw in found.flaws:
        if flaw.sure:
            raise StepError(f"what was fetched is not whole: {flaw}", flaw.next_step)
    doubt = f", but {found.flaws[0]}" if found.flaws else ""
    return f"{found.shards} files, {gib(found.size_bytes)}, in {place}{doubt}"


class Growing:
    """Tells how the folder grows."""

    def __init__(self, seen: WeightsState, total: int, report: Report) -> None:
        self._seen, self._total, self._report = seen, total, report
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        if self._seen.host and self._total:
            self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        if self._thread.ident:
            self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(POLL_S):
            assert self._seen.host
            done = min(weights_fetch.present_bytes(self._seen.host), self._total)
            self._report(Event("bytes", "fetching the weights", done, self._total))
