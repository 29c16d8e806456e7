"""Files damaged at random: every loader returns a value, or refuses the file with a message."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from envcheck import settings
from envcheck.collect import snapshot
from envcheck.core.errors import EnvcheckError
from envcheck.explain import explain_files
from envcheck.simulate import machine_file
from installers.bundle import archive_reader, tar
from installers.locks import lockfile
from installers.recipes import loader
from launch.backends.k8s import patches
from launch.catalogue import model_config
from launch.runs import run_index
from tests.envcheck.report.test_damaged_answers import damage_text
from tests.installers.bundle.bundle_helpers import make_bundle

ROOT = Path(__file__).parents[1]
SEEDS = range(1000, 3000)  # of the extended run: two minutes
PATCH = """kind: Pod
spec:
  containers:
    - {name: pytorch, env: [{name: A, value: "1"}]}
---
- {op: add, path: /metadata/labels/a, value: b}
"""
SETTINGS = """
[thresholds]
"host.memory.warn_gib" = 4
[[waive]]
check = "host.swap"
reason = "why"
expires = 2999-01-01
"""
CONFIG = (
    '{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99}'
)
RECORD = '{"schema": 1, "state": "running", "recipe": "tiny-cpu", "pid": 1, "plan": {"nodes": 1, "steps": {"max": 5}}}'
LOCK = lockfile.render_lock(lockfile.Lock(1, "0.1.0", "little", "0" * 64, "x86_64", "3.11", None, None, ()))
OWN = {name: (ROOT / path).read_text() for name, path in {
    "recipe": "installers/recipes/qwen-7b-npu-swift.toml", "machine": "envcheck/simulate/machines/atlas-800t-a2.toml",
}.items()}  # fmt: skip


# Name of the file → its text, and what reads it.
LOADERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "x.toml": (OWN["recipe"], loader.load_recipe),
    "atlas-800t-a2.toml": (OWN["machine"], lambda path: machine_file.load_machine("atlas-800t-a2", path.parent)),
    "envcheck.toml": (SETTINGS, lambda path: settings.load_settings(str(path))),
    "envcheck.lock": (LOCK, lockfile.load_lock),
    "patch.yaml": (PATCH, lambda path: patches.load_patches([path])),
    "config.json": (CONFIG, lambda path: model_config.read_model(path.parent)),
    "run.json": (RECORD, lambda path: run_index.read_run(path.parent)),
    "snapshot.json": ('{"schema": 1, "device": "auto", "answers": {}}', snapshot.load_snapshot),
    "train.log": (
        "Traceback (most recent call last):\n  File 'x'\nValueError: no\n" * 20,
        lambda path: explain_files([path]),
    ),
}


def load_damaged(name: str, folder: Path, seed: int) -> None:
    """Damage a file, and assert that reading it ends with a value or a message."""
    source, (text, load) = random.Random(seed), LOADERS[name]
    raw = damage_text(text, source).encode("utf-8", "surrogatepass")
    if source.random() < 0.2:
        raw = raw[: len(raw) // 2] + bytes(source.randrange(256) for _ in range(40)) + raw[len(raw) // 2 :]
    (path := folder / name).write_bytes(raw)
    try:
        load(path)
    except EnvcheckError as err:
        assert err.message, (name, seed)
    except Exception as err:
        raise AssertionError(f"{name}, seed {seed}: {type(err).__name__}: {err}") from err


def read_contents(path: Path) -> dict[str, bytes]:
    """Verify a bundle and return its members; EnvcheckError if it is refused."""
    found = archive_reader.verify_bundle(path, "x86_64")
    with path.open("rb") as file:
        return {name: b"".join(tar.read_member(file, member)) for name, member in found.members.items()}


def load_damaged_bundle(path: Path, whole: bytes, contents: Mapping[str, bytes], seed: int) -> None:
    """Cut, repeat and overwrite parts of a bundle; it is refused with a message, or its contents are unchanged."""
    source, raw = random.Random(seed), bytearray(whole)
    for _ in range(source.randint(1, 3)):
        at, to = sorted(source.randrange(len(raw)) for _ in range(2))
        to = min(to, at + 2000)
        raw[at:to] = source.choice(
            (b"", bytes(to - at), raw[at:to] * 2, bytes(source.randrange(256) for _ in range(60)))
        )
    path.write_bytes(raw)
    try:
        assert read_contents(path) == contents, seed
    except EnvcheckError as err:
        assert err.message, seed


@pytest.mark.parametrize("name", LOADERS)
def test_a_damaged_file_is_read_or_refused(name: str, tmp_path: Path) -> None:
    """No loader ends with a traceback."""
    for seed in range(25):
        load_damaged(name, tmp_path, seed)


def test_a_damaged_bundle_is_refused(tmp_path: Path) -> None:
    """No damage of a bundle ends with a traceback, or changes what is unpacked of it."""
    whole, contents = (bundle := make_bundle(tmp_path)).read_bytes(), read_contents(bundle)

    assert len(contents) > 3
    for seed in range(25):
        load_damaged_bundle(tmp_path / "x.tar", whole, contents, seed)


@pytest.mark.extended
def test_damaged_files_with_many_seeds(tmp_path: Path) -> None:
    """The same with two thousand seeds."""
    whole, contents = (bundle := make_bundle(tmp_path)).read_bytes(), read_contents(bundle)
    for seed in SEEDS:
        for name in LOADERS:
            load_damaged(name, tmp_path, seed)
        load_damaged_bundle(tmp_path / "x.tar", whole, contents, seed)
