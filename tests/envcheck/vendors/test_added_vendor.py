"""A vendor that another distribution adds, with the documented minimum, through the real command."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envcheck.core.vendor import Vendor
from envcheck.simulate import machine_file, session
from tests.envcheck.vendors import made_up_vendor

SAID = ("OK", "WARN", "FAIL", "UNKNOWN", "BLOCKED")


@pytest.fixture(scope="module")
def sysroot() -> Iterator[Path]:
    """A simulated machine with two cards of the made-up vendor."""
    with session.written(machine_file.load("cpu", None), None) as folder:
        made_up_vendor.put_cards(folder)
        yield folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up_vendor.install(tmp_path_factory.mktemp("site"))


def envcheck(sysroot: Path, site: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "ENVCHECK_SYSROOT": str(sysroot), "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "envcheck", *argv]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def report(sysroot: Path, installed: Path) -> dict[str, Any]:
    done = envcheck(sysroot, installed, "doctor", "--json")
    said: dict[str, Any] = json.loads(done.stdout)
    return {**said, "status": done.returncode}


def test_its_devices_are_listed(report: dict[str, Any]) -> None:
    """The tool's two devices are seen, and agree with bus and device nodes."""
    found = {f["name"]: f["seen"] for f in report["findings"] if f["device"] == "tyche"}

    assert found["devices.present"] == "2 × Tyche T1"
    assert found["devices.count"] == "lspci 2, /dev 2, tyche-smi 2"


def test_the_machine_is_never_ready(report: dict[str, Any]) -> None:
    """What nobody could judge is no "fit": exit code 3."""
    assert (report["status"], report["exit_code"], report["verdict"]) == (3, 3, "UNKNOWN")


def test_every_generic_check_judges_or_names_what_is_missing(report: dict[str, Any]) -> None:
    """None "does not apply": it is judged, or UNKNOWN, or not judged because a check that is told failed first."""
    from envcheck.checks import GENERIC

    found = {f["name"]: f for f in report["findings"] if f["device"] == "tyche"}
    cards = {check.name for check in GENERIC if check.is_of_cards}
    silent = {name for name in cards if found[name]["status"] not in SAID}

    assert cards <= set(found)
    assert silent == set(), {name: found[name]["seen"] for name in silent}
    assert [f["seen"] for f in found.values() if "crashed" in f["seen"]] == []


def test_what_the_record_lacks_is_named(report: dict[str, Any]) -> None:
    """The answer says which part of the record to add."""
    found = {f["name"]: (f["status"], f["seen"]) for f in report["findings"] if f["device"] == "tyche"}

    assert found["driver.module"] == ("UNKNOWN", "no rule for Tyche: its record names no kernel modules")
    assert found["toolkit.present"] == ("UNKNOWN", "no rule for Tyche: its record names no folders of a toolkit")


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (("solve", "--device", "tyche"), 1),
        (("provision", "--device", "tyche", "--model", "tiny", "--dry-run"), 2),
        (("plan", "--device", "tyche", "--model", "tiny", "--method", "lora"), 0),
        (("train", "--device", "tyche", "--model", "tiny", "--method", "lora", "--dry-run"), 2),
        (("lint", "README.md"), 0),
        (("recipes",), 0),
        (("doctor", "--device", "TYCHE", "--only", "devices.present"), 0),
        (("snapshot", "--device", "Tyche", "-o", "-"), 0),
        (("doctor", "--deep", "--dry-run"), 3),
        (("parse", "tyche-smi", "/dev/null"), 1),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_every_command_takes_it(argv: tuple[str, ...], status: int, sysroot: Path, installed: Path) -> None:
    """Each answers, or says in a sentence what it lacks."""
    done = envcheck(sysroot, installed, *argv)

    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr and "bug" not in done.stderr
    assert done.returncode in (0, 3) or done.stderr.startswith("envcheck: ")


def test_cards_of_nobodys_are_no_cpu_machine(sysroot: Path, installed: Path, tmp_path: Path) -> None:
    """An accelerator without any record: the machine is not called fit, unless its processor is asked for."""
    with session.written(machine_file.load("cpu", None), None) as folder:
        (folder / "ask" / "bus.json").write_text('{"cards": {}, "strange": {"0000:3b:00.0": "1d94:6210"}}')
        found = envcheck(folder, tmp_path, "doctor", "--json")
        on_cpu = envcheck(folder, tmp_path, "doctor", "--device", "cpu")
    (present,) = [f for f in json.loads(found.stdout)["findings"] if f["status"] == "UNKNOWN"]

    assert (found.returncode, present["name"]) == (3, "devices.present")
    assert "0000:3b:00.0 (1d94:6210)" in present["seen"]
    assert on_cpu.returncode == 0


def test_cards_whose_areas_are_left_out_are_not_ready(sysroot: Path, tmp_path: Path) -> None:
    """Where all that looks at cards is skipped, nothing was said of them."""
    with session.written(machine_file.load("h200x8", None), None) as folder:
        areas = ("driver", "devices", "links", "toolkit", "network", "engine", "python", "host.iommu", "host.acs")
        argv = [word for area in areas for word in ("--skip", area)]
        done = envcheck(folder, tmp_path, "doctor", "--json", *argv)

    assert done.returncode == 3
    assert "no check judged the cards of NVIDIA" in done.stdout


def test_a_typo_gets_its_name(sysroot: Path, installed: Path) -> None:
    """Names of added vendors are suggested, too."""
    done = envcheck(sysroot, installed, "doctor", "--device", "tychee")

    assert done.returncode == 2
    assert "there is no device 'tychee'" in done.stderr and "did you mean tyche?" in done.stderr


@pytest.mark.parametrize(
    ("record", "value", "why"),
    [
        ("raise RuntimeError('no licence')", "tyche_cards", "RuntimeError: no licence"),
        ("VENDOR = 7", "tyche_cards", "no record VENDOR"),
        (made_up_vendor.RECORD.replace('tool="tyche-smi"', 'tool=""'), "tyche_cards", "leaves empty: tool"),
        (made_up_vendor.RECORD.replace('name="tyche"', 'name="npu"'), "tyche_cards", "the name 'npu' is taken"),
        (made_up_vendor.RECORD.replace("cards.parser", "cards.reader"), "tyche_cards", "no module tyche_cards.reader"),
        (made_up_vendor.RECORD, "tyche_crads", "No module named 'tyche_crads'"),
    ],
)
def test_a_broken_package_is_one_sentence(record: str, value: str, why: str, sysroot: Path, tmp_path: Path) -> None:
    """It is a finding of the doctor, which goes on; and whoever names it is told."""
    site = made_up_vendor.install(tmp_path / "site", record, value)
    done = envcheck(sysroot, site, "doctor", "--json", "--only", "own", "--only", "host.memory")
    refused = envcheck(sysroot, site, "doctor", "--device", "tyche")
    said = {f["name"]: f for f in json.loads(done.stdout)["findings"]}

    assert (said["own.tyche"]["status"], why in said["own.tyche"]["seen"]) == ("UNKNOWN", True), said["own.tyche"]
    assert said["host.memory"]["status"] == "OK"
    assert refused.returncode == 2 and why in refused.stderr and "Traceback" not in refused.stderr


def test_broken_checks_cost_the_vendor_nothing_else(sysroot: Path, tmp_path: Path) -> None:
    """Its devices are listed all the same, and the doctor says what was left out."""
    site = made_up_vendor.install(tmp_path / "site")
    (site / "tyche_cards" / "checks.py").write_text("import nothing_of_this_name\n")
    done = envcheck(sysroot, site, "doctor", "--json", "--only", "own", "--only", "devices.present")
    said = {f["name"]: f["status"] for f in json.loads(done.stdout)["findings"]}

    assert said == {"own.tyche": "UNKNOWN", "devices.present": "OK"}


def test_its_own_checks_are_run(sysroot: Path, tmp_path: Path) -> None:
    """checks.py of the vendor's package is picked up, and stands where it says."""
    site = made_up_vendor.install(tmp_path / "site")
    (site / "tyche_cards" / "checks.py").write_text(
        "from envcheck.core.check import of_vendor\nfrom envcheck.core.findings import ok\n\n\n"
        "def fate(facts, v):\n    '''The wheel turns.'''\n    yield ok('it turns')\n\n\n"
        "CHECKS = (of_vendor('devices.fate', fate, reads='the wheel', source='us', before='devices.count'),)\n"
    )
    done = envcheck(sysroot, site, "doctor", "--json", "--only", "devices")
    names = [f["name"] for f in json.loads(done.stdout)["findings"]]

    assert names[:3] == ["devices.present", "devices.fate", "devices.count"]


def test_the_documented_minimum_is_the_minimum(request: pytest.FixtureRequest) -> None:
    """docs/vendors.md names the fields without a default, and all others."""
    page = (request.config.rootpath / "docs" / "vendors.md").read_text(encoding="utf-8")
    needed = [f for f in dataclasses.fields(Vendor) if f.default is f.default_factory is dataclasses.MISSING]

    assert [f.name for f in needed if f"| `{f.name}` |" not in page.partition("## Optional")[0]] == []
    assert [f.name for f in dataclasses.fields(Vendor) if f"`{f.name}`" not in page] == []
