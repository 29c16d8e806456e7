"""provision, train and plan over many hosts in Chinese; output of tools on the hosts is not translated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.cli import main
from envcheck.core import language
from envcheck.core.errors import UsageError
from envcheck.core.host_names import fold_hosts
from envcheck.core.language import width
from envcheck.core.model import Status
from envcheck.fleet import connectivity
from envcheck.fleet.output import HostOutput
from installers.hosts import presentation
from installers.hosts.presentation import HostOutcome
from launch.backends.node_findings import print_findings
from launch.backends.ssh import node_outcome, train_hosts
from launch.backends.ssh.node_outcome import NodeOutcome
from launch.backends.ssh.train_hosts import NodesRequest
from launch.planner import host_spread
from tests.envcheck.core.language.test_language_reports import ENGLISH
from tests.envcheck.fleet.test_fleet_plan import make_machine

REFUSED = [
    ("provision", "--install-driver", "x.run", "--undo"),
    ("provision", "--lock", "x.lock", "--hosts", "node1"),
    ("provision", "--unfinished"),
    ("train", "--yes", "--hosts", "node1"),
    ("train", "--gates", "--dry-run"),
    ("plan", "--cards", "8", "--hosts", "node1"),
]


pytestmark = pytest.mark.usefixtures("chinese")


def test_how_hosts_ended_is_chinese() -> None:
    """Every state, the step it failed in, and the path of the journal, in aligned columns."""
    found = [
        HostOutcome(f"node{n}", state, 1, "the host did not return a valid plan", "at once", "/j")
        for n, state in enumerate(presentation.STATES)
    ]
    lines = list(presentation.render_outcomes(found))

    assert {width.display_width(line[: line.index("node")]) for line in lines if "node" in line} == {12}
    assert ENGLISH.findall("\n".join(lines).replace("at once", "")) == []
    assert [state for state in presentation.STATES if presentation.pad_state(state).strip() == state] == []


def test_how_a_training_over_hosts_ended_is_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    """Preflight checks of all hosts, how each ended, and which one failed first."""
    request = NodesRequest(("a", "b"), (), "")
    broken = HostOutput("a")
    broken.status = 255
    print_findings({"a": [connectivity.judge_broken_command(broken)]}, Status.OK)
    document = {
        "first_failed_worker": {"rank": 1, "code": -9, "follows": True},
        "diagnoses": [{"description": "Image pull failed"}],
    }
    nodes = [
        NodeOutcome("a", 0, "failed", 5, node_outcome._describe_fault(document)),
        NodeOutcome("b", 1, "stopped", 130),
    ]
    train_hosts._report_end(request, train_hosts.NodesEnd(nodes, nodes[0], 5), [])
    printed = capsys.readouterr().err

    assert "失败          a：工作进程 1 在失去与另一工作进程的连接后最先结束，被 SIGKILL 终止" in printed
    assert "；镜像拉取失败\n" in printed
    assert "原因          a（rank 0）最先失败，其他主机因此停止\n  下一步：处理主机 a 的问题" in printed
    assert printed.startswith("失败     a：fleet.reach：")
    assert ENGLISH.findall(re.sub(r"\$ .*", "", printed)) == []


def test_states_of_hosts_that_did_not_train_are_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    """Hosts that were not reached, not started, or lost."""
    states = ("lost", "unreached", "not-started")
    nodes = [NodeOutcome(f"host-{rank}", rank, state, 5) for rank, state in enumerate(states)]
    request = NodesRequest(("host-0", "host-1", "host-2"), (), "")
    train_hosts._report_end(request, train_hosts.NodesEnd(nodes, None, 5), [])

    assert capsys.readouterr().err == "连接中断      host-0\n无法连接      host-1\n未启动        host-2\n"


def test_cards_over_hosts_are_chinese() -> None:
    """Hosts with different devices, the one with the least free memory, and excluded hosts."""
    found = host_spread.combine_hosts(
        {"a": make_machine(3, 3, 3), "b": make_machine(3, 40, 9), "c": make_machine(3, 3), "d": "no hosts"}
    )
    lines = list(host_spread.format_host_lines(found, fold_hosts))

    assert [width.display_width(re.match(r" *\S+ *", line)[0]) for line in (lines[0], *lines[2:])] == [12, 12, 12]  # type: ignore[index]
    assert ENGLISH.findall("\n".join(lines)) == []


@pytest.mark.parametrize("argv", REFUSED, ids=" ".join)
def test_a_refusal_is_chinese(argv: tuple[str, ...]) -> None:
    """Options that exclude each other: the error and its next step."""
    err = CliRunner().invoke(main.main, argv).exception

    assert isinstance(err, UsageError)
    assert [text for text in (err.message, err.next_step) if not re.search("[一-鿿]", language.translate(text))] == []


def test_the_language_goes_with_every_mode_of_provision(tmp_path: Path) -> None:
    """--lang works with every option of provision."""
    done = CliRunner().invoke(
        main.main, ["provision", "--device", "cpu", "--into", str(tmp_path / "x"), "--dry-run", "--lang", "zh"]
    )

    assert done.exit_code == 0, done.exception
