"""Weights: what a folder must hold, what hostile files may not do, and a real hub client fetching and resuming."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core import process
from envcheck.core.errors import StepError, UsageError
from envcheck.core.process import CommandResult
from installers.bundle import weights, weights_fetch, weights_header
from installers.bundle.weights_fetch import Fetch
from installers.recipes import catalogue, recipe_rules
from installers.recipes.recipe import Mount, Weights
from tests.installers.bundle.weights_helpers import Hub, header, model, serving, shard

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


def found(folder: Path) -> list[str]:
    return [str(flaw) for flaw in weights.check(folder).flaws]


def test_whole_model(tmp_path: Path) -> None:
    """A whole model has no flaw, and its shards, tensors and bytes are counted."""
    folder = model(tmp_path / "m")
    checked = weights.check(folder)

    size = sum(p.stat().st_size for p in folder.glob("*.safetensors"))
    assert (checked.whole, checked.shards, checked.tensors, checked.size_bytes) == (True, 2, 6, size)


def test_single_file(tmp_path: Path) -> None:
    """A model of one file needs no index."""
    folder = model(tmp_path / "m")
    for name in (FIRST, SECOND, INDEX):
        (folder / name).unlink()
    shard(folder / "model.safetensors", "a", "b")

    assert weights.check(folder).whole is True


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda f: (f / SECOND).unlink(), f"{SECOND} is missing"),
    "truncated": (lambda f: os.truncate(f / FIRST, 2000), f"{FIRST} is cut off: "),
    "in-header": (lambda f: os.truncate(f / FIRST, 50), f"{FIRST} is cut off inside its header"),
    "empty": (lambda f: os.truncate(f / FIRST, 0), f"{FIRST} is empty"),
    "longer": (lambda f: (f / FIRST).open("ab").write(b"x" * 7), f"{FIRST} is 7 bytes longer"),
    "foreign": (lambda f: shard(f / FIRST, "layers.9.q.weight"), f"{FIRST} is of another model or version: it lacks"),
    "extra": (
        lambda f: shard(f / FIRST, *(f"layers.1.{p}.weight" for p in "qkvo")),
        f"{FIRST} is of another model or version: it holds, against the index, 'layers.1.o.weight'",
    ),
    "pointer": (
        lambda f: (f / FIRST).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"),
        f"{FIRST} is a pointer of Git LFS",
    ),
    "page": (lambda f: (f / FIRST).write_text("<html>busy</html>"), f"{FIRST} is no safetensors file"),
    "config": (lambda f: (f / "config.json").unlink(), "config.json is missing"),
    "tokenizer": (lambda f: (f / "tokenizer.model").unlink(), "the tokenizer is missing"),
    "index": (lambda f: (f / INDEX).unlink(), f"{INDEX} is missing beside {FIRST}"),
    "bad-index": (lambda f: (f / INDEX).write_text("[" * 100_000), f"{INDEX} is no index"),
    "stranger": (lambda f: shard(f / "model-00001-of-00009.safetensors", "x"), "is in no place of the index"),
    "unfinished": (lambda f: (f / "x.incomplete").touch(), "x.incomplete is a download that did not end"),
    "pipe": (lambda f: ((f / FIRST).unlink(), os.mkfifo(f / FIRST)), f"{FIRST} is no plain file"),
    "link-out": (lambda f: ((f / FIRST).unlink(), (f / FIRST).symlink_to("/etc/passwd")), "leads out of"),
    "link-loop": (lambda f: ((f / FIRST).unlink(), (f / FIRST).symlink_to(FIRST)), "is a link to nothing"),
    "folder": (lambda f: ((f / FIRST).unlink(), (f / FIRST).mkdir()), f"{FIRST} cannot be read"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_flaws_are_named(tmp_path: Path, name: str) -> None:
    """Each kind of damage is told with the file's name and what to do, and nothing else is called wrong."""
    folder = model(tmp_path / "m")
    hurt, expected = DAMAGE[name]
    hurt(folder)
    checked = weights.check(folder)

    assert checked.whole is False
    assert [expected in str(flaw) for flaw in checked.flaws] == [True], checked.flaws
    assert all(flaw.next_step for flaw in checked.flaws)


def test_every_bad_shard_is_named(tmp_path: Path) -> None:
    """Two bad shards are two flaws."""
    folder = model(tmp_path / "m")
    (folder / FIRST).unlink()
    os.truncate(folder / SECOND, 2000)

    assert [line.split()[0] for line in found(folder)] == [FIRST, SECOND]


def test_what_cannot_be_told(tmp_path: Path) -> None:
    """Pickled weights and a part that was never written are neither well nor wrong."""
    pickled, sparse = model(tmp_path / "p"), model(tmp_path / "s", rows=1 << 16)
    for name in (FIRST, SECOND, INDEX):
        (pickled / name).unlink()
    (pickled / "model_state.pdparams").write_bytes(b"x")
    size = (sparse / FIRST).stat().st_size
    os.truncate(sparse / FIRST, 1 << 20)
    os.truncate(sparse / FIRST, size)

    assert [weights.check(pickled).whole, weights.check(sparse).whole] == [None, None]
    assert "never written, at byte 1048576" in found(sparse)[0]


def test_hub_cache_links(tmp_path: Path) -> None:
    """The hub's own cache is made of links: good below the folder that is mounted, refused where that is smaller."""
    blobs = model(tmp_path / "models--a--b/blobs")
    snapshot = tmp_path / "models--a--b/snapshots/1"
    snapshot.mkdir(parents=True)
    for path in blobs.iterdir():
        (snapshot / path.name).symlink_to(path)

    assert weights.check(snapshot, within=tmp_path / "models--a--b").whole is True
    assert weights.check(snapshot).whole is False


@pytest.mark.parametrize("name", ("../x.safetensors", "/etc/x.safetensors", "a/b.safetensors", ".x.safetensors",
                                  "x\n.safetensors", "model.bin", "", "C:\\x.safetensors", 7))  # fmt: skip
def test_index_names_stay_in_the_folder(tmp_path: Path, name: object) -> None:
    """An index that names anything but a file of its folder is refused before that is opened."""
    folder = model(tmp_path / "m")
    (folder / INDEX).write_text(json.dumps({"weight_map": {"a": name}}))

    assert "which is no file of this folder" in found(folder)[0]


def tensor(begin: int = 0, end: int = 4, dtype: object = "F32", shape: object = (1,)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("raw", "expected"),
    (
        ((1 << 62).to_bytes(8, "little") + b"{}", "no safetensors file"),
        (header({"a": tensor(), "b": tensor(2, 6)}) + b"x" * 6, "overlaps the one before"),
        (header({"a": tensor(), "b": tensor(8, 12)}) + b"x" * 12, "leaves a gap"),
        (header({"a": tensor(8, 4)}) + b"x" * 8, "shape and type do not take"),
        (header({"a": tensor(0, 8)}) + b"x" * 8, "shape and type do not take"),
        (header({"a": tensor(-4, 0)}), "no number from 0 up"),
        (header({"a": tensor(shape=[1 << 40] * 40)}), "beyond all bounds"),
        (header({"a": tensor(shape=[True])}) + b"x" * 4, "no number from 0 up"),
        (header({"a": tensor(shape=[1.0])}) + b"x" * 4, "no number from 0 up"),
        (header({"a": tensor(dtype="F128")}) + b"x" * 4, "unknown type"),
        (header({"a": tensor(dtype=["F32"])}) + b"x" * 4, "unknown type"),
        (header({"a": {"dtype": "F32"}}) + b"x" * 4, "another way"),
        (header({"a": 3}), "another way"),
        ((30).to_bytes(8, "little") + b'{"a":1,"a":2}'.ljust(30), "twice"),
        ((9).to_bytes(8, "little") + b'{"a":NaN}', "NaN"),
        ((4).to_bytes(8, "little") + b"[[]]", "no table"),
        ((100_000).to_bytes(8, "little") + b"[" * 100_000, "no JSON"),
    ),
)  # fmt: skip
def test_hostile_headers(tmp_path: Path, raw: bytes, expected: str) -> None:
    """A header that lies about sizes, types or places is refused in words, at no cost."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(raw)

    with pytest.raises(weights_header.NotWeightsError, match=expected):
        weights_header.read(path)


@given(st.binary(max_size=200))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """Whatever a file holds, it is a header or refused in words."""
    path = tmp_path_factory.mktemp("any") / "x"
    path.write_bytes(len(raw).to_bytes(8, "little") + raw)
    try:
        weights_header.read(path)
    except weights_header.NotWeightsError as err:
        assert err.what and err.next_step


def test_recipes_name_their_weights() -> None:
    """Every recipe for a published model says where its weights are and how big they are; the command follows."""
    published = [r for r in catalogue.load_all() if not r.name.startswith("tiny")]
    ernie = next(r for r in published if r.name == "ernie-300b-npu")
    fetch = weights_fetch.fetches(ernie)[0]

    assert all(weights_fetch.fetches(r) and r.weights and r.weights.size_gib for r in published)
    assert fetch.folder == "/workspace/ERNIE/baidu/ERNIE-4.5-300B-A47B-Paddle"
    assert fetch.argv("python3")[3:] == ("huggingface", "baidu/ERNIE-4.5-300B-A47B-Paddle", fetch.folder)


@pytest.mark.parametrize("bad", (Weights(huggingface="--help"), Weights(), Weights(huggingface="a/b", folder="../x"),
                                 Weights(huggingface="a/b", first="x"), Weights("a/b", folder="/etc")))  # fmt: skip
def test_hostile_recipe(bad: Weights) -> None:
    """A recipe cannot smuggle an option into the command, or a folder out of the working directory."""
    with pytest.raises(UsageError, match="weights"):
        recipe_rules.check(replace(catalogue.by_name(catalogue.load_all(), "ernie-300b-npu"), weights=bad))


def test_where_the_weights_stand(tmp_path: Path) -> None:
    """A container's path is found on the host through its mounts, the longest one; outside of them it is nowhere."""
    mounts = (Mount(".", "/workspace"), Mount("/data/m", "/workspace/ERNIE/baidu"))

    assert weights_fetch.on_host("/workspace/ERNIE/baidu/x", mounts, tmp_path) == Path("/data/m/x")
    assert weights_fetch.on_host("/workspace/a/../b", mounts, tmp_path) == tmp_path / "b"
    assert weights_fetch.on_host("/workspaces/a", mounts, tmp_path) is None


def test_room() -> None:
    """What is there already need not fit a second time; what nobody knows is no reason to refuse."""
    assert (
        weights_fetch.lacking_room(39, 0, 30 << 30)
        == "30.0 GiB are free, 40.0 GiB are needed for what is not there yet"
    )
    assert weights_fetch.lacking_room(39, 20 << 30, 30 << 30) is None
    assert weights_fetch.lacking_room(None, 0, 0) is None


@pytest.fixture(scope="session")
def hub_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python with the hub's real client."""
    folder = tmp_path_factory.mktemp("hub-client")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "huggingface_hub"]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"huggingface_hub cannot be installed here: {done.stderr[-200:]}")
    return str(folder / "bin/python")


def fetch(hub: Hub, python: str, folder: Path, home: Path) -> CommandResult:
    argv = Fetch("huggingface", "baidu/ERNIE", str(folder)).argv(python)
    env = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    return process.run(argv, timeout_s=60, env=env)


@pytest.mark.real
def test_fetch_and_resume(tmp_path: Path, hub_python: str) -> None:
    """The hub's own client, cut off in the middle, says so in words; the second run fetches what is not complete."""
    repository = model(tmp_path / "hub/baidu/ERNIE")
    shard(repository / SECOND, *(f"layers.2.{p}.weight" for p in "qkv"), rows=1 << 16)
    (repository / "pytorch_model.bin").write_bytes(b"the weights once more")
    target = tmp_path / "target"
    with serving(tmp_path / "hub") as hub:
        hub.cut = 1 << 20
        cut = fetch(hub, hub_python, target, tmp_path / "home")
        with pytest.raises(StepError, match="baidu/ERNIE from huggingface: the hub does not answer, or stopped"):
            weights_fetch.fetched(Fetch("huggingface", "baidu/ERNIE", str(target)), cut)
        begun, hub.cut = weights_fetch.present_bytes(target), 0
        hub.sent.clear()
        done = fetch(hub, hub_python, target, tmp_path / "home")

    assert weights_fetch.fetched(Fetch("huggingface", "baidu/ERNIE", ""), done) == str(target)
    assert weights.check(target).whole is True
    assert not (target / "pytorch_model.bin").exists()
    assert begun >= sum(p.stat().st_size for p in repository.iterdir() if p.name not in (SECOND, "pytorch_model.bin"))
    assert hub.sent == [SECOND]


@pytest.mark.real
@pytest.mark.parametrize(("status", "expected"), ((401, "wants to know who asks"), (404, "no such repository")))
def test_hub_refuses(tmp_path: Path, hub_python: str, status: int, expected: str) -> None:
    """What the hub refuses is told in a sentence with a next step."""
    with serving(tmp_path) as hub:
        hub.status = status
        done = fetch(hub, hub_python, tmp_path / "t", tmp_path / "home")

    with pytest.raises(StepError, match=expected):
        weights_fetch.fetched(Fetch("huggingface", "baidu/ERNIE", ""), done)


def test_library_is_absent() -> None:
    """A place without the hub's library is told so, and what to add."""
    asked = Fetch("modelscope", "Qwen/Qwen1.5-7B", "")
    done = process.run(asked.argv(sys.executable), timeout_s=60, env={"PATH": os.environ["PATH"]})

    with pytest.raises(StepError, match="the library modelscope is not installed there"):
        weights_fetch.fetched(asked, done)


@pytest.mark.slow
def test_tokens_stay_out_of_arguments() -> None:
    """A token goes by the environment alone, and only what the download needs goes along."""
    env = {"HF_TOKEN": "hf_secret", "https_proxy": "http://p:1", "OTHER": "x"}

    assert weights_fetch.passed(env) == {"HF_TOKEN": "hf_secret", "https_proxy": "http://p:1"}
