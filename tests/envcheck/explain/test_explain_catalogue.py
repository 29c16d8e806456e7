"""Each entry of the catalogue on lines in the form of the real messages, and on lines that only resemble them."""

from __future__ import annotations

import re
import time

import pytest

from envcheck.core.errors import UsageError
from envcheck.explain import catalogue, causality, codes, explainer
from envcheck.explain.diagnosis import CatalogueEntry
from tests.envcheck.explain.diagnose_helpers import is_examined, read_lines

LINES = read_lines()
ORDINARY = [
    f"[2026-11-21 10:{i // 60:02}:{i % 60:02}] step {i}: loss {2 - i / 100:.2f}, tokens/s {3000 + i}"
    for i in range(100)
]
ENTRIES = {entry.name: entry for entry in catalogue.load_line_entries()}


def match_names(*lines: str) -> list[str]:
    """What a file of these lines is of, read as files are."""
    found = explainer.build_report([explainer._scan_lines("log", lines)])
    return [diagnosis.name for diagnosis in found.diagnoses]


def test_there_are_many() -> None:
    """The catalogue has at least 80 entries, each with lines in the test data, and no unused lines."""
    assert len(ENTRIES) >= 80
    assert LINES.keys() == ENTRIES.keys()


# What ends jobs of others, deletes data or switches a protection off.
HARM = re.compile(
    r"mig -d(?:ci|gi)(?! -i)|systemctl stop|\bprune\b|kubeadm reset|\breboot\b|quit \| nvidia-cuda-mps|> ?/etc/"
    r"|ssh-keyscan \S+ >>|StrictHostKeyChecking[= ]no\b|--gpu-reset|\bmkfs|setenforce 0|killall|pkill|fuser -\w*k"
)


def test_no_command_harms_others() -> None:
    """A command that is ready to be pasted ends no job of others, deletes no data and switches no protection off."""
    assert [command for entry in catalogue.load_entries() for command in entry.commands if HARM.search(command)] == []


@pytest.mark.parametrize("name", LINES)
def test_right_lines(name: str) -> None:
    """A line of the entry among two hundred of a training is claimed as it, with that line as evidence.

    What was waited for is not shown if the training goes on.
    """
    after = [] if explainer._is_wait(name) else ORDINARY
    for line in LINES[name]["right"]:
        found = explainer.build_report([explainer._scan_lines("log", [*ORDINARY, line, *after])])
        mine = [diagnosis for diagnosis in found.diagnoses if diagnosis.name == name]

        assert mine, (line, [d.name for d in found.diagnoses])
        assert mine[0].evidence[0].line == len(ORDINARY) + 1


def list_commands(wrong: str) -> list[str]:
    entries = explainer.load_index().entries.values()
    return [command for entry in entries for command in entry.commands if re.search(wrong, command)]


@pytest.mark.parametrize(
    "wrong",
    [
        r"(?<!-c ')\bfind / (?!-xdev)",
        r"rm -rf \{path\}|rm -rf (?:build|\.)|rm -rf [^\n]{0,80}transformers_modules$|rm -f /tmp/ray",
        r"^sudo sysctl -w [^\n]*fs\.file-max",
        r"rsync -a \{path\} \S*:\{path\}",
        r"modprobe -r nvidia",
        r"\bds_to_universal --",
    ],
)
def test_commands_leave_others_alone(wrong: str) -> None:
    """No command walks network mounts, removes what other jobs use or lowers a limit, and each program exists."""
    assert not [one for one in list_commands(wrong) if "deepspeed.checkpoint" not in one]


def test_package_stays_until_its_replacement_is_built() -> None:
    """A package is not removed before a build that may fail."""
    commands = ENTRIES["megatron.te_library"].commands

    assert any("--force-reinstall" in one for one in commands)
    assert not any("uninstall" in one for one in commands)


def test_titles_take_codes_from_the_log() -> None:
    """No title states a code of its entry: other lines of the entry may have another one, or none."""
    stated = {
        name: entry.says
        for name, entry in ENTRIES.items()
        if re.search(r"\((?:\w+ )?-?[A-Z]{0,2}\d{2,}\b[^()]*\)", entry.says)
        or any(code in entry.says for code in entry.codes if re.search(r"\d", code))
    }

    assert not stated


@pytest.mark.parametrize(
    ("line", "title"),
    [
        (
            "RuntimeError: aclInit failed, error code is 500001",
            "CANN could not initialize its compiler or an operator (500001)",
        ),
        (
            "RuntimeError: SetPrecisionMode:x NPU function error: y",
            "CANN could not initialize its compiler or an operator",
        ),
        ("Error: EI0014: the rank table is invalid", "Invalid rank table (EI0014)"),
        ("requests.exceptions.HTTPError: 404 Client Error: Not Found", "The hub has no such file or repository (404)"),
        ("EntryNotFoundError: no such file", "The hub has no such file or repository"),
    ],
)
def test_code_in_a_title_is_that_of_the_line(line: str, title: str) -> None:
    """The title has the code of the line, and none if the line has none."""
    assert explainer.build_report([explainer._scan_lines("log", [line])]).diagnoses[0].description == title


BATCH = "AssertionError: train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size "


@pytest.mark.parametrize(
    ("sizes", "end"),
    [
        ("96 != 3 * 4 * 1", "and 1 data parallel ranks (these values are for 8)"),
        ("96 != 3 * 4 * 2", "and 2 data parallel ranks (these values are for 8)"),
        ("100 != 3 * 4 * 8", "and 8 data parallel ranks"),
        ("96 != 0 * 4 * 8", "and 8 data parallel ranks"),
    ],
)
def test_ranks_that_batch_sizes_are_for(sizes: str, end: str) -> None:
    """The headline has the number of ranks that the three batch sizes are for, where it is a whole one."""
    found = explainer.build_report([explainer._scan_lines("log", [BATCH + sizes])]).diagnoses[0]

    assert found.description.endswith(end)


def test_old_driver_is_the_cause_without_another_one() -> None:
    """A warning of a driver that is too old is the cause in a log that fails without another one."""
    warned = "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11020)."

    def list_kinds(*lines: str) -> list[tuple[str, str]]:
        found = explainer.build_report([explainer._scan_lines("log", lines)])
        return [(one.name, one.kind) for one in found.diagnoses]

    assert list_kinds(warned, "[ERROR] frob failed") == [("cuda.driver_old", "cause")]
    assert ("cuda.driver_old", "cause") not in list_kinds(warned, *ORDINARY)


def test_frozen_inputs_are_not_reported_of_a_training_that_goes_on() -> None:
    """The warning that no input needs a gradient is usual before a training that works."""
    assert match_names("UserWarning: None of the inputs have requires_grad=True.", *ORDINARY) == []


SCHEDULING = "  Warning  FailedScheduling  3m  default-scheduler  0/5 nodes are available: "
REASONS = [
    "2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }",
    "1 node(s) didn't match Pod's node affinity/selector, 2 Insufficient huawei.com/Ascend910, 2 Insufficient cpu",
    "1 node(s) were unschedulable, 4 node(s) had untolerated taint {node.kubernetes.io/unreachable: }",
]


@pytest.mark.parametrize("reasons", REASONS)
@pytest.mark.parametrize(
    "end", ["", ".", ". preemption: 0/5 nodes are available: 5 Preemption is not helpful.", '." pod="a/b"']
)
def test_each_reason_of_the_scheduler_is_named(reasons: str, end: str) -> None:
    """All reasons of a line are in the title, each with its number of nodes, and nothing after them."""
    title = (
        explainer.build_report([explainer._scan_lines("log", [SCHEDULING + reasons + end])]).diagnoses[0].description
    )

    assert title.endswith(": " + reasons)


NO_ARCHITECTURE = "NVIDIA B200 with CUDA capability sm_100 is not compatible with the current PyTorch installation."
NAN = "a.cu:112: block: [0,0,0], thread: [0,0,0] Assertion `probability tensor contains either `inf`, `nan`` failed."


@pytest.mark.parametrize(
    ("first", "then", "cause"),
    [
        (NAN, "RuntimeError: CUDA error: device-side assert triggered", "training.nan_stop"),
        (NAN, "RuntimeError: CUDA error: unspecified launch failure", "training.nan_stop"),
        (NAN, "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED", "training.nan_stop"),
        (f"UserWarning: {NO_ARCHITECTURE}", "RuntimeError: CUDA error: CUBLAS_STATUS_INTERNAL_ERROR", "cuda.arch"),
        (f"UserWarning: {NO_ARCHITECTURE}", "ImportError: undefined symbol: __nvJitLinkComplete_12_4", "cuda.arch"),
        ("ImportError: undefined symbol: __nvJitLinkComplete_12_4", NO_ARCHITECTURE, "cuda.arch"),
        (
            "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11020).",
            "AssertionError: Frobtron requires CUDA.",
            "cuda.driver_old",
        ),
        (
            "UserWarning: None of the inputs have requires_grad=True. Gradients will be None",
            "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
            "options.no_grad_inputs",
        ),
        (
            "RuntimeError: CUDA error: unspecified launch failure",
            "NVRM: GPU 0000:03:00.0: GPU has fallen off the bus.",
            "cuda.off_the_bus",
        ),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            "NVRM: The NVIDIA probe routine was not called for 2 device(s).",
            "cuda.other_driver",
        ),
        (
            "E89999[PID: 7] 2026-01-11-10:11:12 (E89999):  frobs must be 7[FUNC:CheckFrob][FILE:frob_tiling.cpp]",
            "RuntimeError: NPU function error: AclrtSynchronizeStream, error code is 507018",
            "cann.operator_refused",
        ),
    ],
)
def test_cause_of_a_later_error_of_the_card(first: str, then: str, cause: str) -> None:
    """What a kernel or a warning states about values or architectures is the cause of a general error of the card."""
    found = explainer.build_report([explainer._scan_lines("log", [first, "Running", then])]).diagnoses

    assert (found[0].name, found[0].kind, found[0].caused_by) == (cause, "cause", "")
    assert [one.caused_by for one in found[1:]] == [cause]


def test_warning_without_a_failure_stays_one() -> None:
    """A warning from which no failure of the log follows is not its cause."""
    lines = [f"UserWarning: {NO_ARCHITECTURE}", "OSError: [Errno 28] No space left on device"]
    found = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses

    assert [one.kind for one in found if one.name == "cuda.arch"] == ["warning"]
    assert found[0].name != "cuda.arch"


@pytest.mark.parametrize("name", ENTRIES)
def test_words_without_what_the_line_names(name: str) -> None:
    """Texts are complete even if the line lacks their values."""
    said = causality.make_diagnosis(ENTRIES[name], {}, (), 1)

    assert not re.search(r"\{\w*\}|\bthe (?:what|path|option|rank|name|text|limit|op)\b$|: $|\(\)", said.description), (
        said.description
    )


# Causes that claim a line of another entry, which says more and comes first.
def is_linked(one: CatalogueEntry, other: CatalogueEntry) -> bool:
    """Return whether one of the two follows from the other."""
    return bool({other.name, other.area} & {*one.follows} or {one.name, one.area} & {*other.follows})


def test_lines_of_other_families() -> None:
    """No cause claims a line of another cause, unless they are linked: then the more specific one is shown."""
    index = explainer.load_index()
    claimed = {
        (name, entry.name)
        for name, said in LINES.items()
        for line in said["right"]
        for entry, _ in index.match_line(line)
        if entry.name != name and entry.kind == ENTRIES[name].kind == "cause" and not is_linked(entry, ENTRIES[name])
    }

    assert not claimed


@pytest.mark.parametrize("name", LINES)
def test_near_misses(name: str) -> None:
    """A healthy line that resembles the entry's is not claimed as it."""
    assert LINES[name]["miss"]
    for line in LINES[name]["miss"]:
        assert name not in match_names(line), line


@pytest.mark.parametrize("name", ENTRIES)
def test_entry_is_whole(name: str) -> None:
    """An entry has headline, cause, remedy and source; no placeholder is left."""
    entry = ENTRIES[name]
    groups = {group for pattern in (*entry.match, *entry.around) for group in pattern.groupindex}
    asked = set(re.findall(r"\{(\w+)\}", " ".join((entry.says, entry.why, entry.do))))
    asked |= set(re.findall(r"(?<!\{)\{([a-z]+)\}(?!\})", " ".join(entry.commands)))

    assert entry.source
    given = {"code", "codename", "meaning", "advice"}
    given |= {"requirement", "partner"} if "model" in groups else set()
    given |= {"pair", "partner"} if entry.partners else set()
    given |= {"pip"} if "module" in groups else set()
    given |= {"wanted"} if {"batch", "micro", "steps"} <= groups else set()
    given |= {"releases", "pair", "partner", "kept", "rebuild"} if "package" in groups else set()
    given |= {"conflict"} if "requirements" in groups else set()
    given |= {"divisors"} if groups & {"found", "what"} else set()
    assert asked <= groups | given
    assert len(entry.do) > 10 or entry.do == "{advice}."


@pytest.mark.parametrize("name", ENTRIES)
def test_command_ends_only_what_it_names(name: str) -> None:
    """No command ends all processes of a user or of Ray: other jobs may run on the same node; and none runs
    one vendor's tool because that of another is missing.
    """
    assert not any(re.search(r"nvidia.{0,80}\|\|.{0,80}(?i:ascend)", command) for command in ENTRIES[name].commands)
    assert not any(re.search(r"\b(?:ray stop|pkill|killall)\b", command) for command in ENTRIES[name].commands)


@pytest.mark.parametrize("name", ENTRIES)
def test_names_that_others_give_are_there(name: str) -> None:
    """What an entry follows from is an entry or an area."""
    areas = {entry.area for entry in ENTRIES.values()}

    assert set(ENTRIES[name].follows) <= ENTRIES.keys() | areas


def test_patterns_end_soon() -> None:
    """No pattern takes long on a long line made of what it looks for."""
    for entry in ENTRIES.values():
        hostile = [word * (2048 // len(word)) for word in entry.near]
        hostile += [
            (" ".join(LINES[entry.name]["right"]) + " ")[:200] * 10,
            "(" * 2000,
            "a " * 1000,
            "error" + " " * 2000,
        ]
        began = time.process_time()
        for pattern in entry.match:
            for line in hostile:
                pattern.search(line[:2048])

        assert time.process_time() - began < 60, entry.name  # one that backtracks takes for ever


@pytest.mark.parametrize("bad", ("a.*b", "a+", "a{2,}", "(a|b)*", "a{1,5000}", "[a-z]+x"))
def test_endless_patterns_are_refused(bad: str) -> None:
    """The catalogue takes no pattern that repeats without a bound."""
    with pytest.raises(ValueError, match="without a bound"):
        catalogue.compile_pattern(bad)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"name": "x", "says": "s", "why": "w"}, "area.x.do: missing"),
        ({"name": "x", "says": "s", "why": "w", "do": "d", "near": ["A"]}, "lower case"),
        ({"name": "x", "says": "s", "why": "w", "do": "d", "near": ["a"], "kind": "k"}, "kind: expected one of cause"),
        (
            {"name": "x", "says": "s", "why": "w", "do": "d", "near": ["a"], "colour": 1},
            "x.colour: unknown key",
        ),
        ({"name": "x", "says": "s", "why": "w", "do": "d", "near": ["a"], "warned": "w"}, "warned: expected one of , "),
        ({"name": "x", "says": "s", "why": "w", "do": "d", "near": "a"}, "a list of texts"),
        ({"name": "x", "says": "s", "why": "w", "do": "d", "near": ["a"], "match": ["("]}, "cannot be read"),
    ],
)
def test_wrong_entries_are_named(raw: dict[str, object], words: str) -> None:
    """An entry that could not work is refused with its name and what is wrong."""
    with pytest.raises(UsageError, match=re.escape(words)):
        catalogue.parse_entry(raw, "area")


def test_triggers_reach_the_examples() -> None:
    """Each matching example contains a trigger."""
    for name, said in LINES.items():
        for line in said["right"]:
            assert is_examined(line), (name, line)


@pytest.mark.parametrize("family", ("acl", "hccl", "dcmi", "nccl", "hccl_result", "bkcl_result"))
def test_every_known_code_is_explained(family: str) -> None:
    """Each code of the tables leads to an entry, by itself and whatever its case."""
    for code in codes.load_code_tables()[family]:
        for word in (code, code.lower()):
            told = explainer.explain_codes([word])

            assert told, word
            assert told[0].evidence[0].text.startswith(word)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("EI0006", "hccl.connect_timeout"),
        ("EJ0003", "hccl.port_bound"),
        ("EI0004", "hccl.rank_table"),
        ("507033", "acl.device_setup"),
        ("500001", "acl.internal_init"),
        ("E30006", "cann.opp"),
        ("-8005", "dcmi.inner"),
        ("-8020", "dcmi.occupied"),
        ("241", "exit.sigterm"),
        ("247", "host.killed"),
        ("137", "host.killed"),
        ("139", "host.segfault"),
        ("143", "exit.sigterm"),
        ("-6", "host.aborted"),
        ("-9", "host.killed"),
        ("SIGKILL", "host.killed"),
        ("SIGBUS", "host.bus_error"),
        ("exit code 1", "exit.status"),
        ("127", "exit.status"),
        ("ncclRemoteError", "nccl.remote"),
        ("cudaErrorNoDevice", "cuda.no_device"),
        ("CUDA error 802", "cuda.fabric"),
        ("Xid 79", "cuda.off_the_bus"),
        ("xid 31", "cuda.xid_program"),
        ("Xid 137", "cuda.xid_program"),
        ("Xid 121", "cuda.xid_event"),
        ("Xid 149", "cuda.xid"),
        ("ERR02200", "acl.wrapped"),
        ("EZ9999", "cann.inner"),
        ("E40021", "cann.code"),
        ("107002", "acl.call"),
        ("SIGXCPU", "exit.signal"),
        ("HCCL_E_TIMEOUT", "hccl.result"),
        ("705", "kunlunxin.out_of_memory"),
        ("-705", "kunlunxin.out_of_memory"),
        ("XPU 700", "kunlunxin.kernel"),
        ("712", "kunlunxin.kernel"),
        ("713", "kunlunxin.card_in_error"),
        ("714", "kunlunxin.kernel"),
        ("XPU Error <-701>", "kunlunxin.no_device"),
        ("XPUERR_BUSY", "kunlunxin.runtime"),
        ("xpu 719", "kunlunxin.hardware"),
        ("CUDA error 719", "cuda.illegal_address"),
        ("BKCL_SYSTEM_ERROR", "kunlunxin.bkcl_result"),
        ("priority", "scheduler.waiting"),
        ("QOSMaxFrobPerNode", "scheduler.pending"),
        ("launch failed requeued held", "scheduler.pending"),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            "scheduler.pending",
        ),
        ("SignatureValidationFailed", "scheduler.pod_state"),
    ],
)
def test_codes(word: str, name: str) -> None:
    """A bare code is explained by the entry that is about it."""
    assert [diagnosis.name for diagnosis in explainer.explain_codes([word])] == [name]


# How a log line has the codes of a label; codes without one as CANN's log and as an exception have them.
LABELLED = {
    "CUDA": "OSError: CUDA error({number})",
    "Xid": "NVRM: Xid (PCI:0000:41:00): {number}, pid=4242",
    "XPU": "XPU Error <-{number}>",
}
PLAIN = (
    "[ERROR] {number}: [PID: 2345] 2026-11-21 Failed to start",
    "RuntimeError: call failed, error code is {number}:",
)
NAMES = {"SIGTERM", "SIGINT", "SIGHUP", "OOM"}  # a log has their numbers or a sentence, and the bare word is no failure


@pytest.mark.parametrize("code", [code for entry in ENTRIES.values() for code in entry.codes if code not in NAMES])
def test_a_code_in_a_log_leads_to_the_entry_of_the_bare_code(code: str) -> None:
    """A code has one owner: the entry that explains it alone also explains a line with it, and no other entry does."""
    label, _, number = code.rpartition(" ")
    lines = [form.format(number=number) for form in ([LABELLED[label]] if label else PLAIN)]
    found = [match_names(line) for line in lines]
    alone = [diagnosis.name for diagnosis in explainer.explain_codes([code])]

    assert alone in found
    assert all(names in ([], ["exceptions.unknown"], alone) for names in found), found


def test_an_owner_that_excludes_the_line_does_not_take_it() -> None:
    """The entry that lists a code does not take a line that it excludes."""
    line = "aclrtMallocPhysical failed, error code is 507010"

    assert "acl.device_lost" not in match_names(line)


@pytest.mark.parametrize("line", ["exitcode  : 35 (pid: 4242)", "failed (exitcode: 35) local_rank: 3 (pid: 7)"])
def test_a_status_in_a_launchers_line_stays_the_launchers(line: str) -> None:
    """An exit status is no code of an entry: the launcher's line is of the launcher."""
    assert any(name.startswith("launcher.") for name in match_names(line))


def test_code_of_a_row_for_the_rest() -> None:
    """A reason without a row has the meaning of its kind, and a row with the whole name comes first."""
    rest = codes.explain_code("QOSMaxFrobPerNode")
    whole = codes.explain_code("QOSMaxGRESPerJob")

    assert rest and rest.code == "QOSMaxFrobPerNode"
    assert rest.meaning.startswith("the request exceeds a limit of the QOS")
    assert whole and whole.meaning.startswith("more cards")


def test_waiting_is_no_cause() -> None:
    """A screen of waiting jobs in a log is no cause, and a job without a reason is not mentioned."""
    screen = ["4242 gpu train user PD 0:00 2 (Priority)", "JobState=PENDING Reason=None Dependency=(null)"]
    found = explainer.build_report([explainer._scan_lines("log", screen)])

    assert [(one.name, one.kind) for one in found.diagnoses] == [("scheduler.waiting", "warning")]


@pytest.mark.parametrize(
    ("line", "command", "name"),
    [
        ("AttributeError: module 'numpy' has no attribute 'bool'.", "pip install 'numpy<1.24'", "python.numpy_alias"),
        ("RuntimeError: frob requires Python ==3.10", "python3 --version", "python.python_requirement"),
        ("frob needs Python>=3.9 but failed", "python3 --version", "python.python_requirement"),
    ],
)
def test_remedy_installs_what_helps(line: str, command: str, name: str) -> None:
    """No Python is installed by pip, and numpy 2 is not the release that removed the names of Python's types."""
    found = explainer.build_report([explainer._scan_lines("log", [line])]).diagnoses

    assert [one.name for one in found] == [name]
    assert found[0].commands[0].endswith(command)
    assert not any("install 'Python" in one or "REQUIREMENT" in one for one in found[0].commands)


def test_http_number_without_a_row() -> None:
    """A number without a row is explained by its class, with its label."""
    found = explainer.explain_codes(["HTTP 412"])[0]

    assert "HTTP 412 (Client Error), the server refuses the request" in found.description


def test_failed_hook_with_its_reason() -> None:
    """A hook whose reason is in a known line is a consequence of it."""
    lines = ["error running hook: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'"]
    lines += ["nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown"]
    found = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses

    assert [(one.name, one.kind) for one in found if not one.caused_by] == [("container.nvidia_hook", "cause")]


@pytest.mark.parametrize("name", ("ACLNN_ERR_INNER_KEY_CONFLICT", "aclnn_err_inner_key_confilict"))
def test_both_names_of_a_renamed_code(name: str) -> None:
    """A code has its meaning by its new name and by the misspelt one of older releases."""
    found = codes.explain_code(name)

    assert found and found.code == "561105"
    assert found.meaning == "two kernels of an operator have the same key"


def test_code_without_an_operator() -> None:
    """A bare code names no operator, and its text is a sentence all the same."""
    assert explainer.explain_codes(["161002"])[0].description.startswith(
        "An operator of CANN refuses its arguments (161002: the data types"
    )


@pytest.mark.parametrize(
    "word", ("", "hello", "999999999", "EX0001x", "-70000", "SIGNOTHING", "600000", "xid 9999", "700", "XPU 720")
)
def test_no_codes(word: str) -> None:
    """What is no code is none."""
    assert explainer.explain_codes([word]) == ()


TORCHRUN = [
    "master_addr is only used for static rdzv_backend and when rdzv_endpoint is not specified.",
    "WARNING:torch.distributed.launcher.api:config has no run_id, generated a random run_id: 17",
]


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("{'loss': 1.2, 'epoch': 0.1}", [("launcher.run_id", "warning")]),
        (
            "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
            [("launcher.run_id", "cause"), ("network.rendezvous", "symptom")],
        ),
    ],
)
def test_remarks_at_the_start_of_torchrun(last: str, expected: list[tuple[str, str]]) -> None:
    """What torchrun prints at each start is no failure; a random id is the cause if the nodes did not meet."""
    found = explainer.build_report([explainer._scan_lines("log", [*TORCHRUN, last])]).diagnoses

    assert [(one.name, one.kind) for one in found] == expected


def test_nouveau_before_the_driver() -> None:
    """A driver that finds no card is a consequence of the one that holds the cards, even in a later attempt."""
    lines = ["[ 88.5] NVRM: No NVIDIA graphics adapter probed!"]
    lines += ["[ 99.9] NVRM: The NVIDIA probe routine was not called for 3 device(s)."]
    found = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses

    assert [(one.name, one.caused_by) for one in found] == [
        ("cuda.other_driver", ""),
        ("cuda.not_probed", "cuda.other_driver"),
    ]


HCCL_ERROR = "RuntimeError: [ERROR] HCCL error in: csrc/distributed/ProcessGroupHCCL.cpp:64"
TORCH_NPU = "[ERROR] 2026-11-21-10:00:00 (PID:1, Device:0, RankID:0) ERR02200 DIST call hccl api failed."


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("EI0006: [PID: 7] Getting socket times out. Reason: no answer", "hccl.connect_timeout"),
        ("EI0002: [PID: 7] The wait execution of the Notify register times out.", "hccl.notify_timeout"),
    ],
)
def test_code_of_the_library_comes_before_the_general_error(code: str, name: str) -> None:
    """The general error of a collective operation is a consequence of what the library's code says."""
    found = explainer.build_report([explainer._scan_lines("log", [HCCL_ERROR, TORCH_NPU, code])]).diagnoses

    assert (found[0].name, found[0].caused_by) == (name, "")
    assert {one.name: one.caused_by for one in found}["network.collective_failed"] == name


def test_general_error_alone_is_what_is_known() -> None:
    """Without an error of the library, the general error is the first diagnosis."""
    found = explainer.build_report([explainer._scan_lines("log", [HCCL_ERROR])]).diagnoses

    assert found[0].name == "network.collective_failed"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("slurmstepd: error: *** JOB 42 ON node1 CANCELLED AT 2026-11-21T10:00:00 DUE TO TIME LIMIT ***", "job_limit"),
        ("[123.4] NVRM: Xid (PCI:0000:41:00): 79, pid=4242, GPU has fallen off the bus.", "off_the_bus"),
        ('Failed to pull image "reg.example/a/b:1": not found', "pull_name"),
        ("w1:7:9 [2] transport/nvls.cc:301 NCCL WARN Cuda failure 1 'invalid argument'", "nvls"),
        ("w1:7:9 [2] transport/nvls.cc:301 NCCL WARN Cuda failure 'peer access is not supported'", "nvls"),
        ("w1:7:9 [2] transport/p2p.cc:301 NCCL WARN Cuda failure 'invalid argument'", "p2p"),
        (
            "Warning FailedScheduling 2s volcano 0/3 nodes are unavailable: 3 node check failed. for details,log by "
            "search keywords <checkNodeNPUByTask : check Node w1 label [host-arch] Failed, value is huawei-x86>.",
            "node_label",
        ),
        ("OSError: libxpurt.so.2: cannot open shared object file: No such file or directory", "library"),
        ("XPU Error <705>, Device memory not enough", "out_of_memory"),
        ('Failed to pull image "reg.example/a/b:1": rpc error: code = NotFound desc = b:1: not found', "pull_name"),
    ],
)
def test_one_line_is_one_diagnosis(line: str, name: str) -> None:
    """A line that a cause explains is not a consequence of it as well."""
    found = explainer.build_report([explainer._scan_lines("log", [line])]).diagnoses

    assert [(one.name.partition(".")[2], one.kind) for one in found] == [(name, "cause")]


def test_consequence_with_a_line_of_its_own_stays() -> None:
    """A consequence in another line is shown."""
    lines = [
        "slurmstepd: error: *** JOB 42 ON node1 CANCELLED AT 2026-11-21T10:00:00 DUE TO TIME LIMIT ***",
        "exitcode  : -15 (pid: 4242)",
    ]
    found = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses

    assert found[0].name == "launcher.job_limit"
    assert any(one.caused_by == "launcher.job_limit" for one in found[1:])


def test_other_failed_pull_is_no_wrong_name() -> None:
    """An image that could not be pulled for another reason has not a wrong name."""
    line = 'Failed to pull image "reg.example/a/b:1": rpc error: code = Unknown desc = disk quota exceeded'

    assert "container.pull_name" not in match_names(line)


@pytest.mark.parametrize("name", ["host.segfault", "exceptions.folder_only", "exceptions.undefined_option"])
def test_page_of_the_manual_that_helps(name: str) -> None:
    """A page of Python's manual about the cause is shown; one about a type of exceptions is not."""
    entries = {entry.name: entry for entry in catalogue.load_entries()}

    assert causality.make_diagnosis(entries[name], {}, (), 1).source
    assert not causality.make_diagnosis(entries["exceptions.unknown"], {}, (), 1).source


REPORT = "[PID: 7] 2026-02-03-04:05:06.007.008"


@pytest.mark.parametrize(
    "form", [f"{{name}}({{code}}): {REPORT} Frobnicated.", f"{REPORT} {{name}}({{code}}): Frobnicated."]
)
def test_reports_of_cann_are_read_by_their_code(form: str) -> None:
    """Each code of a report is explained, whatever the words of its message: many have none that alarms."""
    tables = codes.load_code_tables()
    listed = [code for name in ("cann", "hccl") for code in tables[name] if re.fullmatch(r"E[A-Z1-9]\d{4}", code)]
    silent = [code for code in listed if not match_names(form.format(name="Frob_Nicated", code=code))]

    assert len(listed) > 100
    assert not silent
