"""`doctor --replay FOLDER`: many recordings, judged by several processes, in the order of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from envcheck.core import workers
from envcheck.core.errors import UsageError
from envcheck.core.messages import _, verbatim

if TYPE_CHECKING:
    from envcheck.fleet.evaluate import FleetEvaluator, JudgedHost

CHUNK = 32  # recordings that a process judges at a time: 3 MB of answers of 16 cards
MOST = 4  # processes; each needs 50 MiB
Result = TypeVar("Result")


def judge_folder(folder: Path, bench: FleetEvaluator) -> list[JudgedHost]:
    """Return the host of each recording; UsageError for a folder in which none can be read."""
    from envcheck.collect import snapshot as recording

    hosts = judge_each(folder, lambda path: judge_file(path, bench), is_parallel=not bench.keeps_facts)
    found = [bench.share_parts(host) for host in hosts]
    if not any(host.has_answered for host in found):
        recording.load_snapshot(list_recordings(folder)[0])  # raises: no recording at all is a wrong option
    return found


def judge_each(folder: Path, judge: Callable[[Path], Result], is_parallel: bool = True) -> Iterator[Result]:
    """Yield the result for each recording in the order of their names; only a few are kept at a time."""
    paths = list_recordings(folder)
    chunks = [paths[at : at + CHUNK] for at in range(0, len(paths), CHUNK)]

    def work(number: int) -> list[Result]:
        return [judge(path) for path in chunks[number]]

    processes = min(MOST, workers.count_usable_cores(), len(chunks)) if is_parallel else 1
    early: dict[int, list[Result]] = {}
    results = workers.iterate_results(work, len(chunks), processes) if processes > 1 else iter(())
    for number in range(len(chunks)):
        while number not in early and (found := next(results, None)) is not None:
            early[found[0]] = found[1]
        yield from early.pop(number) if number in early else work(number)  # what a killed process left undone


def list_recordings(folder: Path) -> list[Path]:
    """Return the recordings: each NAME.json in the folder is a host's. UsageError if there is none."""
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise UsageError(
            _("{folder} contains no recordings", folder=folder),
            verbatim("envcheck snapshot --hosts node[01-08] --output-dir FOLDER"),
        )
    return paths


def judge_file(path: Path, bench: FleetEvaluator) -> JudgedHost:
    """Return the host of a recording; one that cannot be read is a finding, not the end of all others."""
    from envcheck.collect import snapshot as recording

    try:
        answers, device = recording.load_snapshot(path)
    except UsageError as err:
        return bench.judge_unreadable(path.stem, err.message, err.next_step)
    return bench.judge_answers(path.stem, answers, device)
