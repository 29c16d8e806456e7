"""The probe of the place where a training runs: data, models, ports and data sets, here and in a container."""

from __future__ import annotations

import ast
import json
import os
import socket
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core import language
from launch.gates import stage_question
from launch.programs import data_probe, inline_program, place_probe, weight_values
from launch.targets.stage import parse_probe_answer
from tests.installers.bundle.weights_helpers import write_model
from tests.launch.gates.gate_parts import find_offer, make_command, make_context

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
    "cut.jsonl": (ROW * 3 + b'{"src": ["a', "line 4 is not valid JSON"),
    "cut_large.jsonl": (ROW * 100_000 + b'{"src": ["a', "is not valid JSON"),
    "middle.jsonl": (ROW * 20 + b"not json\n" + ROW, "line 21 is not valid JSON"),
    "array.jsonl": (b"[1, 2]\n" * 3, "line 1 is not a JSON object"),
    "utf16.jsonl": (ROW.decode().encode("utf-16"), "not valid UTF-8"),
    "bom.jsonl": (b"\xef\xbb\xbf" + ROW, "line 1 is not valid JSON"),
    "blank.jsonl": (b"\n\n\n", "only blank lines"),
    "deep.jsonl": (b"[" * 200_000 + b"\n", "line 1 is"),
    "cut.json": (b'[{"a": 1}, {"a": 2', "not valid JSON"),
    "empty_list.json": (b"[]", "contains no records"),
    "numbers.json": (b"[1, 2]", "items that are not objects"),
    "cut.parquet": (b"PAR1" + b"x" * 40, "truncated"),
    "html.parquet": (b"<html>not found</html>", "not a Parquet file"),
    "footer.parquet": (b"PAR1" + b"x" * 8 + (1 << 30).to_bytes(4, "little") + b"PAR1", "footer has 1073741824 bytes"),
    "latin.txt": ("Grüße".encode("latin-1"), "not valid UTF-8"),
}


@pytest.mark.parametrize("name", GOOD)
def test_data_that_parse(name: str, tmp_path: Path) -> None:
    """Valid data has a description of what was checked."""
    (tmp_path / name).write_bytes(GOOD[name])
    found = data_probe.probe_file(tmp_path / name)

    assert found.get("seen"), found
    assert "flaw" not in found


@pytest.mark.parametrize("name", BAD)
def test_data_that_do_not(name: str, tmp_path: Path) -> None:
    """Invalid data has the position and kind of the problem."""
    (tmp_path / name).write_bytes(BAD[name][0])

    assert BAD[name][1] in data_probe.probe_file(tmp_path / name).get("flaw", "")


@given(st.binary(max_size=4000), st.sampled_from(sorted(data_probe.READERS)))
def test_any_bytes_get_an_answer(tmp_path_factory: pytest.TempPathFactory, raw: bytes, suffix: str) -> None:
    """Any contents have a result; no exception."""
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    path.write_bytes(raw)

    assert set(data_probe.probe_file(path)) <= {"seen", "flaw"}


def test_little_of_a_large_file_is_read(tmp_path: Path) -> None:
    """Of a sparse file of one terabyte only the ends and samples are read."""
    path = tmp_path / "huge.jsonl"
    with path.open("wb") as file:
        file.write(ROW * 64)
        file.truncate(1 << 40)

    assert "is longer than 16 MiB" in data_probe.probe_file(path)["flaw"]


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    """A named pipe is rejected without blocking."""
    os.mkfifo(tmp_path / "p.jsonl")

    assert data_probe.probe_file(tmp_path / "p.jsonl") == {"flaw": "not a regular file"}


def test_names_of_sets(tmp_path: Path) -> None:
    """LLaMA-Factory's list maps names to files, "hub" for downloads, and "" for unknown names."""
    said = {"identity": {"file_name": "identity.json"}, "alpaca": {"hf_hub_url": "a/b"}}
    (tmp_path / "dataset_info.json").write_text(json.dumps(said))
    found = data_probe.resolve_set_files(tmp_path / "dataset_info.json", ["identity", "alpaca", "mine"])

    assert found == {"identity": str(tmp_path / "identity.json"), "alpaca": "hub", "mine": ""}
    assert data_probe.resolve_set_files(tmp_path / "nothing.json", ["identity"]) == {}


def make_question(folder: Path, **more: object) -> dict[str, object]:
    return {"workdir": str(folder), "runs": str(folder / "runs"), "paths": [], **more}


def probe_elsewhere(question: dict[str, object]) -> dict[str, object]:
    """Run the bundled program as in a container: a bare Python in isolated mode in /."""
    python = Path(sys.base_prefix) / "bin" / "python3"
    done = subprocess.run(
        [str(python), "-I", "-c", inline_program.bundle_program(), json.dumps(question)],
        cwd="/", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said: dict[str, object] = json.loads(done.stdout.removeprefix("ENVCHECK "))
    return said


def test_the_bundled_program_has_the_same_result(tmp_path: Path) -> None:
    """A Python without envcheck returns the same for models, data and ports."""
    write_model(tmp_path / "m")
    (tmp_path / "d.jsonl").write_bytes(ROW)
    question = make_question(tmp_path, paths=["d.jsonl"], data=["d.jsonl"], models=["m", "none"], ports=[1])
    here, there = place_probe.probe_place(question), probe_elsewhere(question)

    for key in ("sizes", "data", "models", "ports", "sets"):
        assert there[key] == json.loads(json.dumps(here[key])), key
    assert here["models"]["m"]["shards"] == 2
    assert here["models"]["m"]["flaws"] == []
    assert "none" not in here["models"]


def test_the_bundled_program_finds_a_truncated_shard(tmp_path: Path) -> None:
    """A shard that is one byte shorter than its header states is truncated."""
    shard = write_model(tmp_path / "m") / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    found = probe_elsewhere(make_question(tmp_path, models=["m"]))["models"]

    assert isinstance(found, dict)
    assert "truncated: " in found["m"]["flaws"][0]["what"]


def test_results_of_the_bundled_program_are_translated(tmp_path: Path, chinese: None) -> None:
    """Texts keep their templates in the JSON answer."""
    (tmp_path / "d.jsonl").write_bytes(ROW + b"[1]\n")
    found = parse_probe_answer(probe_elsewhere(make_question(tmp_path, data=["d.jsonl"])))["data"]["d.jsonl"]

    assert found["flaw"] == "line 2 is not a JSON object"
    assert language.translate(found["flaw"]) == "第 2 行不是 JSON 对象"


@pytest.mark.parametrize("name", inline_program.PROBE_MODULES)
def test_bundled_modules_support_python_3_8(name: str) -> None:
    """Their grammar is that of 3.8, and they use no newer methods of strings, paths and dictionaries."""
    text = inline_program._read_source(name)
    tree = ast.parse(text, feature_version=(3, 8))
    calls = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}

    assert not calls & {"removeprefix", "removesuffix", "is_relative_to", "with_stem", "readlink", "cache", "pairwise"}
    assert len(inline_program.bundle_program()) < 100_000  # one argument of a command holds 128 KiB


def test_a_taken_port_is_seen(tmp_path: Path) -> None:
    """A port in use and an invalid port number have different errors."""
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        found = place_probe.probe_place(make_question(tmp_path, ports=[port, 70000]))["ports"]

    assert found == {str(port): "address already in use", "70000": "no such port"}


def test_commit_of_a_clone(tmp_path: Path) -> None:
    """The commit is read from HEAD, directly or through a branch."""
    git = tmp_path / "clone" / ".git"
    (git / "refs").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/main\n")
    (git / "refs" / "main").write_text("a" * 40 + "\n")
    found = place_probe.probe_place(make_question(tmp_path, clones=["clone", "none"]))["commits"]

    assert found == {"clone": "a" * 40, "none": ""}


def test_stage_question() -> None:
    """Data files are checked, data set names are not files, and the model folder is that of config.json."""
    questions = {}
    for name in ("ernie-300b-npu", "qwen-7b-npu-llamafactory", "qwen-7b-npu-swift"):
        recipe, job = find_offer(name, "lora")
        made = make_command(job, recipe)
        questions[name] = stage_question.build_stage_question(
            recipe, job, made, "npu", make_context().facts, Path("/runs"), 7
        )

    assert questions["ernie-300b-npu"].models == ("baidu/ERNIE-4.5-300B-A47B-Paddle",)
    assert "examples/data/sft-train.jsonl" in questions["ernie-300b-npu"].data
    assert questions["ernie-300b-npu"].ports == (7, *range(60000, 60016))
    assert questions["qwen-7b-npu-llamafactory"].names == ("identity", "alpaca_en_demo")
    assert questions["qwen-7b-npu-llamafactory"].registry == "data/dataset_info.json"
    assert "identity" not in questions["qwen-7b-npu-llamafactory"].paths
    assert questions["qwen-7b-npu-swift"].names == ("AI-ModelScope/blossom-math-v2",)
    assert not [path for path in questions["qwen-7b-npu-swift"].paths if "blossom" in path]


def test_ports_of_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ephemeral ports are counted once each from the kernel's tables; None if a table is unreadable."""
    table, span = tmp_path / "tcp", tmp_path / "range"
    row = "  0: 0100007F:{:04X} 00000000:0000 0A 00000000:00000000\n"
    table.write_text("  sl  local_address rem_address   st\n" + row.format(22) + 2 * row.format(40000))
    span.write_text("40000\t40009\n")
    monkeypatch.setattr(place_probe, "PORT_RANGE", str(span))
    monkeypatch.setattr(place_probe, "SOCKETS", (str(table), str(tmp_path / "none")))

    assert place_probe.count_kernel_ports() == (9, 10)
    span.write_text("wide\n")
    assert place_probe.count_kernel_ports() is None


def test_a_simulated_machine_s_files(tmp_path: Path) -> None:
    """Files of the system are those of the simulated machine; data and folders of the user stay where they are."""
    library, data = "/usr/local/corex/lib64/libcuda.so.1", tmp_path / "d.txt"
    (tmp_path / "root" / library[1:]).parent.mkdir(parents=True)
    (tmp_path / "root" / library[1:]).touch()
    data.write_text("text")
    asked = {"workdir": str(tmp_path), "runs": str(tmp_path), "paths": [library, "/usr/bin/env", str(data)]}
    found = place_probe.probe_place({**asked, "system_root": str(tmp_path / "root")})

    assert found["sizes"] == {library: 1, "/usr/bin/env": None, str(data): 4}


def write_tensors(path: Path, **tensors: tuple[str, bytes]) -> None:
    """Write a safetensors file; the values are one-dimensional."""
    table, data = {}, b""
    for name, (kind, raw) in tensors.items():
        width = {"F16": 2, "BF16": 2, "F32": 4, "F64": 8, "I64": 8}[kind]
        offsets = [len(data), len(data) + len(raw)]
        table[name] = {"dtype": kind, "shape": [len(raw) // width], "data_offsets": offsets}
        data += raw
    head = json.dumps(table).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + data)


FINE = {
    "F16": struct.pack("<3e", 0.5, -2.0, 65504.0),
    "BF16": struct.pack("<2H", 0x3F80, 0x8000),
    "F32": struct.pack("<3f", 1.0, -3e4, 1e-30),
    "F64": struct.pack("<2d", 1.0, 1e-300),
    "I64": b"\xff" * 16,
}
BROKEN = {
    "F16": struct.pack("<2e", 1.0, float("nan")),
    "BF16": struct.pack("<2H", 0x3F80, 0xFF80),
    "F32": struct.pack("<2f", 1.0, float("-inf")),
    "F64": struct.pack("<2d", 1.0, float("inf")),
}


@pytest.mark.parametrize("kind", FINE)
def test_finite_weights(kind: str, tmp_path: Path) -> None:
    """Weights of any type with usual values have no flaw."""
    write_tensors(tmp_path / "model.safetensors", a=(kind, FINE[kind]), b=(kind, FINE[kind] * 5000))

    assert weight_values.find_value_flaw(tmp_path) is None


@pytest.mark.parametrize("kind", BROKEN)
def test_weights_that_are_not_finite(kind: str, tmp_path: Path) -> None:
    """NaN and infinity are found at the end of a large tensor too, and the tensor is named."""
    write_tensors(tmp_path / "model.safetensors", a=(kind, FINE[kind]), b=(kind, FINE[kind] * 5000 + BROKEN[kind]))

    assert weight_values.find_value_flaw(tmp_path) == "model.safetensors, b: values that are not finite numbers"


def test_weights_of_a_diverged_training(tmp_path: Path) -> None:
    """Weights of .npz files are read, and values that no training has are a flaw."""
    array = struct.pack("<2f", 1.0, 1e13)
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
    with zipfile.ZipFile(tmp_path / "weights.npz", "w") as file:
        file.writestr("head.npy", b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + array)

    assert weight_values.find_value_flaw(tmp_path) == "weights.npz, head: values of 2^43 and more"


@given(st.binary(max_size=400))
def test_any_weights_get_an_answer(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """Invalid files have no flaw here: gate.model reports them."""
    folder = tmp_path_factory.mktemp("any")
    for name in ("a.safetensors", "b.npz"):
        (folder / name).write_bytes(raw)

    weight_values.find_value_flaw(folder)
