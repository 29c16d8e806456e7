"""Reading logs: causes before consequences, evidence, ranks, times, tracebacks, hostile input."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.core.errors import UsageError
from envcheck.core.inputs import live_stream
from envcheck.core.process import CommandResult
from envcheck.explain import catalogue, diagnose, explainer, kernel_log, log_files, timestamps
from envcheck.explain.diagnosis import ExplainReport
from envcheck.explain.files import reading_notice

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
PEER = "RuntimeError: [gloo/transport/tcp/pair.cc:598] Connection closed by peer [192.0.2.2]:4567"
TRACE = [
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 45, in <module>',
    "    main()",
    '  File "/w/site-packages/transformers/trainer.py", line 2171, in train',
    "    return inner(x)",
]


def explain_logs(folder: Path, **logs: list[str]) -> ExplainReport:
    for name, lines in logs.items():
        (folder / f"{name.replace('_', '.')}.log").write_text("\n".join(lines) + "\n")
    return explainer.explain_files([folder])


def list_names(found: ExplainReport) -> list[str]:
    return [diagnosis.name for diagnosis in found.diagnoses]


def test_cause_before_consequence() -> None:
    """A consequence is shown after its cause, even if it is earlier in the log, and names it."""
    found = diagnose([PEER, "Container rank 0 status failed cmd ['x'] code 1 log l", OOM])

    assert [d.name for d in found] == ["memory.card", "network.peer_gone", "launcher.paddle_worker"]
    assert [d.caused_by for d in found] == ["", "memory.card", "memory.card"]


def test_the_rank_that_failed_first(tmp_path: Path) -> None:
    """Of several ranks the earliest by the lines' own times is first, whatever its number."""
    found = explain_logs(
        tmp_path,
        workerlog_0=["[2025-07-01 12:00:09,000] [   ERROR] - OSError: [Errno 28] No space left on device: '/out/x'"],
        workerlog_10=["[2025-07-01 12:00:05,000] [   ERROR] - bad", OOM],
        workerlog_2=["[2025-07-01 12:00:07,000] [   ERROR] - " + PEER],
    )

    assert list_names(found) == ["memory.card", "host.disk_full", "network.peer_gone"]
    assert found.first.endswith("workerlog.10.log")


def test_ranks_without_times(tmp_path: Path) -> None:
    """Where lines have no times the order of the ranks' numbers counts."""
    found = explain_logs(tmp_path, workerlog_10=[OOM], workerlog_9=["OSError: [Errno 28] No space left on device"])

    assert list_names(found) == ["host.disk_full", "memory.card"]


def test_the_same_on_all_ranks_is_one(tmp_path: Path) -> None:
    """Sixteen ranks with the same error are one diagnosis, counted."""
    logs = {f"workerlog_{n}": ["start", f"E0701 12:00:{n:02d}.000001 1 x.cc:1] " + OOM] for n in range(16)}
    found = explain_logs(tmp_path, **logs)

    assert list_names(found) == ["memory.card"]
    assert found.diagnoses[0].count == 16
    assert found.diagnoses[0].evidence[0].line == 2
    assert found.first.endswith("workerlog.0.log")


def test_sigkill_with_the_kernels_word() -> None:
    """A SIGKILL alone has no cause; with the kernel's log it is the host's memory."""
    alone = diagnose(["step 3"], code=-9)
    known = diagnose(["step 3"], code=-9, kernel=["[12.3] Out of memory: Killed process 4242 (python3) total-vm:1kB"])

    assert [d.name for d in alone] == ["host.killed"]
    assert [(d.name, d.caused_by) for d in known] == [("memory.host_oom", ""), ("host.killed", "memory.host_oom")]


@pytest.mark.parametrize(
    ("status", "out", "expected"), [(0, "x\n2025-07-01T12:00:00 Killed process 7 (a)\n", 1), (1, "", None)]
)
def test_kernels_log(status: int, out: str, expected: int | None) -> None:
    """Its telling lines, or None where this user may not read it."""
    lines = kernel_log.read_lines(run=lambda argv, timeout_s: CommandResult(tuple(argv), status, out, ""))

    assert (None if lines is None else len(lines)) == expected


def test_traceback_is_summarised() -> None:
    """The last exception: what, where it was raised, from where it was called."""
    found = explainer.explain_arguments(["\n".join(["x", *TRACE, "ZeroDivisionError: division by zero"])])

    assert found.raised is not None
    assert found.raised.text == "ZeroDivisionError: division by zero"
    assert found.raised.line == 2
    assert found.raised.raised_in == "/w/site-packages/transformers/trainer.py:2171, in train"
    assert found.raised.called_from == "/w/train.py:45, in <module>"


def test_traceback_among_other_ranks() -> None:
    """With a rank before every line, lines of other ranks in between are left out."""
    lines = [f"[rank3]: {line}" for line in TRACE]
    lines[2:2] = ["[rank0]: KeyError: 'of another rank'", "[rank1]: step 7"]
    found = explainer.explain_arguments(["\n".join([*lines, "[rank3]: ValueError: mine"])])

    assert found.raised is not None
    assert found.raised.text == "ValueError: mine"


def test_quoted_code_is_no_error() -> None:
    """A line of source code that a traceback quotes claims nothing."""
    lines = [
        *TRACE,
        '    raise RuntimeError("CUDA out of memory") if full else None',
        "ZeroDivisionError: division by zero",
    ]

    assert [one.name for one in diagnose(lines)] == ["exceptions.empty"]


def test_level_of_information_is_no_error() -> None:
    """Messages at INFO level are not errors; warnings are not causes."""
    assert diagnose(["[INFO] if CUDA out of memory, lower the batch"]) == ()
    assert [d.kind for d in diagnose(["2025 WARNING disk: No space left on device"])] == ["warning"]


CAUGHT = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "FileNotFoundError: a.jpg"]
STEPS = [f"{{'loss': {5 - at / 1000:.3f}, 'grad_norm': 0.8, 'epoch': 0.1}}" for at in range(2000)]


def test_what_a_training_went_on_after(tmp_path: Path) -> None:
    """What precedes a long series of steps is not a cause; a later error is."""
    on, ended = (
        explain_logs(tmp_path, one=[*CAUGHT, *STEPS, *more]) for more in ([], ["RuntimeError: CUDA out of memory"])
    )

    assert ([(one.name, one.kind) for one in on.diagnoses], on.raised) == ([("model.missing_file", "warning")], None)
    assert [(one.name, one.kind) for one in ended.diagnoses] == [
        ("memory.card", "cause"),
        ("model.missing_file", "warning"),
    ]


def test_steps_that_a_buffer_held_back(tmp_path: Path) -> None:
    """Standard output is written when the process ends: a few steps behind a traceback came before it."""
    found = explain_logs(tmp_path, one=["x" * 40_000, *CAUGHT, *STEPS[:100]])

    assert [(one.name, one.kind) for one in found.diagnoses] == [("model.missing_file", "cause")]


AHEAD = (
    "[rank0]: ",
    "(main_task pid=55440) ",
    "worker-0  | ",
    "2025-11-22T10:00:00.123456789Z stderr F ",
    "Nov 22 10:00:00 node01 python3[4711]: ",
    "2025-11-22 10:00:00,123 ERROR ",
    "[2025-11-22 10:00:00,123] [   ERROR] ",
)


@pytest.mark.parametrize("ahead", AHEAD)
@pytest.mark.parametrize("line", ("KeyboardInterrupt", "SyntaxError: invalid syntax", "Killed"))
def test_what_stands_before_a_line(ahead: str, line: str) -> None:
    """Ranks, pods, units, times and levels hide no line that is known by its beginning."""
    assert [one.name for one in diagnose([ahead + line])] == [one.name for one in diagnose([line])] != []


TRIED = (
    "'(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /x\"))' "
    "thrown while requesting HEAD https://huggingface.co/x/resolve/main/config.json",
    "2025-11-22 10:00:00.123456: E external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:152] failed call to "
    "cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
    "fastapi 0.110.0 requires starlette<0.37.0, but you have starlette 0.41.0 which is incompatible.",
    "A module that was compiled using NumPy 1.x cannot be run in NumPy 2.1.0 as it may crash.",
    "/bin/sh: 1: nvcc: not found",
    '  warn("The installed version of bitsandbytes was compiled without GPU support. "',
)


@pytest.mark.parametrize("line", TRIED)
def test_what_is_said_without_a_level(line: str) -> None:
    """Retries and notices of libraries that continue are not causes."""
    assert {one.kind for one in diagnose([line])} <= {"warning"}


def make_healthy_line(rng: random.Random) -> str:
    step = rng.randrange(10**6)
    return rng.choice(
        (
            f"[2025-07-01 12:00:00,{step % 1000:03d}] [    INFO] - loss: {rng.random():.8f}, global_step: {step}",
            f"{{'loss': {rng.random():.4f}, 'grad_norm': {rng.random():.4f}, 'learning_rate': 1e-05, 'epoch': 0.3}}",
            f"  3%|▎         | {step}/1473 [00:31<{step}:12,  1.02s/it]",
            f"NCCL INFO Channel {step % 32:02d}/0 : 0[0] -> 1[1] via P2P/IPC",
            f"[rank{step % 16}] tokens/s {step}, memory allocated 507033 MB, failed 0, errors: 0",
            "Saving model checkpoint to out/checkpoint-500, existing files are not removed",
            f"UserWarning: value {step} is deprecated and will be removed, use the other one",
            "FutureWarning: `torch.cuda.amp.autocast` is deprecated. Please use `torch.amp.autocast('cuda', args...)`",
            "Setting ds_accelerator to cuda (auto detect)",
            "I0701 12:00:00.123456  4242 tcp_store.cc:290] receive shutdown event and so quit MasterDaemon",
            "LAUNCH INFO 2025-07-01 12:00:00,100 Exit code 0",
            "[W socket.cpp:601] socket failed to connect to [n]:1 (errno: 111 - Connection refused). Retrying...",
            "Failed to load image Python extension: libpng16.so.16: cannot open shared object file",
            "Special tokens have been added, make sure the associated word embeddings are fine-tuned or trained.",
            "`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.",
            "huggingface/tokenizers: just got forked. Disabling parallelism to avoid deadlocks...",
            "W0701 12:00:00.1 8 gpu_resources.cc:306] device: 0. CUDNN 8.9, which may cause serious incompatible bug.",
            "Using the `WANDB_DISABLED` environment variable is deprecated; some weights were not initialized from it",
            "[INFO] HCCL(17,python3): connect timeout is 120 s, retry 3",
            "torch_dtype is deprecated! default to bfloat16; fault tolerance off; dump_dir not set",
        )
    )


def test_healthy_logs_claim_nothing(tmp_path: Path) -> None:
    """Ten thousand lines of trainings that are well give no claim at all."""
    rng = random.Random(7)
    found = explain_logs(tmp_path, train=[make_healthy_line(rng) for _ in range(10_000)])

    assert list_names(found) == []
    assert found.raised is None


def test_finished_installation_is_no_failure(tmp_path: Path) -> None:
    """An installation that pip reports as successful is no unknown failure, whatever it remarks at its end."""
    lines = [
        "Collecting frobnet==1.2",
        "  DEPRECATION: Building 'frobnet' using the legacy setup.py mechanism will be removed.",
        "Successfully installed frobnet-1.2",
        "WARNING: Running pip as the 'root' user can result in broken permissions and conflicting behaviour.",
    ]
    found = explain_logs(tmp_path, install=lines)

    assert (list_names(found), found.verdict) == ([], "no_failure")


def test_unknown_shows_ten_telling_lines(tmp_path: Path) -> None:
    """Where nothing is known, at most ten lines, and no secret."""
    rng = random.Random(8)
    lines = [make_healthy_line(rng) for _ in range(500)]
    lines[100:100] = ["FATAL: the frob is out of quux at /x?token=abcdef123456"]
    lines += [f"ERROR: quux {word} of https://me:geheim@example.org failed" for word in "abcdefghijklmnopqrstuvw"]
    found = explain_logs(tmp_path, train=lines)
    texts = [line.text for line in found.relevant_lines]

    assert list_names(found) == []
    assert len(texts) == 10
    assert any("out of quux" in text for text in texts)
    assert not any("geheim" in text or "abcdef123456" in text for text in texts)


def test_codes_of_one_template_are_told_apart(tmp_path: Path) -> None:
    """Lines that differ in their code only are of different entries, and counted each."""
    lines = [f"call failed, error code is {code}" for code in (0, 507033, 507033, 207001, 0)]
    found = explain_logs(tmp_path, plog=lines)

    assert {d.name: d.count for d in found.diagnoses} == {"acl.device_setup": 2, "acl.out_of_memory": 1}


@pytest.mark.parametrize("encoding", ("utf-8", "gb18030", "utf-16"))
def test_chinese_logs(tmp_path: Path, encoding: str) -> None:
    """Messages of a Chinese locale are read in the encodings that consoles write."""
    path = tmp_path / "a.log"
    path.write_bytes("训练开始\n保存模型：设备上没有空间\nrun.sh: 行 3: 已杀死\n".encode(encoding))
    found = explainer.explain_files([path])

    assert list_names(found) == ["host.disk_full", "host.killed"]
    assert found.diagnoses[0].evidence[0].line == 2


def test_compressed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A compressed log is read, even if truncated, with a notice."""
    path = tmp_path / "a.log.gz"
    packed = gzip.compress(("\n".join(["x"] * 5 + [OOM]) + "\n").encode())
    path.write_bytes(packed)
    assert list_names(explainer.explain_files([path])) == ["memory.card"]
    assert capsys.readouterr().err == ""

    path.write_bytes(packed[:-8])
    assert list_names(explainer.explain_files([path])) == ["memory.card"]
    assert f"{path} is truncated" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "count"), [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("a" * 200_000 + "\nb\n", 2)])
def test_lines_are_counted(text: str, count: int, tmp_path: Path) -> None:
    """The last one also where no end of line follows it."""
    path = tmp_path / "a.log"
    path.write_text(text)

    assert [lines for _, lines, _ in explainer.explain_files([path]).read] == [count]


def test_progress_bars(tmp_path: Path) -> None:
    """What a progress bar overwrote on the same line is read."""
    path = tmp_path / "a.log"
    bars = b"  3%|x| 1/9\r" * 3000
    path.write_bytes(bars + OOM.encode() + b"\r" + bars)

    assert list_names(explainer.explain_files([path])) == ["memory.card"]


def test_hostile_bytes(tmp_path: Path) -> None:
    """Binary content, NULs and escapes neither stop it nor come out again."""
    path = tmp_path / "a.log"
    noise = random.Random(3).randbytes(300_000)
    path.write_bytes(b"step 1\n" * 4000 + noise + b"\n\x1b[31m\x1b]0;evil\x07" + OOM.encode() + b"\x00\x9b5m\n" + noise)
    found = explainer.explain_files([path])

    assert "memory.card" in list_names(found)
    assert all(line.text.isprintable() for d in found.diagnoses for line in d.evidence)
    assert all(line.text.isprintable() for line in found.relevant_lines)


def test_commands_take_nothing_harmful() -> None:
    """What a stranger's log names comes into a command only where it is harmless there."""
    (good,) = diagnose(["ModuleNotFoundError: No module named 'paddleformers'"])
    evil = diagnose(["FileNotFoundError: [Errno 2] No such file or directory: 'x; rm -rf $HOME'"])

    assert "python3 -m pip install paddleformers" in good.commands
    assert not any("rm -rf" in command for d in evil for command in d.commands)


@pytest.mark.slow
def test_memory_stays_small(tmp_path: Path) -> None:
    """A long log, and a single line of the same size, are read in little memory."""
    long, one = tmp_path / "long.log", tmp_path / "one.log"
    rng = random.Random(5)
    block = "".join(make_healthy_line(rng) + "\n" for _ in range(8000)).encode()
    long.write_bytes(block * 48 + OOM.encode())
    one.write_bytes(b"x" * (64 << 20))
    code = (  # not ru_maxrss, which may be that of whoever started it
        "import re, sys; from pathlib import Path; from envcheck.explain import explainer;"
        "explainer.explain_files([Path(sys.argv[1])]);"
        "print(re.search('VmHWM:.*?([0-9]+)', Path('/proc/self/status').read_text())[1])"
    )
    for path in (long, one):
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)

        assert int(done.stdout) < 200 << 10, path.name


@pytest.mark.parametrize("encoding", ("utf-16-le", "utf-16-be"))
def test_utf_16_without_a_mark(tmp_path: Path, encoding: str) -> None:
    """As PowerShell's redirection writes it."""
    path = tmp_path / "a.log"
    path.write_bytes(f"step 1\n{OOM}\n".encode(encoding))

    assert list_names(explainer.explain_files([path])) == ["memory.card"]


@pytest.mark.parametrize("encoding", ("utf-16-le", "utf-16-be"))
def test_utf_16_without_a_mark_in_chinese(tmp_path: Path, encoding: str) -> None:
    """Most of its characters have no zero byte."""
    path = tmp_path / "a.log"
    head = "训练开始：读取模型配置与数据集\n正在预处理训练数据，请稍候\n" * 9
    path.write_bytes(f"{head}{OOM}\n".encode(encoding))

    assert list_names(explainer.explain_files([path])) == ["memory.card"]


@pytest.mark.parametrize("start", (b"\x7fELF\x02", b"PK\x03\x04", bytes(range(32)) * 9))
def test_binary_files_are_refused(tmp_path: Path, start: bytes) -> None:
    """Weights, archives and programs are no logs, whatever text they contain."""
    path = tmp_path / "a.bin"
    path.write_bytes(start + OOM.encode() * 3)
    with pytest.raises(UsageError, match="is not a log"):
        explainer.explain_files([path])


def test_long_reading_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log that takes long to read is announced on standard error."""
    monkeypatch.setattr(reading_notice, "FIRST_S", -1.0)
    (tmp_path / "a.log").write_text("step 1\n")
    explainer.explain_files([tmp_path / "a.log"])

    assert "a.log: 0 MiB so far" in capsys.readouterr().err


def test_pipe_that_never_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a named pipe delivered is explained at the deadline; so is one without a writer."""
    monkeypatch.setattr(live_stream, "SILENCE_S", 0.3)
    path = tmp_path / "a.log"
    os.mkfifo(path)
    assert explainer.explain_files([path]).verdict == "unknown"
    writer = os.open(path, os.O_RDWR)
    os.write(writer, f"{OOM}\n".encode())
    found = explainer.explain_files([path])
    os.close(writer)

    assert list_names(found) == ["memory.card"]
    assert f"{path} did not end" in capsys.readouterr().err


def test_binary_file_in_a_folder_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with a file that is not text is explained from its other logs; the file is named."""
    (tmp_path / "core.log").write_bytes(b"\x7fELF" + bytes(200))
    found = explain_logs(tmp_path, worker_0=["step 1"], worker_1=[OOM])

    assert list_names(found) == ["memory.card"]
    assert [Path(name).name for name, _lines, _size in found.read] == ["worker.0.log", "worker.1.log"]
    assert "skipped: " in (said := capsys.readouterr().err)
    assert "core.log is not a log: an ELF program or library" in said


def test_many_binary_files_have_one_notice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of many files that are no logs, the first are named, and one line has their number."""
    for number in range(9):
        (tmp_path / f"core{number}.log").write_bytes(b"\x7fELF" + bytes(200))
    explain_logs(tmp_path, worker_1=[OOM])
    said = capsys.readouterr().err

    assert said.count("\n") == 1
    assert "core2.log is not a log" in said
    assert "and 6 other files" in said
    assert "core3.log" not in said


def test_binary_files_that_are_named_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that was named itself, and a folder with nothing else, end with an error."""
    (tmp_path / "core.log").write_bytes(b"\x7fELF" + bytes(200))
    for what in ([tmp_path], [tmp_path / "core.log"]):
        with pytest.raises(UsageError, match=r"core\.log is not a log"):
            explainer.explain_files(what)
    (tmp_path / "worker.0.log").write_text(f"{OOM}\n")
    with pytest.raises(UsageError, match=r"core\.log is not a log"):
        explainer.explain_files([tmp_path / "worker.0.log", tmp_path / "core.log"])

    assert "skipped" not in capsys.readouterr().err


def test_devices_are_refused() -> None:
    """What never ends is not read."""
    with pytest.raises(UsageError, match="is a device"):
        explainer.explain_files([Path("/dev/zero")])


def test_the_last_alarm_is_kept(tmp_path: Path) -> None:
    """Among very many unknown lines of alarm the last ones are still among the telling."""
    words = (a + b + c for a in "klmnpq" for b in "rstvwz" for c in "abcdefghijklmnopqrstuvwxyz")
    found = explain_logs(
        tmp_path, train=[f"error in part {word}" for word in words] + ["ERROR: the frob broke", "step", "step"]
    )

    assert "ERROR: the frob broke" in [line.text for line in found.relevant_lines]


def test_folders_leave_out_what_is_no_log(tmp_path: Path) -> None:
    """paddle's copies of the environment are not read, nor links, nor folders without end."""
    for name in ("workerlog.1", "workerlog.0", "envlog.0", "backup_env.0.json", "default.gpu.log", "run.json"):
        (tmp_path / name).write_text("x\n")
    (tmp_path / "again").symlink_to(tmp_path)

    assert [path.name for path in log_files.list_log_files(tmp_path)] == ["workerlog.0", "workerlog.1"]


def test_folder_with_too_many_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of more logs than one job has, the first ranks are read, and a notice tells so."""
    monkeypatch.setattr(log_files, "FILES", 3)
    for rank in (10, 9, 2, 1, 0):
        (tmp_path / f"workerlog.{rank}").write_text("x\n")

    assert [path.name for path in log_files.list_log_files(tmp_path)] == ["workerlog.0", "workerlog.1", "workerlog.2"]
    assert "too many files; only the first 3 logs are read" in capsys.readouterr().err


def test_search_ends_in_a_tree_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A search in very many folders stops, and a notice tells so; a small one has none."""
    for number in range(5):
        (tmp_path / f"node{number}").mkdir()
        (tmp_path / f"node{number}" / "a.log").write_text("x\n")

    assert len(log_files.list_log_files(tmp_path)) == 5
    assert not capsys.readouterr().err

    monkeypatch.setattr(log_files, "FOLDERS", 2)
    assert len(log_files.list_log_files(tmp_path)) == 2
    assert "too many files" in capsys.readouterr().err


def test_long_search_tells_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After some seconds there is a line on standard error, and none before."""
    (tmp_path / "a.log").write_text("x\n")
    monkeypatch.setattr(reading_notice, "FIRST_S", -1.0)
    log_files.list_log_files(tmp_path)

    assert capsys.readouterr().err == f"envcheck: searching {tmp_path}: 1 logs so far\n"


def test_long_reading_tells_how_many_parts_were_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After some seconds, the parts that were read are counted; a quick reading prints nothing."""
    end_part = reading_notice.count_parts(3)
    end_part()
    assert not capsys.readouterr().err

    monkeypatch.setattr(reading_notice, "FIRST_S", -1.0)
    end_part = reading_notice.count_parts(3)
    end_part()
    assert capsys.readouterr().err == "envcheck: read 1 of 3 parts of the logs\n"


def test_folder_without_logs(tmp_path: Path) -> None:
    """A folder without logs is reported as such."""
    with pytest.raises(UsageError, match="no log in this directory"):
        log_files.list_log_files(tmp_path)


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("[2025-07-01 12:00:00,250] x", 1751371200.25),
        ("2025/07/01 12:00:00 x", 1751371200.0),
        ("EI0006: [PID: 1] 2025-07-01-12:00:00.250.000 x", 1751371200.25),
        ("2025-07-01T14:00:00+02:00 x", 1751371200.0),
        ("2025-13-45 12:00:00 x", None),
        ("[rank0]:[E105 12:00:00.250000000 Group.cpp:6] x", 947073600.25),
        ("[E1105 12:00:00.250000000 Group.cpp:6] x", 973425600.25),
        ("no time at all", None),
    ],
)
def test_times(line: str, seconds: float | None) -> None:
    """The usual forms of time are read; what is none is None."""
    assert timestamps.parse_timestamp(line) == seconds


def test_times_without_year() -> None:
    """glog and syslog are compared among themselves, not with lines that have a year."""
    early, late = (
        timestamps.parse_timestamp("I0701 12:00:00.100000 1 x"),
        timestamps.parse_timestamp("Jul  1 12:00:01 host kernel: x"),
    )

    assert early is not None
    assert late is not None
    assert early < late
    assert timestamps.are_comparable([early, late])
    assert not timestamps.are_comparable([early, timestamps.parse_timestamp("2025-07-01 12:00:00")])


def test_fault_of_the_card_comes_before_failed_programs() -> None:
    """Of several numbers in a kernel log, the one of a fault of the card comes first, and one that is only named."""
    lines = [
        "[Mon Aug  5 03:54:13 2024] NVRM: Xid (PCI:0000:00:07): 31, pid=2512, name=python3, MMU Fault",
        "[Fri Aug  9 13:32:56 2024] NVRM: Xid (PCI:0000:00:08): 95, pid='<unknown>', name=<unknown>, Uncontained",
    ]
    told = explainer.build_report([explainer._scan_lines("kern.log", lines)]).diagnoses

    assert [one.name for one in told] == ["cuda.ecc", "cuda.xid_program"]
    assert ": 95," in told[0].evidence[0].text
    assert "(0000:00:07): Xid 31" in told[1].description


def test_number_of_the_scheduler_is_no_fault_of_the_card() -> None:
    """507001 alone is no reason to reset a card: no command does, and the allocator's setting comes first."""
    line = "RuntimeError: copy_d2d NPU function error: AclrtSynchronizeStreamWithTimeout, error code is 507001"
    told = explainer.build_report([explainer._scan_lines("log", [line])]).diagnoses[0]

    assert told.name == "acl.scheduler_error"
    assert "expandable_segments:False" in told.commands[0]
    assert not [one for one in told.commands if "reset" in one]


@pytest.mark.parametrize(("line", "expected"), [("Xid error 31 on GPU 3", False), ("Xid error 48 on GPU 3", True)])
def test_only_a_fault_of_the_card_lets_a_run_start_again(line: str, expected: bool) -> None:
    """A number of the program is no fault of the infrastructure, in whatever form its line is."""
    known = {entry.name for entry in catalogue.load_entries() if entry.infrastructure}

    assert any(one.name in known for one in explainer.diagnose([line])) is expected


def test_ray_of_other_versions() -> None:
    """The versions of the cluster and of this process are taken from the lines after the message."""
    lines = ["RuntimeError: Version mismatch: The cluster was started with:", "    Ray: 2.40.0", "    Python: 3.10.13"]
    lines += ["This process on node 10.0.0.7 was started with:", "    Ray: 2.40.0", "    Python: 3.10.12"]
    found = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses[0]

    assert found.name == "ray.versions"
    assert "process on 10.0.0.7" in found.description and "Python 3.10.13" in found.description
    assert "this process: Ray 2.40.0, Python 3.10.12" in found.description


NESTED = {
    "nccl.duplicate": [
        "[rank1]: torch.distributed.DistBackendError: NCCL error in: /w/frob.cpp:7, invalid usage, NCCL version 2.21.5",
        "[rank1]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
        "[rank1]: Last error:",
        "[rank1]: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000",
    ],
    "container.hook_killed": [
        "OCI runtime create failed: runc create failed: error during container init: error running hook "
        "#0: error running hook: exit status 137, stdout: , stderr: legacy\\n/usr/toolkit/nvidia-container-cli: "
        'line 5: 4242 Killed                  PATH=/usr/local/toolkit:$PATH /usr/local/toolkit/cli.real "$@"'
    ],
    "acl.out_of_memory": [
        "[ERROR] aclrtSetDevice(deviceId) failed: 507033 (/w/main.cpp:72)",
        "[ERROR] RecentErrMsg: [PID: 77] 2025-03-24-12:14:45.885.234 Memory_Allocation_Failure(EL0004): Failed to "
        "allocate memory.",
        "        open device 2 failed, runtime result = 507033.[FUNC:ReportCallError][FILE:log_inner.cpp][LINE:148]",
    ],
    "cuda.label_range": [
        "Error: /paddle/phi/kernels/gpu/cross_entropy_kernel.cu:77 Assertion `false` failed. The value of label "
        "expected >= 0 and < 10, or == -100, but got 12. Please check label value.",
        "Traceback (most recent call last):",
        '  File "/w/train.py", line 45, in <module>',
        "    loss.backward()",
        "OSError: (External) CUDNN error(8), CUDNN_STATUS_EXECUTION_FAILED. ",
    ],
    "acl.device_setup": ["[ERROR] aclrtSetDevice(deviceId) failed: 507033 (/w/main.cpp:72)"],
    "cuda.blas": [
        "Traceback (most recent call last):",
        '  File "/w/train.py", line 45, in <module>',
        "    loss.backward()",
        "OSError: (External) CUDNN error(8), CUDNN_STATUS_EXECUTION_FAILED. ",
    ],
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_report_comes_first(name: str) -> None:
    """The report inside of another one, or next to it, is the cause; without it, the outer one is."""
    assert explainer.build_report([explainer._scan_lines("log", NESTED[name])]).diagnoses[0].name == name


def test_ray_task_without_its_exception() -> None:
    """The innermost remote process, and the type, are known even if the exception's own line is cut off."""
    lines = ["ray.exceptions.RayTaskError(IndexError): ray::TaskRunner.run() (pid=160, ip=10.0.0.2, actor_id=4)"]
    lines += ["ray.exceptions.RayTaskError(IndexError): ray::Worker.compute() (pid=334, ip=10.0.0.2, actor_id=1)"]
    found = explainer.build_report([explainer._scan_lines("log", lines)])

    assert (found.diagnoses[0].name, found.has_cause) == ("ray.task", True)
    assert "IndexError was raised in Worker.compute" in found.diagnoses[0].description


AHEAD = "ERROR 02-17 20:51:49 core.py:210] "
ENGINE_ERROR = [
    f"{AHEAD}The engine met an exception: Traceback (most recent call last):",
    f'{AHEAD}  File "/w/attention/frob.py", line 156, in __init__',
    f"{AHEAD}    assert CONDITION",
    f"{AHEAD}AssertionError",
    "CRITICAL 02-17 20:51:49 core_client.py:158] Got fatal signal from worker processes, shutting down.",
    "Killed",
]


@pytest.mark.parametrize(
    ("condition", "name"),
    [("is_fa_version_supported(self.version)", "engine.message"), ("self.frob > 3", "exceptions.assertion")],
)
def test_traceback_after_words_of_a_logger(condition: str, name: str) -> None:
    """The frames are below the logger's prefix alone; the kill at the end is the engine's own."""
    lines = [line.replace("CONDITION", condition) for line in ENGINE_ERROR]
    found = explainer.build_report([explainer._scan_lines("log", lines)])

    assert found.raised is not None and found.raised.text == "AssertionError"
    assert found.diagnoses[0].name == name
    assert {one.name: one.caused_by for one in found.diagnoses}["host.killed"] == name


@pytest.mark.parametrize(
    ("lines", "first"),
    [(ENGINE_ERROR[4:], "engine.core_failed"), (["INFO 02-17 core.py:58] starting", "Killed"], "host.killed")],
)
def test_kill_by_the_engine(lines: list[str], first: str) -> None:
    """A kill after the engine's word that a process failed is its own; without it, the kill is what is known."""
    assert explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses[0].name == first


MINDIE_START = ["ERR: Failed to init endpoint! Please check the service log or console output.", "Killed"]


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        (["The value ofmodelNamemust meet the following rules: letters.", *MINDIE_START], "mindie.setting"),
        (["The value of maxLength must meet the following rules: a number."], "mindie.setting"),
        (["[WARNING] Check path failed: required permission 640, but got 644", *MINDIE_START], "mindie.start"),
    ],
)
def test_mindie_refuses_a_setting(lines: list[str], first: str) -> None:
    """A value that breaks a rule is the cause, and what the service reports after it is not; warnings are not."""
    found = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses

    assert (found[0].name, found[0].caused_by) == (first, "")
    assert all(one.caused_by == first for one in found[1:])


PASSED_ON = [
    "Traceback (most recent call last):",
    '  File "/w/main.py", line 41, in main',
    "    run(config)",
    "ray.exceptions.RayTaskError(AssertionError): ray::Worker.make_model() (pid=21, ip=10.0.0.5, actor_id=3f)",
    '  File "/w/worker.py", line 402, in make_model',
    "    check(model)",
]


@pytest.mark.parametrize(
    ("last", "name"),
    [
        (["AssertionError: the model has 3 quuxes, 4 required"], "exceptions.checked"),
        (
            ["AssertionError: Expects tensor to be on the compute device npu:15, was on npu:0"],
            "trainer.library_message",
        ),
        ([], "ray.task"),
    ],
)
def test_ray_task_with_its_exception(last: list[str], name: str) -> None:
    """The exception of the remote process is the cause where its own line ends the traceback."""
    found = explainer.build_report([explainer._scan_lines("log", [*PASSED_ON, *last])]).diagnoses

    assert found[0].name == name


RESOLVED = "ERROR: pip's dependency resolver does not take all installed packages into account."
CONFLICT = "frob 0.17.1 requires quux<5,>=4.56.0, but you have quux 5.3.0 which is incompatible."


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([RESOLVED, CONFLICT], ("python.requirement", "symptom")),
        ([RESOLVED, CONFLICT, *STEPS[:300]], ("python.requirement", "warning")),
    ],
)
def test_conflict_at_the_end_of_an_installation(lines: list[str], found: tuple[str, str]) -> None:
    """Packages that do not fit are the reason where the log ends with them, and a warning if the program went on."""
    first = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses[0]

    assert (first.name, first.kind) == found


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            ["a 1 depends on x", "b 2 depends on x==2.2.0", "c 3 depends on x>=1", "d 4 depends on x>=2.4"],
            "(b 2 depends on x==2.2.0; d 4 depends on x>=2.4)",
        ),
        (["a 1 depends on x<2", "b 2 depends on y>=2", "The user requested x>2"], "(a 1 depends on x<2; The user"),
        (["a 1 depends on x>1", "b 2 depends on x<1.1", "c 3 depends on y<2"], "(a 1 depends on x>1)"),
        (["a 1 depends on x", "b 2 depends on x"], "a third one, or"),
    ],
)
def test_requirements_that_exclude_each_other(lines: list[str], reason: str) -> None:
    """Of the requirements that pip lists, the two are named that no release meets; else the first with a limit."""
    log = ["ERROR: Cannot install a and b because these package versions have conflicting dependencies.", ""]
    log += ["The conflict is caused by:", *(f"    {line}" for line in lines)]

    assert reason in explainer.build_report([explainer._scan_lines("log", log)]).diagnoses[0].why


@pytest.mark.parametrize(
    ("line", "headline"),
    [
        ("MaxLengthError: Current length of row(9746) is larger than the max_length(8192).", "9746 > 8192 tokens"),
        (
            "EI0019: network adapter 192.0.2.7 and port 6000. Reason: The IP address and port have been bound already",
            "192.0.2.7)",
        ),
        ("NPU warning, error code is 507048[Error]:", "(507048) waiting for another rank"),
        ("error running hook #0: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'", "exit status 1"),
        ("error running hook #0: exit status 1, stdout: , stderr: no frobs", "stderr: no frobs"),
        ("  - frob requires Python <3.13,>=3.9, so it will not be installable for Python >=3.13,<4.0", ": <3.13,>=3.9"),
    ],
)
def test_headline_has_the_values_of_the_line(line: str, headline: str) -> None:
    """The headline has what the line says, and nothing where it says nothing."""
    found = explainer.build_report([explainer._scan_lines("log", [line])]).diagnoses[0].description

    assert found.endswith(headline)


@pytest.mark.parametrize(
    ("started", "is_shown"), [("vLLM API server version 0.15.1", False), ("torch version 2.6.0", True)]
)
def test_transformers_of_an_engine(started: str, is_shown: bool) -> None:
    """transformers is not upgraded alone where the log is that of an engine, which requires releases of its own."""
    refused = "ValueError: The checkpoint has model type `qwen3_5` but Transformers does not recognize it."
    lines = [f"INFO 03-06 03:02:42 [utils.py:325] {started}", refused]
    found = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses[0]

    assert found.name == "model.unknown_architecture"
    assert any("install -U 'transformers" in one for one in found.commands) == is_shown


INSPECTED = "ValueError: Model architectures ['FrobModel'] failed to be inspected. Please check the logs."
CANN_START = "RuntimeError: SetPrecisionMode:a.cpp:156 NPU function error: error code is 500001"


@pytest.mark.parametrize(
    ("earlier", "line", "first"),
    [
        ("KeyError: 'getpwuid(): uid not found: 1000'", INSPECTED, "python.uid"),
        ("", INSPECTED, "model.unknown_architecture"),
        ("OSError: [Errno 28] No space left on device", CANN_START, "host.disk_full"),
        ("AttributeError: `np.float_` was removed in the NumPy 2.0 release.", CANN_START, "python.numpy_names"),
        ("", CANN_START, "acl.internal_init"),
    ],
)
def test_general_report_after_its_reason(earlier: str, line: str, first: str) -> None:
    """A report that another part failed is a consequence of the error before it, and the cause without one."""
    found = explainer.build_report([explainer._scan_lines("log", [earlier, line])]).diagnoses

    assert [one.name for one in found if not one.caused_by] == [first]
