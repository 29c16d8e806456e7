"""provision, train and plan over many hosts in Chinese: what this side says of them; what a tool printed stays."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck import fleet
from envcheck.cli import commands, main, requests
from envcheck.core import language
from envcheck.core.errors import UsageError
from envcheck.core.host_names import fold_hosts
from envcheck.core.language import width
from envcheck.fleet import connectivity
from envcheck.fleet.output import HostOutput
from envcheck.payload import attachments
from installers import hosts as provisioning
from installers.hosts import hosts_text
from installers.hosts.hosts_text import HostOutcome
from installers.hosts.request import HostsRequest
from launch.backends import ssh as training
from launch.backends.node_findings import print_findings
from launch.backends.ssh import node, session
from launch.backends.ssh.node import Node
from launch.planner import spread
from tests.envcheck.core.language import language_parts
from tests.envcheck.core.language.test_language import TABLES, lacking
from tests.envcheck.core.language.test_language_reports import ENGLISH
from tests.envcheck.fleet.test_fleet_plan import machine

NAMES = ("runner", "collector", "hosts", "groups")
FILES = [
    *sorted(Path(provisioning.__path__[0]).glob("*.py")),
    *sorted(Path(training.__path__[0]).glob("*.py")),
    *(Path(fleet.__path__[0]) / f"{name}.py" for name in NAMES),
    Path(attachments.__file__),
    *(Path(commands.__path__[0]) / f"{name}.py" for name in ("fleet", "train", "provision")),
    Path(requests.__file__),
    Path(spread.__file__),
]
SAYERS = {**language_parts.SAYERS, "say": (0,), "spoken": (0,), "EnvcheckError": (0, 1), "NoSeedError": (0, 1)}
# Put together of parts that stand in a table: a count, a path, a tail, a title of a column.
PARTS = {
    "{} cannot be combined with --hosts",
    "Do this on {} host{}?",
    "(at: {})",
    "worker {} was the first to end there, {}{}",
    ", when it lost another one",
}
STATES = (*hosts_text.WELL, "declined", "blocked", "by-hand", "unreached", "not-begun", "lost", "failed", "interrupted")
REFUSED = [
    ("provision", "--driver", "x.run", "--undo"),
    ("provision", "--lock", "x.lock", "--hosts", "node1"),
    ("provision", "--resume"),
    ("train", "--yes", "--hosts", "node1"),
    ("train", "--gates", "--dry-run"),
    ("plan", "--cards", "8", "--hosts", "node1"),
]


pytestmark = pytest.mark.usefixtures("chinese")


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.stem}.{file.stem}")
def test_each_sentence_has_its_chinese(file: Path) -> None:
    """What is said of hosts, advised or refused stands in a table, values aside."""
    alone = {text.strip() for text in TABLES}

    assert [text for text in lacking(language_parts.sentences(file, SAYERS)) if text not in {*alone, *PARTS}] == []


def test_how_hosts_ended_is_chinese() -> None:
    """Every state, the step that was under way, and where the journal lies, in columns below each other."""
    found = [
        HostOutcome(f"node{n}", state, 1, "what it answered is no plan", "at once", "/j")
        for n, state in enumerate(STATES)
    ]
    lines = list(hosts_text.ends(found))

    assert {width.columns(line[: line.index("node")]) for line in lines if "node" in line} == {12}
    assert ENGLISH.findall("\n".join(lines).replace("at once", "")) == []


def test_how_a_training_over_hosts_ended_is_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    """Gates of all hosts, how each ended, and which was the first."""
    asked = HostsRequest(("a", "b"), (), "")
    broken = HostOutput("a")
    broken.status = 255
    did = {"a": [connectivity.broken(broken)]}
    print_findings(did, node.Status.OK)
    document = {
        "first_failed_worker": {"rank": 1, "code": -9, "follows": True},
        "diagnoses": [{"says": "A port is in use"}],
    }
    nodes = [Node("a", 0, "failed", 5, node._seen(document)), Node("b", 1, "interrupted", 130)]
    session._tell(asked, nodes, nodes[0], 5)
    said = capsys.readouterr().err

    assert "那里最先结束的是工作进程 1，被 SIGKILL 结束" in said and "端口被占用" in said and "下一步：处理 a" in said
    assert ENGLISH.findall(re.sub(r"\$ .*", "", said)) == []


def test_cards_over_hosts_are_chinese() -> None:
    """Hosts with other cards, the one with least room, and those that are left out."""
    found = spread.spread({"a": machine(3, 3, 3), "b": machine(3, 40, 9), "c": machine(3, 3), "d": "there are none"})
    lines = list(spread.lines(found, fold_hosts))

    assert [width.columns(re.match(r" *\S+ *", line)[0]) for line in (lines[0], *lines[2:])] == [12, 12, 12]  # type: ignore[index]
    assert ENGLISH.findall("\n".join(lines)) == []


@pytest.mark.parametrize("argv", REFUSED, ids=" ".join)
def test_a_refusal_is_chinese(argv: tuple[str, ...]) -> None:
    """Options that contradict each other: the sentence and its next step."""
    err = CliRunner().invoke(main.main, argv).exception

    assert isinstance(err, UsageError)
    assert [text for text in (err.message, err.next_step) if not re.search("[一-鿿]", language.say(text))] == []


def test_the_language_goes_with_every_mode_of_provision(tmp_path: Path) -> None:
    """--lang says how to speak, not what to do: provision takes it beside anything."""
    done = CliRunner().invoke(
        main.main, ["provision", "--device", "cpu", "--into", str(tmp_path / "x"), "--dry-run", "--lang", "zh"]
    )

    assert done.exit_code == 0, done.exception
