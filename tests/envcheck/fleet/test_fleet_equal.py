"""What ought to be equal, over the answers of whole machines: ports, TLS, tables of ranks, images, clocks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from envcheck.collect import facts
from envcheck.collect.fact_reader import read_facts
from envcheck.collect.questions import IMAGES
from envcheck.core.facts import Facts
from envcheck.core.model import Answer, Outcome
from envcheck.fleet import consistency, majority
from tests.envcheck.checks.doctor_helpers import simulated

Answers = Mapping[str, Answer]
TABLE = {"path": "/etc/hccl.json", "error": None, "count": 1}
SERVERS = [{"id": "10.0.0.1", "devices": [{"id": 0, "address": "192.168.100.100", "rank": 0}]}]


def answers(wishes: tuple[str, ...] = ()) -> dict[str, Answer]:
    with simulated("atlas-800t-a2", wishes) as machine:
        return facts.ask(machine)


def said(text: str) -> Answer:
    return Answer("", Outcome.ANSWERED, text)


def changed(key: str, **more: object) -> Callable[[Answers], Answers]:
    return lambda told: {**told, key: replace(told[key], out=json.dumps({**json.loads(told[key].out), **more}))}


def given(key: str, text: str) -> Callable[[Answers], Answers]:
    return lambda told: {**told, key: said(text)}


def votes(change: Callable[[Answers], Answers]) -> dict[str, majority.Vote]:
    """Of two machines as they are, and a third that is changed."""
    plain = answers()
    three = {"n1": plain, "n2": plain, "n3": change(plain)}
    found = {name: consistency.values(read_facts(told)) for name, told in three.items()}
    return {v.subject: v for v in majority.votes(found)}


@pytest.mark.parametrize(
    ("change", "subject", "most", "value"),
    (
        (changed("ask environment", HCCL_IF_BASE_PORT="50000"), "ports (Huawei Ascend)", "60000-60015", "50000-50015"),
        (given("run hccn_tool -i 3 -tls -g", "dev_id:3, tls switch[1](0:disable, 1:enable)"), "TLS (Huawei Ascend)",
         "off", "on and off"),
        (changed("ask rank_table", **TABLE, servers=SERVERS), "table of ranks", "not set",
         "1 ranks on 1 servers, sum 242962123a63"),
        (changed("ask clock", synchronised=False), "clock synchronised", "yes", "no"),
    ),
    ids=("base", "tls", "rank-table", "clock"),
)  # fmt: skip
def test_the_odd_one(change: Callable[[Answers], Answers], subject: str, most: str, value: str) -> None:
    """The machine that differs is named with its value and that of the others; nothing else differs."""
    differing = {name: (v.most, dict(v.others)) for name, v in votes(change).items() if not v.agreed}

    assert differing == {subject: (most, {value: ("n3",)})}


def images(*lines: str) -> consistency.Values | None:
    return consistency.values(Facts(answers={IMAGES.key: said("\n".join(lines))})).get("fleet.image")


def test_one_name_is_one_image() -> None:
    """By the registry's digest, else by the image's own number; what has no name does not count."""
    assert images("a/b:1 sha256:aa sha256:11", "own:2 <none> sha256:22", "<none>:<none> <none> sha256:33", "junk") == {
        "image a/b:1": "sha256:aa",
        "image own:2": "sha256:22",
    }


def test_an_image_that_is_missing_is_no_odd_one() -> None:
    """Hosts may hold different images: only one name with two contents is told."""
    two = {"n1": {"fleet.image": {"image a:1": "x"}}, "n2": {"fleet.image": {"image a:1": "y", "image b:1": "z"}}}
    found = {v.subject: v for v in majority.votes(two)}

    assert not found["image a:1"].agreed
    assert found["image b:1"].agreed


def test_no_engine_has_no_vote() -> None:
    """Where docker does not answer nothing is said of images, nor of a table that could not be read."""
    unread = said(json.dumps({**TABLE, "servers": [], "error": "it is no JSON"}))
    read = consistency.values(read_facts({**answers(), "ask rank_table": unread}))

    assert "fleet.image" not in read
    assert read["fleet.rank_table"] == {}
