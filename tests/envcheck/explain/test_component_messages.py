"""Logs of the programs around a training: what they refuse or wait for, and values of the lines around a line."""

from __future__ import annotations

import pytest

from envcheck.explain import explainer
from envcheck.explain.diagnosis import ExplainReport

EVENTS = "Events:\n  Type     Reason    Age   From     Message\n  ----     ------    ----  ----     -------\n"


def explain_text(text: str) -> ExplainReport:
    """Return what a log with this text is explained by."""
    return explainer.build_report([explainer._scan_lines("log", text.splitlines(), every=True)])


@pytest.mark.parametrize(
    ("text", "name", "title"),
    [
        (
            EVENTS + "  Warning  FailedFrob  5m (x3 over 9m)  frob-controller  frob plan of zone b is used up",
            "components.kubernetes_event",
            "Kubernetes reports FailedFrob: frob plan of zone b is used up",
        ),
        (
            "46m   Warning   FailedFrob   pod/trainer-0   the frob of trainer-0 is not allowed",
            "components.kubernetes_event",
            "Kubernetes reports FailedFrob: the frob of trainer-0 is not allowed",
        ),
        (
            "status:\n  message: 'frob class gold requires a frobnicator'",
            "components.kubernetes_status",
            "Kubernetes gives as the reason: frob class gold requires a frobnicator",
        ),
        (
            'Error from server (BadRequest): frob "a" is missing its size',
            "components.kubernetes_api",
            'Kubernetes refuses the request (BadRequest): frob "a" is missing its size',
        ),
        (
            "slurmd: error: Couldn't find the specified frob for quux\nslurmd: error: slurmd initialization failed",
            "components.slurm",
            "Slurm reports an error: Couldn't find the specified frob for quux",
        ),
        (
            "[2026-05-02 10:00:00,123 C 7 7] (raylet) frob.cc:77: cannot frob the node",
            "components.ray",
            "Ray reports an error: cannot frob the node",
        ),
        (
            'time="2026-05-02T10:00:00Z" level=error msg="frob of image is not supported"',
            "components.daemon",
            "A service of the node reports an error: frob of image is not supported",
        ),
        (
            'Error response from daemon: frob "a" is already in use',
            "components.engine",
            'The container engine refuses: frob "a" is already in use',
        ),
        (
            "frobd-runner: error: requested frob 'b' is not available on any host\nexit status 2",
            "components.program",
            "frobd-runner reports an error: requested frob 'b' is not available on any host",
        ),
        (
            "Error: invalid frob at line 3 of job.frob",
            "components.message",
            "A program refuses to continue: invalid frob at line 3 of job.frob",
        ),
    ],
)
def test_line_that_names_its_reason_is_quoted(text: str, name: str, title: str) -> None:
    """A line that no entry knows is the possible cause, as the component wrote it, with a remedy."""
    found = explain_text(text).diagnoses

    assert [(one.name, one.kind, one.description) for one in found] == [(name, "symptom", title)]
    assert found[0].do


def test_reason_comes_before_what_follows() -> None:
    """The first line that names a reason is quoted, not an earlier one that only reports a failure."""
    log = "frobd: error: start failed with error code: 1\nfrobd: error: plan gold not found\nfrobd: error: must stop\n"

    assert [one.evidence[0].line for one in explain_text(log).diagnoses] == [2]


@pytest.mark.parametrize(
    "text",
    [
        "Error: frobnication failed",
        EVENTS.replace("Events", "Conditions")
        + "  Normal  Frobbed  5m  frobber  frob plan not found in cache, using default",
        "frobd: error: cannot frob, trying again\n" + "{'train_runtime': 3.1, 'train_samples_per_second': 2.0}",
        "frobd: error: cannot frob yet\n" + "\n".join(f"10:00:{i:02} step {i}: loss 2.5" for i in range(9)),
    ],
)
def test_nothing_is_quoted(text: str) -> None:
    """A line without a reason, a normal event, and an error after which the training went on are no cause."""
    assert not explain_text(text).diagnoses


def test_known_cause_comes_alone() -> None:
    """Where an entry knows the cause, no other line is quoted."""
    found = explain_text("frobd: error: plan gold not found\nOSError: [Errno 28] No space left on device: '/out/a'")

    assert [one.name for one in found.diagnoses] == ["host.disk_full"]


WAITS = "(autoscaler +9s) Warning: The following resource request cannot be scheduled right now: {'GPU': 8.0}. Likely"


def test_what_a_log_waits_for_at_its_end() -> None:
    """A warning of waiting is the possible cause where the log ends with it, and is over where the training began."""
    steps = "\n".join(f"10:00:{i:02} step {i}: loss 2.5" for i in range(9))

    assert [(one.name, one.kind) for one in explain_text(WAITS).diagnoses] == [("ray.no_resources", "symptom")]
    assert not explain_text(f"{WAITS}\n{steps}").diagnoses


def test_server_that_is_not_up_yet() -> None:
    """A log that ends while it tries to reach its inference server waits for it."""
    log = "INFO - trl.extras.vllm_client - Server is not up yet. Retrying in 2.0 seconds...\n" * 3

    assert [(one.name, one.kind) for one in explain_text(log).diagnoses] == [("ray.rollout_waits", "symptom")]
    assert not explain_text(log + "INFO - trl.extras.vllm_client - Server is up!\n").diagnoses


POD = """Name:         trainer-0
Labels:       app=trainer
Status:       Running
Init Containers:
  fetch:
    State:          Terminated
      Reason:       Completed
    Limits:
      memory:  1Gi
    Requests:
      cpu:     1
      memory:  1Gi
    Environment:   <none>
    Mounts:        <none>
Containers:
  worker:
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
    Limits:
      memory:  512Gi
"""
LOST = """mpirun lost contact:
ORTE has lost communication with a remote daemon.

  HNP daemon   : [[11377,0],0] on node launcher-0
  Remote daemon: [[11377,0],1] on node worker-7
"""
DRIVER = """Failed to initialize NVML: Driver/library version mismatch
NVML library version: 570.86
NVRM version: NVIDIA UNIX x86_64 Kernel Module  565.57.01  Thu Oct 10 12:29:05 UTC 2026
"""
REGISTRY = "registry.example.org:5000"
PULL = """Warning  Failed  2m  kubelet  Failed to pull image "registry.example.org:5000/train:3": rpc error: code = Unknown
Warning  Failed  2m  kubelet  Error response from daemon: Get https://registry.example.org:5000/v2/train/manifests/3: no basic auth credentials
"""  # noqa: E501
STEP = "srun: error: Task launch for StepId=9.0 failed on node n3: Job credential expired\n"


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        (POD, "kubernetes.memory_limit", {"name": "worker", "limit": "512Gi"}),
        (LOST, "mpi.daemon_lost", {"host": "worker-7"}),
        (DRIVER, "cuda.driver_mismatch", {"wanted": "570.86", "found": "565.57.01"}),
        (
            PULL,
            "container.pull_login",
            {"registry": "registry.example.org:5000", "image": "registry.example.org:5000/train:3"},
        ),
        (
            "0/6 nodes are available: 1 node(s) had untolerated taint {a}, 5 node(s) didn't match Pod's node affinity.",
            "scheduler.unschedulable",
            {"what": "1 node(s) had untolerated taint {a}, 5 node(s) didn't match Pod's node affinity"},
        ),
        (STEP, "scheduler.slurm_launch", {"host": "n3", "code": "Job credential expired"}),
    ],
)
def test_values_of_the_lines_around(text: str, name: str, values: dict[str, str]) -> None:
    """Cause and remedy have the values of the nearest lines; `9.0 failed` is no count of zero failures."""
    found = explain_text(text).diagnoses[0]

    assert found.name == name
    assert values.items() <= dict(found.named).items()


@pytest.mark.parametrize(
    ("text", "limit"), [(POD, "512Gi"), ("trainer-0   0/1     OOMKilled   3          5m\n", "LIMIT")]
)
def test_memory_limit_of_the_command(text: str, limit: str) -> None:
    """The command raises the limit above the exceeded one, of the pod's owner, which may be of any kind or missing."""
    found = explain_text(text).diagnoses[0]
    command = next(each for each in found.commands if "set resources" in each)

    assert f"--limits=memory=MORE_THAN_{limit}" in command
    assert " OWNER/NAME " in command
    assert "without an owner" in str(found.do)


TWO_PODS = f"""Name:         puller-0
Namespace:    team-a
Status:       Pending
{EVENTS}  Warning  Failed  2m  kubelet  Error: ImagePullBackOff

Name:         trainer-0
Namespace:    team-a
Status:       Running
Containers:
  worker:
    Last State:     Terminated
      Reason:       OOMKilled
{EVENTS}  Warning  BackOff  2m  kubelet  Back-off restarting failed container worker in pod trainer-0_a(1)
"""


def test_pods_are_not_chained() -> None:
    """What one pod reports follows from a cause of the same pod only."""
    causes = {one.name: one.caused_by for one in explain_text(TWO_PODS).diagnoses}

    assert causes["kubernetes.restarts"] == "kubernetes.memory_limit"
    assert causes["container.pull"] == ""


def test_events_of_several_pods() -> None:
    """In a list of events, each line names its pod."""
    log = (
        '1m  Warning  Failed   pod/a-0  Error: secret "hub" not found\n'
        "1m  Warning  BackOff  pod/b-0  Back-off restarting failed container w in pod b-0_x(1)\n"
    )

    assert [one.caused_by for one in explain_text(log).diagnoses] == ["", ""]


def test_commands_are_for_this_log() -> None:
    """The commands have the node of the line."""
    assert "ssh n3 " in " ".join(explain_text(STEP).diagnoses[0].commands)


def test_labels_of_kubectl_are_no_sample() -> None:
    """What follows the labels of a pod is read; what follows the caption of a sample is not."""
    message = "Message:  Pod ephemeral local storage usage exceeds the total limit of containers 2Gi. "

    assert explain_text(f"Name: a\nLabels:       app=trainer\n{message}").diagnoses
    assert not explain_text(f"labels:\n{message}").diagnoses


TIMEOUT = (
    "[E ProcessGroupNCCL.cpp:7] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600077 milliseconds before timing out.\n"
)
TIMEOUTS = TIMEOUT.format(rank=1, number=2) + TIMEOUT.format(rank=3, number=2)


@pytest.mark.parametrize(
    ("before", "name"),
    [
        ("Map (num_proc=7):   9%|#   | 90/1000 [09:59<99:59,  7.00 examples/s]", "training.data_wait"),
        ("Saving model checkpoint to out/checkpoint-7", "training.save_wait"),
        ("***** Running Evaluation *****", "training.evaluation_wait"),
        ("Building extension module frob_adam...", "training.compile_wait"),
        ("Map (num_proc=7): 100%|####| 1000/1000 [00:59<00:00,  7.00 examples/s]", "nccl.watchdog"),
        (" 50%|#####     | 50/100 [09:59<09:59,  7.00s/it]", "nccl.watchdog"),
    ],
)
def test_work_at_a_timeout_names_its_cause(before: str, name: str) -> None:
    """What the program was at when ranks timed out comes alone; a step of the training tells nothing."""
    assert [one.name for one in explain_text(f"{before}\n{TIMEOUTS}").diagnoses] == [name]


@pytest.mark.parametrize(
    ("before", "name"),
    [
        ("Map (num_proc=7):   9%|#   | 90/1000 [09:59<99:59,  7.00 examples/s]", "training.data_wait"),
        (" 50%|#####     | 50/100 [09:59<09:59,  7.00s/it]", "acl.sync_timeout"),
    ],
)
def test_timeout_of_a_stream_while_the_data_is_prepared(before: str, name: str) -> None:
    """An NPU reports the same wait as the timeout of a stream."""
    text = f"{before}\nRuntimeError: aclrtSynchronizeDevice, error code is 507046\n"

    assert explain_text(text).diagnoses[0].name == name


def test_exception_comes_before_the_work_at_a_timeout() -> None:
    """An exception of a rank explains the timeout of the others, whatever these were at."""
    memory = "RuntimeError: CUDA error: invalid device ordinal"
    found = explain_text(f"Saving model checkpoint to out/checkpoint-7\n{TIMEOUTS}{memory}\n").diagnoses

    assert (found[0].name, found[0].kind) == ("cuda.device_number", "cause")


def test_data_at_a_timeout_is_named() -> None:
    """The title has the bar's words."""
    bar = "Running frob tokenizer\nRunning tokenizer on dataset:   9%|#  | 9/100 [09:59<99:59,  7.00 examples/s]\n"

    assert explain_text(bar + TIMEOUTS).diagnoses[0].description.endswith("data: Running tokenizer on dataset")


def test_consequence_with_some_lines_of_its_cause_is_left_out() -> None:
    """The general entry knows one of the two lines that the special one explains."""
    failed = "(FrobWorker pid=7) The argument is invalid.Reason: Set visible device failed, invalid device=3, input x:3"
    opened = "(FrobWorker pid=7) ERROR open device 3 failed, runtime result = 107001."

    assert [one.name for one in explain_text(f"{failed}\n{opened}\n").diagnoses] == ["ray.card_list"]
