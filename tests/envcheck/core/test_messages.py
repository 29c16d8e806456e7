"""A message is its English text, and keeps the template and the values for translation."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core import language
from envcheck.core.messages import Message, _, describe, join, ngettext, restore, verbatim
from envcheck.core.model import Finding, Status, manual

OPEN_FILES = "a process may open {limit} files"


def test_a_message_is_its_english_text() -> None:
    """Comparison, JSON and printing need to know nothing of messages."""
    message = _(OPEN_FILES, limit=1024)

    assert message == "a process may open 1024 files"
    assert json.dumps({"seen": message}) == '{"seen": "a process may open 1024 files"}'
    assert (message.template, message.values) == (OPEN_FILES, {"limit": 1024})


@pytest.mark.parametrize(("count", "text"), [(0, "0 devices"), (1, "1 device"), (8, "8 devices")])
def test_a_count_chooses_the_form(count: int, text: str) -> None:
    """English has one form for 1 and one for all others, 0 among them."""
    assert ngettext("{count} device", "{count} devices", count) == text


@given(st.text(), st.text())
def test_values_stay_to_the_letter(text: str, other: str) -> None:
    """Braces and percent signs in a value are printed unchanged and are not interpreted as template syntax."""
    assert verbatim(text) == text
    assert _("{text} and {other}", text=text, other=other) == f"{text} and {other}"


def test_a_template_without_values_may_hold_braces() -> None:
    """Text that takes no value is printed as it is."""
    assert _("${NODE_RANK:?} stops where the text is empty") == "${NODE_RANK:?} stops where the text is empty"


def test_copies_keep_template_and_values() -> None:
    """Through pickle, copy, and dataclasses.asdict, as reports and worker processes need it."""
    message = ngettext("{count} device", "{count} devices", 3)
    finding = Finding("devices.count", Status.OK, message, manual(_(OPEN_FILES, limit=1)))
    copies = [
        pickle.loads(pickle.dumps(message)),
        copy.copy(message),
        copy.deepcopy(message),
        dataclasses.asdict(finding)["seen"],
    ]

    for made in copies:
        assert isinstance(made, Message)
        assert (made, made.template, made.plural, made.values) == (
            message,
            message.template,
            message.plural,
            {"count": 3},
        )


def test_joined_parts_are_one_message() -> None:
    """A list of messages is a message; of nothing it is empty."""
    assert join("; ", [_(OPEN_FILES, limit=1), "x"]) == "a process may open 1 files; x"
    assert join("; ", []) == ""


def test_messages_within_messages_are_translated(chinese: None) -> None:
    """A value that is itself a message is translated too; quoted tool output stays as it is."""
    message = _("{seen}; caused by {name}", seen=_("not checked"), name="driver.tool")

    assert language.translate(message) == "未检查；原因见 driver.tool"
    assert language.translate(verbatim("not checked")) == "not checked"


def test_a_message_goes_through_a_document(chinese: None) -> None:
    """Messages read back from a run record or another host's report are shown in the reader's language."""
    cause = ngettext("{count} device", "{count} devices", 3)
    message = _("{seen}; explained by {name}", seen=cause, name="driver.tool")
    read = restore(str(message), json.loads(json.dumps(describe(message))))

    assert (read, read.template, read.values["seen"]) == (message, message.template, cause)
    assert language.translate(read) == language.translate(message) != message


@pytest.mark.parametrize(
    "described",
    [
        None,
        [],
        {"template": "{x:9999999999}", "values": {"x": 1}},
        {"template": "{x.__class__}", "values": {"x": 1}},
        {"template": "{x[0]}", "values": {"x": "ab"}},
        {"template": "{x}", "values": {}},
        {"template": "{x", "values": {"x": 1}},
        {"template": "another text", "values": {}},
        {"template": "{x}", "values": {"x": {"template": "{x}", "values": None}}},
        {"template": 7, "values": {}},
    ],
)
def test_a_strangers_template_is_not_used(described: object) -> None:
    """A template from a document that does not produce its text, or uses more than plain names, is ignored: the text is
    quoted."""
    assert describe(restore("the text", described)) == {"template": "{text}", "values": {"text": "the text"}}
