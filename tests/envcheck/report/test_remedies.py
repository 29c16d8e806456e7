"""Remedies by kind, headlines with object and limit, and lists of blocked checks that collapse."""

from __future__ import annotations

import json

import pytest

from envcheck.core.messages import _, restore
from envcheck.core.model import Finding, RemedyKind, Status, diagnose, fix, manual
from envcheck.report import Style, formats
from tests.envcheck.checks.check_parts import make_healthy_facts
from tests.envcheck.report.report_helpers import make_doctor_report, make_machine_report, render_table

CAUSE = Finding("driver.tool", Status.FAIL, _("npu-smi not found"), diagnose(_("Check the driver."), "lsmod"))


def make_blocked(count: int) -> list[Finding]:
    return [
        CAUSE,
        *(Finding(f"driver.part{n}", Status.BLOCKED, _("unknown"), blocked_by=CAUSE.name) for n in range(count)),
    ]


def test_a_remedy_without_commands_is_manual() -> None:
    """A remedy is of kind fix or diagnose only with commands."""
    made = [fix(_("Do."), "reboot"), diagnose(_("Do."), "ls"), fix(_("Do.")), diagnose(_("Do.")), manual(_("Do."))]

    assert [one.kind for one in made] == [RemedyKind.FIX, RemedyKind.DIAGNOSE, *[RemedyKind.MANUAL] * 3]
    assert [one.label for one in made] == ["fix: ", *["next: "] * 4]


def test_json_has_kind_and_template() -> None:
    """The headline is there for programs: an English template and its values."""
    report = make_doctor_report("bi-v150x8", ("hot=101",))
    found = {f["name"]: f for f in json.loads(formats.render("json", report))["findings"]}
    hot = found["devices.temperature"]

    assert hot["seen"] == "device 0: 101 °C (limit 90 °C)"
    assert hot["message"]["template"] == "{devices}: {temperature_c:g} °C (limit {limit_c:g} °C)"
    assert hot["message"]["values"]["devices"]["template"] == "device {shown}"
    assert (hot["message"]["values"]["temperature_c"], hot["message"]["values"]["limit_c"]) == (101, 90)
    assert hot["remedy"]["kind"] == "diagnose" and hot["remedy"]["commands"] == ["sudo ipmitool sdr type Fan", "ixsmi"]
    assert [restore(f["seen"], f["message"]).template for f in found.values()] == [
        f["message"]["template"] for f in found.values()
    ]


def test_a_hot_card_has_no_green_pill() -> None:
    """The health word of a failing device is labelled and not green."""
    page = formats.render("html", make_doctor_report("bi-v150x8", ("hot=101",)))

    assert "limit 90 °C" in page
    assert 'class="pill ok">Health' not in page.partition('class="healthy"')[0]


def test_a_lost_card_is_named_with_its_address() -> None:
    report = make_doctor_report("atlas-800t-a2", ("card-lost=3",))
    (count,) = (f for f in report.findings if f.name == "devices.count")

    assert count.seen.startswith("NPU 3 (0000:82:00.0) is on the PCI bus but missing from npu-smi")


def test_many_blocked_checks_are_counted() -> None:
    """Up to three are named; of more the number is shown, and with --verbose their names."""
    few, many = make_blocked(3), make_blocked(34)
    facts = make_healthy_facts("npu")
    verbose = " ".join(render_table(many, facts, Style(is_verbose=True)).split())

    assert "Not checked until this is fixed: driver.part0, driver.part1, driver.part2" in " ".join(
        render_table(few, facts).split()
    )
    assert "Not checked until this is fixed: 34 checks" in render_table(many, facts) and "driver.part7" in verbose
    for name in ("markdown", "html"):
        text = formats.render(name, make_machine_report(many, facts))
        assert "Not checked until this is fixed: 34 checks" in text.replace("\\", "")


def test_a_missing_driver_is_installed_by_envcheck() -> None:
    """The command of the fix does what its sentence says."""
    report = make_doctor_report("atlas-800t-a2", ("tool-missing",))
    (tool,) = (f for f in report.findings if f.name == "driver.tool")

    assert tool.remedy and tool.remedy.kind is RemedyKind.FIX
    assert tool.remedy.commands == ("envcheck provision --device npu --install-driver FILE.run",)


@pytest.mark.parametrize(
    ("machine", "fault", "check"),
    [("p800x8", "module-gone", "driver.module"), ("p800x8", "driver-old", "driver.version")],
)
def test_a_published_driver_is_downloaded(machine: str, fault: str, check: str) -> None:
    """If the vendor publishes a file for this processor, the command works as printed."""
    report = make_doctor_report(machine, (fault,))
    (found,) = (f for f in report.findings if f.name == check)

    assert found.remedy and found.remedy.commands[0] == "envcheck provision --device xpu --install-driver fetch"


def test_a_reset_names_the_card() -> None:
    """The command for a reset has the number of the card with the errors."""
    report = make_doctor_report("p800x8", ("ecc",))
    (found,) = (f for f in report.findings if f.name == "devices.ecc")

    assert found.remedy
    number = str(found.seen).split(":")[0].removeprefix("device ")
    assert f"sudo xpu-smi -r -i {number}" in found.remedy.commands
