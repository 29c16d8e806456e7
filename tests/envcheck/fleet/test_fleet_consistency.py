"""Compared properties over the answers of whole machines: ports, TLS, rank tables, images, clocks."""

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
from tests.envcheck.checks.doctor_helpers import simulate_machine

Answers = Mapping[str, Answer]
TABLE = {"path": "/etc/hccl.json", "error": None, "count": 1}
SERVERS = [{"id": "10.0.0.1", "devices": [{"id": 0, "address": "192.168.100.100", "rank": 0}]}]


def ask_machine(wishes: tuple[str, ...] = ()) -> dict[str, Answer]:
    with simulate_machine("atlas-800t-a2", wishes) as machine:
        return facts.ask_machine(machine)


def make_answer(text: str) -> Answer:
    return Answer("", Outcome.ANSWERED, text)


def change_answer(key: str, **more: object) -> Callable[[Answers], Answers]:
    return lambda told: {**told, key: replace(told[key], out=json.dumps({**json.loads(told[key].out), **more}))}


def replace_answer(key: str, text: str) -> Callable[[Answers], Answers]:
    return lambda told: {**told, key: make_answer(text)}


def vote_on_change(change: Callable[[Answers], Answers]) -> dict[str, majority.Vote]:
    """Return the votes of two unmodified machines and a third that is changed."""
    plain = ask_machine()
    three = {"n1": plain, "n2": plain, "n3": change(plain)}
    found = {name: consistency.read_values(read_facts(told)) for name, told in three.items()}
    return {v.subject: v for v in majority.count_votes(found)}


@pytest.mark.parametrize(
    ("change", "subject", "most", "value"),
    (
        (change_answer("ask environment", HCCL_IF_BASE_PORT="50000"), "ports (Huawei Ascend)", "60000-60015",
         "50000-50015"),
        (replace_answer("run hccn_tool -i 3 -tls -g", "dev_id:3, tls switch[1](0:disable, 1:enable)"),
         "TLS (Huawei Ascend)", "off", "partly on"),
        (change_answer("ask rank_table", **TABLE, servers=SERVERS), "rank table", "not set",
         "ranks: 1, servers: 1, checksum: 0bf02b2320bb"),
        (change_answer("ask clock", synchronised=False), "clock synchronised", "yes", "no"),
    ),
    ids=("base", "tls", "rank-table", "clock"),
)  # fmt: skip
def test_the_odd_one(change: Callable[[Answers], Answers], subject: str, most: str, value: str) -> None:
    """The machine that differs is reported with its value and that of the others; nothing else differs."""
    differing = {
        name: (v.most, dict(v.minority_values)) for name, v in vote_on_change(change).items() if not v.is_unanimous
    }

    assert differing == {subject: (most, {value: ("n3",)})}


def list_images(*lines: str) -> consistency.Values | None:
    return consistency.read_values(Facts(answers={IMAGES.key: make_answer("\n".join(lines))})).get("fleet.image")


def test_one_name_is_one_image() -> None:
    """Images are compared by registry digest, else by image id; unnamed ones are ignored."""
    assert list_images(
        "a/b:1 sha256:aa sha256:11", "own:2 <none> sha256:22", "<none>:<none> <none> sha256:33", "junk"
    ) == {
        "image a/b:1": "sha256:aa",
        "image own:2": "sha256:22",
    }


def test_an_image_that_is_missing_is_no_odd_one() -> None:
    """Hosts may have different images: only one name with two contents is reported."""
    two = {"n1": {"fleet.image": {"image a:1": "x"}}, "n2": {"fleet.image": {"image a:1": "y", "image b:1": "z"}}}
    found = {v.subject: v for v in majority.count_votes(two)}

    assert not found["image a:1"].is_unanimous
    assert found["image b:1"].is_unanimous


def test_no_engine_has_no_vote() -> None:
    """Without a docker answer images are not compared; nor is an unreadable rank table."""
    unread = make_answer(json.dumps({**TABLE, "servers": [], "error": "not valid JSON"}))
    read = consistency.read_values(read_facts({**ask_machine(), "ask rank_table": unread}))

    assert "fleet.image" not in read
    assert read["fleet.rank_table"] == {}
