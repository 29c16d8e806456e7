"""A fleet report's wording fits the number of its hosts."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from envcheck.collect.question_queue import QuestionQueue
from envcheck.core import language
from envcheck.core.errors import UsageError
from envcheck.core.model import Finding, Question, Status
from envcheck.fleet import collector, connectivity, evaluate, hosts
from envcheck.fleet.collector import CollectRequest
from envcheck.fleet.output import HostOutput
from envcheck.payload import relay
from envcheck.report import Style, formats

FINE, DEAD = Finding("host.memory", Status.OK, "512 GiB"), Finding("fleet.reach", Status.FAIL, "nobody listens")


def render_report(*answering: bool) -> str:
    """Return the report of node1, node2 ..., each passing if it responds."""
    hosts = (
        evaluate.JudgedHost(f"node{n}", (FINE if yes else DEAD,), {"fleet.os": {"": "Ubuntu"}} if yes else {})
        for n, yes in enumerate(answering, 1)
    )
    report = evaluate.compare_hosts(hosts)
    return formats.render("table", replace(report, style=Style(width=200)))


@pytest.mark.parametrize(
    ("answering", "head", "verdict"),
    [
        ([True], "node1: 1 host, responded", "(the host has no issues)"),
        ([False], "node1: 1 host, no response", "(the host has issues; 1 failed)"),
        ([True, True], "node[1-2]: 2 hosts, all responded", "(2 of 2 hosts have no issues)"),
        ([True, False], "node[1-2]: 2 hosts, all but node2 responded", "(1 of 2 hosts has no issues; 1 failed)"),
        ([False] * 3, "node[1-3]: 3 hosts, none responded", "(0 of 3 hosts have no issues; 1 failed)"),
        (
            [True, False, False],
            "node[1-3]: 3 hosts, all but node[2-3] responded",
            "(1 of 3 hosts has no issues; 1 failed)",
        ),
    ],
)
def test_words_fit_the_number(answering: list[bool], head: str, verdict: str) -> None:
    """One host, all, some and none are distinguished; one of one is not "all"."""
    lines = render_report(*answering).splitlines()

    assert lines[0] == f"envcheck doctor on {head}"
    assert lines[2].endswith(verdict)


@pytest.mark.parametrize("answering", [[True], [False], [True, True], [True, False], [False, False]])
def test_in_chinese(answering: list[bool]) -> None:
    """The headline and the verdict have no English sentence."""
    try:
        language.choose_language(["--lang", "zh"], {})
        lines = render_report(*answering).splitlines()
    finally:
        language.choose_language([], {})

    words = " ".join((lines[0], lines[2])).replace("envcheck doctor", "")
    assert not any(word in words for word in ("answer", "host", "well", "fit"))


@pytest.mark.parametrize(("elapsed_s", "heard_s", "words"), [
    (120.0, 118.0, "slow: not finished within 120 s, but at work until then"),
    (120.0, 60.0, "no response within 120 s: the collector did not finish"),
    (25.0, 20.0, "slow: not finished within 25 s, but at work until then"),
    (25.0, 1.0, "no response within 25 s: the collector did not finish"),
    (25.0, None, "no response within 25 s: ssh or a login script did not finish"),
])  # fmt: skip
def test_a_slow_host_is_not_one_that_hangs(elapsed_s: float, heard_s: float | None, words: str) -> None:
    """A host that still sent results at the deadline is slow, and the option for it is named; a silent one hangs."""
    said = ["clock 1"] if heard_s is not None else []
    found = connectivity.judge_answer(HostOutput("node1", said, hung=True, elapsed_s=elapsed_s, heard_s=heard_s))

    assert (found.seen, found.status) == (words, Status.FAIL)
    assert found.remedy and "--host-timeout" in found.remedy.words


def test_a_host_with_a_long_question_may_be_silent_as_long() -> None:
    """A site's own check may take minutes; the host that runs it is slow, and does not hang."""
    own = Question("run", ("site-check",), timeout_s=120.0)
    queue = QuestionQueue("cpu", (own,))
    queue.list_first_questions()
    silent = HostOutput("node1", ["clock 1"], hung=True, elapsed_s=300.0, heard_s=200.0)

    assert not silent.is_slow
    assert replace(silent, longest_s=queue.longest_s).is_slow
    assert queue.longest_s == 120.0


def test_the_time_limits_of_the_questions_are_known_with_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever judges the silence of a host knows how long its questions may take; ssh is a shell on this one."""
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nfor last; do :; done\nexec /bin/sh -c "$last"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    outputs: list[HostOutput] = []

    collector.ask_hosts(["node1"], CollectRequest("cpu", (Question("run", ("true",), 77.0),)), outputs.append)

    assert [output.longest_s for output in outputs] == [77.0]


def test_the_relay_counts_the_time_of_the_whole_command() -> None:
    """A command that works uses ticks, also in its children; one that waits uses none."""
    words = ["sh", "-c", "exec >&- ; while :; do :; done & sleep 300"]
    with subprocess.Popen(words, start_new_session=True) as child:
        try:
            while relay._count_ticks(child.pid) < 2 * relay.BUSY_TICKS:
                assert child.poll() is None
        finally:
            os.killpg(child.pid, signal.SIGKILL)
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as child:
        try:
            assert relay._count_ticks(child.pid) <= relay.BUSY_TICKS
        finally:
            child.kill()


@pytest.mark.parametrize(("name", "advice"), [
    ("root@node1", "use node1; user and port belong in ~/.ssh/config: Host node1, User root"),
    ("node1:2222", "use node1; user and port belong in ~/.ssh/config: Host node1, Port 2222"),
    ("ops@node1:22", "use node1; user and port belong in ~/.ssh/config: Host node1, User ops, Port 22"),
    ("root@@node1", "use node[01-08], node1,node2 or @group; nodeset -e expands a host set"),
])  # fmt: skip
def test_users_and_ports_are_explained(name: str, advice: str) -> None:
    """ssh's configuration has them; the next step shows the lines for it."""
    with pytest.raises(UsageError) as err:
        hosts.resolve_hosts([name])

    assert err.value.next_step == advice
