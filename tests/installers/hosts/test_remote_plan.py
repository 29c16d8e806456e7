"""The plan of another host, read from its JSON document: it can be shown in any language."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envcheck.core.language import translate
from envcheck.core.messages import Message, _
from envcheck.fleet.output import HostOutput
from envcheck.fleet.runner import CommandOutcome
from installers.hosts.remote_plan import HostPlan, parse_answer, read_message
from installers.output.plan_text import build_document, render_plan
from installers.plan.requirement import Obstacle
from installers.plan.step import Plan
from installers.recipes.manual_steps import ManualStep
from installers.steps.create_environment import CreateEnvironment

PLAN = Plan(
    "little",
    Path("/venv"),
    (
        CreateEnvironment(
            _("create a virtual environment with Python {python}", python="3.11.2"),
            _("none exists yet"),
            _("creates {folder}", folder="/venv"),
            _("not needed"),
            25,
            root=_("{folder} is owned by root", folder="/venv"),
        ),
    ),
    satisfied=(_("image {image}", image="a/b:1"),),
    manual_steps=(
        ManualStep("driver", _("{seen}; install the vendor's file:", seen=_("no pip in {folder}", folder="/x"))),
    ),
    obstacles=(Obstacle(_("no pip in {folder}", folder="/venv"), _("run the same command again")),),
    notes=(_("{name} is not installed", name="numpy"),),
)


def read_plan(document: object) -> HostPlan:
    return parse_answer(CommandOutcome("n1", HostOutput("n1"), 0, out=[json.dumps(document)]))


def test_texts_keep_their_templates(chinese: None) -> None:
    """Steps, reasons, notes and obstacles of a host are translated here as if they were this machine's."""
    found = read_plan(build_document(PLAN, "planned"))

    assert found.render_lines(100) == render_plan(PLAN, 100).splitlines()
    assert "创建虚拟环境" in found.render_lines(100)[2]


def test_a_document_without_templates_is_quoted() -> None:
    """A host without them is shown in its own words."""
    document = {key: value for key, value in build_document(PLAN, "planned").items() if key != "messages"}

    assert read_plan(document).render_lines(100) == render_plan(PLAN, 100).splitlines()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.recursive(st.none() | st.text(max_size=9), lambda inner: st.dictionaries(st.text(max_size=9), inner)))
def test_any_templates(messages: object) -> None:
    """Whatever a host sends as templates, its text stays what it is."""
    found = read_message({"messages": {"no pip": messages}}, "no pip")

    assert isinstance(found, Message)
    assert (str(found), translate(found)) == ("no pip", "no pip")


@pytest.mark.parametrize("text", ("{0.__class__}", "{text!r}", "{a[0]}"))
def test_a_template_that_reaches_into_values(text: str) -> None:
    """A template may name values, and nothing inside them."""
    described = {"template": text, "values": {"text": "no pip", "a": "no pip", "0": "no pip"}}

    assert read_message({"messages": {"no pip": described}}, "no pip").template == "{text}"
