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
from envcheck.simulate import machine_file, simulated_run
from tests.envcheck.vendors import made_up_vendor

SAID = ("OK", "WARN", "FAIL", "UNKNOWN", "BLOCKED")


@pytest.fixture(scope="module")
def sysroot() -> Iterator[Path]:
    """A simulated machine with two cards of the made-up vendor."""
    with simulated_run.write_machine_folder(machine_file.load_machine("cpu", None), None) as folder:
        made_up_vendor.put_cards(folder)
        yield folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up_vendor.install_vendor(tmp_path_factory.mktemp("site"))


def run_envcheck(sysroot: Path, site: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "ENVCHECK_SYSROOT": str(sysroot), "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "envcheck", *argv]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def report(sysroot: Path, installed: Path) -> dict[str, Any]:
    done = run_envcheck(sysroot, installed, "doctor", "--json")
    said: dict[str, Any] = json.loads(done.stdout)
    return {**said, "status": done.returncode}


def test_its_devices_are_listed(report: dict[str, Any]) -> None:
    """The tool's two devices are seen, and agree with bus and device nodes."""
    found = {f["name"]: f["seen"] for f in report["findings"] if f["device"] == "tyche"}

    assert found["devices.present"] == "2 × Tyche T1"
    assert found["devices.count"] == "lspci 2, /dev 2, tyche-smi 2"


def test_the_machine_is_never_ready(report: dict[str, Any]) -> None:
    """Without checks for the vendor the machine is not ready: exit code 3."""
    assert (report["status"], report["exit_code"], report["verdict"]) == (3, 3, "UNKNOWN")


def test_every_generic_check_judges_or_names_what_is_missing(report: dict[str, Any]) -> None:
    """Every generic check gives a result, UNKNOWN, or a skip caused by a named failed check; none is not applicable."""
    from envcheck.checks import GENERIC

    found = {f["name"]: f for f in report["findings"] if f["device"] == "tyche"}
    cards = {check.name for check in GENERIC if check.is_per_vendor}
    silent = {name for name in cards if found[name]["status"] not in SAID}

    assert cards <= set(found)
    assert silent == set(), {name: found[name]["seen"] for name in silent}
    assert [f["seen"] for f in found.values() if "crashed" in f["seen"]] == []


def test_what_the_record_lacks_is_named(report: dict[str, Any]) -> None:
    """The answer names the part of the record to add."""
    found = {f["name"]: (f["status"], f["seen"]) for f in report["findings"] if f["device"] == "tyche"}

    assert found["driver.module"] == ("UNKNOWN", "no rule for Tyche: its vendor record has no kernel modules")
    assert found["toolkit.present"] == ("UNKNOWN", "no rule for Tyche: its vendor record has no toolkit folders")


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
    """Every command works with it or prints what is missing."""
    done = run_envcheck(sysroot, installed, *argv)

    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr and "bug" not in done.stderr
    assert done.returncode in (0, 3) or done.stderr.startswith("envcheck: ")


def test_cards_of_nobodys_are_no_cpu_machine(sysroot: Path, installed: Path, tmp_path: Path) -> None:
    """An accelerator without any record: the machine is not called fit, unless its processor is asked for."""
    with simulated_run.write_machine_folder(machine_file.load_machine("cpu", None), None) as folder:
        (folder / "ask" / "bus.json").write_text('{"cards": {}, "strange": {"0000:3b:00.0": "1d94:6210"}}')
        found = run_envcheck(folder, tmp_path, "doctor", "--json")
        on_cpu = run_envcheck(folder, tmp_path, "doctor", "--device", "cpu")
    (present,) = [f for f in json.loads(found.stdout)["findings"] if f["status"] == "UNKNOWN"]

    assert (found.returncode, present["name"]) == (3, "devices.present")
    assert "0000:3b:00.0 (1d94:6210)" in present["seen"]
    assert on_cpu.returncode == 0


def test_cards_whose_areas_are_left_out_are_not_ready(sysroot: Path, tmp_path: Path) -> None:
    """With every check area for cards skipped, the machine is not ready."""
    with simulated_run.write_machine_folder(machine_file.load_machine("h200x8", None), None) as folder:
        areas = ("driver", "devices", "links", "toolkit", "network", "engine", "python", "host.iommu", "host.acs")
        argv = [word for area in areas for word in ("--skip", area)]
        done = run_envcheck(folder, tmp_path, "doctor", "--json", *argv)

    assert done.returncode == 3
    assert "no check evaluated the NVIDIA devices" in done.stdout


def test_a_typo_gets_its_name(sysroot: Path, installed: Path) -> None:
    """Names of added vendors are suggested, too."""
    done = run_envcheck(sysroot, installed, "doctor", "--device", "tychee")

    assert done.returncode == 2
    assert "unknown device 'tychee'" in done.stderr and "did you mean tyche?" in done.stderr


@pytest.mark.parametrize(
    ("record", "value", "why"),
    [
        ("raise RuntimeError('no licence')", "tyche_cards", "RuntimeError: no licence"),
        ("VENDOR = 7", "tyche_cards", "no VENDOR record"),
        (made_up_vendor.RECORD.replace('tool="tyche-smi"', 'tool=""'), "tyche_cards", "the vendor record lacks tool"),
        (made_up_vendor.RECORD.replace('name="tyche"', 'name="npu"'), "tyche_cards", "the name 'npu' is already used"),
        (
            made_up_vendor.RECORD.replace("cards.parser", "cards.reader"),
            "tyche_cards",
            "module tyche_cards.reader does not",
        ),
        (made_up_vendor.RECORD, "tyche_crads", "No module named 'tyche_crads'"),
    ],
)
def test_a_broken_package_is_one_sentence(record: str, value: str, why: str, sysroot: Path, tmp_path: Path) -> None:
    """A broken vendor package is a finding; doctor continues, and naming the vendor gives an error."""
    site = made_up_vendor.install_vendor(tmp_path / "site", record, value)
    done = run_envcheck(sysroot, site, "doctor", "--json", "--only", "own", "--only", "host.memory")
    refused = run_envcheck(sysroot, site, "doctor", "--device", "tyche")
    said = {f["name"]: f for f in json.loads(done.stdout)["findings"]}

    assert (said["own.tyche"]["status"], why in said["own.tyche"]["seen"]) == ("UNKNOWN", True), said["own.tyche"]
    assert said["host.memory"]["status"] == "OK"
    assert refused.returncode == 2 and why in refused.stderr and "Traceback" not in refused.stderr


def test_broken_checks_cost_the_vendor_nothing_else(sysroot: Path, tmp_path: Path) -> None:
    """With broken checks its devices are still listed, and doctor reports the checks that did not load."""
    site = made_up_vendor.install_vendor(tmp_path / "site")
    (site / "tyche_cards" / "checks.py").write_text("import nothing_of_this_name\n")
    done = run_envcheck(sysroot, site, "doctor", "--json", "--only", "own", "--only", "devices.present")
    said = {f["name"]: f["status"] for f in json.loads(done.stdout)["findings"]}

    assert said == {"own.tyche": "UNKNOWN", "devices.present": "OK"}


def test_its_own_checks_are_run(sysroot: Path, tmp_path: Path) -> None:
    """checks.py of the vendor package is loaded, and its checks run at their declared place."""
    site = made_up_vendor.install_vendor(tmp_path / "site")
    (site / "tyche_cards" / "checks.py").write_text(
        "from envcheck.core.check import vendor_check\nfrom envcheck.core.findings import ok\n\n\n"
        "def fate(facts, v):\n    '''The wheel turns.'''\n    yield ok('it turns')\n\n\n"
        "CHECKS = (vendor_check('devices.fate', fate, reads='the wheel', source='us', before='devices.count'),)\n"
    )
    done = run_envcheck(sysroot, site, "doctor", "--json", "--only", "devices")
    names = [f["name"] for f in json.loads(done.stdout)["findings"]]

    assert names[:3] == ["devices.present", "devices.fate", "devices.count"]


def test_the_documented_minimum_is_the_minimum(request: pytest.FixtureRequest) -> None:
    """docs/how-to/add-a-vendor.md names the fields without a default, and all others."""
    page = (request.config.rootpath / "docs" / "how-to" / "add-a-vendor.md").read_text(encoding="utf-8")
    needed = [f for f in dataclasses.fields(Vendor) if f.default is f.default_factory is dataclasses.MISSING]

    assert [f.name for f in needed if f"| `{f.name}` |" not in page.partition("## Optional")[0]] == []
    assert [f.name for f in dataclasses.fields(Vendor) if f"`{f.name}`" not in page] == []
