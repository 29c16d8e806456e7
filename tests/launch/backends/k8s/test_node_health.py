"""docs/examples/node-health: manifests, labels and the plugin of node-problem-detector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from launch.backends.k8s import patches
from tests.launch.backends.k8s import k8s_parts

FOLDER = Path(__file__).parents[4] / "docs" / "examples" / "node-health"
CARDS = sorted(FOLDER.glob("cards-*.yaml"))
SEEN = {"name": "devices.temperature", "status": "FAIL", "seen": "device 0: 101 °C\n(limit 90 °C)", "waived": ""}
DRIVER = {"name": "driver.version", "status": "OK", "seen": "driver 24.1.rc1.b030", "waived": ""}


def load_bodies() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / "node-health.yaml").read_text()))


def run_script(name: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable] if name.endswith(".py") else ["sh"]
    return subprocess.run(
        [*program, str(FOLDER / name), *words], env={**os.environ, **env}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize("cards", CARDS, ids=lambda path: path.stem)
def test_manifests_are_valid_with_each_kind_of_cards(cards: Path) -> None:
    """The objects match the schemas of Kubernetes, also with the patch of each vendor, which names the same object."""
    bodies = load_bodies()
    *others, daemon = bodies
    patch = yaml.safe_load(cards.read_text())
    merged = patches.merge_values(daemon, patch)

    assert (patch["kind"], patch["metadata"]) == (daemon["kind"], daemon["metadata"])
    assert [k8s_parts.list_errors(each) for each in (*others, merged)] == [[] for _ in bodies]
    assert len(merged["spec"]["template"]["spec"]["containers"]) == 2
    volumes = {volume["name"] for volume in merged["spec"]["template"]["spec"]["volumes"]}
    for container in merged["spec"]["template"]["spec"]["containers"]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def test_taint_rule_and_kustomization_fit() -> None:
    """The rule matches the published schema, and the kustomization names existing files."""
    rule = yaml.safe_load((FOLDER / "node-taint.yaml").read_text())
    made = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    named = [*made["resources"], *made["configMapGenerator"][0]["files"], *(each["path"] for each in made["patches"])]

    assert k8s_parts.list_errors(rule) == []
    assert [name for name in named if not (FOLDER / name).is_file()] == []


def test_monitor_has_the_fields_of_the_contract() -> None:
    """pkg/custompluginmonitor/types of node-problem-detector: every rule has a declared condition."""
    monitor = json.loads((FOLDER / "problem-monitor.json").read_text())
    conditions = {each["type"] for each in monitor["conditions"]}

    assert (monitor["plugin"], monitor["rules"][0]["type"]) == ("custom", "permanent")
    assert {rule["condition"] for rule in monitor["rules"]} == conditions
    assert monitor["rules"][0]["path"] == f"/config/{(FOLDER / 'plugin.sh').name}"


@pytest.mark.parametrize(
    ("state", "age_s", "code", "message"),
    [
        ("0\nenvcheck doctor found no failure\n", 0, 0, "found no failure"),
        ("1\ndevices.temperature: " + "x" * 200, 0, 1, "devices.temperature: xxx"),
        ("3\ndriver.tool: no answer\n", 0, 2, "driver.tool"),
        ("0\nfine\n", 4000, 2, "s old"),
        (None, 0, 2, "has not checked"),
    ],
)
def test_plugin_reports_the_last_result(tmp_path: Path, state: str | None, age_s: int, code: int, message: str) -> None:
    """0 is healthy, 1 a problem, others and old results unknown; the message has at most 80 characters."""
    if state is not None:
        (tmp_path / "state").write_text(state)
        os.utime(tmp_path / "state", (time.time() - age_s,) * 2)
    done = run_script("plugin.sh", RESULT_DIR=str(tmp_path))

    assert (done.returncode, message in done.stdout, len(done.stdout) <= 81) == (code, True, True), done


def test_check_writes_state_labels_and_metrics(tmp_path: Path) -> None:
    """One round runs the doctor once; its exit code and worst finding become the state, its versions labels."""
    document = {"exit_code": 1, "findings": [DRIVER, SEEN]}
    device = 'envcheck_device_info{device="NPU 0",index="0",name="910B3 (64 GB)"} 1\n'
    program = f"#!/bin/sh\nprintf '%s' '{json.dumps(document)}'\nprintf '%s' '{device}' > \"$4\"\nexit 1\n"
    (tmp_path / "envcheck").write_text(program)
    (tmp_path / "envcheck").chmod(0o755)
    folders = {name: str(tmp_path) for name in ("RESULT_DIR", "METRICS_DIR", "FEATURES_DIR")}
    (tmp_path / "features").mkdir()
    folders["FEATURES_DIR"] = str(tmp_path / "features")
    path = os.pathsep.join((str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]))

    done = run_script("check.sh", ONCE="1", PATH=path, **folders)

    assert done.returncode == 0, done
    assert (tmp_path / "state").read_text() == "1\ndevices.temperature: device 0: 101 °C (limit 90 °C)\n"
    assert (tmp_path / "features" / "envcheck").read_text().splitlines() == [
        "envcheck.health=failed", "envcheck.driver-version=24.1.rc1.b030", "envcheck.card-model=910B3-64-GB",
        "envcheck.card-count=1",
    ]  # fmt: skip
    assert run_script("plugin.sh", RESULT_DIR=str(tmp_path)).returncode == 1
