"""Runs that are resumed, repeated and compared; with a stand-in program."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from envcheck.cli import schemas
from envcheck.core.messages import _
from envcheck.core.model import Finding, Status
from envcheck.explain import diagnose
from launch import adopt_run, restart_run, run_end
from launch.backends.ssh import host_restart
from launch.backends.ssh.node_outcome import NodeOutcome
from launch.logs.training_step import TrainingStep
from launch.rendering import resume_option
from launch.restart_run import RunOutcome
from launch.run import loss_plot, record
from launch.run.launcher import TrainingEnd
from launch.runs import compare_runs, request_note, run_pages, step_lines
from launch.runs.request_note import RequestNote
from launch.runs.run_state import Run
from tests.launch.runs.stand_in import StandInRuns, provision_stand_in

OOPS = "RuntimeError: oops"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return provision_stand_in(tmp_path_factory.mktemp("stand-in"))


@pytest.mark.slow
def test_resume_from_the_newest_whole_checkpoint(home: Path, tmp_path: Path) -> None:
    """The failed run's last line resumes it, from anywhere; a damaged checkpoint is skipped; the new run says so."""
    stand_in = StandInRuns(home, tmp_path / "work")
    failed = stand_in.train("--steps", "12", STAND_IN_FAIL=OOPS, STAND_IN_FAIL_AT="7")
    assert failed.returncode == 5, failed.stderr
    name = Path(stand_in.record["folder"]).name
    assert f"go on       envcheck train --resume {name}" in failed.stderr.splitlines()[-1]

    output = stand_in.folder / "runs" / name / "output"
    os.truncate(output / "checkpoint-6" / "model.safetensors", 40)
    dry = stand_in.run_command("train", "--resume", "latest", "--dry-run")
    assert f"skips {output}/checkpoint-6: model.safetensors: truncated" in dry.stderr
    assert f"--resume {output}/checkpoint-4" in dry.stdout

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    resumed = stand_in.run_command("train", "--resume", name, cwd=elsewhere)
    assert resumed.returncode == 0, resumed.stderr
    said = stand_in.list_records()[-1]
    assert [step for step, _ in said["loss"]] == list(range(5, 13))
    assert said["resumed_from"] == {"run": name, "checkpoint": f"{output}/checkpoint-4"}

    again = stand_in.run_command("runs", "rerun", name, cwd=elsewhere)
    assert again.returncode == 0, again.stderr
    assert [step for step, _ in stand_in.list_records()[-1]["loss"]] == list(range(1, 13))
    compared = stand_in.run_command("runs", "compare", name, "latest", "--json")
    results = {one["name"]: one for one in json.loads(compared.stdout)["results"]}
    assert (results["steps"]["first"], results["steps"]["second"]) == (7, 12)


@pytest.mark.slow
def test_restart_after_a_fault_of_the_infrastructure(home: Path, tmp_path: Path) -> None:
    """A lost link restarts the run from its checkpoint, a user's error does not; the view follows the new run."""
    stand_in = StandInRuns(home, tmp_path / "work")
    more = ("--steps", "12", "--restart", "2")
    refused = stand_in.train(*more, STAND_IN_FAIL=OOPS)
    assert (refused.returncode, len(stand_in.list_records())) == (5, 1)

    done = stand_in.train(*more, "--json", STAND_IN_FAIL="OSError: [Errno 113] No route to host")
    assert done.returncode == 0, done.stderr
    assert "restart 1 of 2: network.unreachable" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("loss curve")
    _refused, failed, second = stand_in.list_records()
    assert (failed["state"], failed["restarted_as"]) == ("failed", Path(second["folder"]).name)
    assert [step for step, _ in second["loss"]] == list(range(3, 13))
    assert json.loads(done.stdout) == second
    for said in (failed, second):
        jsonschema.validate(said, schemas.build_schema("run"))


def test_faults_of_the_infrastructure() -> None:
    """Lost cards, links and the host's memory are; memory of a card, NaN and errors of the program are not."""
    lines = {
        "OSError: [Errno 113] No route to host": "network.unreachable",
        "Out of memory: Killed process 4711 (python3)": "memory.host_oom",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB": "",
        "ValueError: invalid literal": "",
    }
    for line, fault in lines.items():
        end = TrainingEnd("failed", 1, None, (), 0, 1.0, ())
        assert restart_run.find_fault(end, diagnose([line])) == fault, line
    lost = Finding("watch.loss", Status.FAIL, "the loss is NaN")
    for rule, fault in (("watch.loss", ""), ("watch.health", "watch.health")):
        end = TrainingEnd("rule", None, None, (), 0, 1.0, (), stopped=replace(lost, name=rule))
        assert restart_run.find_fault(end, ()) == fault


def test_every_trainer_has_its_option() -> None:
    """The option of each framework with recipes; none for an unknown one."""
    for framework in ("envcheck", "erniekit", "flagcx", "llamafactory", "swift"):
        assert resume_option.find_resume_option(framework), framework
    assert resume_option.find_resume_option("unknown") is None


OWN_JOBS = (
    ("run.sh", "transformers", False),
    ("start", "transformers", False),  # a script without a suffix
    ("command", "transformers", True),
    ("train.yaml", "LLaMA-Factory", True),
    ("command", "torchtune", False),  # has no such option
    ("command", None, False),
)


@pytest.mark.parametrize(("source", "framework", "is_offered"), OWN_JOBS)
def test_resume_is_offered_where_it_can_be_done(source: str, framework: str | None, is_offered: bool) -> None:
    """What `train --resume` would refuse, because it cannot add an option, is not offered at the end of a run."""
    own = {"source": source, "values": {"framework": {"value": framework}}}

    assert run_end._takes_checkpoint(RequestNote(), {"own": own, "command": ["python", "train.py"]}) is is_offered


@pytest.mark.parametrize(("recipe", "is_offered"), [("ernie-300b-npu", True), ("no-longer-there", False)])
def test_resume_of_a_recipe(recipe: str, is_offered: bool) -> None:
    """A recipe's framework has the option; a recipe that is gone cannot be started again."""
    begun = {"recipe": recipe, "command": ["erniekit", "train"]}

    assert run_end._takes_checkpoint(RequestNote(), begun) is is_offered


def test_the_words_of_a_run_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read from envcheck's own notes, not from the record."""
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path))
    note = RequestNote(None, None, ("--recipe", "light", "--", "--x"), tmp_path)
    request_note.save_note(tmp_path / "a-run", note)

    assert request_note.read_note(tmp_path / "a-run") == note
    assert request_note.read_note(tmp_path / "other") == RequestNote()


def test_differences_of_two_runs(tmp_path: Path) -> None:
    """Options, variables, packages and results that differ are listed; the run's own folder is no difference."""
    first = {
        "recipe": "light", "folder": "/runs/a", "command": ["python", "--output", "/runs/a/output", "--lr", "1"],
        "environment": {"A": "1"}, "versions": {"packages": {"torch": "2.1"}}, "loss": [[1, 4.0], [2, 2.0]],
        "tokens_per_s": 100.0, "memory": {"measured_bytes": 1 << 30},
    }  # fmt: skip
    second = {**first, "folder": "/runs/b", "command": ["python", "--output", "/runs/b/output", "--lr", "2"]}
    second |= {"environment": {}, "versions": {"packages": {"torch": "2.2"}}, "tokens_per_s": 150.0}
    runs = [Run(tmp_path / name, "succeeded", None, said) for name, said in (("a", first), ("b", second))]
    found = compare_runs.compare_runs(*runs)

    assert [(one.area, one.name, one.first, one.second) for one in found.differences] == [
        ("option", "lr", "1", "2"), ("environment", "A", "1", None), ("package", "torch", "2.1", "2.2"),
    ]  # fmt: skip
    text = compare_runs.render_comparison(found)
    assert "option lr: 1 -> 2" in text and "tokens/s: 100 -> 150 (+50.0%)" in text
    assert json.loads(json.dumps(compare_runs.as_values(found)))["results"][2]["change"] == 0.5


def test_a_loss_that_became_nan(tmp_path: Path) -> None:
    """The last loss is NaN, not the last finite one, in texts; JSON has null for it."""
    broken = {"loss": [[1, 3.0], [2, 2.0], [3, None]]}
    run = Run(tmp_path / "a", "succeeded", None, broken)
    found = compare_runs.compare_runs(run, Run(tmp_path / "b", "succeeded", None, {"loss": [[1, 4.0], [2, 2.0]]}))
    text = compare_runs.render_comparison(found)
    results = {one["name"]: one for one in compare_runs.as_values(found)["results"]}

    assert "3.000 -> nan, 3 steps" in run_pages.as_page(run)
    assert "3.000 -> nan, 3 steps" in run_pages.as_table([run], 100)
    assert "last loss: nan -> 2" in text and "lowest loss: 2 -> 2" in text
    assert (results["last_loss"]["first"], results["last_loss"]["change"]) == (None, None)
    json.loads(json.dumps(results, allow_nan=False))


def test_an_infinite_loss(tmp_path: Path) -> None:
    """An infinite loss is inf in texts, records, lines of JSON and next to the curve, and not NaN."""
    steps = [TrainingStep(3.0, 1), TrainingStep(2.0, 2), TrainingStep(math.inf, 3), TrainingStep(-math.inf, 4)]
    steps += [TrainingStep(math.inf, 5, grad_norm=math.nan)]
    said = json.loads(json.dumps({"loss": record.list_losses(steps)}, allow_nan=False))
    run = Run(tmp_path / "a", "failed", None, said)
    lines: list[str] = []
    step_lines.StepLines(run, lines.append)(steps[-1])
    found = compare_runs.as_values(compare_runs.compare_runs(run, run))["results"]
    omitted = "not drawn: inf at 2 steps, the first is 3; -inf at step 4"

    assert said["loss"] == [[1, 3.0], [2, 2.0], [3, "inf"], [4, "-inf"], [5, "inf"]]
    assert record.read_losses(said)[2:] == [(3, math.inf), (4, -math.inf), (5, math.inf)]
    assert "3.000 -> inf, 5 steps" in run_pages.as_page(run)
    assert json.loads(lines[0]).items() >= {"loss": "inf", "grad_norm": None}.items()
    assert next(one for one in found if one["name"] == "last_loss")["first"] == "inf"
    assert omitted in loss_plot.render_text(steps) and omitted in loss_plot.render_svg(steps, "loss")
    jsonschema.validate(said["loss"], schemas.build_schema("run")["properties"]["loss"])


def test_faults_of_recorded_runs() -> None:
    """The fault of a host is that of its record, or that it was lost; an error of the program is none."""
    link = {"state": "failed", "diagnoses": [{"name": "network.unreachable"}]}
    ends = {
        "lost": NodeOutcome("a", 0, "lost", 5),
        "link": NodeOutcome("a", 0, "failed", 5, record=link),
        "program": NodeOutcome("a", 0, "failed", 5, record={"state": "failed", "diagnoses": []}),
        "stopped": NodeOutcome("a", 0, "stopped", 130, record={**link, "state": "stopped"}),
    }
    faults = {name: host_restart.find_host_fault(node) for name, node in ends.items()}

    assert {name: fault and str(fault.seen) for name, fault in faults.items()} == {
        "lost": "connection lost", "link": "network.unreachable", "program": None, "stopped": None,
    }  # fmt: skip
    assert host_restart.find_host_fault(None) is None


def test_what_hosts_continue_from() -> None:
    """Each host continues its own run if all have the same checkpoint, else all continue that of the first one."""

    def end(host: str, *names: str) -> NodeOutcome:
        said = {"folder": f"/runs/{host}", "checkpoints": [f"/runs/{host}/output/{name}" for name in names]}
        return NodeOutcome(host, 0, "failed", 5, record=said)

    same, first = [end("a", "checkpoint-5"), end("b", "checkpoint-5")], [end("a", "checkpoint-5"), end("b")]

    assert host_restart.choose_resume("ab", same) == {"a": "/runs/a", "b": "/runs/b"}
    assert host_restart.choose_resume("ab", first) == {"a": "/runs/a", "b": "/runs/a"}
    assert host_restart.choose_resume("b", first) == {"b": "/runs/a"}
    assert host_restart.choose_resume("ab", [end("a"), end("b")]) == {}


RESTARTS = (
    (("--recipe", "a"), False, True, None),
    (("--recipe", "a", "--restart", "0"), False, True, None),
    (
        ("--recipe", "a", "--restart", "2", "--resume", "old", "--detach"),
        False,
        True,
        ["--restart", "1", "--detach", "--resume", "run", "--devices", "auto", "--recipe", "a"],
    ),
    (
        ("--devices", "4", "--restart", "1", "--", "--bf16", "true"),
        False,
        False,
        ["--restart", "0", "--detach", "--devices", "4", "--", "--bf16", "true"],
    ),
    (
        ("--restart", "1", "--", "torchrun", "--resume", "x"),
        True,
        True,
        ["--restart", "0", "--detach", "--", "torchrun", "--resume", "x"],
    ),
)


@pytest.mark.parametrize(("words", "is_own", "has_checkpoint", "expected"), RESTARTS)
def test_words_of_a_restart(
    words: tuple[str, ...], is_own: bool, has_checkpoint: bool, expected: list[str] | None
) -> None:
    """An adopted run is restarted as often as its options allow; the command of a user's own job is not changed."""
    assert restart_run.list_restart_words(words, "run", is_own, has_checkpoint) == expected


def test_webhooks_are_kept_in_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this user can read them, only for their own run, and they are deleted with its end."""
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
    run = tmp_path / "runs" / "a"
    request_note.save_webhooks(run, ("https://host/secret",))
    (kept,) = (tmp_path / "home" / "webhooks").iterdir()
    found = request_note.read_webhooks(run), request_note.read_webhooks(tmp_path / "other" / "a")
    mode = kept.stat().st_mode & 0o777
    request_note.remove_webhooks(run)

    assert found == (("https://host/secret",), ())
    assert (mode, kept.exists()) == (0o600, False)


def test_the_successor_of_an_adopted_run_is_the_one_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that the user started in the same moment is not noted as its restart."""
    monkeypatch.setattr(restart_run, "DELAY_S", 0.0)
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
    run = Run(tmp_path / "runs/old", "failed", None, {})
    request_note.save_note(run.folder, RequestNote(words=("--restart", "1"), typed_in=tmp_path))

    def start_run(name: str, pid: int) -> None:
        (tmp_path / "runs" / name).mkdir(parents=True)
        record.save_record(tmp_path / "runs" / name, {"pid": pid, "state": "running"})

    with subprocess.Popen(["sleep", "60"]) as supervisor:

        def repeat(_typed_in: Path, _words: Sequence[str]) -> int:
            start_run("a-users", os.getppid())
            start_run("b-restart", supervisor.pid)
            start_run("c-users", os.getppid())
            return 0

        start_run("old", os.getppid())
        adopt_run._restart_run(run, RunOutcome(5, _("a lost link"), False), (), repeat)
        supervisor.kill()

    restarted = json.loads((run.folder / record.NAME).read_text())
    assert restarted["restarted_as"] == "b-restart"
