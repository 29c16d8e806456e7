"""Between hosts without a network: rounds of pairs, who is to blame, and what is said of what was seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from envcheck.cli.commands.doctor import doctor
from envcheck.core.errors import UsageError
from envcheck.core.language import translator
from envcheck.core.model import Status
from envcheck.fleet import clocks, hccl_rank_table
from envcheck.fleet.clocks import Offset
from envcheck.fleet.host_summary import Own
from envcheck.fleet.peers import pairing, peer_findings
from envcheck.fleet.peers.agent_answers import About, Back
from envcheck.fleet.peers.pairing import Way
from envcheck.fleet.peers.peer_tests import Seen


def hosts(count: int) -> list[str]:
    return [f"n{number}" for number in range(1, count + 1)]


@given(st.integers(0, 40))
def test_rounds(count: int) -> None:
    """In each round a host has one partner at most; after all of them everybody met everybody once."""
    rounds = pairing.rounds(hosts(count), 100)
    met = [frozenset(pair) for pairs in rounds for pair in pairs]

    assert all(len({host for pair in pairs for host in pair}) == 2 * len(pairs) for pairs in rounds)
    assert len(met) == len(set(met)) == count * (count - 1) // 2
    assert len(rounds) <= max(0, count - 1 + count % 2)


def test_few_rounds() -> None:
    """Of a large fleet a few rounds give each host as many partners."""
    met = [pair for pairs in pairing.rounds(hosts(1000), 15) for pair in pairs]

    assert {sum(host in pair for pair in met) for host in ("n1", "n500", "n1000")} == {15}


def ways(count: int, slow: str = "", rate: float = 1e9) -> dict[tuple[str, str], Way]:
    listed = hosts(count)
    return {(a, b): Way(1e-4, 1e7 if slow in (a, b) else rate) for a in listed for b in listed if a != b}


@pytest.mark.parametrize("count", (3, 4, 8, 31))
def test_one_slow_host_is_blamed(count: int) -> None:
    """However few they are, the one with whom all are slow is the one; its partners are not."""
    all_of = ways(count, "n2")
    odd = pairing.suspects(all_of)

    assert pairing.blamed(odd, all_of) == (["n2"], [])


def test_one_slow_way_is_told_as_a_way() -> None:
    """A cable between two blames neither."""
    all_of = {**ways(6), ("n1", "n4"): Way(1e-4, 1e7)}

    assert pairing.blamed(pairing.suspects(all_of), all_of) == ([], [("n1", "n4")])


def test_two_slow_hosts_of_many() -> None:
    """Both are blamed, though not each of their ways could be tried once more alone."""
    all_of = {pair: Way(1e-4, 1e7 if {"n2", "n5"} & set(pair) else 1e9) for pair in ways(16)}
    again = {pair: all_of[pair] for pair in pairing.suspects(all_of)[:16]}
    found = [one for one in peer_findings.findings(Seen(about(*hosts(16)), ways=all_of, again=again)) if one.hosts]

    assert {host for one in found for host in one.hosts} <= {"n2", "n5"}
    assert found[0].finding.seen.startswith(("n2: ", "n5: "))


@given(st.lists(st.floats(6e8, 1e9), min_size=12, max_size=12))
def test_like_speeds_blame_nobody(rates: list[float]) -> None:
    """Speeds within a factor of two are usual."""
    all_of = {pair: Way(1e-4, rate) for pair, rate in zip(ways(4), rates, strict=True)}

    assert pairing.suspects(all_of) == []


def told(seen: Seen) -> dict[str, tuple[Status, str, tuple[str, ...]]]:
    return {one.finding.name: (one.finding.status, one.finding.seen, one.hosts) for one in peer_findings.findings(seen)}


def about(*listed: str) -> dict[str, About]:
    return {host: About(host, f"10.0.0.{n}", (f"10.0.0.{n}",), 1500) for n, host in enumerate(listed, 1)}


def test_who_comes_through_nowhere() -> None:
    """A host whose own way out is shut is blamed, and not all those whom it could not reach."""
    listed = hosts(4)
    knocked = {(a, b, 60000): "timed out" if a == "n3" else "" for a in listed for b in listed if a != b}
    found = told(Seen(about(*listed), knocked=knocked))

    assert found == {"fleet.open": (Status.FAIL, "n3 reaches none of the others' ports", ("n3",))}


def test_a_port_that_one_host_cannot_reach() -> None:
    """Where others come through, the two sides are named."""
    knocked = {("n1", "n2", 1): "", ("n3", "n2", 1): "timed out", ("n3", "n1", 1): "", ("n2", "n1", 1): ""}
    found = told(Seen(about(*hosts(3)), knocked=knocked))

    assert found["fleet.open"][1] == "port 1 of n2 cannot be reached from n3: timed out"


def test_two_hosts_blame_by_port() -> None:
    """Of two, the one whose port is shut is named: there is no third who could say that it is the other."""
    knocked = {("n1", "n2", 1): "Connection refused", ("n2", "n1", 1): ""}

    assert told(Seen(about("n1", "n2"), knocked=knocked))["fleet.open"][2] == ("n2",)


def test_names_that_come_too_late_are_not_told() -> None:
    """No answer in time is neither right nor wrong."""
    found = told(Seen(about("n1", "n2"), names={("n1", "n2"): None, ("n2", "n1"): ("10.0.0.1",)}))

    assert found == {"fleet.names": (Status.UNKNOWN, "names are not told in time on n1", ("n1",))}


OWN = Back(("n2", "n2.site"), ("10.0.0.2",))
NONE = Back()


@pytest.mark.parametrize(
    ("n1", "n3", "grade", "words"),
    [
        (OWN, OWN, Status.OK, "1 addresses lead back to their hosts' names"),
        (Back(("N2.site.example",), ()), OWN, Status.OK, "1 addresses lead back to their hosts' names"),
        (Back(("web",), ("10.0.0.2", "::1")), OWN, Status.OK, "1 addresses lead back to their hosts' names"),
        (NONE, NONE, Status.OK, "the addresses of 1 hosts have no names, on any of them"),
        (Back(("n3",), ("10.0.0.3",)), OWN, Status.WARN, "on n1 the address of n2 leads back to n3, which is n3"),
        (Back(("old",), ("10.9.9.9",)), OWN, Status.WARN, "leads back to old, which leads to 10.9.9.9"),
        (Back(("old",), ()), OWN, Status.WARN, "leads back to old, which leads nowhere"),
        (NONE, OWN, Status.WARN, "on n1 the addresses of n2 have no name, and have one elsewhere"),
        (None, OWN, Status.UNKNOWN, "nobody says on n1 which names the others' addresses have"),
    ],
)
def test_names_of_addresses(n1: Back | None, n3: Back | None, grade: Status, words: str) -> None:
    """The own name, with a domain or without, or another that comes back is well, and so is none on all; a name of
    another host, one that does not come back, or one on some hosts alone is a warning; no answer is none."""
    found = told(Seen(about(*hosts(3)), back={("n1", "n2"): n1, ("n3", "n2"): n3}))

    assert found["fleet.addresses"][0] is grade
    assert words in found["fleet.addresses"][1]


def test_a_clock_that_runs_away() -> None:
    """Two looks show what one cannot: a clock that moves."""
    looks = [
        {"n1": Offset(-0.01, 0.01), "n2": Offset(-0.01, 0.01)},
        {"n1": Offset(-0.01, 0.01), "n2": Offset(0.19, 0.21)},
    ]
    found = told(Seen(about("n1", "n2"), clocks=looks))

    assert found["fleet.clock"] == (Status.WARN, "clocks that moved while they were watched: n2 +0.20 s", ("n2",))


@pytest.mark.parametrize(
    ("text", "grade", "words"),
    (
        ("3 packets transmitted, 3 received, 0.00% packet loss", Status.OK, "1 cards reach"),
        ("3 packets transmitted, 1 received, 66.67% packet loss", Status.FAIL, "cards 0 of n1 do not reach"),
        ("hccn_tool is busy, please try again", Status.UNKNOWN, "says nothing that could be read: hccn_tool is busy"),
        ("", Status.UNKNOWN, "says nothing that could be read: nothing"),
    ),
)
def test_pings_of_cards(text: str, grade: Status, words: str) -> None:
    """The tool's own count decides; a text without one is neither right nor wrong."""
    status, seen, _ = told(Seen(about("n1", "n2"), pinged={("n1", "n2", 0): (0, text)}))["fleet.hccn"]

    assert status is grade
    assert words in seen


CARDS = {"n1": Own(cards={0: "192.168.1.1"}, address="10.0.0.1", addresses=("10.0.0.1",)),
         "n2": Own(cards={0: "192.168.2.1"}, address="10.0.0.2", addresses=("10.0.0.2",))}  # fmt: skip


@pytest.mark.parametrize(
    ("own", "why"),
    (
        ({"n2": None}, "n2 did not answer"),
        ({"n2": Own(address="10.0.0.2")}, "n2 has no card that hccn_tool knows"),
        ({"n2": Own(cards={0: None, 1: None}, address="10.0.0.2")}, "the ports of cards 0-1 of n2 have no address"),
        ({"n2": Own(cards={0: "192.168.1.1"}, address="10.0.0.2")}, "192.168.1.1 is the address of two cards"),
        ({"n2": Own(cards={0: "192.168.2.1"}, address="10.0.0.1")}, "10.0.0.1 is what two hosts tell as their own"),
        ({"n2": Own(cards={0: "192.168.2.1"})}, "n2 tells no address of its own"),
    ),
    ids=("silent", "no-card", "no-address", "twice", "one-host", "nameless"),
)
def test_no_table_of_ranks_is_made(own: dict[str, Own | None], why: str, tmp_path: Path) -> None:
    """What would be wrong on some node is not written at all, and why is said."""
    found = hccl_rank_table.told(tmp_path / "hccl.json", {**CARDS, **own}).finding

    assert found.status is Status.FAIL
    assert why in found.seen
    assert not (tmp_path / "hccl.json").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    (
        (lambda t: t["server_list"].pop(), "n2 is not in it"),
        (lambda t: t["server_list"][1].update(server_id="10.0.0.9"), "server_id 10.0.0.9 is none of these hosts"),
        (lambda t: t["server_list"][0]["device"][0].update(rank_id="7"), "ranks should be 0 to 1"),
        (lambda t: t["server_list"][0]["device"][0].update(device_ip="192.168.1.9"), "card 0 of n1 has 192.168.1.1"),
        (lambda t: t["server_list"][0]["device"][0].update(device_id="3"), "n1 has no card 3"),
        (lambda t: t.update(server_list="no"), "it has no server_list"),
    ),
    ids=("missing", "stranger", "ranks", "address", "card", "none"),
)
def test_a_table_of_ranks_that_is_wrong(change, words: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Each way in which a table differs from the hosts is told."""
    table = json.loads(hccl_rank_table.made(CARDS))
    change(table)
    path = tmp_path / "hccl.json"
    path.write_text(json.dumps(table))
    found = hccl_rank_table.told(path, CARDS).finding

    assert found.status is Status.FAIL
    assert words in found.seen


def everything_wrong() -> Seen:
    """Each of the trial's sentences at least once."""
    listed = hosts(4)
    return Seen(
        about(*listed),
        [{"n1": Offset(0.0, 0.1), "n2": Offset(9.0, 9.1)}, {"n1": Offset(0.0, 0.1), "n2": Offset(7.0, 7.1)}],
        {("n1", "n2"): (), ("n1", "n3"): ("127.0.1.1",), ("n2", "n3"): ("10.9.9.9",), ("n3", "n1"): None},
        {("n4", 60000): "Address already in use"},
        {("n1", "n2", 1): "timed out", ("n3", "n2", 1): "", ("n1", "n3", 2): "timed out"},
        ways(4, "n2"),
        {pair: way for pair, way in ways(4, "n2").items() if "n2" in pair},
        {("n1", "n2"): (True, False), ("n2", "n3"): (False, False)},
        {("n1", "n2", 0): (0, "100% packet loss"), ("n2", "n3", 0): (1, "")},
        {"n9": "no answer within 5 s"},
        {
            ("n1", "n2"): Back(("n3",), ("10.0.0.3",)),
            ("n1", "n3"): Back(("old",), ()),
            ("n2", "n3"): Back(("old",), ("10.9.9.9",)),
            ("n2", "n4"): NONE,
            ("n1", "n4"): Back(("n4",), ("10.0.0.4",)),
            ("n3", "n1"): None,
        },
    )


def test_it_is_said_in_chinese() -> None:
    """What the trial says and advises, when all is wrong and when all is well, has its Chinese."""
    said = translator.load("zh")
    well = Seen(
        about("n1", "n2"), [{"n1": Offset(0, 0), "n2": Offset(0, 0)}] * 2, {("n1", "n2"): ("10.0.0.2",)}, {},
        {("n1", "n2", 1): "", ("n2", "n1", 1): ""}, ways(2), {}, {("n1", "n2"): (True, True)},
        {("n1", "n2", 0): (0, "0% packet loss")}, {}, {("n1", "n2"): OWN},
    )  # fmt: skip
    some = Seen(about(*hosts(3)), back={("n1", "n2"): OWN, ("n2", "n3"): NONE})
    bare = Seen(about("n1", "n2"), back={("n1", "n2"): NONE})
    found = [one.finding for seen in (everything_wrong(), well, some, bare) for one in peer_findings.findings(seen)]
    found += [hccl_rank_table.told(Path("/nowhere.json"), own).finding for own in ({"n1": None}, {"n1": Own()})]
    found += [one.finding for one in clocks.odd({"n1": Offset(9, 9), "n2": Offset(0, 0)})]
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
        (("--hosts", "n1", "--between", "--ports", "70000"), "no list of up to 512 ports"),
        (("--hosts", "n1", "--between", "--ports", "1-60000"), "no list of up to 512 ports"),
        (("--hosts", "n1", "--rank-table", "."), "is a folder"),
        (("--replay", ".", "--between"), "--between cannot be combined with --replay"),
    ),
)
def test_refused_before_a_host_is_asked(words: tuple[str, ...], why: str) -> None:
    """What cannot be meant is refused in a sentence, with a next step and exit code 2."""
    found = CliRunner().invoke(doctor, words)

    assert isinstance(found.exception, UsageError)
    assert why in found.exception.message
    assert found.exception.next_step
