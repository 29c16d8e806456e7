"""What the gates look at where the training will run: data, models, ports, sets; on this host and carried elsewhere."""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launch.gates import asking
from launch.programs import carried, data_probe, place_probe
from tests.installers.bundle.weights_helpers import model
from tests.launch.gates.gate_parts import command, offer, situated

ROW = b'{"src": ["a"], "tgt": ["b"]}\n'
GOOD = {
    "a.jsonl": ROW * 3,
    "no_newline.jsonl": ROW * 2 + ROW.strip(),
    "blank_end.jsonl": ROW + b"\n\n",
    "large.jsonl": ROW * 100_000,
    "list.json": b'[{"a": 1}, {"a": 2}]',
    "object.json": b'{"a": {"b": 1}}',
    "lines.json": ROW * 5,
    "p.parquet": b"PAR1" + b"x" * 40 + (20).to_bytes(4, "little") + b"PAR1",
    "t.txt": "Grüße".encode() * 1000,
}
BAD = {
    "cut.jsonl": (ROW * 3 + b'{"src": ["a', "line 4 is no JSON"),
    "cut_large.jsonl": (ROW * 100_000 + b'{"src": ["a', "is no JSON"),
    "middle.jsonl": (ROW * 20 + b"not json\n" + ROW, "line 21 is no JSON"),
    "array.jsonl": (b"[1, 2]\n" * 3, "line 1 is JSON, but no object"),
    "utf16.jsonl": (ROW.decode().encode("utf-16"), "is no UTF-8"),
    "bom.jsonl": (b"\xef\xbb\xbf" + ROW, "line 1 is no JSON"),
    "blank.jsonl": (b"\n\n\n", "blank lines alone"),
    "deep.jsonl": (b"[" * 200_000 + b"\n", "line 1 is"),
    "cut.json": (b'[{"a": 1}, {"a": 2', "it is no JSON"),
    "empty_list.json": (b"[]", "holds no records"),
    "numbers.json": (b"[1, 2]", "something else than records"),
    "cut.parquet": (b"PAR1" + b"x" * 40, "is cut off"),
    "html.parquet": (b"<html>not found</html>", "is no Parquet file"),
    "footer.parquet": (b"PAR1" + b"x" * 8 + (1 << 30).to_bytes(4, "little") + b"PAR1", "footer of 1073741824 bytes"),
    "latin.txt": ("Grüße".encode("latin-1"), "is no UTF-8"),
}


@pytest.mark.parametrize("name", GOOD)
def test_data_that_parse(name: str, tmp_path: Path) -> None:
    """What was read is said."""
    (tmp_path / name).write_bytes(GOOD[name])
    found = data_probe.look(tmp_path / name)

    assert found.get("seen"), found
    assert "flaw" not in found


@pytest.mark.parametrize("name", BAD)
def test_data_that_do_not(name: str, tmp_path: Path) -> None:
    """The place and the kind of the fault are said."""
    (tmp_path / name).write_bytes(BAD[name][0])

    assert BAD[name][1] in data_probe.look(tmp_path / name).get("flaw", "")


@given(st.binary(max_size=4000), st.sampled_from(sorted(data_probe.READERS)))
def test_any_bytes_get_an_answer(tmp_path_factory: pytest.TempPathFactory, raw: bytes, suffix: str) -> None:
    """Whatever stands in a file, there is an answer in printable words and no exception."""
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    path.write_bytes(raw)

    assert set(data_probe.look(path)) <= {"seen", "flaw"}


def test_little_of_a_large_file_is_read(tmp_path: Path) -> None:
    """A terabyte is judged by its ends and a sample: sparse, it would take hours to read."""
    path = tmp_path / "huge.jsonl"
    with path.open("wb") as file:
        file.write(ROW * 64)
        file.truncate(1 << 40)

    assert "has more than 16 MiB" in data_probe.look(path)["flaw"]


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    """A named pipe in the place of data is no file, at once."""
    os.mkfifo(tmp_path / "p.jsonl")

    assert data_probe.look(tmp_path / "p.jsonl") == {"flaw": "is no plain file"}


def test_names_of_sets(tmp_path: Path) -> None:
    """LLaMA-Factory's list says which file a set is, which comes from a hub, and which it does not know."""
    said = {"identity": {"file_name": "identity.json"}, "alpaca": {"hf_hub_url": "a/b"}}
    (tmp_path / "dataset_info.json").write_text(json.dumps(said))
    found = data_probe.named(tmp_path / "dataset_info.json", ["identity", "alpaca", "mine"])

    assert found == {"identity": str(tmp_path / "identity.json"), "alpaca": "hub", "mine": ""}
    assert data_probe.named(tmp_path / "nothing.json", ["identity"]) == {}


def asked(folder: Path, **more: object) -> dict[str, object]:
    return {"workdir": str(folder), "runs": str(folder / "runs"), "paths": [], **more}


def elsewhere(question: dict[str, object]) -> dict[str, object]:
    """The program as a container gets it: a bare Python, in isolation, from the root folder."""
    python = Path(sys.base_prefix) / "bin" / "python3"
    done = subprocess.run(
        [str(python), "-I", "-c", carried.program(), json.dumps(question)],
        cwd="/", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said: dict[str, object] = json.loads(done.stdout.removeprefix("ENVCHECK "))
    return said


def test_the_carried_program_says_the_same(tmp_path: Path) -> None:
    """A Python that does not see our files answers as this one does, models and data included."""
    model(tmp_path / "m")
    (tmp_path / "d.jsonl").write_bytes(ROW)
    question = asked(tmp_path, paths=["d.jsonl"], data=["d.jsonl"], models=["m", "none"], ports=[1])
    here, there = place_probe.look(question), elsewhere(question)

    for key in ("sizes", "data", "models", "ports", "sets"):
        assert there[key] == json.loads(json.dumps(here[key])), key
    assert here["models"]["m"]["shards"] == 2
    assert here["models"]["m"]["flaws"] == []
    assert "none" not in here["models"]


def test_a_cut_off_shard_is_seen_there(tmp_path: Path) -> None:
    """One byte less than the header says."""
    shard = model(tmp_path / "m") / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    found = elsewhere(asked(tmp_path, models=["m"]))["models"]

    assert isinstance(found, dict)
    assert "is cut off: " in found["m"]["flaws"][0]["what"]


@pytest.mark.parametrize("name", carried.SIGHT)
def test_what_is_carried_is_python_3_8(name: str) -> None:
    """Its grammar is that of 3.8, and nothing newer of strings, paths and dictionaries is used."""
    text = carried._source(name)
    tree = ast.parse(text, feature_version=(3, 8))
    calls = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}

    assert not calls & {"removeprefix", "removesuffix", "is_relative_to", "with_stem", "readlink", "cache", "pairwise"}
    assert len(carried.program()) < 100_000  # one argument of a command holds 128 KiB


def test_a_taken_port_is_seen(tmp_path: Path) -> None:
    """Somebody listens; a number that is no port is none."""
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        found = place_probe.look(asked(tmp_path, ports=[port, 70000]))["ports"]

    assert found == {str(port): "address already in use", "70000": "no such port"}


def test_a_clone_tells_its_commit(tmp_path: Path) -> None:
    """By its HEAD, whether a branch stands there or the commit itself."""
    git = tmp_path / "clone" / ".git"
    (git / "refs").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/main\n")
    (git / "refs" / "main").write_text("a" * 40 + "\n")
    found = place_probe.look(asked(tmp_path, clones=["clone", "none"]))["commits"]

    assert found == {"clone": "a" * 40, "none": ""}


def test_what_is_asked() -> None:
    """Data files are opened, names of sets are not looked for as files, the model's folder is that of its config."""
    questions = {}
    for name in ("ernie-300b-npu", "qwen-7b-npu-llamafactory", "qwen-7b-npu-swift"):
        recipe, job = offer(name, "lora")
        made = command(job, recipe)
        questions[name] = asking.asked(recipe, job, made, "npu", situated().facts, Path("/runs"), 7)

    assert questions["ernie-300b-npu"].models == ("baidu/ERNIE-4.5-300B-A47B-Paddle",)
    assert "examples/data/sft-train.jsonl" in questions["ernie-300b-npu"].data
    assert questions["ernie-300b-npu"].ports == (7, *range(60000, 60016))
    assert questions["qwen-7b-npu-llamafactory"].names == ("identity", "alpaca_en_demo")
    assert questions["qwen-7b-npu-llamafactory"].registry == "data/dataset_info.json"
    assert "identity" not in questions["qwen-7b-npu-llamafactory"].paths
    assert questions["qwen-7b-npu-swift"].names == ("AI-ModelScope/blossom-math-v2",)
    assert not [path for path in questions["qwen-7b-npu-swift"].paths if "blossom" in path]


def test_ports_of_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in the kernel's own tables, each port once; a table that cannot be read is no number."""
    table, span = tmp_path / "tcp", tmp_path / "range"
    row = "  0: 0100007F:{:04X} 00000000:0000 0A 00000000:00000000\n"
    table.write_text("  sl  local_address rem_address   st\n" + row.format(22) + 2 * row.format(40000))
    span.write_text("40000\t40009\n")
    monkeypatch.setattr(place_probe, "PORT_RANGE", str(span))
    monkeypatch.setattr(place_probe, "SOCKETS", (str(table), str(tmp_path / "none")))

    assert place_probe.kernel_ports() == (9, 10)
    span.write_text("wide\n")
    assert place_probe.kernel_ports() is None
