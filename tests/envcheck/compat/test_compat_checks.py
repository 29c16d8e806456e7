"""Checks based on the version tables: findings for tested, known-bad and unknown pairs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck import checks
from envcheck.collect import facts
from envcheck.compat import pair_verdicts
from envcheck.core.facts import Facts, Packages
from envcheck.core.model import Document, Finding, Status
from envcheck.vendors import VENDORS
from tests.envcheck.checks.doctor_helpers import simulate_machine

NOT_APPLICABLE, OK, BLOCKED, UNKNOWN, WARN, FAIL = Status
CONFIG = "read /usr/local/Ascend/ascend-toolkit/latest/version.cfg"
MACHINES = {"npu": "atlas-800t-a2", "iluvatar": "bi-v150x8", "nvidia": "h200x8", "xpu": "p800x8"}


@pytest.fixture(scope="module")
def machines() -> dict[str, Facts]:
    """The facts of one simulated machine of each vendor."""
    found = {}
    for vendor, name in MACHINES.items():
        with simulate_machine(name) as machine:
            found[vendor] = facts.gather_facts(machine)
    return found


def change_driver(found: Facts, version: str) -> Facts:
    """The machine with another driver version, in every place where it is recorded."""
    vendors = tuple(
        replace(
            v,
            document=replace(v.document, driver_version=version) if v.document else None,
            documents={k: replace(d, driver_version=d.driver_version and version) for k, d in v.documents.items()},
        )
        for v in found.vendors
    )
    return replace(found, vendors=vendors)


def change_toolkit(found: Facts, version: str) -> Facts:
    said = Document("npu-smi", "version-cfg", detail={"cann_version": version})
    return replace(found, vendors=tuple(replace(v, documents={**v.documents, CONFIG: said}) for v in found.vendors))


def change_packages(found: Facts, **versions: str) -> Facts:
    named = {name.replace("_", "-"): version for name, version in versions.items()}
    return replace(found, packages=Packages("3.10.14", "", named))


def run_check(found: Facts, name: str) -> Finding:
    (finding,) = checks.run_checks(found, [name])
    return finding


@pytest.mark.parametrize(
    ("toolkit", "driver", "status", "said"),
    [
        ("8.0.RC1", "24.1.rc1.b030", OK, "CANN 8.0.RC1 with driver 24.1.rc1.b030"),
        ("8.5.0", "25.5.2", OK, "CANN 8.5.0 with driver 25.5.2"),
        ("8.0.RC1", "22.0.4", FAIL, "507033"),
        ("9.1.0", "25.0.rc1", FAIL, "the release notes exclude it"),
        ("8.0.RC1", "25.5.2", UNKNOWN, "; documented: 24.1.RC1, 23.0.3"),
        ("8.0.0", "24.1.0", UNKNOWN, "not documented, inferred from other facts"),
        ("8.9.7", "25.5.2", UNKNOWN, "no table lists CANN 8.9.7 with driver 25.5.2"),
    ],
)
def test_toolkit_and_driver(machines: dict[str, Facts], toolkit: str, driver: str, status: Status, said: str) -> None:
    """CANN and driver: named together is ok, refused fails, not named is left to the cards."""
    finding = run_check(change_toolkit(change_driver(machines["npu"], driver), toolkit), "toolkit.driver")

    assert (finding.status, said in finding.seen) == (status, True), finding.seen
    assert (finding.remedy is None) == (status is OK)
    assert status is not UNKNOWN or "envcheck doctor --deep" in (finding.remedy.commands if finding.remedy else ())


def test_bad_pair_names_its_document(machines: dict[str, Facts]) -> None:
    """The remedy names its source and date."""
    finding = run_check(change_toolkit(change_driver(machines["npu"], "25.0.rc1"), "9.1.0"), "toolkit.driver")

    assert finding.remedy is not None
    assert "CANN release notes" in finding.remedy.words and "2026-11" in finding.remedy.words


@pytest.mark.parametrize(
    ("vendor", "packages", "status", "said"),
    [
        ("npu", {"paddlepaddle": "3.1.0a0", "paddle_custom_npu": "3.1.0"}, OK, "3.1.0a0"),
        ("npu", {"paddlepaddle": "3.1.0", "paddle_custom_npu": "3.1.0"}, OK, "3.1.0"),
        ("npu", {"paddlepaddle": "3.3.0", "paddle_custom_npu": "3.1.0"}, FAIL, "undefined symbols"),
        ("npu", {"paddlepaddle": "3.0.0b1", "paddle_custom_npu": "3.1.0"}, FAIL, "Fail to open library"),
        ("npu", {"paddlepaddle": "3.1.1", "paddle_custom_npu": "3.1.0"}, UNKNOWN, "; documented: 3.1.0a0"),
        ("iluvatar", {"paddlepaddle": "3.2.0", "paddle_iluvatar_gpu": "3.0.0.dev20250926"}, OK, "dev20250926"),
        (
            "iluvatar",
            {"paddlepaddle": "3.1.0", "paddle_iluvatar_gpu": "3.0.0.dev20250926"},
            UNKNOWN,
            "; documented: 3.2.0",
        ),
    ],
)
def test_plugin_and_paddle(
    machines: dict[str, Facts], vendor: str, packages: dict[str, str], status: Status, said: str
) -> None:
    """The plugin and paddlepaddle: documented pairs and equal numbers are ok, others fail or are left to the cards."""
    finding = run_check(change_packages(machines[vendor], **packages), "python.plugin")

    assert (finding.status, said in finding.seen) == (status, True), finding.seen


def test_plugin_and_the_toolkit_below(machines: dict[str, Facts]) -> None:
    """A tested pair of packages still fails if the plugin is known to fail on the active CANN."""
    packed = change_packages(machines["npu"], paddlepaddle="3.3.0", paddle_custom_npu="3.3.0")

    finding = run_check(change_toolkit(packed, "8.5.1"), "python.plugin")

    assert finding.status is FAIL
    assert "libtbe_adapter.so" in finding.seen


@pytest.mark.parametrize(
    ("toolkit", "status"), [("8.0.RC1", OK), ("8.0.0", UNKNOWN), ("8.5.1", UNKNOWN), ("7.1.0", FAIL)]
)
def test_plugin_with_each_toolkit(machines: dict[str, Facts], toolkit: str, status: Status) -> None:
    """A documented CANN for the plugin passes, an undocumented one is UNKNOWN, a known-bad one fails."""
    packed = change_packages(machines["npu"], paddlepaddle="3.1.0", paddle_custom_npu="3.1.0")
    finding = run_check(change_toolkit(packed, toolkit), "python.plugin")

    assert finding.status is status, finding.seen


@pytest.mark.parametrize(
    ("toolkit", "torch", "plugin", "status", "said"),
    [
        ("8.5.0", "2.7.1+cpu", "2.7.1.post2", OK, "torch 2.7.1+cpu with torch-npu 2.7.1.post2"),
        ("8.5.0", "2.3.1", "2.2.0", FAIL, "supports only one torch version"),
        ("9.0.0", "2.7.1", "2.7.1", FAIL, "MsprofSysCycleTime"),
        ("9.0.0", "2.7.1", "2.7.1.post4", OK, "2.7.1.post4"),
    ],
)
def test_torch_npu(
    machines: dict[str, Facts], toolkit: str, torch: str, plugin: str, status: Status, said: str
) -> None:
    """torch-npu needs the torch of the same version, and a CANN that has its symbols."""
    packed = change_packages(machines["npu"], torch=torch, torch_npu=plugin)

    finding = run_check(change_toolkit(packed, toolkit), "python.torch_npu")

    assert (finding.status, said in finding.seen) == (status, True), finding.seen


@pytest.mark.parametrize(
    ("toolkit", "packages", "status", "said"),
    [
        ("8.0.RC1", {"numpy": "1.26.4", "paddlepaddle": "3.1.0"}, OK, "numpy 1.26.4"),
        ("8.0.RC1", {"numpy": "2.1.0", "torch_npu": "2.7.1"}, FAIL, "SetPrecisionMode"),
        ("8.5.0", {"numpy": "2.1.0", "torch_npu": "2.7.1.post2"}, OK, "numpy 2.1.0"),
        ("8.5.0", {"numpy": "2.4.1", "paddlepaddle": "3.3.0"}, FAIL, "one-element tensor"),
        ("8.5.0", {"numpy": "2.0.0", "paddlepaddle": "3.3.0", "opencv_python": "4.5.5.64"}, FAIL, "import cv2 fails"),
        ("8.5.0", {"numpy": "2.0.0", "paddlepaddle": "3.3.0", "paddleformers": "0.3.1"}, FAIL, "at most 1.26.4"),
        ("8.0.RC1", {"numpy": "2.4.1"}, NOT_APPLICABLE, "no numpy installed for a framework"),
    ],
)
def test_numpy(machines: dict[str, Facts], toolkit: str, packages: dict[str, str], status: Status, said: str) -> None:
    """numpy fails where it is known to break an installed package or the active CANN."""
    finding = run_check(change_toolkit(change_packages(machines["npu"], **packages), toolkit), "python.numpy")

    assert (finding.status, said in finding.seen) == (status, True), finding.seen


@pytest.mark.parametrize("vendor", sorted(name for name in VENDORS if VENDORS[name].devices))
def test_floor_of_drivers_comes_from_the_tables(machines: dict[str, Facts], vendor: str) -> None:
    """The oldest driver that a table names is ok, an older one is not; the remedy names document and version."""
    named = pair_verdicts.find_oldest_tested(*(VENDORS[vendor].driver_pair or ("", "")))
    assert named is not None
    floor = named[0]

    fine = run_check(change_driver(machines[vendor], floor), "driver.version")
    old = run_check(change_driver(machines[vendor], "1.0.1"), "driver.version")

    assert (fine.status, old.status) == (OK, FAIL)
    assert old.remedy is not None and floor in old.remedy.words and len(old.remedy.words) > len(floor) + 60


def test_every_vendor_with_cards_has_a_floor() -> None:
    """No vendor's drivers are judged by nothing."""
    assert [name for name, vendor in VENDORS.items() if vendor.devices and not vendor.driver_pair] == []
