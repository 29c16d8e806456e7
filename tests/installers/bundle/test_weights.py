"""Weights: what a folder must have, what hostile files must not do, and a real hub client that resumes."""

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
from envcheck.settings.site_access import HUB_SERVERS
from installers.bundle import weights, weights_fetch, weights_header
from installers.bundle.weights_fetch import HubDownload
from installers.recipes import catalogue, validation
from installers.recipes.recipe import Mount, Weights
from tests.installers.bundle.weights_helpers import LocalHub, make_header, serve_hub, write_model, write_shard

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


def list_flaws(folder: Path) -> list[str]:
    return [str(flaw) for flaw in weights.check_weights(folder).flaws]


def test_whole_model(tmp_path: Path) -> None:
    """A complete model has no flaw, and its shards, tensors and bytes are counted."""
    folder = write_model(tmp_path / "m")
    checked = weights.check_weights(folder)

    size = sum(p.stat().st_size for p in folder.glob("*.safetensors"))
    assert (checked.is_whole, checked.shards, checked.tensors, checked.size_bytes) == (True, 2, 6, size)


def test_single_file(tmp_path: Path) -> None:
    """A model of one file needs no index."""
    folder = write_model(tmp_path / "m")
    for name in (FIRST, SECOND, INDEX):
        (folder / name).unlink()
    write_shard(folder / "model.safetensors", "a", "b")

    assert weights.check_weights(folder).is_whole is True


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda f: (f / SECOND).unlink(), f"{SECOND}: missing"),
    "truncated": (lambda f: os.truncate(f / FIRST, 2000), f"{FIRST}: truncated: 1697 of 3072 bytes of data present"),
    "in-header": (lambda f: os.truncate(f / FIRST, 50), f"{FIRST}: truncated within its header, at 50 bytes"),
    "empty": (lambda f: os.truncate(f / FIRST, 0), f"{FIRST}: empty"),
    "longer": (lambda f: (f / FIRST).open("ab").write(b"x" * 7), f"{FIRST}: 7 bytes longer than its header specifies"),
    "foreign": (
        lambda f: write_shard(f / FIRST, "layers.9.q.weight"),
        f"{FIRST}: belongs to another model or version: 'layers.1.k.weight' and 2 more missing",
    ),
    "extra": (
        lambda f: write_shard(f / FIRST, *(f"layers.1.{p}.weight" for p in "qkvo")),
        f"{FIRST}: belongs to another model or version: contains 'layers.1.o.weight', which the index does not list",
    ),
    "pointer": (
        lambda f: (f / FIRST).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"),
        f"{FIRST}: Git LFS pointer instead of the weights",
    ),
    "page": (lambda f: (f / FIRST).write_text("<html>busy</html>"), f"{FIRST}: not a safetensors file"),
    "config": (lambda f: (f / "config.json").unlink(), "config.json: missing"),
    "tokenizer": (lambda f: (f / "tokenizer.model").unlink(), "tokenizer: missing (none of tokenizer.json, "),
    "index": (lambda f: (f / INDEX).unlink(), f"{INDEX}: missing, but shard {FIRST} exists"),
    "bad-index": (lambda f: (f / INDEX).write_text("[" * 100_000), f"{INDEX}: not a weight index"),
    "stranger": (
        lambda f: write_shard(f / "model-00001-of-00009.safetensors", "x"),
        "-00009.safetensors: not listed in the weight index",
    ),
    "unfinished": (lambda f: (f / "x.incomplete").touch(), "x.incomplete: incomplete download"),
    "pipe": (lambda f: ((f / FIRST).unlink(), os.mkfifo(f / FIRST)), f"{FIRST}: not a regular file"),
    "link-out": (
        lambda f: ((f / FIRST).unlink(), (f / FIRST).symlink_to("/etc/passwd")),
        f"{FIRST}: symbolic link to a path outside ",
    ),
    "link-loop": (lambda f: ((f / FIRST).unlink(), (f / FIRST).symlink_to(FIRST)), f"{FIRST}: broken symbolic link"),
    "folder": (lambda f: ((f / FIRST).unlink(), (f / FIRST).mkdir()), f"{FIRST}: cannot read it: is a directory"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_flaws_are_named(tmp_path: Path, name: str) -> None:
    """Each kind of damage is reported with the file's name and a next step, and nothing else."""
    folder = write_model(tmp_path / "m")
    hurt, expected = DAMAGE[name]
    hurt(folder)
    checked = weights.check_weights(folder)

    assert checked.is_whole is False
    assert [expected in str(flaw) for flaw in checked.flaws] == [True], checked.flaws
    assert all(flaw.next_step for flaw in checked.flaws)


def test_every_bad_shard_is_named(tmp_path: Path) -> None:
    """Two bad shards are two flaws."""
    folder = write_model(tmp_path / "m")
    (folder / FIRST).unlink()
    os.truncate(folder / SECOND, 2000)

    assert [line.split(":")[0] for line in list_flaws(folder)] == [FIRST, SECOND]


def test_what_cannot_be_told(tmp_path: Path) -> None:
    """Pickled weights and parts that were never written are neither good nor bad."""
    pickled, sparse = write_model(tmp_path / "p"), write_model(tmp_path / "s", rows=1 << 16)
    for name in (FIRST, SECOND, INDEX):
        (pickled / name).unlink()
    (pickled / "model_state.pdparams").write_bytes(b"x")
    size = (sparse / FIRST).stat().st_size
    os.truncate(sparse / FIRST, 1 << 20)
    os.truncate(sparse / FIRST, size)

    assert [weights.check_weights(pickled).is_whole, weights.check_weights(sparse).is_whole] == [None, None]
    assert "never written, starting at byte 1048576" in list_flaws(sparse)[0]


def test_hub_cache_links(tmp_path: Path) -> None:
    """The hub's cache consists of links: accepted inside the mounted folder, refused outside."""
    blobs = write_model(tmp_path / "models--a--b/blobs")
    snapshot = tmp_path / "models--a--b/snapshots/1"
    snapshot.mkdir(parents=True)
    for path in blobs.iterdir():
        (snapshot / path.name).symlink_to(path)

    assert weights.check_weights(snapshot, within=tmp_path / "models--a--b").is_whole is True
    assert weights.check_weights(snapshot).is_whole is False


@pytest.mark.parametrize("name", ("../x.safetensors", "/etc/x.safetensors", "a/b.safetensors", ".x.safetensors",
                                  "x\n.safetensors", "model.bin", "", "C:\\x.safetensors", 7))  # fmt: skip
def test_index_names_stay_in_the_folder(tmp_path: Path, name: object) -> None:
    """An index that names anything but a file of its folder is refused before that is opened."""
    folder = write_model(tmp_path / "m")
    (folder / INDEX).write_text(json.dumps({"weight_map": {"a": name}}))

    assert "which is not a file in this folder" in list_flaws(folder)[0]


def make_tensor(begin: int = 0, end: int = 4, dtype: object = "F32", shape: object = (1,)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("raw", "expected"),
    (
        ((1 << 62).to_bytes(8, "little") + b"{}", "not a safetensors file"),
        (make_header({"a": make_tensor(), "b": make_tensor(2, 6)}) + b"x" * 6, "tensor 'b' overlaps the previous one"),
        (make_header({"a": make_tensor(), "b": make_tensor(8, 12)}) + b"x" * 12, "gap before tensor 'b'"),
        (make_header({"a": make_tensor(8, 4)}) + b"x" * 8, "-4 bytes, which does not match its shape and type"),
        (make_header({"a": make_tensor(0, 8)}) + b"x" * 8, "8 bytes, which does not match its shape and type"),
        (make_header({"a": make_tensor(-4, 0)}), "offset that is not a non-negative integer"),
        (make_header({"a": make_tensor(shape=[1 << 40] * 40)}), "exceed the limits"),
        (make_header({"a": make_tensor(shape=[True])}) + b"x" * 4, "is not a non-negative integer"),
        (make_header({"a": make_tensor(shape=[1.0])}) + b"x" * 4, "is not a non-negative integer"),
        (make_header({"a": make_tensor(dtype="F128")}) + b"x" * 4, "has the unknown type"),
        (make_header({"a": make_tensor(dtype=["F32"])}) + b"x" * 4, "has the unknown type"),
        (make_header({"a": {"dtype": "F32"}}) + b"x" * 4, "does not follow the format"),
        (make_header({"a": 3}), "does not follow the format"),
        ((30).to_bytes(8, "little") + b'{"a":1,"a":2}'.ljust(30), "duplicate names"),
        ((9).to_bytes(8, "little") + b'{"a":NaN}', "NaN"),
        ((4).to_bytes(8, "little") + b"[[]]", "not a JSON object"),
        ((100_000).to_bytes(8, "little") + b"[" * 100_000, "invalid header: not JSON$"),
    ),
)  # fmt: skip
def test_hostile_headers(tmp_path: Path, raw: bytes, expected: str) -> None:
    """A header with false sizes, types or offsets is refused with a message, at no cost."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(raw)

    with pytest.raises(weights_header.NotWeightsError, match=expected):
        weights_header.read_header(path)


@given(st.binary(max_size=200))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """Any bytes are a header or refused with a message."""
    path = tmp_path_factory.mktemp("any") / "x"
    path.write_bytes(len(raw).to_bytes(8, "little") + raw)
    try:
        weights_header.read_header(path)
    except weights_header.NotWeightsError as err:
        assert err.what and err.next_step


def test_recipes_name_their_weights() -> None:
    """Every recipe of a published model names its weights and their size, from which the command follows."""
    published = [r for r in catalogue.load_all() if not r.name.startswith("tiny")]
    ernie = next(r for r in published if r.name == "ernie-300b-npu")
    fetch = weights_fetch.list_downloads(ernie)[0]

    assert all(weights_fetch.list_downloads(r) and r.weights and r.weights.size_gib for r in published)
    assert fetch.folder == "/workspace/ERNIE/baidu/ERNIE-4.5-300B-A47B-Paddle"
    assert fetch.build_argv("python3")[3:] == ("huggingface", "baidu/ERNIE-4.5-300B-A47B-Paddle", fetch.folder)


@pytest.mark.parametrize("bad", (Weights(huggingface="--help"), Weights(), Weights(huggingface="a/b", folder="../x"),
                                 Weights(huggingface="a/b", first="x"), Weights("a/b", folder="/etc")))  # fmt: skip
def test_hostile_recipe(bad: Weights) -> None:
    """A recipe cannot add options to the command, or leave the working directory."""
    with pytest.raises(UsageError, match="weights"):
        validation.check_recipe(replace(catalogue.find_recipe(catalogue.load_all(), "ernie-300b-npu"), weights=bad))


def test_where_the_weights_stand(tmp_path: Path) -> None:
    """A container path is found on the host through its longest mount; outside of mounts it is not found."""
    mounts = (Mount(".", "/workspace"), Mount("/data/m", "/workspace/ERNIE/baidu"))

    assert weights_fetch.find_host_path("/workspace/ERNIE/baidu/x", mounts, tmp_path) == Path("/data/m/x")
    assert weights_fetch.find_host_path("/workspace/a/../b", mounts, tmp_path) == tmp_path / "b"
    assert weights_fetch.find_host_path("/workspaces/a", mounts, tmp_path) is None


def test_room() -> None:
    """Existing files need no space again; an unknown size does not block."""
    assert (
        weights_fetch.explain_missing_space(39, 0, 30 << 30) == "40.0 GiB needed for the remaining files; 30.0 GiB free"
    )
    assert weights_fetch.explain_missing_space(39, 20 << 30, 30 << 30) is None
    assert weights_fetch.explain_missing_space(None, 0, 0) is None


@pytest.fixture(scope="session")
def hub_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a Python with the hubs' real clients."""
    folder = tmp_path_factory.mktemp("hub-client")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "huggingface_hub", "modelscope"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"the hubs' clients cannot be installed here: {done.stderr[-200:]}")
    return str(folder / "bin/python")


def fetch_weights(
    hub: LocalHub, python: str, folder: Path, home: Path, name: str = "huggingface", seconds: float = 60
) -> CommandResult:
    argv = HubDownload(name, "baidu/ERNIE", str(folder)).build_argv(python)
    env = {**os.environ, "HF_ENDPOINT": hub.base_url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    env |= {"MODELSCOPE_ENDPOINT": hub.base_url, "MODELSCOPE_CACHE": str(home)}
    return process.run_command(argv, timeout_s=seconds, env=env)


@pytest.mark.real
def test_fetch_and_resume(tmp_path: Path, hub_python: str) -> None:
    """An interrupted hub client is explained; the second run downloads only incomplete files; a damaged one is
    fetched again."""
    repository = write_model(tmp_path / "hub/baidu/ERNIE")
    write_shard(repository / SECOND, *(f"layers.2.{p}.weight" for p in "qkv"), rows=1 << 16)
    (repository / "pytorch_model.bin").write_bytes(b"the weights once more")
    target = tmp_path / "target"
    with serve_hub(tmp_path / "hub") as hub:
        hub.cut = 1 << 20
        cut = fetch_weights(hub, hub_python, target, tmp_path / "home")
        with pytest.raises(
            StepError, match="baidu/ERNIE from huggingface: the model hub did not respond, or the connection was"
        ):
            weights_fetch.parse_downloaded_folder(HubDownload("huggingface", "baidu/ERNIE", str(target)), cut)
        begun, hub.cut = weights_fetch.present_bytes(target), 0
        hub.sent.clear()
        done = fetch_weights(hub, hub_python, target, tmp_path / "home")
        resumed = list(hub.sent)
        raw = (repository / SECOND).read_bytes()
        (target / SECOND).write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
        mended = fetch_weights(hub, hub_python, target, tmp_path / "home")

    assert (mended.status, (target / SECOND).read_bytes() == raw) == (0, True), mended.err
    assert weights_fetch.parse_downloaded_folder(HubDownload("huggingface", "baidu/ERNIE", ""), done) == str(target)
    assert weights.check_weights(target).is_whole is True
    assert not (target / "pytorch_model.bin").exists()
    assert begun >= sum(p.stat().st_size for p in repository.iterdir() if p.name not in (SECOND, "pytorch_model.bin"))
    assert resumed == [SECOND]


@pytest.mark.real
def test_modelscope_resumes(tmp_path: Path, hub_python: str) -> None:
    """ModelScope's real client goes on behind the byte where a connection is cut, leaves complete files, and fetches a
    damaged one again; copies in other formats are left out."""
    repository = write_model(tmp_path / "hub/baidu/ERNIE", rows=1 << 15)
    (repository / "pytorch_model.bin").write_bytes(b"the weights once more")
    target = tmp_path / "target"
    with serve_hub(tmp_path / "hub") as hub:
        hub.cut = 1 << 20
        cut = fetch_weights(hub, hub_python, target, tmp_path / "home", "modelscope", 240)
        parts, hub.cut = list(hub.sent), 0
        hub.sent.clear()
        again = fetch_weights(hub, hub_python, target, tmp_path / "home", "modelscope")
        nothing = list(hub.sent)
        raw = (repository / SECOND).read_bytes()
        (target / SECOND).write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
        mended = fetch_weights(hub, hub_python, target, tmp_path / "home", "modelscope")

    assert (cut.status, again.status, mended.status) == (0, 0, 0), cut.err + again.err + mended.err
    assert weights_fetch.parse_downloaded_folder(HubDownload("modelscope", "baidu/ERNIE", ""), cut) == str(target)
    assert parts.count(SECOND) > 1
    assert nothing == []
    assert (hub.sent, (target / SECOND).read_bytes() == raw) == ([SECOND], True)
    assert weights.check_weights(target).is_whole is True
    assert not (target / "pytorch_model.bin").exists()


@pytest.mark.extended
@pytest.mark.parametrize("name", ("huggingface", "modelscope"))
def test_a_broken_shard(name: str, tmp_path: Path, hub_python: str) -> None:
    """A shard that never has the hub's checksum ends the download, with both real clients."""
    write_model(tmp_path / "hub/baidu/ERNIE")
    with serve_hub(tmp_path / "hub") as hub:
        hub.broken.add(SECOND)
        done = fetch_weights(hub, hub_python, tmp_path / "t", tmp_path / "home", name, 300)

    with pytest.raises(StepError, match="a downloaded file is corrupt"):
        weights_fetch.parse_downloaded_folder(HubDownload(name, "baidu/ERNIE", ""), done)


@pytest.mark.real
@pytest.mark.parametrize("name", ("huggingface", "modelscope"))
@pytest.mark.parametrize(("status", "expected"), ((401, "requires authentication"), (404, "repository not found")))
def test_hub_refuses(tmp_path: Path, hub_python: str, status: int, expected: str, name: str) -> None:
    """A refusal of the hub is a message with a next step."""
    with serve_hub(tmp_path) as hub:
        hub.status = status
        done = fetch_weights(hub, hub_python, tmp_path / "t", tmp_path / "home", name)

    with pytest.raises(StepError, match=expected):
        weights_fetch.parse_downloaded_folder(HubDownload(name, "baidu/ERNIE", ""), done)


@pytest.mark.parametrize(
    ("hub", "variables"),
    (
        ("huggingface", "set HF_ENDPOINT to a mirror"),
        ("modelscope", "set MODELSCOPE_ENDPOINT (older releases: MODELSCOPE_DOMAIN, without https://) to a mirror"),
    ),
)
def test_hub_that_does_not_respond(hub: str, variables: str) -> None:
    """The next step names each variable by which a release of the hub's client finds another server."""
    done = CommandResult(("python",), 1, "", "ConnectionError: Max retries exceeded")

    with pytest.raises(StepError) as found:
        weights_fetch.parse_downloaded_folder(HubDownload(hub, "baidu/ERNIE", ""), done)
    assert variables in str(found.value.next_step)
    assert all(name in weights_fetch.HUB_VARIABLES for name in HUB_SERVERS[hub].variables)


def test_library_is_absent() -> None:
    """A missing hub library is reported, with the package to add."""
    asked = HubDownload("modelscope", "Qwen/Qwen1.5-7B", "")
    done = process.run_command(asked.build_argv(sys.executable), timeout_s=60, env={"PATH": os.environ["PATH"]})

    with pytest.raises(StepError, match="Python library modelscope is not installed"):
        weights_fetch.parse_downloaded_folder(asked, done)


@pytest.mark.slow
def test_tokens_stay_out_of_arguments() -> None:
    """A token is passed in the environment only, with only the variables that the download needs."""
    env = {"HF_TOKEN": "hf_secret", "https_proxy": "http://p:1", "OTHER": "x"}

    assert weights_fetch.select_environment(env) == {"HF_TOKEN": "hf_secret", "https_proxy": "http://p:1"}
