"""--hosts without a network: node sets, host output, connection failures, votes, reports."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from ClusterShell.NodeSet import DEF_GROUPS_CONFIGS
from hypothesis import given
from hypothesis import strategies as st

from envcheck import checks
from envcheck.cli import schemas
from envcheck.collect import facts
from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts, Interface, Network, Packages, SystemFacts
from envcheck.core.host_names import fold_hosts
from envcheck.core.language import gettext_catalogue
from envcheck.core.messages import verbatim
from envcheck.core.model import Finding, Status
from envcheck.fleet import connectivity, consistency, evaluate, groups, hosts, majority
from envcheck.fleet.output import ANSWER_LIMIT, HostOutput
from envcheck.payload.remote_collector import MARK
from envcheck.report import formats
from envcheck.report.contents import group_findings
from envcheck.report.summary import exit_code
from tests.envcheck.checks.doctor_helpers import simulate_machine


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
    """Node sets, lists, exclusions and addresses resolve as in ClusterShell; each host once."""
    assert hosts.resolve_hosts(sets, exclude=without) == expected


@pytest.mark.parametrize(
    ("sets", "words"),
    (
        (["node[01-"], "not a valid host set"),
        (["@nowhere:none"], "no group source nowhere on this machine"),
        (["@a';touch x;'"], "unknown group"),
        (["node1,@$(touch x)"], "unknown group"),
        ([""], "are empty"),
        (["-oProxyCommand=touch,x"], "not a valid host name"),
        (["$(reboot)"], "not a valid host name"),
        (["a b"], "not a valid host name"),
        (["node[1-200000]"], "more than"),
        (["node[1-999999999]"], "more than"),  # ClusterShell would expand it one by one
        (["node[1-4,9-8000]-[1-4000]"], "more than"),
        ([f"node[1-{'9' * 5000}]"], "more than"),
        (["node[1-99999],rack[1-2]"], "more than"),
        (["node[1-99999]", "rack[1-2]"], "more than"),
    ),
)
def test_what_is_no_set(sets: list[str], words: str) -> None:
    """Invalid sets are refused with a message; so are names that ssh would take for options."""
    with pytest.raises(UsageError, match=words):
        hosts.resolve_hosts(sets)


def test_hostfile(tmp_path: Path) -> None:
    """One host or set per line; comments and MPI's slots are ignored."""
    (tmp_path / "hosts").write_text("# all\nnode1 slots=8\n\nnode[3-4]  # two\n")

    assert hosts.resolve_hosts([], str(tmp_path / "hosts")) == ["node1", "node3", "node4"]
    with pytest.raises(UsageError, match="cannot read"):
        hosts.resolve_hosts([], str(tmp_path / "none"))


def test_groups_are_the_sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples that pip installs are ignored and do not hide the site's own groups."""
    (tmp_path / "groups").write_text("gpu: node[1-2]\n")
    upcall = f"sed -n 's/^$GROUP:\\(.*\\)/\\1/p' {tmp_path}/groups"
    (tmp_path / "groups.conf").write_text(f"[Main]\ndefault: own\n[own]\nmap: {upcall}\n")
    every = [str(tmp_path / "groups.conf"), *DEF_GROUPS_CONFIGS]
    monkeypatch.setattr("envcheck.fleet.groups.DEF_GROUPS_CONFIGS", every)

    assert hosts.resolve_hosts(["@gpu"]) == ["node1", "node2"]
    with pytest.raises(UsageError, match="are empty"):
        hosts.resolve_hosts(["@compute"])  # from the examples


def test_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """@slurm:NAME comes from sinfo; an unknown one, no answer and no sinfo each have a message."""
    tool, asked = tmp_path / "sinfo", ["@slurm:npu"]
    groups.list_partitions.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="sinfo not found"):
        hosts.resolve_hosts(asked)
    tool.write_text("#!/bin/sh\necho 'sinfo: error: slurmctld is down' >&2; exit 1\n")
    tool.chmod(0o755)
    with pytest.raises(UsageError, match="slurmctld is down"):
        hosts.resolve_hosts(asked)
    tool.write_text("#!/bin/sh\necho 'npu node[01-02],gpu1'; echo 'empty '\n")

    assert hosts.resolve_hosts(asked, exclude=["node02"]) == ["gpu1", "node01"]
    with pytest.raises(UsageError, match="unknown Slurm partition cpu; available: npu"):
        hosts.resolve_hosts(["@slurm:cpu"])
    groups.list_partitions.cache_clear()


def test_a_file_may_be_called_anything() -> None:
    """Hosts of recordings are named by their files: no such name is looked up as a group."""
    assert fold_hosts(["@gpu", "a"]) == "@gpu,a"


def make_lines(packed: bytes) -> Iterator[bytes]:
    yield f"{MARK} clock 1.0".encode()
    yield f"{MARK} data {base64.b64encode(packed).decode()}".encode()


def make_output(packed: bytes) -> HostOutput:
    said = HostOutput("n1", status=0)
    for line in make_lines(packed):
        said.add_output_line(line)
    return said


def make_evaluator() -> evaluate.FleetEvaluator:
    return evaluate.FleetEvaluator(lambda told: checks.run_checks(told, only=["host"]))


@pytest.mark.parametrize(
    ("packed", "words"),
    (
        (b"no zlib", "cannot unpack"),
        (zlib.compress(b"{}"), "is not a valid answer"),
        (zlib.compress(b"[]"), "cannot unpack"),
        (zlib.compress(b'{"key": "run x", "outcome": "fine"}'), "is malformed"),
        (zlib.compress(b"[" * 100_000), "cannot unpack"),
        (zlib.compress(b"\xff\xfe"), "cannot unpack"),
        (zlib.compress(b"0" * (ANSWER_LIMIT + 1)), "larger than 8 MiB"),
        (zlib.compress(b'{"key": "run x", "outcome": "answered"}'), "an incomplete snapshot"),
    ),
)
def test_an_answer_that_is_none(packed: bytes, words: str) -> None:
    """Bombs, junk and partial answers are UNKNOWN findings of that host, which does not vote."""
    host = make_evaluator().judge_output(make_output(packed))

    assert [(f.name, f.status) for f in host.findings] == [("fleet.reach", Status.UNKNOWN)]
    assert words in host.findings[0].seen
    assert not host.has_answered


@given(st.lists(st.binary(max_size=80) | st.binary(max_size=40).map(lambda b: f"{MARK} ".encode() + b), max_size=8))
def test_any_bytes(sent: list[bytes]) -> None:
    """Any output of a host gives exactly one finding about it."""
    said = HostOutput("n1", status=0)
    for line in sent:
        said.add_output_line(line)
        said.add_error_line(line)

    assert make_evaluator().judge_output(said).findings[0].name == "fleet.reach"


@pytest.mark.parametrize(
    ("err", "words"),
    (
        ("ssh: Could not resolve hostname n1: Name or service not known", "does not resolve"),
        ("ssh: connect to host n1 port 22: Connection refused", "refuses connections"),
        ("ssh: connect to host n1 port 22: Connection timed out", "unreachable"),
        ("ssh: connect to host n1 port 22: No route to host", "unreachable"),
        ("No ED25519 host key is known for n1 and you have requested strict checking.\nHost key verification failed.",
         "host key unknown"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", "differs from the one"),
        ("root@n1: Permission denied (publickey,password).", "asks for a password"),
        ("root@n1: Permission denied (publickey,gssapi-with-mic).", "none of this user's keys"),
        ("Unable to negotiate with 10.0.0.1 port 22: no matching host key type found.", "no ssh algorithm"),
        ("kex_exchange_identification: Connection closed by remote host", "connection lost"),
        ("/root/.ssh/config: line 3: Bad configuration option: foo", "cannot read its configuration"),
        ("something that nobody has seen before", "ssh failed"),
    ),
)  # fmt: skip
def test_why(err: str, words: str) -> None:
    """ssh's messages are distinguished; its last line is the evidence, and there is always a remedy."""
    said = HostOutput("n1", status=255)
    for line in err.splitlines():
        said.add_error_line(line.encode())
    found = connectivity.judge_answer(said)

    assert found.status is Status.FAIL
    assert words in found.seen
    assert found.evidence == (err.splitlines()[-1],)
    assert found.remedy
    assert found.remedy.words


PLAIN = Facts(
    host=SystemFacts(hostname="n", kernel="5.10", architecture="aarch64", os="openEuler", numa_nodes=8),
    environment={"HCCL_CONNECT_TIMEOUT": "1200", "RANK": "0"},
    packages=Packages("3.10.14", "/usr/bin/python3", {"torch": "2.5.1", "numpy": "1.26.4"}),
    network=Network((), {"eth0": Interface(("10.0.0.1",), 1500, True), "docker0": Interface((), 1450, True)}),
)


def vote_on_values(**odd: Facts) -> dict[str, majority.Vote]:
    """Return the votes of three hosts, PLAIN and these."""
    fleet = {"n1": PLAIN, "n2": PLAIN, "n3": PLAIN, **odd}
    return {
        v.subject: v for v in majority.count_votes({name: consistency.read_values(one) for name, one in fleet.items()})
    }


def list_differences(**odd: Facts) -> dict[str, tuple[str | None, dict[str, tuple[str, ...]]]]:
    return {v.subject: (v.most, dict(v.minority_values)) for v in vote_on_values(**odd).values() if not v.is_unanimous}


def test_no_odd_one() -> None:
    """A node's own values, such as its rank and virtual interfaces, are no difference."""
    other = replace(PLAIN, environment={**PLAIN.environment, "RANK": "1", "POD_IP": "10.0.0.7"})  # type: ignore[dict-item]
    virtual = replace(PLAIN, network=Network((), {"eth0": Interface((), 1500, True), "veth9": Interface((), 9, True)}))

    assert list_differences(n4=other, n5=virtual) == {}


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
    """The host that differs is reported with its value and the majority's, and nothing else is."""
    assert list_differences(n4=replace(PLAIN, **odd)) == {subject: (most, {value: ("n4",)})}  # type: ignore[arg-type]


def test_who_could_not_tell_does_not_vote() -> None:
    """A host without a value is not an outlier: its own findings report the failure."""
    assert list_differences(n4=Facts()) == {}


def test_no_majority() -> None:
    """If no value has more than half, all are listed and none is called right."""
    new = replace(PLAIN, host=SystemFacts(kernel="6.1", architecture="aarch64", os="openEuler", numa_nodes=8))
    found = vote_on_values(n4=new, n5=new, n6=new)["kernel"]

    assert found.most is None
    assert majority.find_outliers([found])[0].finding.seen == "kernel: 5.10 on n[1-3], 6.1 on n[4-6]"


def test_packages_that_differ_alike() -> None:
    """A host with another set of packages is one finding, whatever their number."""
    many = {f"package-{n}": "1" for n in range(40)}
    other = replace(PLAIN, packages=Packages("3.10.14", "", {**many, "torch": "2.5.1", "numpy": "1.26.4"}))
    found = [
        o.finding
        for o in majority.find_outliers(vote_on_values(n4=other).values())
        if o.finding.name == "fleet.packages"
    ]

    assert len(found) == 1
    assert "37 more with the same difference" in found[0].seen


def make_hosts(*wishes: tuple[str, ...]) -> list[evaluate.JudgedHost]:
    """Return simulated machines n1, n2 and so on, with these faults."""
    judge = evaluate.FleetEvaluator(lambda told: checks.run_checks(told))
    with ExitStack() as stack:
        machines = [stack.enter_context(simulate_machine("atlas-800t-a2", wish)) for wish in wishes]
        answers = [facts.ask_machine(machine) for machine in machines]
    return [judge.judge_answers(f"n{n + 1}", answer, "auto") for n, answer in enumerate(answers)]


@pytest.mark.slow
def test_what_several_have_is_told_once() -> None:
    """Equal findings are merged with all their hosts, the worst first; the verdict is the worst host's."""
    report = evaluate.compare_hosts(make_hosts((), ("card-lost=3",), ("hot=101",), ("hot=103",)))
    found = group_findings(report.hosts)
    text = formats.render("table", report)

    assert [one.hosts for one in found if one.finding.name == "devices.temperature"] == [("n3", "n4")]
    assert exit_code(report.findings) == 1
    assert "n[3-4]: devices.temperature:" in text
    assert "cards: 7 × 910B3 on n2, 8 × 910B3 on n[1,3-4]" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("          ")) <= 80


def test_what_is_kept_of_a_host() -> None:
    """After its evaluation a host's answers are released, and equal values are stored once."""
    one, two = make_hosts((), ())

    assert (one.facts, two.facts) == (None, None)
    assert [a is b for a, b in zip(one.findings, two.findings, strict=True)] == [True] * len(one.findings)
    assert all(two.values[line] is values for line, values in one.values.items())


def test_one_document() -> None:
    """--json: every host with its findings, common findings, outliers; plain ASCII."""
    text = formats.render("json", evaluate.compare_hosts(make_hosts((), (), ("driver-old",))))
    said = json.loads(text)
    pytest.importorskip("jsonschema").validate(said, schemas.build_schema("fleet"))

    assert text.isascii()
    assert [one["answered"] for one in said["hosts"].values()] == [True] * 3
    assert {v["subject"] for v in said["outliers"]} == {"driver (Huawei Ascend)"}
    assert {"cards", "kernel"} <= {v["subject"] for v in said["common"]}
    assert said["exit_code"] == 1


def test_it_is_said_in_chinese() -> None:
    """Connection failures, compared properties and remedies are translated."""
    said = partial(gettext_catalogue.render, language="zh")
    words = [text for why in (*connectivity.SSH, *connectivity.WORDS) for text in (why.seen, why.words)]
    words += [line.words for line in consistency.COMPARED_PROPERTIES]

    assert [text for text in words if said(text) == text] == []


def test_a_hostile_host_moves_no_cursor() -> None:
    """A host's output is shown without control characters."""
    nasty = replace(
        PLAIN, host=SystemFacts(kernel="6.1\x1b[2J\n[ok] all is well", architecture="aarch64", os="openEuler")
    )
    judge = evaluate.FleetEvaluator(lambda told: [Finding("host.x", Status.WARN, "a\x1b[31mb\u202e")])
    listed = [
        evaluate.JudgedHost(n, tuple(judge._judge(one)), consistency.read_values(one))
        for n, one in (("n1", PLAIN), ("n2", nasty))
    ]
    text = formats.render("table", evaluate.compare_hosts(listed))

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\n[ok] all is well" not in text


def judge_numbered_host(told: Facts) -> list[Finding]:
    """A check that passes with a value of its own on each host, one that warns, and one that is waived."""
    assert told.host
    return [
        Finding("host.a", Status.OK, verbatim(told.host.kernel or "")),
        Finding("host.b", Status.NOT_APPLICABLE, verbatim("")),
        Finding("host.c", Status.WARN, verbatim("slow")),
        Finding("host.d", Status.FAIL, verbatim("known"), waived="until later"),
    ]


def test_a_report_of_problems_keeps_no_passed_checks() -> None:
    """Without passed findings the text is the same, and hosts with equal problems share one list of findings."""
    told = [replace(PLAIN, host=SystemFacts(kernel=f"5.{n}", architecture="aarch64", os="openEuler")) for n in range(9)]
    texts, kept = [], []
    for passed in (True, False):
        judge = evaluate.FleetEvaluator(judge_numbered_host, kept=evaluate.KeptParts(passed=passed, summary=False))
        hosts = [
            evaluate.JudgedHost(f"n{n}", judge.keep_findings(judge_numbered_host(one)), consistency.read_values(one))
            for n, one in enumerate(told)
        ]
        texts.append(formats.render("table", evaluate.compare_hosts(hosts)))
        kept.append({id(host.findings) for host in hosts})

    assert texts[0] == texts[1]
    assert "slow" in texts[0]
    assert (len(kept[0]), len(kept[1])) == (9, 1)
