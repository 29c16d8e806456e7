"""A run of `envcheck train`: its logs, and what its record says besides, which saw the workers die."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from envcheck.explain import reading, session
from envcheck.explain.model import Diagnosis, Evidence, Report
from envcheck.explain.text import readable
from launch.run.record import NAME
from launch.runs import known
from launch.runs.backends import find_backend
from launch.runs.run_state import Run

# By whose job it was: where it is told, and what to do.
REFUSED = {
    "slurm": (
        "docs/slurm.md, the look at the nodes",
        "Mend what they say, or let the job shun them: --requeue-without-bad.",
    ),
    "kubernetes": (
        "docs/kubernetes.md, the gate of every pod",
        "Mend what the reports in the run's log folder say, or keep the pods from that node, then submit it again.",
    ),
}


def named(word: str) -> Run | None:
    """The run that the word means: its folder, its log's, its record, its id.  UsageError for an id that is none's."""
    path = Path(word).absolute()
    if not path.exists():
        return known.find(word, None)
    places = (path, path.parent) if path.name in ("log", NAME) else (path,)
    return next((run for place in places if (run := known.read(place))), None)


def explain(run: Run, shown: Path | None = None) -> Report:
    """Its logs, and the first failed worker as the record has it.  `shown` is the folder as it was written."""
    logs = (shown or run.folder) / ("" if find_backend(run.said) else "log")
    failed = _failed(run)
    if (
        find_backend(run.said) and run.state == "refused"
    ):  # nothing ran, and what its nodes' gates said is no program's error
        return Report((_refused(run),), None, (), (), "", (f"{run.id}: {_words(run, failed)}",))
    read = session.explain_files([logs])
    first = _log(logs, failed)
    notes = (f"{run.id}: {_words(run, failed)}",)
    if stop := _stopped(run, logs.parent / NAME):
        return replace(read, diagnoses=(stop, *read.diagnoses), telling=(), first=first, notes=notes)
    if not read.diagnoses and isinstance(failed.get("code"), int):
        told = [one for one in session.explain_codes([str(failed["code"])]) if one.name != "exit.status"]
        read = replace(read, diagnoses=tuple(told))
    telling = () if run.state == "finished" else read.telling  # of a run that ended well no line tells why it ended
    return replace(read, first=first or read.first, telling=telling, notes=notes)


def _stopped(run: Run, record: Path) -> Diagnosis | None:
    """The stop rule that ended it."""
    said = run.said.get("stopped")
    if not isinstance(said, dict):
        return None
    remedy = said.get("remedy")
    words = remedy.get("words") if isinstance(remedy, dict) else ""
    text = _plain(said.get("seen"))
    seen = Evidence(str(record), 0, text, ours=text)
    why = "envcheck train ended the run: one of its stop rules."
    source = ("docs/train.md, the stop rules",)
    return Diagnosis(_plain(said.get("name")), "cause", seen.text, why, _plain(words), (), source, (), (seen,), 1)


def _refused(run: Run) -> Diagnosis:
    """The gates of its nodes were closed."""
    text = _plain(run.text("error"))
    seen = Evidence(str(run.folder / NAME), 0, text, ours=text)
    why = "The nodes of the job looked at themselves first, and some are not fit: nothing was started."
    engine = next(key for key in REFUSED if isinstance(run.said.get(key), dict))
    source, remedy = REFUSED[engine]
    return Diagnosis(f"{engine}.refused", "cause", seen.text, why, remedy, (), (source,), (), (seen,), 1)


def _plain(text: object) -> str:
    return readable(str(text).encode("utf-8", "replace"))[:600]


def _failed(run: Run) -> dict[str, Any]:
    said = run.said.get("first_failed_worker")
    return said if isinstance(said, dict) else {}


def _log(logs: Path, failed: dict[str, Any]) -> str:
    """Its own log, if that is one of those that were read: a record may come from a stranger."""
    name = failed.get("log")
    found = reading.files(logs) if isinstance(name, str) and name else ()
    return next((str(path) for path in found if str(path.relative_to(logs)) == name), "")


def _words(run: Run, failed: dict[str, Any]) -> str:
    parts = [f"state {run.state}"]
    if isinstance(rank := failed.get("rank"), int):
        code = failed.get("code")
        parts += [f"worker {rank} failed first" + (f", with code {code}" if isinstance(code, int) else "")]
    return _plain("; ".join(parts))


def whole(words: Sequence[str]) -> Report | None:
    """None where the words do not mean one run."""
    if len(words) != 1 or (run := named(words[0])) is None:
        return None
    path = Path(words[0])
    shown = path.parent if path.name in ("log", NAME) and path.parent.name else path
    return explain(run, shown if shown.is_dir() and shown.absolute() == run.folder.absolute() else None)
