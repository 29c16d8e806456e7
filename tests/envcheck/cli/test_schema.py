"""The schemas of --json against what the commands really print."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envcheck.cli import schemas
from envcheck.cli.commands.parse import as_json
from envcheck.cli.schemas import fact_keys, key_meanings, recipe_keys
from envcheck.cli.schemas.generate import OPEN_WORDS
from envcheck.core.messages import _
from envcheck.core.model import Finding, Status, fix
from envcheck.core.version import SCHEMA_VERSION
from envcheck.explain.catalogue import load_entries
from envcheck.explain.causality import make_diagnosis
from envcheck.explain.diagnosis import Evidence
from launch.logs.training_step import TrainingStep
from launch.run import diagnose_failure, record
from launch.run.first_failure import FirstFailure
from launch.run.launcher import TrainingEnd
from tests.probes.test_recordings import CASES, TOOLS

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is in the extra `test`")

ROOT = Path(__file__).parents[3]
NAMES = tuple(schemas.list_documents())
CARDS = ("--cards", "8", "--nodes", "1", "--memory-gib", "64")
SWIFT = ("--recipe", "qwen-7b-npu-swift", "--method", "lora", "--variant", "zero3", "--storage", "data")
NPU_PLAN = ("plan", "--device", "npu", "--model", "21b", "--method", "sft", *CARDS, "--json")

# (schema, machine to simulate or "", words): what is printed must be as the schema says.
COMMANDS = (
    *(("doctor", machine, ("doctor", "--json")) for machine in ("atlas-800t-a2", "bi-v150x8", "h200x8", "cpu")),
    ("doctor", "atlas-800t-a2", ("doctor", "--json", "--strict", "--model", "21b", "--method", "lora")),
    ("completion", "", ("completion", "bash", "--json")),
    ("init", "", ("init", "--model", "tiny", "--method", "lora", "--device", "cpu", "--json")),
    ("schemas", "", ("schema", "--json")),
    ("lint-rules", "", ("lint", "--list-rules", "--json")),
    ("snapshot-file", "cpu", ("snapshot", "-o", "recording", "--json")),
    ("simulate-folder", "", ("simulate", "cpu", "--keep", "folder", "--json")),
    ("recipe-file", "h200x8", ("recipes", "create", "--json", "--", "torchrun", "train.py")),
    ("train", "h200x8", ("train", "--dry-run", "--json", "--", "torchrun", "train.py")),
    ("run", "h200x8", ("train", "--gates", "--json", "--", "torchrun", "train.py")),
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
    ("provision", "h200x8", ("provision", "--device", "nvidia", "--install-driver", "fetch", "--dry-run", "--json")),
    (
        "provision",
        "h200x8",
        ("provision", "--device", "nvidia", "--install-driver", "no-driver.run", "--dry-run", "--json"),
    ),
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
    ("lint-files", "", ("lint", str(ROOT / "tests/data/lint/strange"), "no-such-file", "--json")),
)
# An image is fetched; two runs are compared; the others are tried in test_pyz, test_fleet, test_fleet_provision and
# test_fleet_train.
UNTRIED = {
    "bundle",
    "fleet",
    "provision-hosts",
    "pyz",
    "runs-compare",
    "train-hosts",
    "snapshot-hosts",
    "slurm-verdict",
}
PARTS = ("job",)  # of other documents
DESCRIPTION = re.compile(r"(?:[A-Z]|`|[a-z-]+[:,] |known bad).{0,128}\.")  # a value comes first in its own spelling


@pytest.mark.parametrize("name", NAMES)
def test_is_a_schema(name: str) -> None:
    """Each is a schema of draft 2020-12, names its command, requires the schema number, and is closed."""
    read = schemas.build_schema(name)
    jsonschema.Draft202012Validator.check_schema(read)

    assert read["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert read["title"].startswith("envcheck ")
    assert read["$id"] == f"urn:envcheck:{name}:{SCHEMA_VERSION}"
    assert name == "parse" or list(_list_open_objects(read)) == []
    assert name in ("parse", *PARTS) or read["properties"]["schema"]["const"] == SCHEMA_VERSION


@pytest.mark.parametrize("name", NAMES)
def test_every_key_is_described(name: str) -> None:
    """Each key of the document and of its objects has a meaning of one line, in the style of the reference."""
    described = {f"{owner}.{key}": value.get("description", "") for owner, key, value in _list_keys(name)}
    wrong = {key: text for key, text in described.items() if not DESCRIPTION.fullmatch(text)}

    assert described
    assert wrong == {}


@pytest.mark.parametrize("name", NAMES)
def test_null_is_explained(name: str) -> None:
    """The description of a key that may be null states what null means, and no other description mentions null."""
    wrong = [
        f"{owner}.{key}: {value['description']}"
        for owner, key, value in _list_keys(name)
        if {"type", "anyOf"} & value.keys() and _is_nullable(value) != ("null" in value["description"].split())
    ]

    assert wrong == []


def test_objects_have_one_meaning() -> None:
    """An object name has the same meaning in every document."""
    found: dict[str, Any] = {}
    different = [
        f"{name}: {part}"
        for name in NAMES
        for part, described in schemas.build_schema(name).get("$defs", {}).items()
        if found.setdefault(part, described) != described
    ]

    assert different == []


@pytest.mark.parametrize("owner", [*fact_keys.MEANINGS, *recipe_keys.MEANINGS], ids=lambda owner: owner.__name__)
def test_described_fields_exist(owner: type) -> None:
    """The tables describe fields of their dataclasses, and nothing that COMMON describes in the same words."""
    table = {**fact_keys.MEANINGS, **recipe_keys.MEANINGS}[owner]

    assert table.keys() <= {field.name for field in dataclasses.fields(owner)}
    assert not table.items() & key_meanings.COMMON.items()


def test_each_is_tried() -> None:
    """Every schema has a real document below."""
    assert {name for name, _, _ in COMMANDS} | UNTRIED | {"parse", *PARTS} == set(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "machine", "words"), COMMANDS, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(COMMANDS)]
)
def test_real_documents(name: str, machine: str, words: tuple[str, ...], tmp_path: Path) -> None:
    """Real output matches its schema, so a new key must be added there."""
    argv = [sys.executable, "-m", "envcheck", *words]
    if machine:
        argv = [sys.executable, "-m", "envcheck", "simulate", machine, "--", *argv]
    env = {**os.environ, "ENVCHECK_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    document = json.loads(done.stdout)

    assert _list_errors(name, document) == []


FINDING = Finding("job.packages", Status.FAIL, _("missing"), fix(_("Install it."), "envcheck provision"))
WORKER = FirstFailure(1, -9, ("out of memory",), log="workerlog.1")
END = TrainingEnd("failed", 1, WORKER, (TrainingStep(1.0, 1, 4.2),), 1 << 30, 9.5, (), stopped=FINDING, left=(7,))


def test_parts_of_a_record() -> None:
    """Findings, the end of a failed run and its diagnoses are written as the schema describes them."""
    schema = schemas.build_schema("run")
    parts = {"properties": schema["properties"], "additionalProperties": False, "$defs": schema["$defs"]}
    line = Evidence("workerlog.1", 3, "out of memory", 1.5, "")
    found = make_diagnosis(load_entries()[0], {"path": "/x"}, (line,), 1)
    written = record.build_end_values(END, 5) | {"gates": record.list_findings([FINDING])}
    written["diagnoses"] = diagnose_failure.list_diagnosis_values((found,))

    assert [
        e.message for e in jsonschema.Draft202012Validator(parts).iter_errors(json.loads(json.dumps(written)))
    ] == []


def test_parsed_recordings() -> None:
    """The result of `parse` for each recording matches its schema."""
    wrong = {
        str(raw.relative_to(ROOT)): found for raw in CASES if (found := _list_errors("parse", _parse_recording(raw)))
    }

    assert len(CASES) > 50
    assert wrong == {}


def _parse_recording(raw: Path) -> dict[str, Any]:
    return as_json(importlib.import_module(TOOLS[raw.parts[-3]]).parse(raw.read_bytes().decode("utf-8", "replace")))


def test_wrong_documents_are_refused() -> None:
    """The schema rejects an unknown status, a missing verdict and another schema number."""
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

    assert _list_errors("doctor", good) == []
    assert _list_errors("doctor", {**good, "verdict": "FINE"})
    assert _list_errors("doctor", {**good, "schema": SCHEMA_VERSION + 1})
    assert _list_errors("doctor", {key: value for key, value in good.items() if key != "verdict"})
    assert _list_errors("doctor", {**good, "more": 1})  # to this test alone: readers leave out what they do not know


def test_the_verb() -> None:
    """Without a name all are listed; with one its schema is printed; another is refused with the nearest."""
    listed, printed, refused = (
        subprocess.run([sys.executable, "-m", "envcheck", "schema", *more], cwd=ROOT, capture_output=True, text=True)
        for more in ([], ["doctor"], ["docter"])
    )

    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(NAMES)
    assert json.loads(printed.stdout) == schemas.build_schema("doctor")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "did you mean doctor" in refused.stderr


def _list_keys(name: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (object, key, schema of the key) for the document and all its objects."""
    schema = schemas.build_schema(name)
    for owner, described in ({name: schema} | schema.get("$defs", {})).items():
        for key, value in described.get("properties", {}).items():
            yield owner, key, value


def _is_nullable(schema: dict[str, Any]) -> bool:
    kinds = schema.get("type", ())
    return "null" in ([kinds] if isinstance(kinds, str) else kinds) or any(map(_is_nullable, schema.get("anyOf", ())))


def _list_errors(name: str, document: object) -> list[str]:
    validator = jsonschema.Draft202012Validator(_close_schema(schemas.build_schema(name)))
    return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(document)][:5]


def _list_open_objects(schema: Any, place: str = "") -> Iterator[str]:
    """Yield the places of objects that allow keys without a description of them or of their values."""
    if isinstance(schema, dict):
        kinds = schema.get("type", ())
        of_parse = schema.get("description") == OPEN_WORDS  # the output of `parse` is open wherever it is nested
        is_object = "object" in ([kinds] if isinstance(kinds, str) else kinds)
        if of_parse:
            return
        if is_object and schema.get("additionalProperties", {}) in ({}, True):
            yield place or "/"
        schema = list(schema.items())
    if isinstance(schema, list):
        for n, one in enumerate(schema):
            key, value = one if isinstance(one, tuple) else (n, one)
            yield from _list_open_objects(value, f"{place}/{key}")


def _close_schema(schema: Any) -> Any:
    """Return the schema with unknown keys forbidden, because it must describe all keys."""
    if isinstance(schema, list):
        return [_close_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _close_schema(value) for key, value in schema.items()}
    named = isinstance(schema.get("properties"), dict) and "type" in schema
    return {**closed, "additionalProperties": False} if named and "additionalProperties" not in schema else closed
