"""What travels to hosts that are provisioned or trained on, the words that go with it, and what comes back."""

from __future__ import annotations

import configparser
import importlib.metadata
import io
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement

from envcheck.core.errors import UsageError
from envcheck.fleet import runner
from envcheck.fleet.output import HostOutput
from envcheck.fleet.runner import Did
from envcheck.payload import attachments, pyz
from envcheck.payload.remote_collector import MARK
from installers.hosts import hosts_text, resume_state
from installers.hosts.hosts_text import HostOutcome
from installers.hosts.parse_plan import document, looked
from launch.backends.ssh import node, session

ROOT = Path(__file__).parents[3]


def test_every_library_travels() -> None:
    """What setup.cfg asks for is in envcheck.pyz, but what is compiled."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    wanted = {Requirement(line).name for line in config["options"]["install_requires"].split("\n") if line}
    modules = {
        dist.lower(): name for name, dists in importlib.metadata.packages_distributions().items() for dist in dists
    }
    travels = {*pyz.LIBRARIES, pyz.NATIVE, *pyz.TOML, *pyz.WITHOUT}

    assert {name for name in wanted if modules.get(name.lower(), name.replace("-", "_")) not in travels} == set()


def test_attachments(tmp_path: Path) -> None:
    """Of a folder its recipes alone travel; what is missing or too large to carry is refused in a sentence."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.toml").write_text("a")
    (tmp_path / "mine" / "weights.bin").write_bytes(b"0" * 100)
    found = attachments.packed({"recipes": tmp_path / "mine"})
    (tmp_path / "large").write_bytes(b"0" * (attachments.LIMIT + 1))

    assert found is not None
    assert zipfile.ZipFile(io.BytesIO(found.data)).namelist() == ["recipes/a.toml"]
    assert attachments.packed({}) is None
    with pytest.raises(UsageError, match="too much to carry"):
        attachments.packed({"locked": tmp_path / "large"})
    with pytest.raises(UsageError, match="cannot be read"):
        attachments.packed({"locked": tmp_path / "none"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SLOWLY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
KEYS = ("recipe", "folder", "satisfied", "steps", "by_hand", "obstacles", "left_out", "mind", "removes")


@SLOWLY
@given(st.dictionaries(st.sampled_from(KEYS), JSON), st.integers(0, 130))
def test_any_document(said: dict[str, object], code: int) -> None:
    """Whatever a host calls its plan is told or refused, never a traceback, and moves no cursor."""
    found = looked(Did("n1", HostOutput("n1"), code, out=[json.dumps(said)]))
    text = "\n".join(hosts_text.plans([found]))

    assert found.able in (True, False)
    assert all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize("text", ("", "[", "[1]", "null", "[" * 100_000))
def test_no_document(text: str) -> None:
    """What is no document is none."""
    assert document(text) is None


@pytest.mark.parametrize(
    ("codes", "expected"), (((0, 0), 0), ((0, 1), 1), ((1, 4), 4), ((4, 130), 130), ((0, 2), 2), ((3, 0), 3))
)
def test_the_worst_code_is_that_of_all(codes: tuple[int, ...], expected: int) -> None:
    """A broken step outweighs a host that was left out; an interrupt outweighs all."""
    assert hosts_text.code([HostOutcome(f"n{n}", "failed", code) for n, code in enumerate(codes)]) == expected


def test_hosts_that_ended_alike_are_one_line() -> None:
    """The same end for the same reason is told once, with the journals' place."""
    failed = [HostOutcome(f"node{n}", "failed", 4, "no room", "install a", "/j") for n in (1, 2)]
    lines = list(hosts_text.ends([*failed, HostOutcome("node3", "done", 0)]))

    assert lines == [
        "done        node3",
        "failed      node[1-2]: no room (at: install a)",
        "            journal there: /j",
    ]


def test_a_host_that_no_recipe_fits() -> None:
    """It has no plan and is left out, with its own reason; it does not count as ready."""
    why = "no recipe for this request fits this machine"
    said = json.dumps({"recipe": None, "folder": None, "result": "failed", "unfit": [{"recipe": "r", "why": "w"}]})
    found = looked(Did("n1", HostOutput("n1"), 1, out=[said], last=[f"envcheck: {why}", "  next: use another machine"]))

    assert (found.state, found.why, found.able, found.code) == ("refused", why, False, 1)


@pytest.mark.parametrize("word", ("no-new-python", "no-place [Errno 28] No space left on device", "damaged"))
def test_why_a_host_was_not_begun_on(word: str) -> None:
    """What the node's own part says is a sentence about that host."""
    said = HostOutput("n1", status=0)
    said.out_line(f"{MARK} {word}".encode())
    found = looked(Did("n1", said))

    assert found.state == "unreached"
    assert found.why
    assert "snapshot" not in found.why


def ended(host: str, rank: int, code: int | None, **record: object) -> node.Node:
    did = Did(host, HostOutput(host, status=255), code, begun=True, out=[json.dumps(record)])
    return node.ended(did, rank)


KILLED = {"state": "failed", "first_failed_worker": {"rank": 0, "code": -9, "follows": False}}
FOLLOWS = {"state": "failed", "first_failed_worker": {"rank": 1, "code": 1, "follows": True}}


def test_whose_end_was_the_others() -> None:
    """A lost host before one whose worker died by itself, that before who only lost its peers, whoever ended first."""
    peer, killed = ended("n1", 0, 5, **FOLLOWS), ended("n2", 1, 5, **KILLED)
    lost, well = ended("n3", 2, None), ended("n4", 3, 0, state="finished")
    stopped = ended("n5", 4, 130, state="interrupted")

    assert session._first([peer, killed, well, stopped], ["n1", "n5", "n2", "n4"]) is killed
    assert session._first([peer, killed, lost], ["n1", "n2", "n3"]) is lost
    assert session._first([peer, stopped], ["n5", "n1"]) is stopped
    assert session._first([well], ["n4"]) is None
    assert "worker 0 was the first to end there, ended by SIGKILL" in killed.seen
    assert "when it lost another one" in peer.seen
    assert (lost.state, stopped.seen) == ("lost", "")


@SLOWLY
@given(JSON, st.sampled_from((None, 0, 1, 3, 5, -9, 130)))
def test_any_record(said: object, code: int | None) -> None:
    """Whatever a host calls its record or its gates is told or refused, never a traceback."""
    did = Did(
        "n1",
        HostOutput("n1"),
        code,
        out=[json.dumps({"gates": said, "diagnoses": said, "state": said, "stopped": said})],
    )

    assert node.ended(did, 0).bad is (code != 0)
    assert node.gates(did)


def test_what_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How the hosts stood is known of each provisioning by its own words, whatever was provisioned since."""
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path))
    resume_state.write("--recipe a", {"n1": "done", "n2": "lost"})
    resume_state.write("--recipe b", {"n2": "done"})
    resume_state.write("--recipe a", {"n3": "failed"})

    assert resume_state.missing("--recipe a", ["n1", "n2", "n3", "n4"]) == ["n2", "n3", "n4"]
    for number in range(resume_state.KEPT):
        resume_state.write(f"--recipe {number}", {"n1": "done"})
    with pytest.raises(UsageError, match="with these options is known"):
        resume_state.missing("--recipe a", ["n1"])
    resume_state.file().write_text("[")
    with pytest.raises(UsageError, match="with these options is known"):
        resume_state.missing("--recipe 1", ["n1"])


@pytest.mark.parametrize(
    ("text", "expected"),
    (("0", 0), ("130", 130), ("-9", -9), ("--5", None), ("\u00b2", None), ("9" * 5000, None), ("", None)),
)
def test_a_hosts_exit_code(text: str, expected: int | None) -> None:
    """What a host calls its command's end is a number of a program's, or not known."""
    assert runner.exit_code(text) == expected
