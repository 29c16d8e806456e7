"""Collecting facts: concurrent questions, five result states, follow-ups per device."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck.checks import run_checks
from envcheck.collect import answer_sources, facts
from envcheck.collect.fact_reader import read_facts
from envcheck.collect.host.collectors import COLLECTORS
from envcheck.collect.questions import HOST_QUESTIONS
from envcheck.core.model import Answer, Outcome, Question, Status
from envcheck.simulate import faults, simulated_run
from envcheck.simulate import machine_file as described
from envcheck.vendors import VENDORS
from probes import pci
from probes.host import decode, docker_info
from probes.smi import nvidia_kernel
from tests.envcheck.checks.doctor_helpers import simulate_machine

LSPCI = """\
03:00.0 VGA compatible controller [0300]: Huawei Technologies Co., Ltd. Hi171x Series [19e5:1711] (rev 01)
0000:c1:00.0 Processing accelerators [1200]: Huawei Technologies Co., Ltd. Device [19e5:d802] (rev 20)
17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H200 SXM 141GB] [10de:2335] (rev a1)
17:00.1 Audio device [0403]: NVIDIA Corporation Device [10de:22ba] (rev a1)
07:00.0 Bridge [0680]: NVIDIA Corporation GH100 [H100 NVSwitch] [10de:22a3] (rev a1)
28:00.0 Processing accelerators: Huawei Technologies Co., Ltd. Device d802 (rev 20)
"""


def make_door(**outs: str) -> Callable[[Question], Answer]:
    """A machine where only the named tools answer and nothing else exists."""

    def ask(question: Question) -> Answer:
        tool = question.what[0].replace("-", "_")
        if question.verb == "run" and tool in outs:
            return Answer(question.key, Outcome.ANSWERED if outs[tool] else Outcome.EMPTY, outs[tool])
        return Answer(question.key, Outcome.ABSENT, err="not found")

    return ask


@pytest.mark.parametrize(
    ("fault", "outcome"), [("tool-missing", Outcome.ABSENT), ("dcmi-8005", Outcome.FAILED), ("tool-hang", Outcome.HUNG)]
)
def test_absent_failed_and_hung_are_kept_apart(fault: str, outcome: Outcome) -> None:
    """The reason for a missing answer is kept, and cards visible only on the PCI bus are still found."""
    with simulate_machine("atlas-800t-a2", [fault]) as there:
        found = facts.gather_facts(there).vendors[0]

    assert found.tool is not None
    assert (found.tool.outcome, found.devices, len(found.pci or ())) == (outcome, (), 8)


def test_hung_tool_costs_its_deadline_once() -> None:
    """A tool that hangs on the device list gets no follow-up questions: one deadline in total."""
    with simulate_machine("atlas-200t-a2-box16", ["tool-hang"]) as there:
        found = facts.gather_facts(there)

    assert not [key for key in found.answers if key.startswith("run npu-smi") and " -i " in key]
    assert "run hccn_tool -i 15 -link -g" in found.answers  # the device nodes tell which ports there are


def test_follow_ups_start_before_slow_details_end() -> None:
    """A slow detail question does not delay the follow-ups per device."""
    followed_up = threading.Event()
    in_time: list[bool] = []
    with simulate_machine("atlas-800t-a2") as there:

        def slow(question: Question) -> Answer:
            if question.key == "run npu-smi info -t board -i 7":
                followed_up.set()
            if question.what[-1] == "topo":
                in_time.append(followed_up.wait(60))
            return there(question)

        facts.gather_facts(slow)

    assert in_time and all(in_time)


def test_what_the_list_has_told_is_not_asked_again() -> None:
    """Each call takes long: the error code is asked of ill devices, the load where the table leaves it out."""
    with simulate_machine("atlas-800t-a2", ["health-alarm=3"]) as there:
        asked = facts.ask_machine(there)
        listed = asked["run npu-smi info"]
        silent = replace(listed, out=re.sub(r"(\| 0000:[^|]*\|) \d+ ", r"\1 - ", listed.out))
        unsaid = facts.ask_machine(lambda q: silent if q.key == listed.key else there(q))

    def of(kind: str, answers: Mapping[str, Answer]) -> list[str]:
        return sorted(key.split()[-1] for key in answers if f"-t {kind} -i" in key)

    assert (of("health", asked), of("usages", asked)) == (["3"], [])
    assert of("board", asked) == of("usages", unsaid) == list("01234567")
    assert any("error code" in f.seen for f in run_checks(read_facts(asked), only=["devices.health"]))


def test_each_die_has_its_port() -> None:
    """npu-smi -i counts NPUs, hccn_tool -i dies: on A3 eight of the one are sixteen of the other."""
    with simulate_machine("atlas-800t-a3") as there:
        asked = facts.ask_machine(there)
    boards = [key for key in asked if "-t board" in key]
    ports = [key for key in asked if "hccn_tool" in key and "-link " in key]

    assert (len(boards), len(ports)) == (8, 16)
    assert all(asked[key].ok for key in (*boards, *ports))


def test_two_vendors_in_one_machine() -> None:
    """NVIDIA and Iluvatar side by side: facts of each, and findings that name theirs."""
    with simulate_machine("h200x8") as green, simulate_machine("bi-v150x8") as corex:

        def mixed(question: Question) -> Answer:
            one, other = green(question), corex(question)
            return one if one.ok else other

        found = facts.gather_facts(mixed)
    findings = [(f.device, f.seen) for f in run_checks(found, only=["devices.present"])]

    assert findings == [("iluvatar", "16 × Iluvatar BI-V150"), ("nvidia", "8 × NVIDIA H200")]


def test_without_lspci_the_tool_is_asked() -> None:
    """Under WSL and in containers there is neither lspci nor a node: a tool that answers is enough."""
    listed = "index, name, memory.total [MiB], memory.used [MiB]\n0, Iluvatar BI-V150, 32768 MiB, 64 MiB\n"
    found = facts.gather_facts(make_door(ixsmi=listed))

    assert [(v.name, len(v.devices), v.pci) for v in found.vendors] == [("iluvatar", 1, None)]


def test_leftover_tool_without_a_card_is_not_asked() -> None:
    """A vendor tool is not run when lspci lists no card of that vendor, since it may hang."""
    assert facts.gather_facts(make_door(lspci="", nvidia_smi="No devices were found")).vendors == ()


def test_bare_machine_is_a_cpu() -> None:
    """On a machine without tools the facts are empty, no check crashes, and none passes without evidence."""
    findings = run_checks(facts.gather_facts(make_door()))

    assert not [f for f in findings if "crashed" in f.seen or f.status is Status.OK]


def test_this_machine() -> None:
    """The collectors' own values fit the shapes that checks read: nothing of the host is lost on the way."""
    found = facts.gather_facts(answer_sources.live_machine(), "cpu")
    assert found.host and found.network and found.packages and found.disks and found.limits

    assert found.host.memory_total_bytes and found.host.kernel and found.host.architecture and found.host.cpu_count
    assert found.disks["."].free_bytes is not None and found.limits.open_files_soft is not None
    assert found.packages.python and found.network.interfaces


def test_every_question_has_its_collector() -> None:
    """The host's questions and the collectors are the same names."""
    assert {q.what[0] for q in HOST_QUESTIONS if q.verb == "ask"} == set(COLLECTORS)


def test_accelerators_on_the_bus() -> None:
    """Display, audio and bridge devices of the same vendor are not accelerators."""
    green = "\n".join(line for line in LSPCI.splitlines() if "10de:" in line)

    assert pci.find_accelerators(LSPCI, VENDORS["npu"].pci_classes) == ("0000:c1:00.0", "28:00.0")
    assert pci.find_accelerators(green, VENDORS["nvidia"].pci_classes) == ("17:00.0",)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  Thu Feb 27 2025\nGCC version: 12\n",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (root@x)\n",
    ],
)
def test_kernel_module(text: str) -> None:
    """The version in /proc is read for both builds of NVIDIA's kernel module."""
    assert nvidia_kernel.parse(text).driver_version == "570.124.06"


@pytest.mark.parametrize(
    ("out", "err", "outcome", "error"),
    [
        ('{"ServerVersion": "26.1.3", "Runtimes": {"runc": {}}, "DockerRootDir": "/d"}', "", Outcome.ANSWERED, None),
        ('{"ServerVersion": "", "ServerErrors": ["Cannot connect"]}', "", Outcome.ANSWERED, "Cannot connect"),
        ("", "permission denied\n", Outcome.FAILED, "permission denied"),
        ("[1, 2", "", Outcome.ANSWERED, "docker info returned no output"),
        ('{"ServerVersion": 7, "Runtimes": "x"}', "", Outcome.ANSWERED, None),
    ],
)
def test_docker_info(out: str, err: str, outcome: Outcome, error: str | None) -> None:
    """Docker reachable, unreachable, and printing garbage."""
    engine = docker_info.parse_docker_info(Answer("run docker info", outcome, out, err))

    assert engine is not None and engine.error == error


def test_environment_of_a_recipe_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What provision installed is seen without starting its Python."""
    site = tmp_path / "environments" / "tiny-cpu" / "lib" / "python3.10" / "site-packages"
    (site / "Paddle_Paddle-3.1.0.dist-info").mkdir(parents=True)
    (tmp_path / "environments" / "tiny-cpu" / "bin").mkdir()
    (tmp_path / "environments" / "tiny-cpu" / "pyvenv.cfg").write_text("version = 3.10.14\n")
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path))
    read = decode.decode_environments(COLLECTORS["packages"]((), answer_sources.run_program))

    assert (read["tiny-cpu"].python, read["tiny-cpu"].packages) == ("3.10.14", {"paddle-paddle": "3.1.0"})


@settings(deadline=None)
@given(st.text(max_size=400))
def test_any_answer_of_a_tool_is_read(text: str) -> None:
    """Whatever the tools print, facts come of it and no check crashes."""
    found = facts.gather_facts(make_door(npu_smi=text, hccn_tool=text, lspci=text), "npu")

    assert not [f for f in run_checks(found) if "crashed" in f.seen]


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "terminated"])
def test_interrupted_doctor_leaves_no_tool_behind(sign: signal.Signals, code: int) -> None:
    """Ctrl-C, and what timeout(1) sends, end doctor at once, in a line at most, and its tools with it."""
    hang = "287" if sign is signal.SIGINT else "288"  # tells our tools from others' among all processes
    ready = faults.apply_faults(
        described.load_machine("atlas-800t-a2", None), [faults.parse_fault(f"tool-hang={hang}")]
    )
    with simulated_run.write_machine_folder(ready, None) as folder:
        env = {**simulated_run.make_environment(folder), "PYTHONUNBUFFERED": "1"}
        child = subprocess.Popen([sys.executable, "-m", "envcheck", "doctor"], env=env, stderr=subprocess.PIPE)
        assert _wait_until(lambda: bool(_list_sleepers(hang)), 120), "the tool never ran"
        child.send_signal(sign)
        said = child.communicate(timeout=120)[1]

    assert (child.returncode, said) == (code, b"envcheck: interrupted\n" if sign is signal.SIGINT else b"")
    assert _wait_until(lambda: not _list_sleepers(hang), 60)


def _list_sleepers(hang: str) -> list[int]:
    return [p.pid for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", hang]]


def _wait_until(true: Callable[[], bool], patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while not true() and time.monotonic() < deadline:
        time.sleep(0.05)
    return true()
