"""Pure functions of `envcheck train`: first failure, progress, loss curve, record, clean environment."""

from __future__ import annotations

import errno
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core import secrets
from envcheck.core.errors import UsageError
from envcheck.job.command import render_command
from envcheck.job.options import set_steps
from envcheck.job.repeat_options import format_job_options
from launch import gates
from launch.gates import context
from launch.logs.training_step import TrainingStep
from launch.run import first_failure, launcher, loss_plot, record, watch
from launch.run.first_failure import WorkerEnd
from launch.targets import clean_environment
from launch.targets.train_request import TrainRequest, format_repeat_options
from tests.launch.gates.gate_parts import FACTS, JOB, RECIPE, change_place_facts, make_command, make_context
from tests.launch.job_choice import choose_job


@pytest.mark.parametrize(("more", "option"), (({"data": Path("x")}, "--data"), ({"port": 1}, "--port")))
def test_option_without_effect_is_refused(more: dict[str, Any], option: str) -> None:
    """An option without effect on the job is an error."""
    wish = TrainRequest(recipe="qwen-7b-npu-llamafactory", method="chat", **more)

    with pytest.raises(UsageError, match=option):
        choose_job(wish)


def test_remedy_means_the_same_job() -> None:
    """The commands of a failed gate repeat recipe, runs folder and environment of the request."""
    own = {"settings": ("a=b c",), "extra": ("--x", "1"), "steps": 7, "runs": Path("/my runs"), "detach": True}
    own |= {"waive": ("disk",), "because": ("a quota",), "deadline_s": 86_400_000}
    chosen = choose_job(plain := TrainRequest(recipe="tiny-cpu", into=Path("/my venv")))
    wish = replace(plain, **own)  # type: ignore[arg-type]
    finding = gates.GATES["environment"](
        make_context(
            **change_place_facts(missing=("x",)),
            options=format_job_options(wish, *chosen),
            more=format_repeat_options(wish),
        )
    )

    assert finding.remedy
    assert finding.remedy.commands == (
        "envcheck provision --recipe tiny-cpu --method lora --into '/my venv'",
        "envcheck train --recipe tiny-cpu --method lora --into '/my venv' --provision --runs '/my runs' "
        "--deadline 86400000 --waive disk --because 'a quota' --detach --steps 7 --set 'a=b c' -- --x 1",
    )


COUNTS = (
    '{"step": 3, "loss": 4.2, "tokens_per_s": 4963.5, "memory_mib": 376}',
    "loss: 1.5, interval_tokens_per_second: 812.5, x",
    'said \\"tokens_per_s\\": 12',
    "max_tokens=512",
    "TOKENIZERS_PARALLELISM=false",
)


@pytest.mark.parametrize("line", COUNTS)
def test_counts_are_no_secrets(line: str) -> None:
    """Token counts in quoted logs are not redacted."""
    assert secrets.redact_text(line) == line


@pytest.mark.parametrize("line", ("token=%s", "API_TOKENS: %s", '"tokens": "%s"', "tokens_per_s_token=%s", "tokens %s"))
@given(st.from_regex(r"[a-zA-Z][0-9a-zA-Z]{7,30}", fullmatch=True))
def test_tokens_are(line: str, token: str) -> None:
    """Secret tokens are redacted, in the plural as well."""
    text = line % f"hf_{token * 4}"

    assert token * 4 not in secrets.redact_text(text)
    assert secrets.redact_text("token=123456 tokens=12ab34") == "token=*** tokens=***"


def test_tokenizers_setting_reaches_the_training() -> None:
    """A variable that only sounds like a secret is kept; a token is redacted."""
    base = {"TOKENIZERS_PARALLELISM": "false", "HF_TOKEN": "x"}
    made = clean_environment.clean_variables(base, make_command(), "cpu", "/run")

    assert made.environment["TOKENIZERS_PARALLELISM"] == "false"
    assert made.secret == ("HF_TOKEN",)


def test_one_holder_of_a_folder(tmp_path: Path) -> None:
    """The second run in a folder gets the pid of the first; the lock is released afterwards."""
    with context.folder_lock(tmp_path / "runs") as first, context.folder_lock(tmp_path / "runs") as second:
        assert first == (None, None)
        assert second[1]
    with context.folder_lock(tmp_path / "runs") as third:
        assert third == (None, None)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--master", "10.0.0.1:8080"], 8080),
        (["--master=localhost:99"], 99),
        (["--master_port", "7007", "x.py"], 7007),
        (["--start_port", "6070"], 6070),
        (["--master", "{master}:{port}"], None),
        (["--nproc_per_node", "2"], None),
        (["--master"], None),
    ],
)
def test_port_of_a_command(argv: list[str], expected: int | None) -> None:
    """The launcher port is found in all spellings."""
    assert context.find_launcher_port(argv, {}) == expected


# ---- who failed first

ENDED = ("FatalError: `Termination signal` is detected by the operating system.",)
PEER = ("RuntimeError: Connection closed by peer [127.0.0.1]:4711",)
GLOO = ("RuntimeError: [third_party/gloo/gloo/transport/tcp/pair.cc:584] TIMEOUT self_rank = 0 pair_rank = 1",)
OWN = ("Traceback (most recent call last):", "ValueError: no such file")
NAMED = "Container rank {} status failed cmd ['py'] code {} log log/workerlog.0"


@pytest.mark.parametrize(
    ("workers", "launcher_text", "expected"),
    [
        # rank 1 fails, rank 0 is ended by the launcher, which then says 241
        ([WorkerEnd(0, ENDED, 5, 5, -15), WorkerEnd(1, OWN, 3, 3, 1)], NAMED.format(1, 1), (1, 1)),
        # rank 1 is killed without a word; rank 0 loses its peer, and the launcher names rank 0
        ([WorkerEnd(0, PEER, 4, 4.1, 1), WorkerEnd(1, (), 1, 4.2, -9)], NAMED.format(0, 1), (1, -9)),
        # the same, and nobody saw how rank 1 died; gloo says it in its own way
        ([WorkerEnd(0, GLOO, 4, 4.1, 1), WorkerEnd(1, (), 1, 4.2)], NAMED.format(0, 1), (1, None)),
        # rank 1 was done, nobody saw its code; rank 0 could not save
        ([WorkerEnd(0, OWN, 4, 4.1, 1), WorkerEnd(1, (), 1, 3.2)], NAMED.format(0, 1), (0, 1)),
        # both fail by themselves: the one who died first
        ([WorkerEnd(0, OWN, 4, 4.0, 1), WorkerEnd(1, OWN, 3, 3.5, 1)], "", (1, 1)),
        # nobody saw the processes: the logs and the launcher's words are left
        ([WorkerEnd(0, PEER, 2), WorkerEnd(1, OWN, 3)], NAMED.format(1, 7), (1, 7)),
        ([WorkerEnd(0, ENDED, 5), WorkerEnd(1, ("quiet",), 3)], NAMED.format(1, 3), (1, 3)),
        # a healthy worker that the launcher ended is no suspect, even alone
        ([WorkerEnd(0, ("step 1",), 5, 5, -15), WorkerEnd(1, ("done",), 5, 5, 0)], "", None),
        ([], "", None),
    ],
)
def test_first_failed(workers: list[WorkerEnd], launcher_text: str, expected: tuple[int, int] | None) -> None:
    """The cause is named, not workers ended by the launcher or with lost connections."""
    failed = first_failure.find_first_failed(workers, launcher_text)

    assert (failed and (failed.rank, failed.code)) == expected


# ---- progress


def test_tail_gives_whole_lines(tmp_path: Path) -> None:
    """Each complete line is returned once; carriage returns of progress bars end lines."""
    path = tmp_path / "workerlog.0"
    tail = watch.LogTail(path)

    assert tail.read_lines() == []
    path.write_bytes(b"one\ntw")
    assert tail.read_lines() == ["one"]
    path.write_bytes(b"one\ntwo\r50%\rhalf \xff")
    assert tail.read_lines() == ["two", "50%"]
    assert tail.read_lines(final=True) == ["half �"]
    assert list(tail.last_lines) == ["one", "two", "50%", "half �"]


def test_a_bar_that_is_drawn_again_is_one_line(tmp_path: Path) -> None:
    """Of successive progress bars only the newest is kept."""
    path = tmp_path / "workerlog.0"
    tail = watch.LogTail(path)
    path.write_bytes(b"begun\n" + b"\r".join(b" %d%%|#| %d/100 [x]" % (n, n) for n in range(60)) + b"\rTraceback\n")
    assert len(tail.read_lines()) == 62
    path.write_bytes(path.read_bytes() + b" 61%|#| 61/100 [x]\r 62%|#| 62/100 [x]\r")
    tail.read_lines()

    assert tail.last_lines == ["begun", " 59%|#| 59/100 [x]", "Traceback", " 62%|#| 62/100 [x]"]


def test_tail_is_bounded(tmp_path: Path) -> None:
    """A log without line breaks uses bounded memory."""
    path = tmp_path / "workerlog.0"
    path.write_bytes(b"x" * (3 << 20))
    tail = watch.LogTail(path)
    while tail.read_lines():
        pass

    assert len(tail.rest) <= watch.LINE
    assert sum(map(len, tail.last_lines)) <= watch.LINE * watch.KEPT_LINES


def test_teller_on_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal: a limited number of plain lines, and always the last step."""
    import sys

    teller = watch.ProgressLine(sys.stderr, of=100)
    for number in range(1, 101):
        teller(TrainingStep(5 - number / 100, number))
    teller.close()
    lines = capsys.readouterr().err.splitlines()

    assert lines[0].startswith("step 1 of 100")
    assert lines[-1] == "step 100 of 100, loss 4.0000"
    assert len(lines) < 20


# ---- curve

losses = st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=60)


@given(losses, st.text())
def test_curve_is_well_formed(values: list[float], title: str) -> None:
    """Any losses and title yield valid XML without NaN in coordinates."""
    clean_title = re.sub(r"[^\x20-\ud7ff\ue000-\ufffd]", "", title)
    picture = loss_plot.render_svg(
        [TrainingStep(v) for v in values if abs(v) < 1e9 or not math.isfinite(v)], clean_title
    )

    ElementTree.fromstring(picture)
    assert not re.search(r'="[^"<>]*\b(nan|inf)\b[^"<>]*"', picture)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_span(low: float, width: float) -> None:
    """The axis covers all values with few ticks."""
    found = loss_plot.list_ticks(low, low + width)

    slack = 1e-9 * max(abs(low), width, 1)
    assert found[0] <= low + slack
    assert found[-1] >= low + width - slack
    assert 2 <= len(found) <= 9


def test_curve_in_characters() -> None:
    """A falling loss falls from the first to the last column."""
    rows = loss_plot.render_text([TrainingStep(10 - n / 10, n) for n in range(1, 51)]).splitlines()[1:-2]

    assert rows[0].split("|")[1].startswith("*")
    assert rows[-1].rstrip().endswith("*")
    assert loss_plot.render_text([TrainingStep(1.0)]) == ""


def test_long_run_is_thinned() -> None:
    """The SVG of 100,000 steps is small and includes the last step."""
    found = loss_plot.select_points([TrainingStep(1.0, n) for n in range(1, 100_001)])

    assert len(found) <= loss_plot.POINTS + 1
    assert found[-1][0] == 100_000


# ---- record


def test_run_folders_differ(tmp_path: Path) -> None:
    """Two runs in the same second have different folders."""
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)

    names = {record.create_folder(tmp_path, "r", now).name for _ in range(9)}
    assert len(names) == 9
    assert all(re.fullmatch(r"20260102-030405-r-[0-9a-f]{4}", name) for name in names)


def test_a_full_disk_does_not_lose_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The final record gets the space reserved at the start, and waits for more."""
    record.reserve_space(tmp_path)
    assert (tmp_path / record.RESERVE).stat().st_size == record.RESERVE_BYTES
    tries: list[bool] = []
    write = record.write_record

    def write_on_full_disk(run: Path, said: record.Record) -> None:
        tries.append((run / record.RESERVE).exists())
        if len(tries) < 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(run, said)

    monkeypatch.setattr(record, "write_record", write_on_full_disk)
    monkeypatch.setattr(record, "RETRY_S", 0.0)
    record.save_final_record(tmp_path, {"state": "succeeded"})

    assert tries == [True, False, False]
    assert json.loads((tmp_path / record.NAME).read_text()) == {"state": "succeeded"}
    assert not (tmp_path / record.RESERVE).exists()


def test_record_is_strict_json(tmp_path: Path) -> None:
    """A NaN loss is null in JSON; no temporary file remains."""
    end = launcher.TrainingEnd(
        "failed",
        241,
        first_failure.FirstFailure(1, None, ("x",)),
        (TrainingStep(math.nan, 1), TrainingStep(2.0, 2)),
        0,
        1.0,
        (),
    )
    record.write_record(tmp_path, record.build_end_values(end, 5))
    said = json.loads((tmp_path / "run.json").read_text(), parse_constant=pytest.fail)

    assert said["loss"] == [[1, None], [2, 2.0]]
    assert said["exit"] == {"code": 5, "status": 241}
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_record_of_facts_holds_no_secret() -> None:
    """Secret variables are redacted in the record."""
    said = record.list_facts(replace(FACTS, environment={"HTTP_PROXY": "http://me:pw12@proxy:1", "HCCL_TOKEN": "abc"}))

    assert "pw12" not in json.dumps(said)
    assert "abc" not in json.dumps(said)


def test_checkpoints_in_order(tmp_path: Path) -> None:
    """Checkpoints are sorted by number; incomplete ones are skipped."""
    for name in ("checkpoint-25", "checkpoint-100", "checkpoint-5", ".checkpoint-200.17"):
        (tmp_path / name).mkdir()

    assert [Path(p).name for p in record.list_checkpoints(tmp_path)] == [
        "checkpoint-5",
        "checkpoint-25",
        "checkpoint-100",
    ]
    assert record.list_checkpoints(tmp_path / "none") == []


def test_checkpoints_below_a_folder_for_each_start(tmp_path: Path) -> None:
    """ms-swift nests checkpoints; folders without a step number count only if there are no others."""
    for name in ("v0-20261121/checkpoint-10", "v0-20261121/images", "v1-20261122/checkpoint-5", "runs/events"):
        (tmp_path / "a" / name).mkdir(parents=True)
    (tmp_path / "b" / "final").mkdir(parents=True)

    assert [Path(p).name for p in record.list_checkpoints(tmp_path / "a")] == ["checkpoint-5", "checkpoint-10"]
    assert [Path(p).name for p in record.list_checkpoints(tmp_path / "b")] == ["final"]


def test_folders_that_are_no_checkpoints(tmp_path: Path) -> None:
    """The folder of a start of ms-swift that failed before its first checkpoint is none, nor is TensorBoard's."""
    for name in ("v0-20261129-151920/images", "runs/now"):
        (tmp_path / name).mkdir(parents=True)

    assert record.list_checkpoints(tmp_path) == []


# ---- environment and request


def test_clean_environment(tmp_path: Path) -> None:
    """Leftovers and secrets are removed and named; the recipe's variables override others."""
    recipe = replace(RECIPE, environment={"PADDLE_XCCL_BACKEND": "npu"}, prepend={"PYTHONPATH": "/ours"})
    base = {
        "PADDLE_TRAINER_ID": "3",
        "PADDLE_XCCL_BACKEND": "old",
        "MASTER_ADDR": "x",
        "HF_TOKEN": "hf",
        "http_proxy": "http://me:pw@proxy",
        "PYTHONPATH": "/theirs",
        "LANG": "C",
        "PADDLE_PG_TIMEOUT": "9",
    }
    found = clean_environment.clean_variables(base, render_command(recipe, JOB, {}), "npu", str(tmp_path))

    assert set(found.stale) == {"PADDLE_TRAINER_ID", "PADDLE_XCCL_BACKEND", "MASTER_ADDR"}
    assert set(found.secret) == {"HF_TOKEN", "http_proxy"}
    kept = {name: text for name, text in found.environment.items() if name not in clean_environment.OWN_VARIABLES}
    assert kept == {
        "PADDLE_XCCL_BACKEND": "npu",
        "PYTHONPATH": "/ours:/theirs",
        "LANG": "C",
        "PADDLE_PG_TIMEOUT": "9",
        clean_environment.MARK: str(tmp_path),
    }


@pytest.mark.parametrize(("device", "kept"), [("cpu", False), ("nvidia", True)])
def test_visible_cards(device: str, kept: bool, tmp_path: Path) -> None:
    """Visible-device lists are removed for the CPU only."""
    found = clean_environment.clean_variables({"CUDA_VISIBLE_DEVICES": "0"}, make_command(), device, str(tmp_path))

    assert ("CUDA_VISIBLE_DEVICES" in found.environment) is kept


def test_steps_are_changed() -> None:
    """--steps N reaches the command; a job without steps refuses it."""
    changed = set_steps(JOB, 7)

    assert changed.arguments[:2] == ("--steps", "7")
    assert changed.steps["max"] == 7
    with pytest.raises(UsageError):
        set_steps(replace(JOB, arguments=("--epochs", "3")), 7)


def test_scripts_are_sourced_first() -> None:
    """Scripts of the recipe are sourced by a shell, which then executes the command."""
    made = replace(make_command(), scripts=("/opt/a b/set_env.sh",), prepend={"PYTHONPATH": "/x"})
    argv = launcher.build_argv(made)

    assert argv[:2] == ("bash", "-c")
    assert ". '/opt/a b/set_env.sh'" in argv[2]
    assert argv[4:] == made.argv
    assert launcher.build_argv(make_command()) == make_command().argv
