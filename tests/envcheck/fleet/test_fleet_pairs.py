"""Between hosts without a network: rounds of pairs, blame, and findings."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from envcheck.cli.commands.doctor import doctor
from envcheck.core.errors import UsageError
from envcheck.core.language import gettext_catalogue
from envcheck.core.model import Status
from envcheck.fleet import clocks, hccl_rank_table
from envcheck.fleet.clocks import ClockOffset
from envcheck.fleet.host_summary import HostSummary
from envcheck.fleet.peers import host_findings, pairing
from envcheck.fleet.peers.agent_answers import AgentInfo, ReverseName
from envcheck.fleet.peers.host_tests import PeerObservations
from envcheck.fleet.peers.pairing import PairSpeed


def make_host_names(count: int) -> list[str]:
    return [f"n{number}" for number in range(1, count + 1)]


@given(st.integers(0, 40))
def test_rounds(count: int) -> None:
    """In each round a host has at most one partner; after all rounds each pair met once."""
    rounds = pairing.plan_rounds(make_host_names(count), 100)
    met = [frozenset(pair) for pairs in rounds for pair in pairs]

    assert all(len({host for pair in pairs for host in pair}) == 2 * len(pairs) for pairs in rounds)
    assert len(met) == len(set(met)) == count * (count - 1) // 2
    assert len(rounds) <= max(0, count - 1 + count % 2)


def test_few_rounds() -> None:
    """In a large fleet a few rounds give each host as many partners."""
    met = [pair for pairs in pairing.plan_rounds(make_host_names(1000), 15) for pair in pairs]

    assert {sum(host in pair for pair in met) for host in ("n1", "n500", "n1000")} == {15}


def make_measurements(count: int, slow: str = "", rate: float = 1e9) -> dict[tuple[str, str], PairSpeed]:
    listed = make_host_names(count)
    return {(a, b): PairSpeed(1e-4, 1e7 if slow in (a, b) else rate) for a in listed for b in listed if a != b}


@pytest.mark.parametrize("count", (3, 4, 8, 31))
def test_one_slow_host_is_blamed(count: int) -> None:
    """However few hosts: the one whose paths are all slow is blamed, not its partners."""
    all_of = make_measurements(count, "n2")
    odd = pairing.find_suspects(all_of)

    assert pairing.blame_hosts(odd, all_of) == (["n2"], [])


def test_one_slow_way_is_told_as_a_way() -> None:
    """One slow path between two hosts blames neither."""
    all_of = {**make_measurements(6), ("n1", "n4"): PairSpeed(1e-4, 1e7)}

    assert pairing.blame_hosts(pairing.find_suspects(all_of), all_of) == ([], [("n1", "n4")])


def test_two_slow_hosts_of_many() -> None:
    """Both are blamed, although not each of their paths could be repeated alone."""
    all_of = {pair: PairSpeed(1e-4, 1e7 if {"n2", "n5"} & set(pair) else 1e9) for pair in make_measurements(16)}
    again = {pair: all_of[pair] for pair in pairing.find_suspects(all_of)[:16]}
    found = [
        one
        for one in host_findings.list_findings(
            PeerObservations(make_hosts(*make_host_names(16)), ways=all_of, again=again)
        )
        if one.hosts
    ]

    assert {host for one in found for host in one.hosts} <= {"n2", "n5"}
    assert found[0].finding.seen.startswith(("n2: ", "n5: "))


@given(st.lists(st.floats(6e8, 1e9), min_size=12, max_size=12))
def test_like_speeds_blame_nobody(rates: list[float]) -> None:
    """Speeds within a factor of two are normal."""
    all_of = {pair: PairSpeed(1e-4, rate) for pair, rate in zip(make_measurements(4), rates, strict=True)}

    assert pairing.find_suspects(all_of) == []


def summarize_findings(seen: PeerObservations) -> dict[str, tuple[Status, str, tuple[str, ...]]]:
    return {
        one.finding.name: (one.finding.status, one.finding.seen, one.hosts) for one in host_findings.list_findings(seen)
    }


def make_hosts(*listed: str) -> dict[str, AgentInfo]:
    return {host: AgentInfo(host, f"10.0.0.{n}", (f"10.0.0.{n}",), 1500) for n, host in enumerate(listed, 1)}


def test_who_comes_through_nowhere() -> None:
    """A host whose outgoing connections fail is blamed, not those it could not reach."""
    listed = make_host_names(4)
    knocked = {(a, b, 60000): "timed out" if a == "n3" else "" for a in listed for b in listed if a != b}
    found = summarize_findings(PeerObservations(make_hosts(*listed), knocked=knocked))

    assert found == {"fleet.open": (Status.FAIL, "n3 cannot reach any port of the other hosts", ("n3",))}


def test_a_port_that_one_host_cannot_reach() -> None:
    """If others reach the port, both sides are named."""
    knocked = {("n1", "n2", 1): "", ("n3", "n2", 1): "timed out", ("n3", "n1", 1): "", ("n2", "n1", 1): ""}
    found = summarize_findings(PeerObservations(make_hosts(*make_host_names(3)), knocked=knocked))

    assert found["fleet.open"][1] == "n3 cannot reach port 1 of n2: timed out"


def test_two_hosts_blame_by_port() -> None:
    """With two hosts, the one whose port is closed is named: no third can decide."""
    knocked = {("n1", "n2", 1): "Connection refused", ("n2", "n1", 1): ""}

    assert summarize_findings(PeerObservations(make_hosts("n1", "n2"), knocked=knocked))["fleet.open"][2] == ("n2",)


def test_names_that_come_too_late_are_not_told() -> None:
    """A late answer is neither right nor wrong."""
    found = summarize_findings(
        PeerObservations(make_hosts("n1", "n2"), names={("n1", "n2"): None, ("n2", "n1"): ("10.0.0.1",)})
    )

    assert found == {"fleet.names": (Status.UNKNOWN, "name resolution timed out on n1", ("n1",))}


OWN = ReverseName(("n2", "n2.site"), ("10.0.0.2",))
NONE = ReverseName()


@pytest.mark.parametrize(
    ("n1", "n3", "grade", "words"),
    [
        (OWN, OWN, Status.OK, "1 addresses resolve back to their host names"),
        (ReverseName(("N2.site.example",), ()), OWN, Status.OK, "1 addresses resolve back to their host names"),
        (ReverseName(("web",), ("10.0.0.2", "::1")), OWN, Status.OK, "1 addresses resolve back to their host names"),
        (NONE, NONE, Status.OK, "the addresses of 1 hosts have no reverse name on any host"),
        (
            ReverseName(("n3",), ("10.0.0.3",)),
            OWN,
            Status.WARN,
            "on n1, the address of n2 resolves back to n3, the name of n3",
        ),
        (ReverseName(("old",), ("10.9.9.9",)), OWN, Status.WARN, "resolves back to old, which resolves to 10.9.9.9"),
        (ReverseName(("old",), ()), OWN, Status.WARN, "resolves back to old, which does not resolve"),
        (NONE, OWN, Status.WARN, "on n1, the addresses of n2 have no reverse name, but they have one on other hosts"),
        (None, OWN, Status.UNKNOWN, "reverse lookup of the other hosts' addresses timed out on n1"),
    ],
)
def test_names_of_addresses(n1: ReverseName | None, n3: ReverseName | None, grade: Status, words: str) -> None:
    """The host's own name, with or without domain, or a name that resolves back passes, and so does none on all hosts;
    another host's name, one that does not resolve back, or one on some hosts only is a warning; no answer is
    unknown.
    """
    found = summarize_findings(
        PeerObservations(make_hosts(*make_host_names(3)), back={("n1", "n2"): n1, ("n3", "n2"): n3})
    )

    assert found["fleet.addresses"][0] is grade
    assert words in found["fleet.addresses"][1]


def test_a_clock_that_runs_away() -> None:
    """Two measurements show a clock that drifts."""
    looks = [
        {"n1": ClockOffset(-0.01, 0.01), "n2": ClockOffset(-0.01, 0.01)},
        {"n1": ClockOffset(-0.01, 0.01), "n2": ClockOffset(0.19, 0.21)},
    ]
    found = summarize_findings(PeerObservations(make_hosts("n1", "n2"), clocks=looks))

    assert found["fleet.clock"] == (Status.WARN, "clocks drifted during the test: n2 +0.20 s", ("n2",))


@pytest.mark.parametrize(
    ("text", "grade", "words"),
    (
        ("3 packets transmitted, 3 received, 0.00% packet loss", Status.OK, "1 cards can reach"),
        ("3 packets transmitted, 1 received, 66.67% packet loss", Status.FAIL, "cards 0 of n1 cannot reach"),
        ("hccn_tool is busy, please try again", Status.UNKNOWN, "unreadable output: hccn_tool is busy"),
        ("", Status.UNKNOWN, "unreadable output: no address"),
    ),
)
def test_pings_of_cards(text: str, grade: Status, words: str) -> None:
    """The tool's own loss figure decides; output without one is neither good nor bad."""
    status, seen, _ = summarize_findings(PeerObservations(make_hosts("n1", "n2"), pinged={("n1", "n2", 0): (0, text)}))[
        "fleet.hccn"
    ]

    assert status is grade
    assert words in seen


CARDS = {"n1": HostSummary(cards={0: "192.168.1.1"}, address="10.0.0.1", addresses=("10.0.0.1",)),
         "n2": HostSummary(cards={0: "192.168.2.1"}, address="10.0.0.2", addresses=("10.0.0.2",))}  # fmt: skip


@pytest.mark.parametrize(
    ("own", "why"),
    (
        ({"n2": None}, "no response from n2"),
        ({"n2": HostSummary(address="10.0.0.2")}, "hccn_tool lists no card on n2"),
        (
            {"n2": HostSummary(cards={0: None, 1: None}, address="10.0.0.2")},
            "n2: no address on the ports of cards 0-1",
        ),
        (
            {"n2": HostSummary(cards={0: "192.168.1.1"}, address="10.0.0.2")},
            "two cards have the same address 192.168.1.1",
        ),
        (
            {"n2": HostSummary(cards={0: "192.168.2.1"}, address="10.0.0.1")},
            "two hosts report the same address 10.0.0.1",
        ),
        ({"n2": HostSummary(cards={0: "192.168.2.1"})}, "n2 reports no host address"),
    ),
    ids=("silent", "no-card", "no-address", "twice", "one-host", "nameless"),
)
def test_no_table_of_ranks_is_made(own: dict[str, HostSummary | None], why: str, tmp_path: Path) -> None:
    """A rank table that would be wrong is not written, and the reason is reported."""
    found = hccl_rank_table.write_or_check(tmp_path / "hccl.json", {**CARDS, **own}).finding

    assert found.status is Status.FAIL
    assert why in found.seen
    assert not (tmp_path / "hccl.json").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    (
        (lambda t: t["server_list"].pop(), "n2 is missing"),
        (
            lambda t: t["server_list"][1].update(server_id="10.0.0.9"),
            "server_id 10.0.0.9 does not match any of these hosts",
        ),
        (lambda t: t["server_list"][0]["device"][0].update(rank_id="7"), "ranks must be 0 to 1"),
        (
            lambda t: t["server_list"][0]["device"][0].update(device_ip="192.168.1.9"),
            "card 0 of n1: expected 192.168.1.9, got 192.168.1.1",
        ),
        (lambda t: t["server_list"][0]["device"][0].update(device_id="3"), "n1 has no card 3"),
        (lambda t: t.update(server_list="no"), "server_list is missing"),
    ),
    ids=("missing", "stranger", "ranks", "address", "card", "none"),
)
def test_a_table_of_ranks_that_is_wrong(change, words: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Each difference between a rank table and the hosts is reported."""
    table = json.loads(hccl_rank_table.render_table(CARDS))
    change(table)
    path = tmp_path / "hccl.json"
    path.write_text(json.dumps(table))
    found = hccl_rank_table.write_or_check(path, CARDS).finding

    assert found.status is Status.FAIL
    assert words in found.seen


def make_everything_wrong() -> PeerObservations:
    """Return observations that give each message of the tests at least once."""
    listed = make_host_names(4)
    return PeerObservations(
        make_hosts(*listed),
        [
            {"n1": ClockOffset(0.0, 0.1), "n2": ClockOffset(9.0, 9.1)},
            {"n1": ClockOffset(0.0, 0.1), "n2": ClockOffset(7.0, 7.1)},
        ],
        {("n1", "n2"): (), ("n1", "n3"): ("127.0.1.1",), ("n2", "n3"): ("10.9.9.9",), ("n3", "n1"): None},
        {("n4", 60000): "Address already in use"},
        {("n1", "n2", 1): "timed out", ("n3", "n2", 1): "", ("n1", "n3", 2): "timed out"},
        make_measurements(4, "n2"),
        {pair: way for pair, way in make_measurements(4, "n2").items() if "n2" in pair},
        {("n1", "n2"): (True, False), ("n2", "n3"): (False, False)},
        {("n1", "n2", 0): (0, "100% packet loss"), ("n2", "n3", 0): (1, "")},
        {"n9": "no response within 5 s"},
        {
            ("n1", "n2"): ReverseName(("n3",), ("10.0.0.3",)),
            ("n1", "n3"): ReverseName(("old",), ()),
            ("n2", "n3"): ReverseName(("old",), ("10.9.9.9",)),
            ("n2", "n4"): NONE,
            ("n1", "n4"): ReverseName(("n4",), ("10.0.0.4",)),
            ("n3", "n1"): None,
        },
    )


def test_it_is_said_in_chinese() -> None:
    """All findings and remedies of the tests between hosts are translated."""
    said = partial(gettext_catalogue.render, language="zh")
    well = PeerObservations(
        make_hosts("n1", "n2"), [{"n1": ClockOffset(0, 0), "n2": ClockOffset(0, 0)}] * 2,
        {("n1", "n2"): ("10.0.0.2",)}, {},
        {("n1", "n2", 1): "", ("n2", "n1", 1): ""}, make_measurements(2), {}, {("n1", "n2"): (True, True)},
        {("n1", "n2", 0): (0, "0% packet loss")}, {}, {("n1", "n2"): OWN},
    )  # fmt: skip
    some = PeerObservations(make_hosts(*make_host_names(3)), back={("n1", "n2"): OWN, ("n2", "n3"): NONE})
    bare = PeerObservations(make_hosts("n1", "n2"), back={("n1", "n2"): NONE})
    found = [
        one.finding for seen in (make_everything_wrong(), well, some, bare) for one in host_findings.list_findings(seen)
    ]
    found += [
        hccl_rank_table.write_or_check(Path("/nowhere.json"), own).finding
        for own in ({"n1": None}, {"n1": HostSummary()})
    ]
    found += [one.finding for one in clocks.find_outliers({"n1": ClockOffset(9, 9), "n2": ClockOffset(0, 0)})]
    texts = [text for f in found for text in (f.seen, f.remedy.words if f.remedy else "") if text]

    assert len(texts) > 30
    assert [text for text in texts if said(text) == text] == []


@pytest.mark.parametrize(
    ("words", "why"),
    (
        (("--between",), "--between requires one of --hosts"),
        (("--exclude", "n1"), "--exclude requires one of --hosts"),
        (("--fanout", "3", "--only", "host"), "--fanout requires one of --hosts"),
        (("--replay", ".", "--forget"), "--forget cannot be combined with --replay"),
        (("--rank-table", "hccl.json"), "--rank-table requires one of --hosts"),
        (("--hosts", "n1", "--ports", "29500"), "--ports requires --between"),
        (("--hosts", "n1", "--between", "--ports", "70000"), "expected a list of at most 512 ports"),
        (("--hosts", "n1", "--between", "--ports", "1-60000"), "expected a list of at most 512 ports"),
        (("--hosts", "n1", "--rank-table", "."), "is a directory"),
        (("--replay", ".", "--between"), "--between cannot be combined with --replay"),
    ),
)
def test_refused_before_a_host_is_asked(words: tuple[str, ...], why: str) -> None:
    """Invalid options are refused with a message, a next step and exit code 2."""
    found = CliRunner().invoke(doctor, words)

    assert isinstance(found.exception, UsageError)
    assert why in found.exception.message
    assert found.exception.next_step
