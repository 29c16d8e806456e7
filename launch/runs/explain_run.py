"""`envcheck explain RUN`: diagnose a run by its logs and its record, which has the workers' exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from envcheck.core.messages import Message, _, fill, restore
from envcheck.explain import explainer, log_files
from envcheck.explain.diagnosis import Diagnosis, Evidence, ExplainReport, Verdict
from envcheck.explain.log_text import sanitize_line
from launch.run import states
from launch.run.diagnose_failure import name_own_job
from launch.run.record import NAME
from launch.runs import run_index
from launch.runs.backends import find_backend
from launch.runs.ended_run import complete_run
from launch.runs.run_state import Run

# Record key of the backend → (source, remedy).
REFUSED = {
    "slurm": (
        "docs/how-to/slurm.md, what happens",
        _("Fix the reported problems, or exclude these nodes with --requeue-without-bad."),
    ),
    "kubernetes": (
        "docs/how-to/kubernetes.md, what happens",
        _(
            "Fix the problems reported in the run's log folder, or keep the pods off that node. Then "
            "submit the job again."
        ),
    ),
}

# By the state of a run, what its record knows better than its logs.
VERDICTS: dict[str, Verdict] = {states.FAILED: "failed", states.UNSTARTED: "failed", states.LOST: "unknown"}


def find_named_run(word: str) -> Run | None:
    """Return the run by its folder, log folder, record or id; None for another path, UsageError for an unknown id."""
    path = Path(word).absolute()
    if not path.exists():
        return run_index.find_run(word, None)
    places = (path, path.parent) if path.name in ("log", NAME) else (path,)
    return next((run for place in places if (run := run_index.read_run(place))), None)


def explain_run(run: Run, shown: Path | None = None) -> ExplainReport:
    """Return diagnoses of the run; `shown` is the run folder as given on the command line, for paths in the output."""
    logs = (shown or run.folder) / ("" if find_backend(run.said) else "log")
    failed = _read_failed_worker(run)
    if find_backend(run.said) and run.state == states.REFUSED:  # nothing ran: there are no logs of programs
        return ExplainReport((_diagnose_refusal(run),), None, (), (), "", (_describe_run(run, failed),))
    run = complete_run(run)
    read = _add_exit(explainer.explain_files([logs], VERDICTS.get(run.state)), _read_status(run))
    read = replace(read, diagnoses=name_own_job(read.diagnoses, run.said))
    first = _find_first_log(logs, failed)
    notes = (_describe_run(run, failed),)
    code = failed.get("code", _read_status(run))
    if stop := _diagnose_stop_rule(run, logs.parent / NAME):
        return replace(read, diagnoses=(stop, *read.diagnoses), relevant_lines=(), first=first, notes=notes)
    if not read.diagnoses and isinstance(code, int):
        found = [one for one in explainer.explain_codes([str(code)]) if one.name != "exit.status"]
        read = replace(read, diagnoses=tuple(found))
    relevant_lines = () if run.state == states.SUCCEEDED else read.relevant_lines  # such a run has no error lines
    return replace(read, first=first or read.first, relevant_lines=relevant_lines, notes=notes)


def _diagnose_stop_rule(run: Run, record: Path) -> Diagnosis | None:
    """Return the stop rule that ended the run as a diagnosis, None without one."""
    said = run.said.get("stopped")
    if not isinstance(said, dict):
        return None
    remedy = said.get("remedy")
    words = remedy.get("words") if isinstance(remedy, dict) else ""
    text = restore(_clean_text(said.get("seen")), said.get("message"), _clean_text)
    seen = Evidence(str(record), 0, text, ours=text)
    why = _("A stop rule of `envcheck train` ended the run.")
    source = ("docs/reference/preflight.md, stop rules",)
    return Diagnosis(
        _clean_text(said.get("name")), "cause", seen.text, why, _clean_text(words), (), source, (), (seen,), 1
    )


def _diagnose_refusal(run: Run) -> Diagnosis:
    """Return the failed gates of the nodes as a diagnosis."""
    text = restore(_clean_text(run.get_text("error")), run.said.get("error_message"), _clean_text)
    seen = Evidence(str(run.folder / NAME), 0, text, ours=text)
    why = _("The preflight checks failed on some nodes; the training was not started.")
    engine = next(key for key in REFUSED if isinstance(run.said.get(key), dict))
    source, remedy = REFUSED[engine]
    return Diagnosis(f"{engine}.refused", "cause", seen.text, why, remedy, (), (source,), (), (seen,), 1)


def _clean_text(text: object) -> str:
    return sanitize_line(str(text).encode("utf-8", "replace"))[:600]


def _read_failed_worker(run: Run) -> dict[str, Any]:
    said = run.said.get("first_failed_worker")
    return said if isinstance(said, dict) else {}


def _find_first_log(logs: Path, failed: dict[str, Any]) -> str:
    """Return the log of the failed worker, "" if it is not one of the run's logs: the record is untrusted."""
    name = failed.get("log")
    found = log_files.list_log_files(logs) if isinstance(name, str) and name else ()
    return next((str(path) for path in found if str(path.relative_to(logs)) == name), "")


def _read_status(run: Run) -> int | None:
    """Return the exit status of the program of a failed run, None if it is unknown."""
    said = run.said.get("exit")
    status = said.get("status") if isinstance(said, dict) and run.state == states.FAILED else None
    return status if isinstance(status, int) and status else None


def _add_exit(read: ExplainReport, status: int | None) -> ExplainReport:
    """Return the report with the exit status as the end of the only process, if its log has no end."""
    if status is None or len(read.ends) != 1 or read.ends[0].how != "running":
        return read
    end = read.ends[0]
    ended = replace(end, how="signal", reason=f"signal {-status}") if status < 0 else None
    return replace(read, ends=(ended or replace(end, how="error", reason=f"exit code {status}"),))


def _describe_run(run: Run, failed: dict[str, Any]) -> Message:
    """Return state and first failed worker as a message."""
    state, rank, code = fill(_clean_text(run.state)), failed.get("rank"), failed.get("code")
    if not isinstance(rank, int) and (status := _read_status(run)) is not None:
        if status < 0:
            return _("{run}: state {state}; signal {number} ended the program", run=run.id, state=state, number=-status)
        return _("{run}: state {state}; the program ended with exit code {code}", run=run.id, state=state, code=status)
    if not isinstance(rank, int):
        return _("{run}: state {state}", run=run.id, state=state)
    if not isinstance(code, int):
        return _("{run}: state {state}; worker {rank} failed first", run=run.id, state=state, rank=rank)
    return _(
        "{run}: state {state}; worker {rank} failed first with exit code {code}",
        run=run.id,
        state=state,
        rank=rank,
        code=code,
    )


def explain_words(words: Sequence[str]) -> ExplainReport | None:
    """Return the report for a single run, None if `words` are something else."""
    if len(words) != 1 or (run := find_named_run(words[0])) is None:
        return None
    path = Path(words[0])
    shown = path.parent if path.name in ("log", NAME) and path.parent.name else path
    return explain_run(run, shown if shown.is_dir() and shown.absolute() == run.folder.absolute() else None)
