"""What runs on the hosts while they are tried: for old Pythons, shy of strangers; and what a strange host answers."""

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

from envcheck.fleet.host_summary import Own
from envcheck.fleet.peers import agent, agent_answers, agent_rdma, peer_tests, sessions
from tests.envcheck.collect.test_collector import pythons

TOKEN = "0" * 32


class Talk:
    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child = child

    def ask(self, do: str, *words: Any) -> Any:
        assert self.child.stdin
        self.child.stdin.write(json.dumps({"id": 1, "do": do, "with": words}) + "\n")
        self.child.stdin.flush()
        return self.heard()

    def heard(self) -> Any:
        assert self.child.stdout
        for line in self.child.stdout:
            if line.startswith(agent.MARK):
                return json.loads(line.partition(" ")[2])
        return None


@contextmanager
def running(*argv: str) -> Iterator[Talk]:
    """The agent, as its command starts it, under the oldest Python that is here."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        talk = Talk(child)
        assert talk.heard() == {"ready": True}
        yield talk
        assert child.stdin
        child.stdin.close()
        assert child.wait(300) == 0


@pytest.fixture
def talk() -> Iterator[Talk]:
    with running(pythons()[0], "-I", "-S", str(agent.__file__)) as one:
        yield one


def test_it_is_for_python_3_8() -> None:
    """Its text, which travels alone, is Python 3.8 and imports the standard library only; so is RDMA's part."""
    for part in (agent, agent_rdma):
        tree = ast.parse(Path(part.__file__).read_text(), feature_version=(3, 8))
        modules = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
        assert set(modules) <= set(sys.stdlib_module_names)
    assert len(sessions.command()) < 20_000


def test_the_command_starts_it() -> None:
    """As a login shell would run it, in one line."""
    with running("sh", "-c", sessions.command()) as talk:
        assert isinstance(talk.ask("clock")["answer"], float)
    assert "\n" not in sessions.command()


@pytest.mark.real
def test_it_measures(talk: Talk) -> None:
    """Against itself all steps answer what their readers take."""
    opened = agent_answers.opened(talk.ask("listen", TOKEN, [])["answer"])
    target = ["127.0.0.1", opened.data]
    about = agent_answers.about(talk.ask("about")["answer"])

    assert about.hostname == socket.gethostname()
    assert agent_answers.knocked(talk.ask("knock", [target], 3)["answer"]) == {("127.0.0.1", opened.data): ""}
    assert agent_answers.way(talk.ask("measure", *target, 0.1, 1 << 20)["answer"]).rate > 1e5
    assert agent_answers.passed(talk.ask("packets", *target, 1500)["answer"]) == (True, True)
    assert agent_answers.names(talk.ask("resolve", ["localhost", "no.such.name.invalid"], 5)["answer"])["localhost"]


def test_it_says_whose_an_address_is(talk: Talk) -> None:
    """Loopback has a name that leads back to it, and what is no address has no answer."""
    found = agent_answers.backs(talk.ask("reverse", ["127.0.0.1", "no address"], 5)["answer"])

    assert list(found) == ["127.0.0.1"]
    assert "localhost" in found["127.0.0.1"].names
    assert "127.0.0.1" in found["127.0.0.1"].leads


def test_a_stranger_gets_nothing(talk: Talk) -> None:
    """Who does not know the token is hung up on, and hears no word."""
    port = talk.ask("listen", TOKEN, [])["answer"]["data"]
    with socket.create_connection(("127.0.0.1", port), 5) as one:
        one.settimeout(10)
        one.sendall(b"1" * 32 + b"n\n")
        try:
            heard = one.recv(100)
        except ConnectionResetError:
            heard = b""

    assert heard == b""


@pytest.mark.slow
def test_another_program_is_told_from_ours(talk: Talk) -> None:
    """A port that somebody else answers at is not called open."""
    talk.ask("listen", TOKEN, [])
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        found = agent_answers.knocked(talk.ask("knock", [["127.0.0.1", port]], 1)["answer"])

    assert found["127.0.0.1", port] != ""


def test_a_port_is_free_at_once_afterwards(talk: Talk) -> None:
    """When the agent has gone, a job may bind the port, even one that does not ask to reuse it."""
    port = talk.ask("listen", TOKEN, [])["answer"]["data"]
    for step in (("knock", [["127.0.0.1", port]], 3), ("measure", "127.0.0.1", port, 0.05, 1 << 20)):
        assert "answer" in talk.ask(*step)
    assert talk.child.stdin
    talk.child.stdin.close()
    talk.child.wait(300)
    with socket.socket() as job:
        job.bind(("", port))


@pytest.mark.parametrize("asked", ('{"id": 1}', "[]", "x", '{"id": 1, "do": "main", "with": []}', "\x00", "null"))
def test_questions_that_are_none(talk: Talk, asked: str) -> None:
    """They are told as such, and the next is answered; it does nothing that is not in its table."""
    assert talk.child.stdin
    talk.child.stdin.write(asked + "\n")
    talk.child.stdin.flush()

    assert "error" in talk.heard()
    assert "answer" in talk.ask("clock")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["hostname", "address", "addresses", "mtu", "hccn", "open", "taken", "data", "rtt_s", "rate",
                         "small", "full", "5"]), inner, max_size=6),
    max_leaves=12,
)  # fmt: skip


class Strange:
    """A line whose host says anything at all."""

    def __init__(self, said: Any) -> None:
        self.said = said

    async def ask(self, do: str, *words: Any, timeout_s: float) -> Any:
        return {"id": 1, "answer": self.said}


@given(JSON)
def test_a_host_may_say_anything(said: Any) -> None:
    """Whatever it answers, the trial goes on; what is no answer leaves the host out."""
    trial = peer_tests._Trial({"n1": Own(), "n2": Own()}, peer_tests.Terms(), {"n1": Strange(said)}, peer_tests.Seen())  # type: ignore[dict-item]
    for step in (trial.meet, trial.names, trial.knock, trial.packets, trial.cards):
        asyncio.run(step())

    assert set(trial.lines) | set(trial.seen.gone) == {"n1"}
