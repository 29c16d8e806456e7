"""Download a model's weights on request: hubs are tried in order, downloads are resumed, files are checked."""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from envcheck.core.errors import StepError
from envcheck.core.messages import NOTHING, Message, _, join, ngettext, verbatim
from envcheck.core.units import GIB, MIB, format_gib
from installers.bundle import weights, weights_fetch
from installers.bundle.weights_fetch import HubDownload
from installers.bundle.weights_plan import WeightsState
from installers.plan.step import Step
from installers.state.journal import Entry
from installers.state.progress import ProgressEvent, Report
from installers.steps.shell_script import ScriptTarget, not_written
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import StepContext

POLL_S = 5.0  # scanning the hundreds of files of a large model must not slow down a busy disk
_END = "END_OF_PROGRAM"


@dataclass(frozen=True, kw_only=True)
class FetchWeights(Step):
    """`weights` has the destination and the hubs."""

    name: ClassVar[str] = "weights"
    changes_environment: ClassVar[bool] = False

    weights: WeightsState


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[FetchWeights]:
    """Yield the download if it was requested (--fetch-weights) and the weights are not complete."""
    recipe, seen = desired.recipe, current.weights
    if not desired.supply.fetch or (seen.checked and seen.checked.is_whole):
        return
    assert recipe.weights
    size = recipe.weights.size_gib
    first, *others = seen.fetches
    hubs = verbatim(first.hub)
    if others:
        hubs = _("{first} or {others}", first=first.hub, others=join(", ", (each.hub for each in others)))
    where = verbatim(seen.path) if seen.path else _("the cache of the hub")
    if seen.boxed and not seen.path:
        where = _("the cache of the hub, which is removed with the container")
    left = max(0, round(((size or 0) * GIB - seen.there_bytes) / MIB))
    yield FetchWeights(
        _("download the weights of {repository} from {hubs}", repository=first.repository, hubs=hubs),
        _("{there_bytes:.1f} GiB already downloaded", there_bytes=seen.there_bytes / GIB)
        if seen.there_bytes
        else _("not downloaded yet"),
        _("stores files in {where}", where=where),
        verbatim(f"rm -r {shlex.quote(str(seen.host))}") if seen.host else _("not needed"),
        left,
        weights=seen,
    )


def apply(step: FetchWeights, work: StepContext) -> Message:
    """Download from the first hub that works; raise the StepError of the last one otherwise."""
    last, seen = StepError(_("the recipe names no hub"), NOTHING), step.weights
    total = work.recipe.weights.size_gib if work.recipe.weights else None
    with FolderGrowth(seen, int((total or 0) * GIB), work.report):
        for each in seen.fetches:
            try:
                return _check_fetched(seen, _fetch_from_hub(each, work))
            except StepError as err:
                last = err
                if each != seen.fetches[-1]:
                    work.report_text(_("{message}; trying the next hub", message=err.message))
    raise last


def verify(step: FetchWeights, work: StepContext) -> Message | None:
    """Return None: `apply` already checks every file against the index of the model."""
    return None


def undo(entry: Entry, folder: Path) -> Message:
    """Do nothing: the weights belong to the user, who requested them."""
    return NOTHING


def script(step: FetchWeights, at: ScriptTarget) -> Iterator[str]:
    """Yield the download from the first hub that works; the program compares each file with the hub's checksum."""
    if not step.weights.fetches:
        yield from not_written()
        return
    yield "program=$("
    yield f"  cat << '{_END}'"
    yield weights_fetch.PROGRAM.read_text("utf-8").rstrip("\n")
    yield _END
    yield ")"
    run = f'{at.command_prefix}{at.python_word} -c "$program"'
    yield " ||\n  ".join(f"{run} {shlex.join(each.arguments)}" for each in step.weights.fetches)


def _fetch_from_hub(fetch: HubDownload, work: StepContext) -> str:
    env = {**weights_fetch.select_environment(os.environ), **work.target.list_variables()}
    done = work.target.run_command(fetch.build_argv(work.target.python), timeout_s=weights_fetch.DEADLINE_S, env=env)
    return weights_fetch.parse_downloaded_folder(fetch, done)


def _check_fetched(seen: WeightsState, folder: str) -> Message:
    """Check every file against the index of the model; files that are only in the container cannot be checked."""
    if seen.host is None and seen.boxed:
        return _("{folder} in the container; not checked, because it is not in a mount", folder=folder)
    place = seen.host or Path(folder)  # the cache of a hub has links from snapshots/COMMIT to its blobs
    found = weights.check_weights(place, within=seen.within or place.parent.parent)
    for flaw in found.flaws:
        if flaw.sure:
            raise StepError(_("the downloaded weights are incomplete: {flaw}", flaw=flaw), flaw.next_step)
    files = ngettext(
        "{count} file, {size}, in {folder}",
        "{count} files, {size}, in {folder}",
        found.shards,
        size=format_gib(found.size_bytes),
        folder=place,
    )
    return _("{files}; warning: {flaw}", files=files, flaw=found.flaws[0]) if found.flaws else files


class FolderGrowth:
    """Reports the growth of the download folder as progress events, while it is entered."""

    def __init__(self, seen: WeightsState, total: int, report: Report) -> None:
        self._seen, self._total, self._report = seen, total, report
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch_folder, daemon=True)

    def __enter__(self) -> None:
        if self._seen.host and self._total:
            self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        if self._thread.ident:
            self._thread.join()

    def _watch_folder(self) -> None:
        while not self._stop.wait(POLL_S):
            assert self._seen.host
            done = min(weights_fetch.present_bytes(self._seen.host), self._total)
            self._report(ProgressEvent("bytes", _("downloading weights"), done, self._total))
