"""What launchers report of their processes, and folders of logs in which several files belong to one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.explain import explainer
from envcheck.explain.processes import launcher_report, outcome_text
from envcheck.explain.processes.join_ends import join_streams
from envcheck.explain.processes.launcher_report import ReportedEnd, read_launcher_report
from envcheck.explain.processes.process_end import ProcessEnd, find_first_failure

LOST = (
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/w/train.py", line 39, in step\n'
    "[rank{rank}]:     dist.all_reduce(grad)\n"
    "[rank{rank}]: RuntimeError: [/w/gloo/transport/tcp/pair.cc:553] Connection closed by peer [192.0.2.1]:29869\n"
)
WAITED = (
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/w/train.py", line 39, in step\n'
    "[rank{rank}]:     dist.all_reduce(grad)\n"
    "[rank{rank}]: RuntimeError: [/w/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 12000ms for recv\n"
)
KEY_ERROR = (
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/w/train.py", line 21, in step\n'
    '[rank{rank}]:     x = sample["labels"]\n'
    "[rank{rank}]: KeyError: 'labels'\n"
)
DEEPSPEED = (
    "[2026-11-21 15:01:40,300] [ERROR] [launch.py:325:sigkill_handler] ['python3', 't.py', '--local_rank=2'] exits"
    " with return code = -9\n"
)


def make_report(first: tuple[int, int, int], others: list[tuple[int, int, int]]) -> str:
    """The report of torchrun; of each process its rank, its number on the node and its exit code."""

    def make_part(number: int, one: tuple[int, int, int]) -> str:
        rank, local, code = one
        name = {-9: " (SIGKILL)", -15: " (SIGTERM)", -11: " (SIGSEGV)"}.get(code, "")
        return (
            f"[{number}]:\n  time      : 2026-03-02_10:00:0{5 + number}\n  host      : node-1\n"
            f"  rank      : {rank} (local_rank: {local})\n  exitcode  : {code} (pid: {700 + rank}){name}\n"
            "  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org/docs\n"
        )

    rest = "".join(make_part(number, one) for number, one in enumerate(others, 1))
    return (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
        f"====\ntrain.py FAILED\n----\nFailures:\n{rest}----\n"
        f"Root Cause (first observed failure):\n{make_part(0, first)}====\n"
    )


def make_steps(last: int) -> str:
    return "".join(
        f"2026-03-02 10:00:0{step},000 INFO trainer: step {step}/12 loss 0.5\n" for step in range(1, last + 1)
    )


def write_folder(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def write_job(folder: Path, errors: dict[int, str], report: str) -> Path:
    """The folder of a torchrun with --log-dir and four processes."""
    streams = {f"logs/none_x/attempt_0/{rank}/stdout.log": make_steps(4) for rank in range(4)}
    streams |= {
        f"logs/none_x/attempt_0/{rank}/stderr.log": text.format(rank=rank) or "note\n" for rank, text in errors.items()
    }
    return write_folder(folder, streams | {"torchrun.log": report})


def test_torchrun_report() -> None:
    """Ranks, numbers on the node, codes and times; the root cause is marked, exits with 0 are not there."""
    found = read_launcher_report(make_report((3, 1, -9), [(2, 0, -15), (1, 3, 0)]).encode())

    assert [(one.rank, one.local_rank, one.code, one.is_first) for one in found] == [
        (2, 0, -15, False),
        (3, 1, -9, True),
    ]
    assert (found[1].time or 0) - (found[0].time or 0) == -1


def test_reports_of_other_launchers() -> None:
    """Paddle's launcher names one rank, srun hosts and tasks."""
    paddle = b"Container rank 2 status failed cmd ['python', '-u', 'train.py'] code -9 log log/workerlog.2\nenv {}\n"
    srun = b"srun: error: node-3: tasks 8-9,12: Exited with exit code 1\nsrun: error: node-4: task 17: Killed\n"

    assert read_launcher_report(paddle) == (ReportedEnd(2, -9),)
    assert [(one.rank, one.code, one.host) for one in read_launcher_report(srun)] == [
        (8, 1, "node-3"),
        (9, 1, "node-3"),
        (12, 1, "node-3"),
        (17, -9, "node-4"),
    ]


@pytest.mark.parametrize(
    "end", (b"", b"rank      : 3\n", b"exitcode  : -9 (pid: 3)\n" * 2000, b"time      : x\n" * 2000)
)
def test_no_report(end: bytes) -> None:
    """Text that only resembles a report is none."""
    assert read_launcher_report(end) == ()


def make_srun_logs(ranks: list[int], failed: int, srun: str, launcher: str = "") -> dict[str, str]:
    """Logs of ranks, and sbatch's output, which has the traceback of one rank and the report of srun."""
    files = {f"rank{rank}.log": make_steps(4) for rank in ranks}
    return {**files, "slurm-1.out": KEY_ERROR.format(rank=failed) + launcher + srun}


@pytest.mark.parametrize(
    ("ranks", "failed", "launcher", "summary"),
    [
        ([0, 1, 8, 9], 9, "", "rank 9 failed first"),  # one task for each node: no rank is above its number
        ([0, 1], 1, "", "rank 1 on node2 failed first"),
        ([0], 0, "E1130 12:00:00.1 17 torch/distributed/elastic/multiprocessing/api.py:1] failed\n", "rank 0 failed"),
    ],
)
def test_tasks_of_srun(tmp_path: Path, ranks: list[int], failed: int, launcher: str, summary: str) -> None:
    """The number of a task is a rank only where srun starts each process itself."""
    srun = "srun: error: node2: task 1: Exited with exit code 1\n"
    found = explainer.explain_files([write_folder(tmp_path, make_srun_logs(ranks, failed, srun, launcher))])

    assert str(found.summary).startswith(summary)
    assert {one.rank for one in found.ends} == {*ranks}
    assert f"ranks {failed}:" not in str(outcome_text.list_end_rows(found.ends))


def test_tasks_of_srun_where_each_is_a_rank(tmp_path: Path) -> None:
    """A task that was killed has no line of its own: srun tells it, with its node."""
    files = {f"rank{rank}.log": LOST.format(rank=rank) for rank in range(3)}
    files["slurm-77.out"] = "srun: error: node-4: task 3: Killed\n"
    found = explainer.explain_files([write_folder(tmp_path, files)])

    assert str(found.summary).startswith("rank 3 on node-4 failed first (SIGKILL)")


def test_many_tasks_of_srun_are_read_once() -> None:
    """Lines that repeat thousands of tasks cost no more than a bounded number of them."""
    read = list(launcher_report._read_tasks(b"srun: error: nX: tasks 0-4000: Killed\n" * 500))

    assert len(read) == launcher_report.NUMBERED
    assert len({one.rank for one in read}) == 4001


def test_damaged_report() -> None:
    """Digits that are no time cost the time, not the process."""
    (found,) = read_launcher_report(make_report((3, 1, -9), []).replace("2026-03-02_10", "2026-13-40_25").encode())

    assert (found.rank, found.time) == (3, None)


def test_killed_rank_has_no_line_of_its_own(tmp_path: Path) -> None:
    """The launcher tells of the signal; the ranks that lost their peer follow, and its meaning comes first."""
    report = make_report((1, 1, -9), [(0, 0, -15), (2, 2, -15), (3, 3, -15)])
    found = explainer.explain_files([write_job(tmp_path, {0: LOST, 1: "", 2: LOST, 3: ""}, report)])

    assert found.summary == "rank 1 failed first (SIGKILL, last step 4); ranks 0 and 2-3 stopped after it"
    assert found.diagnoses[0].name in ("host.killed", "exit.sigkill")
    assert {one.caused_by for one in found.diagnoses[1:]} == {found.diagnoses[0].name}


def test_exit_code_without_a_traceback(tmp_path: Path) -> None:
    """A rank that ended by itself with a code failed first."""
    report = make_report((3, 3, 3), [(0, 0, -15), (1, 1, -15), (2, 2, -15)])
    found = explainer.explain_files([write_job(tmp_path, {0: LOST, 1: "", 2: LOST, 3: ""}, report)])

    assert str(found.summary).startswith("rank 3 failed first (exit code 3, last step 4)")


def test_exception_outranks_what_the_launcher_saw_first(tmp_path: Path) -> None:
    """The launcher may see a rank first that only lost its peer."""
    report = make_report((0, 0, 1), [(1, 1, -15), (2, 2, -15), (3, 3, 1)])
    found = explainer.explain_files([write_job(tmp_path, {0: LOST, 1: "", 2: LOST, 3: KEY_ERROR}, report)])

    assert str(found.summary).startswith("rank 3 failed first (KeyError: 'labels' at train.py:21")


def test_hanging_rank_was_ended_by_the_launcher(tmp_path: Path) -> None:
    """The only rank without a line on its end is the one for which the others waited."""
    report = make_report((0, 0, 1), [(1, 1, 1), (2, 2, 1), (3, 3, -15)])
    found = explainer.explain_files([write_job(tmp_path, {0: WAITED, 1: WAITED, 2: WAITED, 3: ""}, report)])

    assert str(found.summary).startswith("rank 3 was missing first")
    assert "ranks 0-2 waited for it" in str(found.summary)


def test_rank_that_left_early(tmp_path: Path) -> None:
    """Where all others lost their peer, the rank without an end left them."""
    report = make_report((0, 0, 1), [(2, 2, 1), (3, 3, 1)])
    found = explainer.explain_files([write_job(tmp_path, {0: LOST, 1: "", 2: LOST, 3: LOST}, report)])

    assert str(found.summary).startswith("rank 1 was missing first")


def test_finished_job(tmp_path: Path) -> None:
    """The first rank says that it finished; the others came as far."""
    files = {f"logs/none_x/attempt_0/{rank}/stdout.log": make_steps(4) for rank in range(4)}
    files["logs/none_x/attempt_0/0/stdout.log"] += "2026-03-02 10:00:09,000 INFO trainer: Training completed\n"
    found = explainer.explain_files([write_folder(tmp_path, {**files, "torchrun.log": ""})])

    assert (found.verdict, found.diagnoses) == ("finished", ())


def test_one_rank_stopped_short(tmp_path: Path) -> None:
    """A rank that is behind the first one did not finish with it."""
    files = {f"rank{rank}.log": make_steps(4 - rank) for rank in range(2)}
    files["rank0.log"] += "2026-03-02 10:00:09,000 INFO trainer: Training completed\n"

    assert explainer.explain_files([write_folder(tmp_path, files)]).verdict == "running"


def test_ranks_of_two_nodes(tmp_path: Path) -> None:
    """With --tee, the rank in the job stands behind the number on the node."""
    first = "".join(f"[default{at}]:{line}" for at in (0, 1) for line in LOST.format(rank=at).splitlines(True))
    second = "".join(f"[default1]:{line}" for line in LOST.format(rank=3).splitlines(True))
    logs = {
        "node-0.log": first + make_report((0, 0, 1), [(1, 1, 1)]),
        "node-1.log": second + make_report((2, 0, -11), [(3, 1, -15)]),
    }
    found = explainer.explain_files([write_folder(tmp_path, logs)])

    assert str(found.summary).startswith("rank 2 on node-1 failed first (10:00:05, SIGSEGV)")
    assert str(found.summary).endswith("ranks 0-1 and 3 stopped after it")


def test_streams_of_one_process() -> None:
    """The stream that tells more gives the end, the other one time and step."""
    ends = [
        ProcessEnd("a/3/stderr.log", "exception", 3, reason="KeyError: 'x'"),
        ProcessEnd("a/3/stdout.log", "running", 3, time=7.0, step=12),
        ProcessEnd("job_4.out", "running", 4),
        ProcessEnd("job_4.err", "stopped", 4),
    ]

    assert [(one.log, one.how, one.time, one.step) for one in join_streams(ends)] == [
        ("a/3/stderr.log", "exception", 7.0, 12),
        ("job_4.err", "stopped", None, None),
    ]


def test_launcher_decides_between_equal_times() -> None:
    """Of two failures in the same second, the one that the launcher noticed first."""
    ends = [ProcessEnd("a", "exception", 1, time=5.0), ProcessEnd("b", "exception", 2, time=5.0, is_first=True)]
    first = find_first_failure(ends)

    assert first is not None
    assert first.end == ends[1]


def test_values_of_the_lines_around() -> None:
    """The operator is in a line before; of several, the nearest one."""
    call = "[rank7]:[E706 OpParamMaker.cpp:355] call aclnnSparseThing failed, detail:"
    fault = (
        "The extend info: errcode:(0x800000, 0, 0) errorStr: The DDR address of the MTE instruction is out of range. f"
    )
    found = [explainer.diagnose([*calls, fault])[0] for calls in ([call], [call, call.replace("Sparse", "Other")])]

    assert [one.name for one in found] == ["acl.core_address"] * 2
    assert [dict(one.named).get("op") for one in found] == ["aclnnSparseThing", "aclnnOtherThing"]


def test_transformer_engine_without_cudnn() -> None:
    """The call of ldconfig is one of transformer_engine if its frames are above it."""
    command = "subprocess.CalledProcessError: Command '['ldconfig', '-p']' returned non-zero exit status 127."
    frame = '  File "/opt/conda/lib/python3.10/site-packages/transformer_engine/common/__init__.py", line 4, in _load'
    names = [
        {one.name for one in explainer.diagnose(lines)} for lines in ([command], [frame, "    libs = x()", command])
    ]

    assert ["torch_npu.transformer_engine_search" in one for one in names] == [False, True]


def test_clean_up_of_a_parent_is_no_cause() -> None:
    """A process that is gone when its parent looks for it ended before: the parent's own report counts."""
    found = explainer.diagnose(
        [
            "ERROR 4358 engine.py[line:160] Failed to launch worker processes, check log/workerlog.* for more details.",
            "Traceback (most recent call last):",
            '  File "/w/engine.py", line 444, in _exit_sub_services',
            "    pgid = os.getpgid(self.worker_proc.pid)",
            "ProcessLookupError: [Errno 3] No such process",
        ]
    )

    assert [(one.name, one.kind) for one in found] == [("launcher.fastdeploy_worker", "summary")]


def test_advice_belongs_to_the_code() -> None:
    """The remedy is that of the number; a code without one has the general one."""
    said = {
        code: explainer.diagnose([f"[ERROR] {code}: [PID: 3] 2026-01-01-10:00:00.1 call failed"])[0].do
        for code in ("EE1015", "EE1099")
    }

    assert "Install the driver" in said["EE1015"]
    assert said["EE1099"] == "The text after the code names the argument or resource."


def test_operation_of_one_rank_differs(tmp_path: Path) -> None:
    """Where all ranks wait, the one in another operation took another path."""
    frame = '[rank{rank}]:   File "/opt/site-packages/torch/distributed/distributed_c10d.py", line 3252, in {name}\n'
    logs = {
        f"rank{rank}.log": make_steps(2)
        + WAITED.format(rank=rank).replace(
            f"[rank{rank}]: RuntimeError",
            frame.format(rank=rank, name="broadcast" if rank == 2 else "all_reduce") + f"[rank{rank}]: RuntimeError",
        )
        for rank in range(4)
    }
    found = explainer.explain_files([write_folder(tmp_path / "differ", logs)])
    logs["rank2.log"] = logs["rank2.log"].replace("broadcast", "all_reduce")
    alike = explainer.explain_files([write_folder(tmp_path / "alike", logs)])

    assert str(found.summary).startswith("rank 2 was missing first")
    assert "in broadcast" in str(found.summary)
    assert (alike.summary, alike.first) == (None, "")


def test_launcher_after_an_exception() -> None:
    """What the launcher writes after the exception's line is no entry that knows it."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/w/args.py", line 817, in __post_init__',
        "    raise ValueError(",
        "ValueError: pipeline is not compatible with sharding stage2, please use stage1",
        "LAUNCH INFO 2026-03-02 08:33:17,223 Pod failed",
        "LAUNCH ERROR 2026-03-02 08:33:17,223 Container failed !!!",
        "Container rank 0 status failed cmd ['python', '-u', 'train.py'] code 1 log log/workerlog.0",
    ]

    assert explainer.diagnose(lines)[0].name == "exceptions.exclusive_options"


def test_errors_of_the_pcie_bus_are_no_signal() -> None:
    """The kernel's PCIe Bus Error is not the signal SIGBUS."""
    line = "[7.5] pcieport 0000:00:02.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer"

    assert "host.bus_error" not in {one.name for one in explainer.diagnose([line])}


@pytest.mark.parametrize(
    ("begin", "ends"),
    [
        ("nnodes=1, num_local_procs=4, node_rank=0", [(2, -9)]),
        ("nnodes=2, num_local_procs=8, node_rank=1", [(10, -9)]),
        ("nnodes=1, num_local_procs=3, node_rank=0", []),
        ("dist_world_size=16", []),
    ],
)
def test_rank_of_deepspeed(begin: str, ends: list[tuple[int, int]]) -> None:
    """DeepSpeed's launcher reports a number on its node; of an unknown node, or of the last one, there is no rank."""
    line = f"[2026-11-21 15:00:00,300] [INFO] [launch.py:145:main] {begin}\n".encode()

    assert [(one.rank, one.code) for one in read_launcher_report(DEEPSPEED.encode(), line)] == ends
    assert read_launcher_report(f"node-2: {DEEPSPEED}".encode(), line) == ()


def test_report_of_deepspeed(tmp_path: Path) -> None:
    """The number of the node is read at the beginning of a long log."""
    node = "[2026-11-21 15:00:00,300] [INFO] [launch.py:145:main] nnodes=2, num_local_procs=3, node_rank=1\n"
    steps = {f"ranks/20261121150000_rank{at}.log": make_steps(5) for at in range(6)}
    text = node + "loading\n" * 9000 + DEEPSPEED.replace("=2'", "=1'")
    found = explainer.explain_files([write_folder(tmp_path, {"launcher.log": text, **steps})])

    assert found.summary == "rank 4 failed first (SIGKILL, last step 5)"
