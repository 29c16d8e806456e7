"""Several ranks: how each ended, which failed first, and the verdict of the log; whole logs in real layouts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from envcheck.cli.commands.explain import _choose_exit_code
from envcheck.explain import explainer
from envcheck.explain.diagnosis import QUIET, ExplainReport
from envcheck.explain.processes.loss_value import ends_without_loss
from envcheck.explain.processes.outcome_text import shorten_reason
from tests.envcheck.explain.test_explain import run_explain

STEPS = [
    f"[2025-10-11 15:{at // 60:02}:{at % 60:02},000] [INFO] iteration {at:8}/ 9000 | lm loss: 1.23" for at in range(560)
]
KEY_ERROR = [
    "[2025-10-11 15:09:34,100] [ERROR] the loader stopped",
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 45, in <module>',
    "    main()",
    '  File "/w/data.py", line 7, in load',
    '    return sample["images"]',
    "KeyError: 'images'",
]


def make_notify_timeout(rank: int, remote: str = "24") -> list[str]:
    return [
        f"[ERROR] 2025-10-11-15:39:34 (PID:2969, Device:0, RankID:{rank}) ERR00100 PTA call acl api failed.",
        "EI0002: [PID: 2969] 2025-10-11-15:39:34.713.335 The wait execution of the Notify register times out. "
        f"Reason: The Notify register has not received the Notify record from remote rank: [{remote}]. base "
        "information: [streamID:[109], taskID[38], taskType[Notify Wait], tag[AllReduce_group_name_16]].",
        "Traceback (most recent call last):",
        '  File "/w/train.py", line 45, in <module>',
        "    main()",
        "RuntimeError: npuSynchronizeDevice:NPUStream.cpp:479 NPU function error: AclrtSynchronizeDeviceWithTimeout, "
        "error code is 507048",
    ]


def make_watchdog_timeout(rank: int, last: int) -> list[str]:
    head = f"[rank{rank}]:[E1011 15:39:34.100000 77 ProcessGroupNCCL.cpp:629] [Rank {rank}]"
    return [
        f"{head} Watchdog caught collective operation timeout: WorkNCCL(SeqNum={last + 1}, OpType=ALLREDUCE, "
        "NumelIn=1, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.",
        f"{head} Timeout at NCCL work: {last + 1}, last enqueued NCCL work: {last + 1}, last completed NCCL work: "
        f"{last}.",
    ]


def explain_folder(folder: Path, logs: dict[str, list[str]]) -> ExplainReport:
    for name, lines in logs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(lines) + "\n")
    return explainer.explain_files([folder])


def test_unknown_exception_outranks_timeouts(tmp_path: Path) -> None:
    """The rank with an exception that nobody knows failed first; the ranks that waited for it are consequences."""
    found = explain_folder(
        tmp_path,
        {
            "node-0/rank0.log": [*STEPS[:500], *make_notify_timeout(0)],
            "node-1/rank8.log": [*STEPS[:500], *make_notify_timeout(8)],
            "node-3/rank24.log": [*STEPS[:500], *KEY_ERROR],
        },
    )

    assert found.summary == (
        "rank 24 on node-3 failed first (15:09:34, KeyError: 'images' at data.py:7, last step 499); "
        "ranks 0 and 8 waited for it and timed out at 15:39:34"
    )
    assert found.diagnoses[0].name == "exceptions.missing_column"
    assert {one.caused_by for one in found.diagnoses[1:]} == {"exceptions.missing_column"}
    assert [(end.rank, end.how, end.named) for end in found.ends] == [
        (0, "waited", (24,)),
        (8, "waited", (24,)),
        (24, "exception", ()),
    ]


def test_named_rank_without_log(tmp_path: Path) -> None:
    """A rank that others name, and whose log was not read, is where to look."""
    found = explain_folder(tmp_path, {f"rank{n}.log": make_notify_timeout(n) for n in (0, 8)})

    assert found.summary == "ranks 0 and 8 waited for rank 24, whose log was not read: look there"


def test_rank_with_the_oldest_collective(tmp_path: Path) -> None:
    """If all ranks timed out, the one whose last collective is the oldest was missing."""
    found = explain_folder(tmp_path, {f"rank{n}.log": make_watchdog_timeout(n, 50 - (n == 2)) for n in range(4)})

    assert found.first.endswith("rank2.log")
    assert str(found.summary).startswith("rank 2 was missing first")


def test_number_of_a_pod_is_no_rank(tmp_path: Path) -> None:
    """A pod may have several processes: ranks are those that the lines name, and the pod is their host."""
    logs = {
        "llm-master-0.log": [*make_watchdog_timeout(0, 8), *make_watchdog_timeout(1, 8)],
        "llm-worker-0.log": [*make_watchdog_timeout(2, 8), *(f"[rank3]: {line}" for line in KEY_ERROR)],
        "llm-worker-1.log": make_watchdog_timeout(4, 8),
    }
    found = explain_folder(tmp_path, logs)

    assert {end.rank for end in found.ends} == {0, 1, 2, 3, 4}
    assert str(found.summary).startswith("rank 3 on llm-worker-0 failed first (15:09:34, KeyError: 'images'")


def test_pod_without_ranks_is_named_by_its_log(tmp_path: Path) -> None:
    """Where no line names a rank, the first pod that failed is shown by the name of its log."""
    gone = ["iteration 7/ 90 | lm loss: 1.2", "RuntimeError: Connection reset by peer"]
    found = explain_folder(
        tmp_path, {"a-b-master-0.log": gone, "a-b-worker-0.log": KEY_ERROR, "a-b-worker-1.log": gone}
    )

    assert [end.rank for end in found.ends] == [None, None, None]
    assert found.first.endswith("a-b-worker-0.log")


def test_ranks_in_one_log() -> None:
    """Ranks that write into one log, their tracebacks interleaved, are told apart by the launcher's prefix."""
    failed = [f"[rank3]: {line}" for line in KEY_ERROR[1:]]
    waited = [f"[rank0]: {line}" for line in make_notify_timeout(0, "3")[2:]]
    lines = [*STEPS[:9], *(line for pair in zip(failed, [*waited, "", ""], strict=False) for line in pair)]
    found = explainer.build_report([explainer._scan_lines("log", lines)])

    assert [(end.rank, end.how) for end in found.ends] == [(0, "waited"), (3, "exception")]
    assert str(found.summary).startswith("rank 3 failed first")


FINISHED = [
    "{'train_runtime': 12.5, 'train_samples_per_second': 8.1, 'train_steps_per_second': 1.2, 'train_loss': 0.9}",
    "[after training is done] datetime: 2025-10-11 16:00:00",
    "[2025-10-11 16:00:00,000] [    INFO] - Training completed.",
    "`Trainer.fit` stopped: `max_steps=90` reached.",
    "3: ENDING TIMING RUN AT 2024-04-26 11:16:49 PM",
    ':::MLLOG {"time_ms": 1, "event_type": "INTERVAL_END", "key": "run_stop", "metadata": {"status": "success"}}',
    ':::MLLOG {"time_ms": 1, "event_type": "POINT_IN_TIME", "key": "status", "value": "success", "metadata": {}}',
]
NOT_FINISHED = [
    "Finished training epoch 3",
    "Training done 12 of 90 steps",
    ':::MLLOG {"time_ms": 1, "event_type": "INTERVAL_END", "key": "run_stop", "metadata": {"status": "aborted"}}',
]


@pytest.mark.parametrize("line", NOT_FINISHED)
def test_line_that_is_no_end(line: str, tmp_path: Path) -> None:
    """An error before such a line is a failure: the training did not end there."""
    (tmp_path / "train.log").write_text("\n".join([*STEPS, *KEY_ERROR, line]) + "\n")

    assert run_explain(str(tmp_path / "train.log")).returncode == 1


@pytest.mark.parametrize("line", FINISHED)
def test_finished_log_is_quiet(line: str, tmp_path: Path) -> None:
    """With the trainer's mark of a regular end, errors before it are also seen: nothing failed, exit code 0."""
    (tmp_path / "train.log").write_text("\n".join([*KEY_ERROR, *STEPS, line]) + "\n")
    done = run_explain("--json", str(tmp_path / "train.log"))
    said = json.loads(done.stdout)

    assert (done.returncode, said["verdict"]) == (0, "finished")
    assert {one["kind"] for one in said["diagnoses"]} <= {"warning"}


def test_failure_after_the_end_counts(tmp_path: Path) -> None:
    """An exception behind the mark, as of the export of the model, is a failure."""
    (tmp_path / "train.log").write_text("\n".join([*STEPS, FINISHED[0], *KEY_ERROR]) + "\n")

    assert run_explain(str(tmp_path / "train.log")).returncode == 1


@pytest.mark.parametrize(
    "line",
    [
        "[W1011 15:00:00.100 socket.cpp:697] [c10d] The client socket has failed to connect to [a1]:2950 (errno: 111).",
        "I1011 15:00:00.100000 7 tcp_utils.cc:107] Retry to connect to 127.0.0.1:5000 while the server is not yet "
        "listening.",
    ],
)
def test_wait_before_the_training_is_over(line: str) -> None:
    """What a process waited for at its start came: steps follow."""
    found = explainer.build_report([explainer._scan_lines("log", [line, *STEPS[:50]])])
    waits = explainer.build_report([explainer._scan_lines("log", [*STEPS[:50], line])])

    assert not found.diagnoses
    assert waits.diagnoses


def test_survived_error_is_no_cause() -> None:
    """After an error, steps of later times show that the training went on: no end found, nothing to explain."""
    found = explainer.build_report([explainer._scan_lines("log", [*STEPS[:50], *KEY_ERROR, *STEPS[50:60]])])

    assert (found.verdict, [one.kind for one in found.diagnoses], found.raised) == ("running", [], None)


def test_bar_that_is_drawn_again_is_no_progress() -> None:
    """A progress bar is drawn once more when the process ends: that is no step after the error."""
    bars = [f" {at}%|##| {at}/100 [00:{at:02}<00:50,  1.02s/it]" for at in range(10, 20)]
    found = explainer.build_report([explainer._scan_lines("log", [*bars, *KEY_ERROR, bars[-1]])])

    assert (found.verdict, found.ends[0].step) == ("failed", 19)


@pytest.mark.parametrize(("rate", "step"), [("2758.13it/s", None), ("758.13it/s", 500000)])
def test_rows_of_a_data_set_are_no_steps(rate: str, step: int | None) -> None:
    """A bar without a caption that makes thousands of steps in a second is of the data."""
    bar = f"100%|##########| 500000/500000 [03:01<00:00, {rate}]"

    assert explainer.build_report([explainer._scan_lines("log", [bar, *KEY_ERROR])]).ends[0].step == step


SAMPLES = {
    "llamafactory": [
        "training example:",
        "input_ids:",
        "[1, 2]",
        "inputs:",
        "<user> what is this?",
        "{quoted}",
        "label_ids:",
    ],
    "record": ["{{'instruction': 'explain', 'input': '{quoted}', 'output': 'x'}}"],
    "swift": ["[INFO:swift] [INPUT] <user> explain this", "{quoted}", "[INFO:swift] [LABELS_IDS] [-100]"],
    "source": ["if size > free:", "    raise OutOfMemoryError('{quoted}')", "size = read_size(path)"],
    "comment": ["import torch", "# {quoted}", "", "def train(size):"],
}


@pytest.mark.parametrize("name", SAMPLES)
def test_printed_samples_are_no_cause(name: str) -> None:
    """An error that a sample of the data set quotes is no error; the same line after it is one."""
    quoted = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    sample = [line.format(quoted=quoted) for line in SAMPLES[name]]
    well, ill = (
        explainer.build_report([explainer._scan_lines("log", [*sample, *STEPS[:9], *more])]) for more in ([], [quoted])
    )

    assert (well.verdict, well.diagnoses) == ("running", ())
    assert [one.name for one in ill.diagnoses] == ["memory.card"]


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("short: all of it", "short: all of it"),
        ("word " * 30, ("word " * 24).strip() + " ..."),
        ("x" * 100 + " of rank: [1234567] and more words", "x" * 100 + " of rank: [1234567] ..."),
        ("x" * 100 + " of rank: [24], and more words", "x" * 100 + " of rank: [24], and ..."),
        ("x" * 100 + " in (a list " + "that is long " * 9 + ")", "x" * 100 + " in ..."),
        ("x" * 200, "x" * 120 + " ..."),
    ],
)
def test_reason_is_cut_between_words(text: str, short: str) -> None:
    """A long text of a log ends with a whole word and an ellipsis, and no bracket is cut open."""
    assert shorten_reason(text) == short


NAN_STEPS = [f"{{'loss': {value}, 'grad_norm': nan, 'epoch': 0.{at}}}" for at, value in enumerate((2.1, "nan", "nan"))]


@pytest.mark.parametrize(
    "lines",
    [
        NAN_STEPS,
        [*NAN_STEPS, "{'train_runtime': 9.1, 'train_samples_per_second': 3.1, 'train_loss': nan}"],
        [f"step {at}: loss nan, lr 0.1" for at in range(1, 40)],
        [f" iteration {at}/ 900 | lm loss: inf | grad norm: nan" for at in range(1, 40)],
        ["{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-05, 'epoch': 0.1}"] * 3,
    ],
)
def test_loss_that_is_no_number_to_the_end_is_a_failure(lines: list[str]) -> None:
    """NaN or Inf as the loss of the last steps is a failure with a known cause, whatever the end of the log."""
    found = explainer.build_report([explainer._scan_lines("log", lines)])

    assert (_choose_exit_code(found), found.verdict) == (1, "failed")
    assert [(one.name, one.kind) for one in found.diagnoses] == [("training.nan", "cause")]


@pytest.mark.parametrize("after", [["step 40: loss 1.9, lr 0.1", "step 41: loss 1.8, lr 0.1"], ["step 40: loss 1.9"]])
def test_loss_that_is_a_number_again_is_no_failure(after: list[str]) -> None:
    """A training that recovered from NaN goes on."""
    lines = [*(f"step {at}: loss nan, lr 0.1" for at in range(1, 40)), *after]

    assert explainer.build_report([explainer._scan_lines("log", lines)]).verdict != "failed"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"eval_loss: nan\n",
        b"train_loss: nan\n",
        b"loss: nancy\n",
        b"loss: 1.2\nloss: nan\n",
        b"loss info\n",
        b"{'loss': 1.2, 'grad_norm': nan}\n" * 3,
        b"loss: nan\nloss: 1.2\nloss: 1.1\nloss: nan\nloss: 1.1\n",
        b"loss: nan\nloss: 1.2\n" * 4 + b"loss: 1.2\n" * 20,
        b"{'loss': 1.2, 'grad_norm': 0.7}\n{'loss': 0.0, 'grad_norm': nan}\n",
    ],
)
def test_what_is_no_divergence(text: bytes) -> None:
    """A single NaN after numbers, a mean over all steps and words that begin so are none."""
    assert not ends_without_loss(text)


@pytest.mark.parametrize("last", [b"", b"loss: 1.2\n" * 4])
def test_loss_that_is_no_number_again_and_again(last: bytes) -> None:
    """NaN that comes back a third time between numbers is no skipped step."""
    assert ends_without_loss(b"loss: 1.3\nloss: nan\nloss: nan\nloss: 1.2\n" * 3 + last)


def test_zero_loss_after_a_gradient_that_is_none() -> None:
    """The step whose gradient was NaN destroyed the weights: one loss of zero after it shows that."""
    assert ends_without_loss(b"{'loss': 1.2, 'grad_norm': nan}\n{'loss': 0.0, 'grad_norm': nan}\n")


WORKING = [
    "2025-10-11 15:38:08,083 - INFO: Checkpoint saved to ./exp/model_epoch_251.pth",
    "2025-10-11 15:49:05,973 - INFO: ===> Epoch 252 Complete: time: 657.89",
]
GCS_WARNING = "2025-10-11 15:19:40,592\tWARNING utils.py:1242 -- Unable to connect to GCS at 10.0.0.7:6379."
STARTED = "2025-10-11 15:19:43,891\tSUCC scripts.py:757 -- Ray runtime started."


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (WORKING, "no_failure"),
        (["Running tokenizer on dataset: 100%|###| 10/10 [00:19<00:00, 3.93 examples/s]"], "no_failure"),
        ([GCS_WARNING, STARTED], "no_failure"),
        ([STARTED, GCS_WARNING], "unknown"),
        ([GCS_WARNING, *WORKING], "unknown"),
        ([*WORKING, "ERROR: frobnication failed"], "unknown"),
        ([*WORKING, "the worker went away, exit status 9"], "unknown"),
        ([*WORKING, "Killed"], "failed"),
        (["NVRM: No graphics adapter probed!", "NVRM: another module owns the device"], "unknown"),
        (["", ""], "unknown"),
        (["Job 'raysubmit_x1' succeeded"], "finished"),
        (["the message Job 'raysubmit_x1' succeeded is printed at the end"], "unknown"),
    ],
)
def test_log_without_an_error(lines: list[str], verdict: str) -> None:
    """No failure where a program is at work and no line reports one; otherwise nobody knows."""
    assert explainer.build_report([explainer._scan_lines("log", lines)]).verdict == verdict


def test_no_failure_is_exit_code_0(tmp_path: Path) -> None:
    """The screen has the verdict and no lines below it."""
    (tmp_path / "train.log").write_text("\n".join(WORKING) + "\n")
    done = run_explain(str(tmp_path / "train.log"))

    assert (done.returncode, "verdict: no failure found" in done.stdout, "no catalogue" in done.stdout) == (
        0,
        True,
        False,
    )


NO_MODEL = "OSError: /data/out does not appear to have a file named config.json. Checkout 'https://huggingface.co/x'"
KILLED = "['/opt/python', '-u', 'train.py', '--epochs', '2'] exits with return code = -9"


@pytest.mark.parametrize(
    ("lines", "first", "links"),
    [
        ([KILLED, "", NO_MODEL], "host.killed", {"model.not_a_model": ""}),
        ([NO_MODEL, "", KILLED], "model.not_a_model", {"host.killed": "model.not_a_model"}),
        (["run.sh: line 3: 4242 Killed                  python old.py", NO_MODEL], "model.not_a_model", {}),
        ([*STEPS[:9], KILLED, *STEPS[9:90], NO_MODEL], "model.not_a_model", {}),
    ],
)
def test_kill_before_another_error(lines: list[str], first: str, links: dict[str, str]) -> None:
    """A kill that a launcher reports is no consequence of what comes later; a shell's word names no process."""
    found = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses
    linked = {one.name: one.caused_by for one in found}

    assert found[0].name == first
    assert {name: linked.get(name) for name in links} == links


PIPE = [
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3.12/multiprocessing/connection.py", line 7, in _recv',
    "    raise EOFError",
    "EOFError",
]


@pytest.mark.parametrize(
    ("lines", "first"), [(["Exit code: -9", *PIPE], "host.killed"), (["Exit code: 2", *PIPE], "exceptions.pipe_ended")]
)
def test_kill_before_the_end_of_a_pipe(lines: list[str], first: str) -> None:
    """That another process was killed comes before the exception of the process that waited for it, if it did."""
    assert explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses[0].name == first


def test_folders_of_torchrun_on_two_nodes(tmp_path: Path) -> None:
    """The number of torchrun's folder is that on the node; what the lines say of their rank counts more."""
    logs = {f"node-{at // 2}/attempt_0/{at % 2}/stderr.log": make_watchdog_timeout(at, 44) for at in range(4)}
    logs["node-1/attempt_0/0/stderr.log"] = [f"[rank2]: {line}" for line in KEY_ERROR]
    found = explain_folder(tmp_path, logs)

    assert found.summary.startswith("rank 2 on node-1 failed first (15:09:34, KeyError: 'images' at data.py:7)")
    assert "ranks 0-1 and 3 waited for it and timed out at 15:39:34" in found.summary


def test_silent_rank_among_equal_works(tmp_path: Path) -> None:
    """Where all that tell of their last work completed the same, the rank without an end was missing."""
    logs = {f"rank{at}.log": [*STEPS[:30], *make_watchdog_timeout(at, 44)] for at in (0, 1, 3)}
    found = explain_folder(tmp_path, {**logs, "rank2.log": STEPS[:28]})

    assert found.summary.startswith("rank 2 was missing first")
    assert "ranks 0-1 and 3 waited for it" in found.summary


def test_peers_that_lost_a_process_did_not_wait(tmp_path: Path) -> None:
    """An exception that a peer is gone is one of a stopped process, also next to lines on refused connections."""
    lost = [
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2006, "
        "remote process exited or there was a network error, NCCL version 2.21.5",
        "Last error:",
        "socketPollConnect: connect returned Connection refused",
    ]
    lost = ["Traceback (most recent call last):", '  File "/w/train.py", line 8, in main', "    step()", *lost]
    found = explain_folder(tmp_path, {"rank_0.log": [*STEPS[:30], *lost], "rank_1.log": [*STEPS[:30], *KEY_ERROR]})

    assert found.summary.startswith("rank 1 failed first")
    assert found.summary.endswith("rank 0 stopped after it")


def test_output_files_of_ray(tmp_path: Path) -> None:
    """The last number in the name of a worker's file is its process: neither a rank nor a host."""
    names = [f"logs/worker-{'ab' * 14}-01000000-{5000 + at}.err" for at in range(2)]
    found = explain_folder(tmp_path, {names[0]: STEPS[:30], names[1]: KEY_ERROR})

    assert [(end.rank, end.host) for end in found.ends] == [(None, ""), (None, "")]
    assert "5001.err failed first" in found.summary


def test_one_log_of_pdsh(tmp_path: Path) -> None:
    """pdsh puts the host before each line: the ranks behind it are told apart, and those that waited are named."""
    lines = [f"node-2: [rank9]: {line}" for line in KEY_ERROR]
    lines += [f"node-1: {line}" for at in (0, 1) for line in make_watchdog_timeout(at, 44)]
    found = explain_folder(tmp_path, {"job.log": [*(f"node-1: {line}" for line in STEPS[:30]), *lines]})

    assert found.summary.startswith("rank 9 failed first")
    assert "ranks 0-1 waited for it and timed out at 15:39:34" in found.summary
    assert found.diagnoses[0].name == "exceptions.missing_column"


def test_rank_by_other_ranks_of_the_node(tmp_path: Path) -> None:
    """A log whose lines do not tell its rank, in a folder of torchrun's with logs of which they do."""
    logs = {f"node1/attempt_0/{at}/stderr.log": make_watchdog_timeout(4 + at, 44) for at in range(3)}
    found = explain_folder(tmp_path, {**logs, "node1/attempt_0/3/stderr.log": KEY_ERROR})

    assert found.summary.startswith("rank 7 on node1 failed first")


def test_exception_of_a_worker_of_ray(tmp_path: Path) -> None:
    """The driver's whole traceback only reports that the worker died; the worker's own exception says why."""
    ahead = "(WorkerDict pid=5002, ip=10.0.0.2)"
    lines = [
        f"{ahead} Unhandled error: ray::WorkerDict.update_actor()",
        f'{ahead}   File "/w/data.py", line 7, in load',
    ]
    lines += [
        f'{ahead}     return sample["images"]',
        f"{ahead} KeyError: 'images'",
        "Traceback (most recent call last):",
    ]
    lines += ['  File "/w/main.py", line 30, in main', "    ray.get(refs)"]
    lines += ["ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."]
    found = explain_folder(tmp_path, {"driver.log": lines})

    assert found.diagnoses[0].name == "exceptions.missing_column"


LOST = "RuntimeError: [a/transport/tcp/pair.cc:1] Connection closed by peer [10.0.0.9]:7"
WATCHDOG = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=9) ran"


def test_ranks_of_a_node_in_its_log(tmp_path: Path) -> None:
    """The number of a node in the name of its log is no rank: all ranks that wait in it are told."""
    waits = [f"worker-0: [rank{rank}]:[E1] [Rank {rank}] {WATCHDOG}" for rank in range(4)]
    failed = ["Traceback (most recent call last):", '  File "/w/a.py", line 7, in f', "KeyError: 'frob'"]
    found = explain_folder(
        tmp_path, {"worker-0.log": waits, "worker-1.log": [f"worker-1: [rank6]: {line}" for line in failed]}
    )

    assert str(found.summary).startswith("rank 6 on worker-1 failed first (KeyError: 'frob'")
    assert "; ranks 0-3 waited for it and timed out" in str(found.summary)


def test_ranks_of_pods_by_their_lines(tmp_path: Path) -> None:
    """Where lines tell that worker-0 is rank 1, worker-1 without such a line is rank 2."""
    steps = [f"10:00:0{number} step {number} loss 2.5" for number in range(9)]
    found = explain_folder(
        tmp_path,
        {
            "a-master-0.log": [*steps, f"[rank0]:[E1] [Rank 0] {WATCHDOG}"],
            "a-worker-0.log": [*steps, f"[rank1]:[E1] [Rank 1] {WATCHDOG}"],
            "a-worker-1.log": [*steps[:5]],
        },
    )

    assert str(found.summary).startswith("rank 2 ")
    assert "ranks 0-1 waited for it" in str(found.summary)


def test_task_that_slurm_ended_for_its_memory(tmp_path: Path) -> None:
    """The task whose own log tells that it ran out of memory failed first, not the log of srun that reports it."""
    waits = {f"t-{rank}.out": [f"[rank{rank}]:[E1] [Rank {rank}] {WATCHDOG}"] for rank in (0, 2, 3)}
    killed = [
        "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed."
    ]
    found = explain_folder(
        tmp_path, {**waits, "t-1.out": killed, "slurm-4711.out": ["srun: error: n7: task 1: Out Of Memory"]}
    )

    assert str(found.summary).startswith("rank 1 failed first")
    assert "ranks 0 and 2-3 waited for it" in str(found.summary)


def test_logs_that_are_named_by_a_number_alone(tmp_path: Path) -> None:
    """srun -o %t names the output of a task by its number."""
    found = explain_folder(
        tmp_path, {"0": [f"[rank0]: {LOST}"], "1": ["KeyError: 'frob'"], "out.2": [f"[rank2]: {LOST}"]}
    )

    assert str(found.summary).startswith("rank 1 failed first")
    assert "ranks 0 and 2 stopped after it" in str(found.summary)


def test_failure_of_an_earlier_attempt(tmp_path: Path) -> None:
    """The first attempt of torchrun has the first failure; if a later one goes on, the training has not failed."""
    failed = ["Traceback (most recent call last):", '  File "/w/a.py", line 7, in f', "KeyError: 'frob'"]
    first = {"r/attempt_0/0/stderr.log": [f"[rank0]: {LOST}"], "r/attempt_0/1/stderr.log": failed}
    again = {"r/attempt_1/0/stderr.log": ["ValueError: x"], "r/attempt_1/1/stderr.log": [f"[rank1]: {LOST}"]}
    goes = {f"r/attempt_1/{rank}/stderr.log": ["10:00:09 step 9 loss 2.5"] for rank in range(2)}
    twice, once = explain_folder(tmp_path / "a", {**first, **again}), explain_folder(tmp_path / "b", {**first, **goes})

    assert str(twice.summary).startswith("rank 1 failed first (KeyError: 'frob'")
    assert once.verdict == "running"
    assert all(one.kind == "warning" for one in once.diagnoses)


EVENTS = """Name:         a-worker-0
Namespace:    train
Status:       Running
Events:
  Warning  FailedScheduling  9m  default-scheduler  0/6 nodes are available: 6 Insufficient nvidia.com/gpu.
  Normal   Scheduled         8m  default-scheduler  Successfully assigned train/a-worker-0 to n4
"""


def test_events_before_a_start_are_no_cause() -> None:
    """What kept a pod from its node is no cause once the pod is there; before, it is."""
    waiting, started = (
        explain(EVENTS.partition("  Normal")[0]),
        explain(EVENTS + "  Normal   Started  7m  kubelet  Started"),
    )

    assert [one.kind for one in waiting.diagnoses] == ["cause"]
    assert [one.kind for one in started.diagnoses] == ["warning"]
    assert started.verdict == "no_failure"


@pytest.mark.parametrize(
    ("ready", "verdict", "kind"), [("True", "no_failure", "warning"), ("False", "failed", "symptom")]
)
def test_events_of_a_pod_that_is_ready_are_over(ready: str, verdict: str, kind: str) -> None:
    """A probe that failed while the program started is no cause once the pod is ready."""
    probe = "  Warning  Unhealthy  7m  kubelet  Startup probe failed: connect: connection refused\n"
    conditions = f"Conditions:\n  Type   Status\n  Ready             {ready}\nEvents:\n"
    found = explain(EVENTS.replace("Events:\n", conditions) + "  Normal  Started  8m  kubelet  Started\n" + probe)

    assert (found.verdict, found.diagnoses[0].kind) == (verdict, kind)


@pytest.mark.parametrize(
    "line", ["# Out of bounds values : 0 OK", "(TaskRunner pid=7) 'Final validation metrics: {'score': 0.5}'"]
)
def test_marks_of_further_programs(line: str) -> None:
    """NCCL's tests and verl end with a line of their own."""
    assert explain(f"step 7 loss 2.5\n{line}").verdict == "finished"


def explain(text: str) -> ExplainReport:
    return explainer.build_report([explainer._scan_lines("log", text.splitlines())])


def test_ranks_in_the_tags_of_mpirun() -> None:
    """mpirun and horovodrun put the rank before each line of a program."""
    lines = [f"[1,0]<stderr>:{LOST}", "[1,2]<stderr>:Traceback (most recent call last):"]
    lines += ['[1,2]<stderr>:  File "/w/a.py", line 7, in f', "[1,2]<stderr>:KeyError: 'frob'", f"[1,1]<stderr>:{LOST}"]

    assert str(explain("\n".join(lines)).summary).startswith("rank 2 failed first (KeyError: 'frob'")


def test_number_of_a_host_is_no_rank(tmp_path: Path) -> None:
    """The log of a node with one rank that tells its number does not number those of other nodes."""
    failed = ["Traceback (most recent call last):", '  File "/w/a.py", line 7, in f', "KeyError: 'frob'"]
    found = explain_folder(tmp_path, {"node-0.log": [f"[rank1]: {LOST}"], "node-1.log": failed})

    assert "node-1.log failed first" in str(found.summary)
    assert "rank 1 on node-0 stopped after it" in str(found.summary)


def test_lost_peers_of_another_pod_are_a_consequence() -> None:
    """What a pod saw of the connection to another one follows from the failure there."""
    failed = ["Traceback (most recent call last):", '  File "/w/a.py", line 7, in f', "PermissionError: [Errno 13] x"]
    text = "\n".join([f"[pod/a-0/c] {LOST}", *(f"[pod/a-1/c] {line}" for line in failed)])
    found = explain(text).diagnoses

    assert [(one.name, one.caused_by) for one in found] == [
        ("host.permission", ""),
        ("network.peer_gone", "host.permission"),
    ]


def test_time_of_an_earlier_line_is_not_shown(tmp_path: Path) -> None:
    """A timeout or exception without a time of its own gets none, not that of the last line with a time."""
    ready = "[2025-10-11 15:00:01,100] [INFO] ready"
    waits = "[E ProcessGroupNCCL.cpp:475] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)"
    found = explain_folder(tmp_path, {"rank0.log": [ready, waits], "rank1.log": [ready, *KEY_ERROR[1:]]})

    assert found.summary == (
        "rank 1 failed first (KeyError: 'images' at data.py:7); rank 0 waited for it and timed out"
    )


def test_failed_hccl_call_waited(tmp_path: Path) -> None:
    """A rank in whose collective HCCL timed out waited; the report of TorchNPU has the time of an exception."""
    report = "[ERROR] 2025-10-11-15:{}:00 (PID:77, Device:0, RankID:{}) ERR99999 UNKNOWN application exception"
    call = [*KEY_ERROR[1:-1], "RuntimeError: Run:a.cpp:1 OPS function error: HcclAllreduce, error code is 6"]
    found = explain_folder(
        tmp_path,
        {
            "rank_0.log": [*KEY_ERROR[1:], report.format("05", 0)],
            "rank_1.log": [*call, report.format("07", 1)],
            "rank_2.log": [*call, report.format("07", 2)],
        },
    )

    assert found.summary == (
        "rank 0 failed first (15:05:00, KeyError: 'images' at data.py:7); "
        "ranks 1-2 waited for it and timed out at 15:07:00"
    )


def _put_ahead(ahead: str, lines: Iterable[str]) -> list[str]:
    return [f"{ahead}{line}" for line in lines]


@pytest.mark.parametrize(
    ("ahead", "waiter", "first"),
    [
        (("[pod/frob-worker-1/main] ", "[pod/frob-worker-2/main] "), "frob-worker-1", "frob-worker-2"),
        (("frob-worker-1  | ", "frob-worker-2  | "), "frob-worker-1", "frob-worker-2"),
        ((" 6: ", "17: "), "task 6", "task 17"),
    ],
)
def test_processes_in_one_log(ahead: tuple[str, str], waiter: str, first: str) -> None:
    """kubectl logs --prefix, docker compose and srun --label put the process before each line: the first is named."""
    waits = "torch.distributed.DistBackendError: NCCL error: remote process exited"
    failed, waiting = _put_ahead(ahead[1], KEY_ERROR), _put_ahead(ahead[0], ["step 7 loss 1.2", waits])
    mixed = [*failed[:1], waiting[0], *failed[1:], *waiting[1:]]
    found = explainer.build_report([explainer._scan_lines("log", mixed)])

    ends = {end.unit: end for end in found.ends}
    assert ends[first].how == "exception"
    assert ends[waiter].how in ("waited", "stopped")
    assert ends[first].step is None
    assert str(found.summary).startswith(f"{first} failed first")


PEER_LEFT = [*KEY_ERROR[1:-1], "torch.distributed.DistBackendError: NCCL error: remote process exited"]


@pytest.mark.parametrize(
    ("aheads", "after", "first"),
    [
        (("0: ", "1: ", "2: "), ["srun: error: n-1: task 2: Exited with exit code 1"], "rank 2 on n-1"),
        (("0: [rank0]: ", "1: [rank1]: ", "2: [rank2]: "), [], "rank 2"),
        (("0: [rank4]: ", "0: [rank6]: ", "1: [rank9]: "), [], "rank 9"),
        (
            ("n-1: [rank0]: ", "n-1: [rank3]: ", "n-2: [rank9]: "),
            ["n-2: [rank9]: CUDA error: unknown error"],
            "rank 9 on n-2",
        ),
        (("[pod/a-0/c] [rank0]: ", "[pod/a-0/c] [rank1]: ", "[pod/a-1/c] [rank2]: "), [], "rank 2 on a-1"),
        (("[pod/a-0/c] [rank0]: ", "[pod/a-1/c] [rank2]: ", "[pod/a-1/c] [rank3]: "), [], "rank 3 on a-1"),
    ],
)
def test_mixed_tracebacks_in_one_log(aheads: tuple[str, ...], after: list[str], first: str) -> None:
    """Tracebacks of several ranks, task by task or pod by pod, are read one by one: which failed first is known."""
    logs = [_put_ahead(ahead, PEER_LEFT) for ahead in aheads[:-1]] + [_put_ahead(aheads[-1], KEY_ERROR[1:])]
    mixed = [line for lines in zip(*logs, strict=True) for line in lines]
    found = explainer.build_report([explainer._scan_lines("log", [*mixed, *after])])

    assert str(found.summary).startswith(f"{first} failed first (KeyError: 'images' at data.py:7)")
    assert [end.how for end in found.ends].count("exception") == 1


ANSWERED = 'INFO:     192.0.2.7:7777 - "POST /v1/chat/completions HTTP/1.1" 200 OK'


def test_rows_of_a_table_are_no_containers() -> None:
    """A table begins each row with another name; a container has several lines."""
    error = "ValueError: Can't find a valid checkpoint at /w/out/checkpoint-{}"
    rows = ["metric | value", f"rouge1 | {error.format(1)}", f"rouge2 | {error.format(2)}", "rougeL | 0.4"]
    found = explainer.build_report([explainer._scan_lines("log", rows)])

    assert found.diagnoses
    assert not [end for end in found.ends if end.unit]


def test_numbered_lines_are_no_tasks() -> None:
    """A list of numbered lines, such as that of network interfaces, is not of several processes."""
    listed = ["1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536", "2: eth0: <BROADCAST> mtu 1500", *KEY_ERROR]
    found = explainer.build_report([explainer._scan_lines("log", listed)])

    assert [end.unit for end in found.ends] == [""]


THROUGHPUT = "INFO metrics.py:7] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: {} tokens/s"
DEAD_ENGINE = (
    "ERROR engine.py:7] RuntimeError: CUDA error: an illegal memory access was encountered",
    "vllm.engine.async_llm_engine.AsyncEngineDeadError: Background loop has errored already.",
)
REFUSED_REQUEST = "ERROR frob.py:7] ValueError: At most 1 image(s) may be provided in one prompt."


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ([REFUSED_REQUEST, ANSWERED, ANSWERED], "running"),
        # The bar of a preparation is no step of a training.
        (["Loading frob shards: 50% | 1/2 [00:01<00:01]", REFUSED_REQUEST, ANSWERED, ANSWERED], "running"),
        ([ANSWERED, ANSWERED, ANSWERED, REFUSED_REQUEST, ANSWERED], "failed"),
        # A server next to a training goes on answering after the training has failed.
        (["step 7/9 loss: 1.5", REFUSED_REQUEST, ANSWERED, ANSWERED, ANSWERED], "failed"),
        ([REFUSED_REQUEST, THROUGHPUT.format("31.5"), THROUGHPUT.format("0.4")], "running"),
        ([REFUSED_REQUEST, ANSWERED, ANSWERED, *[THROUGHPUT.format("0.0")] * 20], "running"),
        # A server whose engine is dead goes on printing that it generates nothing.
        ([*DEAD_ENGINE, THROUGHPUT.format("0.0"), THROUGHPUT.format("0.0")], "failed"),
        ([*KEY_ERROR, THROUGHPUT.format("0.0"), THROUGHPUT.format("0.0")], "failed"),
        # Engines of a training in Ray end later than the process that failed.
        ([*KEY_ERROR, *[f"(Rollout pid=77) {THROUGHPUT.format('31.5')}"] * 2], "failed"),
    ],
)
def test_server_that_goes_on_answering(lines: list[str], verdict: str) -> None:
    """A request that a server refuses is no failure of the server if it answers several others afterwards."""
    found = explainer.build_report([explainer._scan_lines("log", lines)])

    assert found.verdict == verdict


TRACEBACK = ("Traceback (most recent call last):", '  File "/w/a.py", line 9, in run', "    call(text)")
DONE = "{'train_runtime': 9.1, 'train_samples_per_second': 9.3, 'train_loss': 0.2, 'epoch': 1.0}"
ROUTER = "2025-02-01T09:00:36.502Z ERROR text_generation_router::"
STARTED, STOPPED = "INFO:     Application startup complete.", "INFO:     Finished server process [7]"
REQUEST = 'INFO:     10.0.0.1:4000 - "POST /v1/completions HTTP/1.1"'


AT_EXIT = ("Error in atexit._run_exitfuncs:", TRACEBACK[0])
AGENT = "I1201 10:00:00.1 1 torch/distributed/elastic/agent/server/api.py:7] "
BUILT, CONDA = "#12 naming to docker.io/library/train:1 done", "# To activate this environment, use"
RECORDS = ("{'loss': 1.2, 'epoch': 0.1}", "{'loss': 1.1, 'epoch': 0.2}")


def judge_lines(*lines: str) -> ExplainReport:
    """Return the report of a log of these lines."""
    return explainer.build_report([explainer._scan_lines("log", lines)])


def test_engine_that_goes_on() -> None:
    """A request that failed ended nothing if the engine answers another one after it."""
    error = ["ERROR [serving.py:20] Traceback (most recent call last):", '  File "/w/serving.py", line 9, in create']
    error += ["ValueError: the prompt has 5000 tokens, but the maximum context length is 4096 tokens"]
    answer = 'INFO:     10.0.0.1:4000 - "POST /v1/completions HTTP/1.1" 200 OK'

    assert judge_lines(*error, answer, answer).verdict == "running"
    assert not any(one.kind == "cause" for one in judge_lines(*error, answer, answer).diagnoses)
    assert judge_lines(answer, *error).verdict == "failed"


@pytest.mark.parametrize(
    "line",
    [
        "2025-07-12 10:02:11 | INFO | train | done training in 130.1 seconds",
        "INFO: Saving final epoch checkpoint.",
        "129.5 seconds used for training.",
        "INFO:     Application shutdown complete.",
        "|    Tasks     |Version|Filter|n-shot|Metric|   |Value |   |Stderr|",
    ],
)
def test_regular_end_of_tools(line: str) -> None:
    """The marks of a regular end of further trainers and of an evaluation are known."""
    assert judge_lines("step 9/9 loss 1.2", line).verdict == "finished"


@pytest.mark.parametrize(
    "lines",
    [
        ("I0713 10:00:01.101010 1 grpc_server.cc:2558] Started the service at 0.0.0.0:8001",),
        ("main: server is listening on http://127.0.0.1:8080", "srv  update_slots: all slots are idle"),
        ("Daemon start success!", "[server] [ERROR] [a.cpp:1] : Check request failed: max_tokens is 0"),
        ("INFO:     Application startup complete.", "ERROR 9 api.py[line:1] request[cmpl-9] generator error: no"),
        (ROUTER + "server: Connected", ROUTER + "validation: Input validation error: `inputs` must be shorter"),
        (DONE, "wandb: ERROR Failed to upload file model.safetensors, retrying"),
        (DONE, "HTTP Error 500 thrown while requesting PUT https://hub.local/repos/x", "Retrying in 1s [Retry 1/5]."),
        (ROUTER + "server: Connected", "ERROR generate{}:schedule: text_generation_router::infer: Model is overloaded"),
        (DONE, "COMET ERROR: Error while uploading asset 'a.bin'"),
        (DONE, "E0601 09:15:02.100 11 tensorboard/uploader.py:301] rpc error: deadline exceeded"),
        (DONE, "Exception in thread EventWriter-1:", *TRACEBACK, "OSError: [Errno 116] Stale file handle"),
        ("step 9 loss 1.0", *AT_EXIT, '  File "/opt/lib/python3.10/util.py", line 9, in run', "OSError: [Errno 5]"),
        ("#2 ERROR: dial tcp 10.0.0.9:443: i/o timeout", "#9 naming to docker.io/library/train:1 done"),
        ("step 9 loss 1.0", "image file broken, skipped: img/error_031.png", "line 8: KeyError: 'answer' -- skipped"),
        ("Setting up toolkit (1.0) ...", "Unpacking libgpg-error-dev (1.43-3) ..."),
        ("ERROR: No matching distribution found for xformers==0.0.29", "Successfully installed xformers-0.0.29"),
        (STARTED, *TRACEBACK, "KeyError: 'a'", REQUEST + " 400 Bad Request", REQUEST + " 200 OK"),
        (STARTED, *TRACEBACK, "KeyError: 'a'", REQUEST + " 200 OK", STOPPED, *TRACEBACK, "KeyboardInterrupt"),
    ],
)
def test_program_at_work(lines: tuple[str, ...]) -> None:
    """What a program, or its tracker, reports of a request, a sample or its clean-up is no failure."""
    assert judge_lines(*lines).verdict in QUIET


@pytest.mark.parametrize(("gap", "first"), [(9, "network.http_connect"), (60, "exceptions.wrong_type")])
def test_old_error_before_an_exception(gap: int, first: str) -> None:
    """A known error led to an exception shortly after it, not to one after much other work."""
    lines = ["curl: (7) Failed to connect to 10.0.0.9 port 8080: Connection refused", *["stage is prepared"] * gap]

    found = judge_lines(*lines, *TRACEBACK, "TypeError: 'Spec' object is not subscriptable")

    assert found.diagnoses[0].name == first


@pytest.mark.parametrize(
    "lines",
    [
        (STARTED, REQUEST + " 200 OK", *TRACEBACK, "ValueError: the engine is dead", STOPPED),
        (STARTED, *TRACEBACK, "ValueError: the engine is dead", "INFO:     Application shutdown complete."),
        (DONE, "wandb: ERROR Failed to upload file a", *TRACEBACK, "ValueError: cannot export"),
        (DONE, "ERROR: cannot export the model"),
        ("Successfully installed a-1.0", "ERROR: No matching distribution found for xformers==0.0.29"),
        (ROUTER + "server: Connected", "ERROR text_generation_launcher: Shard 0 crashed"),
        (DONE, *TRACEBACK, "KeyboardInterrupt"),
        ("INFO start", BUILT, "INFO start", "Exception in thread Thread-3:", *TRACEBACK, "RuntimeError: bad shape 3"),
        (CONDA, *RECORDS, "[rank1]:[E ProcessGroupNCCL.cpp] connection closed by remote peer"),
        (AGENT + "[default] worker group successfully finished.", AGENT + "Error waiting on exit barrier."),
        ("INFO start", "ModuleNotFoundError: No module named 'torch'", "Successfully installed torch-npu-2.1.0"),
        ("INFO updating", "fatal: not a git repository (or any of the parent directories): .git"),
        ("INFO start", "ERROR: failed to solve: Canceled: context canceled"),
        ("INFO start", "ERROR schema.py:validate: column text is missing", "INFO end"),
        ("INFO start", "mlflow: experiment 3: error: authentication failed"),
        (
            "INFO start",
            "[rank0]: RuntimeError: CUDA error: an illegal memory access was encountered, ignoring the rest",
        ),
        (DONE, *AT_EXIT, *TRACEBACK[1:], "RuntimeError: the final model was not written"),
        *((*TRACEBACK, "ValueError: the sample 7 is broken", end) for end in (BUILT, CONDA, "Training Time: 120.31 s")),
        (*TRACEBACK, "OSError: [Errno 5] Input/output error", AGENT + "[default] worker group successfully finished."),
        (*TRACEBACK, "ValueError: bad sample", "LAUNCH INFO 2026-01-01 10:00:00,000 Exit code 0"),
        ("INFO start", "process 3 died and the rest was aborted", "INFO uploading the log: succeeded"),
        ("ERROR model_worker: cannot load the weights of /models/x", STARTED),
        (REQUEST + " 200 OK", "(Core pid=7) Process Core died unexpectedly", STOPPED),
        ("Error: unsupported architecture", *['[GIN] 2024/09/18 - 11:05:31 | 200 | 26.3µs | 127.0.0.1 | HEAD "/"'] * 2),
    ],
)
def test_failure_after_a_good_mark(lines: tuple[str, ...]) -> None:
    """An exception or error of the program itself after a mark of success counts."""
    assert judge_lines(*lines).verdict not in QUIET


@pytest.mark.parametrize(
    "lines",
    [
        (BUILT, "INFO loading", *RECORDS),
        (BUILT, "#13 [eval 2/3] RUN make"),
        ("Successfully tagged train:latest", *RECORDS),
        (CONDA, "#     $ conda activate x", "INFO starting training"),
        (RECORDS[0], "Training Time: 120.3 s", RECORDS[1]),
        ("INFO epoch 1", "Training time: 120.3 s", "INFO epoch 2 starts"),
        (DONE, *RECORDS, RECORDS[0]),
        ("train-1  | INFO loading", "init-1 exited with code 0", "train-1  | INFO rank 0 waits"),
        ("init-1 exited with code 0", "train-1 exited with code 1"),
        ("train-1  | step 9 loss 1.0", "train-1 exited with code 0", "INFO the second stage starts"),
    ],
)
def test_end_of_a_part(lines: tuple[str, ...]) -> None:
    """What ends before the training, one of its stages, or another container is not its end."""
    assert judge_lines(*lines).verdict != "finished"


@pytest.mark.parametrize(
    "lines",
    [
        (BUILT, "#12 DONE 3.2s", "", " 1 warning found (use docker --debug to expand):"),
        (CONDA, "#", "#     $ conda activate x", ""),
        (RECORDS[0], "| Total Training Time: 611.11 s.", "| Memory used: 21.11 GB"),
        (AGENT + "[default] worker group successfully finished.", AGENT + "Done waiting for other agents."),
        ("init-1 exited with code 0", "train-1  | step 9 loss 1.0", "train-1 exited with code 0"),
        (*RECORDS, DONE, "100%|##########| 10/10 [00:01<00:00]", "100%|##########| 20/20 [00:02<00:00]"),
    ],
)
def test_end_of_the_whole(lines: tuple[str, ...]) -> None:
    """Lines of the same program may follow, as those of the evaluation."""
    assert judge_lines(*lines).verdict == "finished"


def test_exception_that_ray_passed_on_is_of_its_worker(tmp_path: Path) -> None:
    """The process that raised an exception failed first, not the one to which Ray passed it on."""
    raised = ["Traceback (most recent call last):", '  File "/w/rl.py", line 7, in generate', "    check(n)"]
    passed_on = "ray.exceptions.RayTaskError(ValueError): ray::Rollout.generate() (pid=9002, ip=10.0.0.2, actor_id=ab)"

    found = explain_folder(
        tmp_path,
        {
            "driver.log": [*raised[:1], '  File "/w/main.py", line 3, in <module>', "    ray.get(refs)", passed_on],
            "worker-9002.log": ["generated 128 samples", *raised, "ValueError: a prompt of 5120 tokens"],
        },
    )

    assert found.first.endswith("worker-9002.log")


def test_lost_port_outranks_packets_lost_by_its_peer(tmp_path: Path) -> None:
    """The host whose RDMA port failed is named first, not the one whose packets it did not answer."""
    found = explain_folder(
        tmp_path,
        {
            "rank_0.log": [
                "node-1:7:9 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4123> with status=12 opcode=0"
            ],
            "rank_1.log": ["node-2:7:9 [0] NCCL WARN NET/IB : mlx5_1:1 Got async event : port error"],
        },
    )

    assert found.diagnoses[0].name == "nccl.ib_port"
    assert found.first.endswith("rank_1.log")


@pytest.mark.parametrize(("reason", "is_duplicate"), [("Duplicate GPU detected : rank 1", True), ("other", False)])
def test_invalid_use_of_nccl_has_its_own_reason(reason: str, is_duplicate: bool) -> None:
    """NCCL's invalid usage is two ranks on one card only if its last error does not say otherwise."""
    lines = ["torch.distributed.DistBackendError: NCCL error in: a.cpp:7, invalid usage", "Last error:", reason]

    found = explainer.build_report([explainer._scan_lines("log", lines)])

    assert ("nccl.duplicate" in [one.name for one in found.diagnoses]) is is_duplicate
