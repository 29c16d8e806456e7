"""Provisioning and training on hosts: what is sent, the command, and the replies."""

from __future__ import annotations

import configparser
import importlib.metadata
import io
import json
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement

from envcheck.core.errors import UsageError
from envcheck.core.messages import verbatim
from envcheck.fleet import runner
from envcheck.fleet.output import HostOutput
from envcheck.fleet.runner import CommandOutcome
from envcheck.payload import attachments, pyz, relay, remote_command
from envcheck.payload.remote_collector import MARK
from installers.hosts import presentation, resume_state
from installers.hosts.presentation import HostOutcome
from installers.hosts.remote_plan import parse_answer, parse_document
from launch.backends.ssh import node_outcome, train_hosts
from launch.backends.ssh.host_restart import HostFault

ROOT = Path(__file__).parents[3]


def test_every_library_travels() -> None:
    """Every requirement of setup.cfg is in envcheck.pyz, except compiled packages."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    wanted = {Requirement(line).name for line in config["options"]["install_requires"].split("\n") if line}
    modules = {
        dist.lower(): name for name, dists in importlib.metadata.packages_distributions().items() for dist in dists
    }
    travels = {*pyz.LIBRARIES, pyz.NATIVE, *pyz.TOML, *pyz.WITHOUT}

    assert {name for name in wanted if modules.get(name.lower(), name.replace("-", "_")) not in travels} == set()


def test_attachments(tmp_path: Path) -> None:
    """Only the recipes of a folder are sent; missing or too large files give an error."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.toml").write_text("a")
    (tmp_path / "mine" / "weights.bin").write_bytes(b"0" * 100)
    found = attachments.pack_files({"recipes": tmp_path / "mine"})
    (tmp_path / "large").write_bytes(b"0" * (attachments.LIMIT + 1))

    assert found is not None
    assert zipfile.ZipFile(io.BytesIO(found.data)).namelist() == ["recipes/a.toml"]
    assert attachments.pack_files({}) is None
    with pytest.raises(UsageError, match="too large to copy"):
        attachments.pack_files({"locked": tmp_path / "large"})
    with pytest.raises(UsageError, match="cannot read"):
        attachments.pack_files({"locked": tmp_path / "none"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SLOWLY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
KEYS = ("recipe", "folder", "satisfied", "steps", "manual_steps", "obstacles", "skipped", "notes", "removes")


@SLOWLY
@given(st.dictionaries(st.sampled_from(KEYS), JSON), st.integers(0, 130))
def test_any_document(said: dict[str, object], code: int) -> None:
    """Any plan document from a host is shown or rejected without a traceback and without terminal control
    characters."""
    found = parse_answer(CommandOutcome("n1", HostOutput("n1"), code, out=[json.dumps(said)]))
    text = "\n".join(presentation.render_plans([found]))

    assert found.is_actionable in (True, False)
    assert all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize("text", ("", "[", "[1]", "null", "[" * 100_000))
def test_no_document(text: str) -> None:
    """Text that is not a document gives None."""
    assert parse_document(text) is None


@pytest.mark.parametrize(
    ("codes", "expected"), (((0, 0), 0), ((0, 1), 1), ((1, 4), 4), ((4, 130), 130), ((0, 2), 2), ((3, 0), 3))
)
def test_the_worst_code_is_that_of_all(codes: tuple[int, ...], expected: int) -> None:
    """A broken step outweighs a host that was left out; an interrupt outweighs all."""
    assert (
        presentation.worst_exit_code([HostOutcome(f"n{n}", "failed", code) for n, code in enumerate(codes)]) == expected
    )


def test_hosts_that_ended_alike_are_one_line() -> None:
    """Hosts that ended the same way for the same reason share one line, with the folder of their journals."""
    failed = [HostOutcome(f"node{n}", "failed", 4, "no room", "install a", "/j") for n in (1, 2)]
    lines = list(presentation.render_outcomes([*failed, HostOutcome("node3", "done", 0)]))

    assert lines == [
        "done        node3",
        "failed      node[1-2]: no room (step: install a)",
        "            journal on that host: /j",
    ]


def test_a_host_that_no_recipe_fits() -> None:
    """A host without a fitting recipe is left out with its reason and is not counted as ready."""
    why = "no recipe for this request fits this machine"
    said = json.dumps(
        {"recipe": None, "folder": None, "result": "failed", "rejected_recipes": [{"recipe": "r", "why": "w"}]}
    )
    found = parse_answer(
        CommandOutcome("n1", HostOutput("n1"), 1, out=[said], last=[f"envcheck: {why}", "  next: use another machine"])
    )

    assert (found.plan_state, found.why, found.is_actionable, found.code) == ("refused", why, False, 1)


@pytest.mark.parametrize("word", ("no-new-python", "no-place [Errno 28] No space left on device", "damaged"))
def test_why_a_host_was_not_begun_on(word: str) -> None:
    """The node's error becomes a sentence about that host."""
    said = HostOutput("n1", status=0)
    said.add_output_line(f"{MARK} {word}".encode())
    found = parse_answer(CommandOutcome("n1", said))

    assert found.plan_state == "unreached"
    assert found.why
    assert "snapshot" not in found.why


def make_ended_node(host: str, rank: int, code: int | None, **record: object) -> node_outcome.NodeOutcome:
    did = CommandOutcome(host, HostOutput(host, status=255), code, begun=True, out=[json.dumps(record)])
    return node_outcome.build_node_outcome(did, rank)


KILLED = {"state": "failed", "first_failed_worker": {"rank": 0, "code": -9, "follows": False}}
FOLLOWS = {"state": "failed", "first_failed_worker": {"rank": 1, "code": 1, "follows": True}}


def test_whose_end_was_the_others() -> None:
    """Order of blame: a lost host, then one whose worker failed by itself, then those that lost their peers."""
    peer, killed = make_ended_node("n1", 0, 5, **FOLLOWS), make_ended_node("n2", 1, 5, **KILLED)
    lost, well = make_ended_node("n3", 2, None), make_ended_node("n4", 3, 0, state="succeeded")
    stopped = make_ended_node("n5", 4, 130, state="stopped")

    assert train_hosts._find_first_failed([peer, killed, well, stopped], ["n1", "n5", "n2", "n4"]) is killed
    assert train_hosts._find_first_failed([peer, killed, lost], ["n1", "n2", "n3"]) is lost
    assert train_hosts._find_first_failed([peer, stopped], ["n5", "n1"]) is stopped
    assert train_hosts._find_first_failed([well], ["n4"]) is None
    assert killed.seen.startswith("worker 0 failed first, killed by SIGKILL")
    assert "after losing its connection to another worker" in peer.seen
    assert (lost.state, stopped.seen) == ("lost", "")


@SLOWLY
@given(JSON, st.sampled_from((None, 0, 1, 3, 5, -9, 130)))
def test_any_record(said: object, code: int | None) -> None:
    """Any run record or gate result from a host is shown or rejected, without a traceback."""
    did = CommandOutcome(
        "n1",
        HostOutput("n1"),
        code,
        out=[json.dumps({"gates": said, "diagnoses": said, "state": said, "stopped": said})],
    )

    assert node_outcome.build_node_outcome(did, 0).has_failed is (code != 0)
    assert node_outcome.parse_gates(did)


def test_what_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host states of a provisioning are looked up by its own arguments, regardless of later provisionings."""
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path))
    resume_state.save_states("--recipe a", {"n1": "done", "n2": "lost"})
    resume_state.save_states("--recipe b", {"n2": "done"})
    resume_state.save_states("--recipe a", {"n3": "failed"})

    assert resume_state.list_unfinished("--recipe a", ["n1", "n2", "n3", "n4"]) == ["n2", "n3", "n4"]
    for number in range(resume_state.KEPT):
        resume_state.save_states(f"--recipe {number}", {"n1": "done"})
    with pytest.raises(UsageError, match="with these options"):
        resume_state.list_unfinished("--recipe a", ["n1"])
    resume_state.state_path().write_text("[")
    with pytest.raises(UsageError, match="with these options"):
        resume_state.list_unfinished("--recipe 1", ["n1"])


@pytest.mark.parametrize(
    ("text", "expected"),
    (("0", 0), ("130", 130), ("-9", -9), ("--5", None), ("\u00b2", None), ("9" * 5000, None), ("", None)),
)
def test_a_hosts_exit_code(text: str, expected: int | None) -> None:
    """What a host calls its command's end is a number of a program's, or not known."""
    assert runner.parse_exit_code(text) == expected


@pytest.mark.parametrize(
    ("is_derived", "hosts", "master"), ((True, ("b", "c"), "address-of-b"), (False, None, "a-net"))
)
def test_a_lost_master(
    is_derived: bool, hosts: tuple[str, ...] | None, master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost first host is left out only if the next one's address can take the place of its own."""
    monkeypatch.setattr(train_hosts, "resolve_ssh_address", "address-of-{}".format)
    request = train_hosts.NodesRequest(
        ("a", "b", "c"), (), "", master="a-net", restart=1, min_nodes=2, is_master_derived=is_derived
    )
    chosen = train_hosts._choose_hosts(request, HostFault("a", verbatim("lost")))
    other = train_hosts._choose_hosts(request, HostFault("b", verbatim("lost")))

    assert (chosen.hosts, chosen.master) == (hosts or request.hosts, master)
    assert (other.hosts, other.master) == (("a", "c"), "a-net")


def test_a_silent_control_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some lines of the control host may be missing; without any the command on the host is ended."""
    ended: list[object] = []
    monkeypatch.setattr(relay, "_end_child", lambda child, grace_s: ended.append((child, grace_s)))
    child = object()
    relay._watch_silence(child, 30.0, 60.0, [time.monotonic() - 61.0])  # type: ignore[arg-type]

    assert ended == [(child, 30.0)]
    assert remote_command.SILENT_S >= 4 * remote_command.ALIVE_S
