"""The agent of tests between hosts: for old Pythons, closed to strangers; and invalid answers of hosts."""

from __future__ import annotations

import ast
import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.fleet.host_summary import HostSummary
from envcheck.fleet.peers import agent, agent_answers, agent_rdma, host_tests, sessions
from tests.envcheck.collect.test_collector import list_pythons

TOKEN = "0" * 32


class AgentProcess:
    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child = child

    def ask_agent(self, do: str, *words: Any) -> Any:
        assert self.child.stdin
        self.child.stdin.write(json.dumps({"id": 1, "do": do, "with": words}) + "\n")
        self.child.stdin.flush()
        return self.read_answer()

    def read_answer(self) -> Any:
        assert self.child.stdout
        for line in self.child.stdout:
            if line.startswith(agent.MARK):
                return json.loads(line.partition(" ")[2])
        return None


@contextmanager
def start_agent(*argv: str) -> Iterator[AgentProcess]:
    """Start the agent with its command, under the oldest installed Python."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        talk = AgentProcess(child)
        assert talk.read_answer() == {"ready": True}
        yield talk
        assert child.stdin
        child.stdin.close()
        assert child.wait(300) == 0


@pytest.fixture
def talk() -> Iterator[AgentProcess]:
    with start_agent(list_pythons()[0], "-I", "-S", str(agent.__file__)) as one:
        yield one


def test_it_is_for_python_3_8() -> None:
    """The agent's text is Python 3.8 and imports the standard library only; so is its RDMA part."""
    for part in (agent, agent_rdma):
        tree = ast.parse(Path(part.__file__).read_text(), feature_version=(3, 8))
        modules = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
        assert set(modules) <= set(sys.stdlib_module_names)
    assert len(sessions.render_command()) < 20_000


def test_the_command_starts_it() -> None:
    """The command works in a login shell, in one line."""
    with start_agent("sh", "-c", sessions.render_command()) as talk:
        assert isinstance(talk.ask_agent("clock")["answer"], float)
    assert "\n" not in sessions.render_command()


@pytest.mark.real
def test_it_measures(talk: AgentProcess) -> None:
    """Against itself all steps return what their decoders accept."""
    opened = agent_answers.read_opened(talk.ask_agent("listen", TOKEN, [])["answer"])
    target = ["127.0.0.1", opened.data]
    about = agent_answers.read_about(talk.ask_agent("about")["answer"])

    assert about.hostname == socket.gethostname()
    assert agent_answers.read_knocks(talk.ask_agent("knock", [target], 3)["answer"]) == {("127.0.0.1", opened.data): ""}
    assert agent_answers.read_speed(talk.ask_agent("measure", *target, 0.1, 1 << 20)["answer"]).rate > 1e5
    assert agent_answers.read_packets(talk.ask_agent("packets", *target, 1500)["answer"]) == (True, True)
    assert agent_answers.read_names(talk.ask_agent("resolve", ["localhost", "no.such.name.invalid"], 5)["answer"])[
        "localhost"
    ]


def test_it_says_whose_an_address_is(talk: AgentProcess) -> None:
    """Loopback has a name that resolves back, and an invalid address has no answer."""
    found = agent_answers.read_reverse_names(talk.ask_agent("reverse", ["127.0.0.1", "no address"], 5)["answer"])

    assert list(found) == ["127.0.0.1"]
    assert "localhost" in found["127.0.0.1"].names
    assert "127.0.0.1" in found["127.0.0.1"].leads


def test_a_stranger_gets_nothing(talk: AgentProcess) -> None:
    """A peer without the token is disconnected without an answer."""
    port = talk.ask_agent("listen", TOKEN, [])["answer"]["data"]
    with socket.create_connection(("127.0.0.1", port), 5) as one:
        one.settimeout(10)
        one.sendall(b"1" * 32 + b"n\n")
        try:
            heard = one.recv(100)
        except ConnectionResetError:
            heard = b""

    assert heard == b""


@pytest.mark.slow
def test_another_program_is_told_from_ours(talk: AgentProcess) -> None:
    """A port on which another program responds is not reported as open."""
    talk.ask_agent("listen", TOKEN, [])
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        found = agent_answers.read_knocks(talk.ask_agent("knock", [["127.0.0.1", port]], 1)["answer"])

    assert found["127.0.0.1", port] != ""


def test_a_port_is_free_at_once_afterwards(talk: AgentProcess) -> None:
    """After the agent has ended, a job can bind the port, even without SO_REUSEADDR."""
    port = talk.ask_agent("listen", TOKEN, [])["answer"]["data"]
    for step in (("knock", [["127.0.0.1", port]], 3), ("measure", "127.0.0.1", port, 0.05, 1 << 20)):
        assert "answer" in talk.ask_agent(*step)
    assert talk.child.stdin
    talk.child.stdin.close()
    talk.child.wait(300)
    with socket.socket() as job:
        job.bind(("", port))


@pytest.mark.parametrize("asked", ('{"id": 1}', "[]", "x", '{"id": 1, "do": "main", "with": []}', "\x00", "null"))
def test_questions_that_are_none(talk: AgentProcess, asked: str) -> None:
    """Invalid requests are reported, and the next is answered; only requests in its table run."""
    assert talk.child.stdin
    talk.child.stdin.write(asked + "\n")
    talk.child.stdin.flush()

    assert "error" in talk.read_answer()
    assert "answer" in talk.ask_agent("clock")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["hostname", "address", "addresses", "mtu", "hccn", "open", "taken", "data", "rtt_s", "rate",
                         "small", "full", "5"]), inner, max_size=6),
    max_leaves=12,
)  # fmt: skip


class StrangeAgentLine:
    """A session whose host answers anything at all."""

    def __init__(self, said: Any) -> None:
        self.said = said

    async def ask_agent(self, do: str, *words: Any, timeout_s: float) -> Any:
        return {"id": 1, "answer": self.said}


@given(JSON)
def test_a_host_may_say_anything(said: Any) -> None:
    """Whatever a host answers, the test continues; an invalid answer excludes the host."""
    trial = host_tests._PeerTrial(
        {"n1": HostSummary(), "n2": HostSummary()},
        host_tests.PeerTestTerms(),
        {"n1": StrangeAgentLine(said)},
        host_tests.PeerObservations(),
    )  # type: ignore[dict-item]
    for step in (trial.meet, trial.names, trial.knock, trial.packets, trial.cards):
        asyncio.run(step())

    assert set(trial.lines) | set(trial.seen.gone) == {"n1"}
