"""The parts of --hosts without a network: node sets, what a host sent, why one is not asked, the vote, the report."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from ClusterShell.NodeSet import DEF_GROUPS_CONFIGS
from hypothesis import given
from hypothesis import strategies as st

from envcheck import checks
from envcheck.cli import schemas
from envcheck.collect import facts
from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts, Host, Interface, Network, Packages
from envcheck.core.host_names import fold_hosts
from envcheck.core.language import translator
from envcheck.core.model import Finding, Status
from envcheck.fleet import connectivity, consistency, evaluate, groups, hosts, majority
from envcheck.fleet.output import ANSWER_LIMIT, HostOutput
from envcheck.payload.remote_collector import MARK
from envcheck.report import formats
from envcheck.report.contents import group_findings
from envcheck.report.summary import exit_code
from tests.envcheck.checks.doctor_helpers import simulated


@pytest.mark.parametrize(
    ("sets", "without", "expected"),
    (
        (["node[01-03]"], [], ["node01", "node02", "node03"]),
        (["node1,node2", "node2"], [], ["node1", "node2"]),
        (["node[01-04]"], ["node[02-03]"], ["node01", "node04"]),
        (["node[1-4]!node3"], [], ["node1", "node2", "node4"]),
        (["r[1-2]n[08-09]"], [], ["r1n08", "r1n09", "r2n08", "r2n09"]),
        (["n[0-900000000/900000000]"], [], ["n0", "n900000000"]),
        (["10.0.0.[9-11]"], [], ["10.0.0.9", "10.0.0.10", "10.0.0.11"]),
        (["a.example.org"], [], ["a.example.org"]),
    ),
)
def test_sets(sets: list[str], without: list[str], expected: list[str]) -> None:
    """Node sets, lists, exclusions and addresses are what ClusterShell says they are; each host once."""
    assert hosts.chosen(sets, exclude=without) == expected


@pytest.mark.parametrize(
    ("sets", "words"),
    (
        (["node[01-"], "no set of hosts"),
        (["@nowhere:none"], "no groups called nowhere here"),
        (["@a';touch x;'"], "no group has such a name"),
        (["node1,@$(touch x)"], "no group has such a name"),
        ([""], "hold no host"),
        (["-oProxyCommand=touch,x"], "no host's name"),
        (["$(reboot)"], "no host's name"),
        (["a b"], "no host's name"),
        (["node[1-200000]"], "more than"),
        (["node[1-999999999]"], "more than"),  # which ClusterShell would make one by one
        (["node[1-4,9-8000]-[1-4000]"], "more than"),
        ([f"node[1-{'9' * 5000}]"], "more than"),
        (["node[1-99999],rack[1-2]"], "more than"),
        (["node[1-99999]", "rack[1-2]"], "more than"),
    ),
)
def test_what_is_no_set(sets: list[str], words: str) -> None:
    """It is refused in a sentence; a name that ssh would take for an option is none."""
    with pytest.raises(UsageError, match=words):
        hosts.chosen(sets)


def test_hostfile(tmp_path: Path) -> None:
    """One host or set a line, comments and what MPI writes behind a name left aside."""
    (tmp_path / "hosts").write_text("# all\nnode1 slots=8\n\nnode[3-4]  # two\n")

    assert hosts.chosen([], str(tmp_path / "hosts")) == ["node1", "node3", "node4"]
    with pytest.raises(UsageError, match="cannot read"):
        hosts.chosen([], str(tmp_path / "none"))


def test_groups_are_the_sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples that pip brings are nobody's hosts, and do not stand before the site's own groups."""
    (tmp_path / "groups").write_text("gpu: node[1-2]\n")
    upcall = f"sed -n 's/^$GROUP:\\(.*\\)/\\1/p' {tmp_path}/groups"
    (tmp_path / "groups.conf").write_text(f"[Main]\ndefault: own\n[own]\nmap: {upcall}\n")
    every = [str(tmp_path / "groups.conf"), *DEF_GROUPS_CONFIGS]
    monkeypatch.setattr("envcheck.fleet.groups.DEF_GROUPS_CONFIGS", every)

    assert hosts.chosen(["@gpu"]) == ["node1", "node2"]
    with pytest.raises(UsageError, match="hold no host"):
        hosts.chosen(["@compute"])  # of the examples


def test_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """@slurm:NAME is what sinfo says of it; one that is not there, no answer and no sinfo are a sentence."""
    tool, asked = tmp_path / "sinfo", ["@slurm:npu"]
    groups.partitions.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="there is no sinfo here"):
        hosts.chosen(asked)
    tool.write_text("#!/bin/sh\necho 'sinfo: error: slurmctld is down' >&2; exit 1\n")
    tool.chmod(0o755)
    with pytest.raises(UsageError, match="slurmctld is down"):
        hosts.chosen(asked)
    tool.write_text("#!/bin/sh\necho 'npu node[01-02],gpu1'; echo 'empty '\n")

    assert hosts.chosen(asked, exclude=["node02"]) == ["gpu1", "node01"]
    with pytest.raises(UsageError, match="no partition cpu, but npu"):
        hosts.chosen(["@slurm:cpu"])
    groups.partitions.cache_clear()


def test_a_file_may_be_called_anything() -> None:
    """The hosts of recordings are named by their files: no name of one is looked up as a group."""
    assert fold_hosts(["@gpu", "a"]) == "@gpu,a"


def lines(packed: bytes) -> Iterator[bytes]:
    yield f"{MARK} clock 1.0".encode()
    yield f"{MARK} data {base64.b64encode(packed).decode()}".encode()


def sent(packed: bytes) -> HostOutput:
    said = HostOutput("n1", status=0)
    for line in lines(packed):
        said.out_line(line)
    return said


def bench() -> evaluate.Bench:
    return evaluate.Bench(lambda told: checks.run_all(told, only=["host"]))


@pytest.mark.parametrize(
    ("packed", "words"),
    (
        (b"no zlib", "does not unpack"),
        (zlib.compress(b"{}"), "is no answer"),
        (zlib.compress(b"[]"), "does not unpack"),
        (zlib.compress(b'{"key": "run x", "outcome": "fine"}'), "is malformed"),
        (zlib.compress(b"[" * 100_000), "does not unpack"),
        (zlib.compress(b"\xff\xfe"), "does not unpack"),
        (zlib.compress(b"0" * (ANSWER_LIMIT + 1)), "larger than 8 MiB"),
        (zlib.compress(b'{"key": "run x", "outcome": "answered"}'), "a part of a snapshot"),
    ),
)
def test_an_answer_that_is_none(packed: bytes, words: str) -> None:
    """Bombs, junk and halves are a finding of that host, UNKNOWN; it has no vote."""
    host = bench().said(sent(packed))

    assert [(f.name, f.status) for f in host.findings] == [("fleet.reach", Status.UNKNOWN)]
    assert words in host.findings[0].seen
    assert not host.answered


@given(st.lists(st.binary(max_size=80) | st.binary(max_size=40).map(lambda b: f"{MARK} ".encode() + b), max_size=8))
def test_any_bytes(sent: list[bytes]) -> None:
    """Whatever a host sends, it ends in one finding about it."""
    said = HostOutput("n1", status=0)
    for line in sent:
        said.out_line(line)
        said.err_line(line)

    assert bench().said(said).findings[0].name == "fleet.reach"


@pytest.mark.parametrize(
    ("err", "words"),
    (
        ("ssh: Could not resolve hostname n1: Name or service not known", "leads to no address"),
        ("ssh: connect to host n1 port 22: Connection refused", "nobody listens"),
        ("ssh: connect to host n1 port 22: Connection timed out", "cannot be reached"),
        ("ssh: connect to host n1 port 22: No route to host", "cannot be reached"),
        ("No ED25519 host key is known for n1 and you have requested strict checking.\nHost key verification failed.",
         "host key is unknown"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", "is not the one"),
        ("root@n1: Permission denied (publickey,password).", "asks for a password"),
        ("root@n1: Permission denied (publickey,gssapi-with-mic).", "none of this user's keys"),
        ("Unable to negotiate with 10.0.0.1 port 22: no matching host key type found.", "no kind of ssh"),
        ("kex_exchange_identification: Connection closed by remote host", "broke off"),
        ("/root/.ssh/config: line 3: Bad configuration option: foo", "does not read its configuration"),
        ("something that nobody has seen before", "ssh failed"),
    ),
)  # fmt: skip
def test_why(err: str, words: str) -> None:
    """ssh's messages are told apart; its last line is the evidence, and there is always something to do."""
    said = HostOutput("n1", status=255)
    for line in err.splitlines():
        said.err_line(line.encode())
    found = connectivity.reached(said)

    assert found.status is Status.FAIL
    assert words in found.seen
    assert found.evidence == (err.splitlines()[-1],)
    assert found.remedy
    assert found.remedy.words


PLAIN = Facts(
    host=Host(hostname="n", kernel="5.10", architecture="aarch64", os="openEuler", numa_nodes=8),
    environment={"HCCL_CONNECT_TIMEOUT": "1200", "RANK": "0"},
    packages=Packages("3.10.14", "/usr/bin/python3", {"torch": "2.5.1", "numpy": "1.26.4"}),
    network=Network((), {"eth0": Interface(("10.0.0.1",), 1500, True), "docker0": Interface((), 1450, True)}),
)


def vote(**odd: Facts) -> dict[str, majority.Vote]:
    """Of three hosts as PLAIN and these."""
    fleet = {"n1": PLAIN, "n2": PLAIN, "n3": PLAIN, **odd}
    return {v.subject: v for v in majority.votes({name: consistency.values(one) for name, one in fleet.items()})}


def differing(**odd: Facts) -> dict[str, tuple[str | None, dict[str, tuple[str, ...]]]]:
    return {v.subject: (v.most, dict(v.others)) for v in vote(**odd).values() if not v.agreed}


def test_no_odd_one() -> None:
    """What is one node's own, its rank and what virtual interfaces are like, is no difference."""
    other = replace(PLAIN, environment={**PLAIN.environment, "RANK": "1", "POD_IP": "10.0.0.7"})  # type: ignore[dict-item]
    virtual = replace(PLAIN, network=Network((), {"eth0": Interface((), 1500, True), "veth9": Interface((), 9, True)}))

    assert differing(n4=other, n5=virtual) == {}


@pytest.mark.parametrize(
    ("odd", "subject", "most", "value"),
    (
        ({"host": replace(PLAIN.host, kernel="6.1")}, "kernel", "5.10", "6.1"),  # type: ignore[type-var]
        ({"host": replace(PLAIN.host, numa_nodes=2)}, "NUMA nodes", "8", "2"),  # type: ignore[type-var]
        ({"host": replace(PLAIN.host, architecture="x86_64")}, "architecture", "aarch64", "x86_64"),  # type: ignore[type-var]
        ({"environment": {}}, "HCCL_CONNECT_TIMEOUT", "1200", "not set"),
        ({"environment": {"HCCL_CONNECT_TIMEOUT": "1200", "NCCL_DEBUG": "INFO"}}, "NCCL_DEBUG", "not set", "INFO"),
        ({"packages": Packages("3.10.14", "", {"numpy": "1.26.4"})}, "torch", "2.5.1", "not installed"),
        ({"packages": Packages("3.9.1", "", {"torch": "2.5.1", "numpy": "1.26.4"})}, "Python", "3.10.14", "3.9.1"),
        ({"network": Network((), {"eth0": Interface((), 9000, True)})}, "MTU of eth0", "1500", "9000"),
    ),
)  # fmt: skip
def test_the_odd_one(odd: dict[str, object], subject: str, most: str, value: str) -> None:
    """It is named with its value and the majority's, and nothing else is."""
    assert differing(n4=replace(PLAIN, **odd)) == {subject: (most, {value: ("n4",)})}  # type: ignore[arg-type]


def test_who_could_not_tell_does_not_vote() -> None:
    """A host without an answer is no odd one: its own findings say what failed there."""
    assert differing(n4=Facts()) == {}


def test_no_majority() -> None:
    """Where no value has more than half, all are told and none is called right."""
    new = replace(PLAIN, host=Host(kernel="6.1", architecture="aarch64", os="openEuler", numa_nodes=8))
    found = vote(n4=new, n5=new, n6=new)["kernel"]

    assert found.most is None
    assert majority.odd([found])[0].finding.seen == "kernel: 5.10 on n[1-3], 6.1 on n[4-6]"


def test_packages_that_differ_alike() -> None:
    """A host with another set of packages is one finding, however many there are."""
    many = {f"package-{n}": "1" for n in range(40)}
    other = replace(PLAIN, packages=Packages("3.10.14", "", {**many, "torch": "2.5.1", "numpy": "1.26.4"}))
    found = [o.finding for o in majority.odd(vote(n4=other).values()) if o.finding.name == "fleet.packages"]

    assert len(found) == 1
    assert "37 more differ so" in found[0].seen


def hosts_of(*wishes: tuple[str, ...]) -> list[evaluate.Host]:
    """Simulated machines n1, n2 and so on, with these faults."""
    judge = evaluate.Bench(lambda told: checks.run_all(told))
    with ExitStack() as stack:
        machines = [stack.enter_context(simulated("atlas-800t-a2", wish)) for wish in wishes]
        answers = [facts.ask(machine) for machine in machines]
    return [judge.answers(f"n{n + 1}", answer, "auto") for n, answer in enumerate(answers)]


@pytest.mark.slow
def test_what_several_have_is_told_once() -> None:
    """Findings alike come once with all their hosts, the worst first; the verdict is the worst host's."""
    report = evaluate.compare_hosts(hosts_of((), ("card-lost=3",), ("hot=101",), ("hot=103",)))
    found = group_findings(report.hosts)
    text = formats.render("table", report)

    assert [one.hosts for one in found if one.finding.name == "devices.temperature"] == [("n3", "n4")]
    assert exit_code(report.findings) == 1
    assert "n[3-4]: devices.temperature:" in text
    assert "cards: 7 × 910B3 on n2, 8 × 910B3 on n[1,3-4]" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("          ")) <= 80


def test_what_is_kept_of_a_host() -> None:
    """Once it is judged its answers are gone, and what it says as another one did is there once."""
    one, two = hosts_of((), ())

    assert (one.facts, two.facts) == (None, None)
    assert [a is b for a, b in zip(one.findings, two.findings, strict=True)] == [True] * len(one.findings)
    assert all(two.said[line] is values for line, values in one.said.items())


def test_one_document() -> None:
    """--json: every host with its findings, what is common, what is odd; plain ASCII."""
    text = formats.render("json", evaluate.compare_hosts(hosts_of((), (), ("driver-old",))))
    said = json.loads(text)
    pytest.importorskip("jsonschema").validate(said, schemas.schema("fleet"))

    assert text.isascii()
    assert [one["answered"] for one in said["hosts"].values()] == [True] * 3
    assert {v["subject"] for v in said["odd"]} == {"driver (Huawei Ascend)"}
    assert {"cards", "kernel"} <= {v["subject"] for v in said["common"]}
    assert said["exit_code"] == 1


def test_it_is_said_in_chinese() -> None:
    """Why a host is not asked, what is voted on and what to do have their Chinese."""
    said = translator.load("zh")
    words = [text for why in (*connectivity.SSH, *connectivity.WORDS) for text in (why.seen, why.words)]
    words += [line.words for line in consistency.TABLE]

    assert [text for text in words if said(text) == text] == []


def test_a_hostile_host_moves_no_cursor() -> None:
    """What a host says of itself is shown without control characters."""
    nasty = replace(PLAIN, host=Host(kernel="6.1\x1b[2J\n[ok] all is well", architecture="aarch64", os="openEuler"))
    judge = evaluate.Bench(lambda told: [Finding("host.x", Status.WARN, "a\x1b[31mb\u202e")])
    listed = [
        evaluate.Host(n, tuple(judge._judge(one)), consistency.values(one)) for n, one in (("n1", PLAIN), ("n2", nasty))
    ]
    text = formats.render("table", evaluate.compare_hosts(listed))

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\n[ok] all is well" not in text
