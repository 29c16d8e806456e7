"""Events, metrics and experiment trackers of a run."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from envcheck.core.errors import UsageError
from launch import run_report
from launch.gates.context import GateContext
from launch.logs.training_step import TrainingStep
from launch.run import record, trackers
from launch.runs import run_pages
from launch.runs.run_state import Run
from launch.targets.train_request import TrainRequest
from launch.watching import metrics_file, run_events
from launch.watching.metrics_file import MetricsFile
from launch.watching.run_events import EventReceivers, EventSender
from tests.launch.runs.hook_server import SECRET, HookServer
from tests.launch.runs.stand_in import StandInRuns, provision_stand_in


@pytest.mark.slow
def test_a_run_reports_to_others(tmp_path: Path) -> None:
    """Command and webhook get all events in order, a broken command ends nothing; metrics; no URL in any record."""
    stand_in = StandInRuns(provision_stand_in(tmp_path / "home"), tmp_path / "work")
    with HookServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        hooks = ("--on-event", f"sh -c 'cat >> {tmp_path}/events; echo >> {tmp_path}/events'", "--on-event", "false")
        more = ("--webhook", server.url, "--metrics-file", str(tmp_path / "run.prom"))
        done = stand_in.train("--steps", "6", *hooks, *more)
        server.shutdown()

    assert done.returncode == 0, done.stderr
    assert "note: --on-event false: exit code 1" in done.stderr
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert events == server.received
    names = [event["event"] for event in events]
    assert (names[0], names[-1]) == ("start", "end")
    assert "first_step" in names and set(names) <= set(run_events.EVENTS)
    assert (events[-1]["state"], events[-1]["exit_code"], events[-1]["step"]["step"]) == ("succeeded", 0, 6)
    metrics = (tmp_path / "run.prom").read_text()
    assert 'envcheck_run_state{run="' in metrics and 'state="succeeded"} 1' in metrics
    assert "# TYPE envcheck_run_loss gauge" in metrics
    for path in tmp_path.rglob("*"):
        assert not (path.is_file() and SECRET.encode() in path.read_bytes()), path

    followed = stand_in.run_command("runs", "follow", "latest", "--json")
    lines = [json.loads(line) for line in followed.stdout.splitlines()]
    assert [line.get("step") for line in lines if line["event"] == "step"] == [1, 2, 3, 4, 5, 6]
    assert (lines[-1]["event"], lines[-1]["state"]) == ("end", "succeeded")


def test_an_own_job_is_an_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events have the values of a user's own job as an object; metrics have no label for it."""
    known = {"schema": 2, "recipe": "a", "model": "m", "method": "lora", "device": "cpu", "own": {"source": "a.sh"}}
    monkeypatch.setattr(record, "list_head_values", lambda _seen: known)
    seen = cast(GateContext, SimpleNamespace(job=SimpleNamespace(steps={})))
    made = run_report.build_reporter(TrainRequest(), seen, tmp_path)
    adopted = run_report.build_adopted_reporter(Run(tmp_path, "running", None, known))

    for reporter in (made, adopted):
        assert reporter.events.about["own"] == {"source": "a.sh"}
        assert set(reporter.metrics.labels) == {"run", "recipe", "model", "method", "device"}


def test_a_hanging_command_is_ended(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It gets a limited time; the next events are still delivered, and the failure is reported once."""
    monkeypatch.setattr(run_events, "COMMAND_S", 0.2)
    sender = EventSender(EventReceivers(("sleep 60",)), {"run": "a"})
    for name in ("start", "end"):
        sender.send_event(name)
    sender.close()

    assert capsys.readouterr().err.count("note: --on-event sleep 60: no end after") == 1


@pytest.mark.parametrize(
    ("receivers", "words"),
    [
        (EventReceivers(("sh -c 'x",)), "no closing quotation"),
        (EventReceivers(("",)), "the command is empty"),
        (EventReceivers(webhooks=(f"ftp://host/{SECRET}",)), "not an http or https URL"),
    ],
)
def test_invalid_receivers(receivers: EventReceivers, words: str) -> None:
    """They are refused before anything starts, without the URL."""
    with pytest.raises(UsageError, match=words) as refused:
        run_events.check_receivers(receivers)
    assert SECRET not in str(refused.value)


def test_metrics_of_a_step(tmp_path: Path) -> None:
    """The file is replaced as a whole and has what the step has; NaN is a value of Prometheus."""
    made = MetricsFile(tmp_path / "a.prom", {"run": 'a"b'}, 50)
    made.add_step(TrainingStep(float("nan"), 3, tokens_per_s=100.0, memory_mib=2.0))

    text = (tmp_path / "a.prom").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["a.prom"]
    for line in ('envcheck_run_loss{run="a\\"b"} nan', "_step{", "_device_memory_bytes{", 'state="running"} 1'):
        assert line in text
    assert "grad_norm" not in text
    with pytest.raises(UsageError, match=r"end in \.prom"):
        metrics_file.check_metrics_path(tmp_path / "a.txt")


def test_trackers_are_found(tmp_path: Path) -> None:
    """Folders by the files in them, pages by the links in the logs; `runs show` names them."""
    for name in (
        "output/runs/host/events.out.tfevents.1732.host.1.0", "output/vdl/vdlrecords.1732.log",
        "wandb/run-20261121_091500-abc123/run-abc123.wandb", "swanlog/run-20261121_091500-ab12/files/x",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    (tmp_path / "log").mkdir()
    link = "https://wandb.ai/me/my-project/runs/abc123"
    (tmp_path / "log" / "workerlog.0").write_text(f"wandb: View run at {link}\nhttps://example.org/other\n")
    found = trackers.list_trackers(tmp_path)

    assert [(one["kind"], one.get("path", one.get("link"))) for one in found] == [
        ("swanlab", f"{tmp_path}/swanlog"), ("tensorboard", f"{tmp_path}/output/runs/host"),
        ("visualdl", f"{tmp_path}/output/vdl"), ("wandb", link), ("wandb", f"{tmp_path}/wandb"),
    ]  # fmt: skip
    page = run_pages.as_page(Run(tmp_path, "succeeded", None, {"trackers": found}))
    assert f"tensorboard {tmp_path}/output/runs/host" in page
