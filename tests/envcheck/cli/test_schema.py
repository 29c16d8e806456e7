"""The schemas of --json against what the commands really print."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envcheck.cli import schemas
from envcheck.cli.commands.parse import as_json
from envcheck.core.version import SCHEMA_VERSION
from tests.probes.test_recordings import CASES, TOOLS

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is in the extra `test`")

ROOT = Path(__file__).parents[3]
NAMES = tuple(schemas.names())
CARDS = ("--cards", "8", "--nodes", "1", "--memory-gib", "64")
SWIFT = ("--recipe", "qwen-7b-npu-swift", "--method", "lora", "--variant", "zero3", "--storage", "data")
NPU_PLAN = ("plan", "--device", "npu", "--model", "21b", "--method", "sft", *CARDS, "--json")

# (schema, machine to simulate or "", words): what is printed must be as the schema says.
COMMANDS = (
    *(("doctor", machine, ("doctor", "--json")) for machine in ("atlas-800t-a2", "bi-v150x8", "h200x8", "cpu")),
    ("doctor", "atlas-800t-a2", ("doctor", "--json", "--strict", "--model", "21b", "--method", "lora")),
    ("completion", "", ("completion", "bash", "--json")),
    ("schemas", "", ("schema", "--json")),
    ("lint-rules", "", ("lint", "--list-rules", "--json")),
    ("snapshot-file", "cpu", ("snapshot", "-o", "recording", "--json")),
    ("simulate-folder", "", ("simulate", "cpu", "--keep", "folder", "--json")),
    ("slurm-prolog", "h200x8", ("slurm", "prolog", "--json")),
    ("slurm-script", "", ("slurm", "prolog", "--as-script", "--json")),
    ("infer", "", ("infer", "--model", "qwen-7b", "--framework", "swift", "--dry-run", "--json")),
    ("run", "atlas-800t-a2", ("infer", "--recipe", "qwen-7b-npu-swift", "--ask", "Who?", "--json")),
    ("error", "", ("doctor", "--replay", "no-such-file", "--json")),
    ("doctor-checks", "", ("doctor", "--list-checks", "--json")),
    ("doctor-thresholds", "", ("doctor", "--show-thresholds", "--json")),
    ("snapshot", "h200x8", ("snapshot", "-o", "-")),
    ("plan", "", NPU_PLAN),
    ("plan", "", ("plan", "--device", "nvidia", "--model", "qwen-7b", "--method", "lora", *CARDS, "--json")),
    ("plan", "", ("plan", "--device", "npu", "--model", "300b", "--method", "sft", *CARDS, "--json")),
    ("plan-models", "", ("plan", "--list-models", "--json")),
    ("plan-layouts", "", (*NPU_PLAN, "--search")),
    ("plan-points", "", (*NPU_PLAN, "--sweep", "seq-len=2048..8192")),
    ("provision", "", ("provision", "--recipe", "tiny-cpu", "--dry-run", "--json")),
    ("provision", "", ("provision", "--recipe", "qwen-7b-npu-swift", "--dry-run", "--json")),
    ("provision", "atlas-800t-a2", ("provision", "--recipe", "ernie-21b-npu", "--dry-run", "--json")),
    ("provision", "atlas-800t-a3", ("provision", "--framework", "erniekit", "--dry-run", "--json")),
    ("provision", "", ("provision", "--device", "cpu", "--undo", "--dry-run", "--json")),
    ("provision", "h200x8", ("provision", "--device", "nvidia", "--driver", "fetch", "--dry-run", "--json")),
    ("provision", "h200x8", ("provision", "--device", "nvidia", "--driver", "no-driver.run", "--dry-run", "--json")),
    ("train", "", ("train", "--model", "tiny", "--method", "lora", "--device", "cpu", "--dry-run", "--json")),
    ("train", "", ("train", "--recipe", "ernie-300b-npu", "--method", "sft", "--dry-run", "--json")),
    ("train-slurm", "", ("train", "--on", "slurm", "--recipe", "ernie-21b-hetero", "--dry-run", "--json")),
    ("train-k8s", "", ("train", "--on", "k8s", *SWIFT, "--dry-run", "--json")),
    ("train", "", ("train", "--recipe", "qwen-7b-npu-swift", "--method", "lora", "--dry-run", "--json")),
    ("run", "atlas-800t-a2", ("train", "--model", "21b", "--method", "lora", "--device", "npu", "--json")),
    ("run", "", ("train", "--recipe", "no-such-recipe", "--method", "lora", "--json")),
    ("runs", "", ("runs", "--json")),
    ("explain", "", ("explain", "507033", "--json")),
    ("explain", "", ("explain", "CUDA out of memory. Tried to allocate 2.00 GiB", "--json")),
    ("explain", "", ("explain", 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: x', "--json")),
    ("explain-list", "", ("explain", "--list", "--json")),
    ("recipes", "", ("recipes", "--json")),
    ("recipes", "", ("recipes", "show", "tiny-cpu", "--json")),
    ("simulate", "", ("simulate", "--list", "--json")),
    ("solve", "", ("solve", "--device", "npu", "--driver", "25.0.rc1", "--json")),
    ("solve", "", ("solve", "--device", "nvidia", "--driver", "550.54.15", "--json")),
    ("lint", "", ("lint", str(ROOT / "tests/data/golden/train_qwen-7b_swift_infer.0.sh"), "--json")),
)
# An image is fetched; the others are tried in test_pyz, test_fleet, test_fleet_provision and test_fleet_train.
UNTRIED = {"bundle", "fleet", "provision-hosts", "pyz", "train-hosts", "snapshot-hosts", "slurm-verdict"}
PARTS = ("job",)  # of other documents


@pytest.mark.parametrize("name", NAMES)
def test_is_a_schema(name: str) -> None:
    """Each is a schema of draft 2020-12, names its command, asks for envcheck's one number, and is closed."""
    read = schemas.schema(name)
    jsonschema.Draft202012Validator.check_schema(read)

    assert read["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert read["title"].startswith("envcheck ")
    assert read["$id"] == f"urn:envcheck:{name}:{SCHEMA_VERSION}"
    assert name == "parse" or list(_open(read)) == []
    assert name in ("parse", *PARTS) or read["properties"]["schema"] == {"const": SCHEMA_VERSION}


def test_each_is_tried() -> None:
    """Every schema meets a real document below."""
    assert {name for name, _, _ in COMMANDS} | UNTRIED | {"parse", *PARTS} == set(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "machine", "words"), COMMANDS, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(COMMANDS)]
)
def test_real_documents(name: str, machine: str, words: tuple[str, ...], tmp_path: Path) -> None:
    """What the command prints is what its schema says, and a new key is added there."""
    argv = [sys.executable, "-m", "envcheck", *words]
    if machine:
        argv = [sys.executable, "-m", "envcheck", "simulate", machine, "--", *argv]
    env = {**os.environ, "ENVCHECK_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    document = json.loads(done.stdout)

    assert _wrong(name, document) == []


def test_parsed_recordings() -> None:
    """What `parse` makes of each recorded text is what its schema says."""
    wrong = {str(raw.relative_to(ROOT)): found for raw in CASES if (found := _wrong("parse", _parsed(raw)))}

    assert len(CASES) > 50
    assert wrong == {}


def _parsed(raw: Path) -> dict[str, Any]:
    return as_json(importlib.import_module(TOOLS[raw.parts[-3]]).parse(raw.read_bytes().decode("utf-8", "replace")))


def test_wrong_documents_are_refused() -> None:
    """The schema says no to a status that is none, to a missing verdict and to another schema number."""
    good = {
        "schema": SCHEMA_VERSION,
        "verdict": "OK",
        "exit_code": 0,
        "device": ["cpu"],
        "job": None,
        "findings": [],
        "next": "",
        "error": None,
    }

    assert _wrong("doctor", good) == []
    assert _wrong("doctor", {**good, "verdict": "FINE"})
    assert _wrong("doctor", {**good, "schema": SCHEMA_VERSION + 1})
    assert _wrong("doctor", {key: value for key, value in good.items() if key != "verdict"})
    assert _wrong("doctor", {**good, "more": 1})  # to this test alone: readers leave out what they do not know


def test_the_verb() -> None:
    """Without a name all are listed; with one its schema is printed; another is refused with the nearest."""
    listed, printed, refused = (
        subprocess.run([sys.executable, "-m", "envcheck", "schema", *more], cwd=ROOT, capture_output=True, text=True)
        for more in ([], ["doctor"], ["docter"])
    )

    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(NAMES)
    assert json.loads(printed.stdout) == schemas.schema("doctor")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "did you mean doctor" in refused.stderr


def _wrong(name: str, document: object) -> list[str]:
    validator = jsonschema.Draft202012Validator(_closed(schemas.schema(name)))
    return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(document)][:5]


def _open(schema: Any, place: str = "") -> Iterator[str]:
    """Objects that say nothing of keys that they do not name, or of what those may hold."""
    if isinstance(schema, dict):
        kinds = schema.get("type", ())
        of_parse = "envcheck parse" in schema.get("description", "")  # what it prints is open wherever it stands
        is_object = "object" in ([kinds] if isinstance(kinds, str) else kinds)
        if of_parse:
            return
        if is_object and schema.get("additionalProperties", {}) in ({}, True):
            yield place or "/"
        schema = list(schema.items())
    if isinstance(schema, list):
        for n, one in enumerate(schema):
            key, value = one if isinstance(one, tuple) else (n, one)
            yield from _open(value, f"{place}/{key}")


def _closed(schema: Any) -> Any:
    """The schema, with keys that it does not tell of forbidden: it is to describe them all."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    named = isinstance(schema.get("properties"), dict) and "type" in schema
    return {**closed, "additionalProperties": False} if named and "additionalProperties" not in schema else closed
