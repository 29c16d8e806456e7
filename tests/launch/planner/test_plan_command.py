"""envcheck plan as people and programs use it: screens, codes, pictures, refusals."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as Xml
from pathlib import Path

import click
import pytest

from envcheck.cli.commands.plan import plan as command
from envcheck.core.errors import UsageError
from launch.planner import legal, machines, resolve
from launch.planner.output import png

ROOT = Path(__file__).parents[3]
DIES = ("--device", "iluvatar", "--cards", "16", "--memory-gib", "32", "--tp", "4", "--pp", "4")
NINETY_SIX = ("--model", "300b", "--method", "sft", "--device", "npu", "--cards", "96", "--memory-gib", "64",
              "--tp", "8", "--pp", "12", "--offload", "optimizer")  # fmt: skip


def plan(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "envcheck", "plan", *argv], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def test_fits() -> None:
    """A job that fits says so first, with the room that is left, and ends with 0."""
    done = plan("--model", "21b", "--method", "lora", *DIES)

    assert done.returncode == 0
    assert done.stdout.startswith("fits: ")
    assert "room: up to " in done.stdout
    assert "4 cards would do" in done.stdout


def test_does_not_fit_and_what_would() -> None:
    """A job that does not fit ends with 1, names phase and stage, and what would fit."""
    done = plan(*NINETY_SIX)

    assert done.returncode == 1
    assert done.stdout.startswith("does not fit: optimizer step on stage 1")
    assert "--offload tensorwise" in done.stdout
    assert "--cards 112 --pp 14" in done.stdout


def test_json_document() -> None:
    """--json prints one document: verdict, phases by term, changes that fit."""
    done = plan(*NINETY_SIX, "--json")
    document = json.loads(done.stdout)

    assert document["verdict"] == "does-not-fit"
    assert document["deciding"] == {"phase": "optimizer step", "stage": 1}
    assert all(change["need_bytes"] < document["usable_bytes"] for change in document["changes"])
    assert {"weights", "gradients", "moments"} <= document["phases"][3]["bytes"].keys()
    assert {"workspace", "allocator slack", "context", "in use when idle"} == document["beside_bytes"].keys()


def test_recipes_own_layout_is_taken() -> None:
    """Without degrees the recipe's layout is planned, and said."""
    done = plan("--model", "300b", "--method", "sft", "--device", "npu", "--cards", "128", "--memory-gib", "64")

    assert done.returncode == 0
    assert "tp8 pp16" in done.stdout
    assert "assumed layout: that of the recipe ernie-300b-npu" in done.stdout


def test_where_no_layout_fits() -> None:
    """Without degrees, and no layout that fits: the one that needs least is shown, not the largest miss."""
    done = plan("--model", "300b", "--method", "sft", "--device", "nvidia", "--cards", "64", "--memory-gib", "32")

    assert done.returncode == 1
    assert "layout: the one that needs least, --tp 8" in done.stdout


def test_recipes_stages_follow_the_cards() -> None:
    """On 96 cards the recipe's layout has twelve stages, and the optimizer step decides against it."""
    done = plan("--model", "300b", "--method", "sft", "--device", "npu", "--cards", "96", "--memory-gib", "64")

    assert done.returncode == 1
    assert done.stdout.startswith("does not fit: optimizer step on stage 1")
    assert "with 12 stages for 96 cards" in done.stdout


def test_explain_names_sources() -> None:
    """--explain gives each term's formula and source."""
    done = plan("--model", "21b", "--method", "lora", *DIES, "--explain")

    assert "arXiv 1910.02054" in done.stdout
    assert "2 b s h per recomputed layer" in done.stdout


@pytest.mark.parametrize(
    "argv",
    [
        NINETY_SIX,
        ("--model", "21b", "--method", "lora", *DIES, "--search"),
        ("--model", "21b", "--method", "lora", *DIES, "--sweep", "seq-len=2048..131072"),
    ],
    ids=["plan", "search", "sweep"],
)
def test_pictures_are_svg(argv: tuple[str, ...], tmp_path: Path) -> None:
    """-o draws a well-formed picture with more than a frame in it."""
    plan(*argv, "-o", str(tmp_path / "plan.svg"))
    picture = Xml.parse(tmp_path / "plan.svg").getroot()

    assert picture.tag.endswith("svg")
    assert len(list(picture)) > 5


def test_picture_is_png(tmp_path: Path) -> None:
    """-o plan.png draws the same picture as PNG, its words included: without them it would be smaller."""
    pytest.importorskip("resvg_py", reason="the extra png is not installed")
    pytest.importorskip("font_roboto", reason="the extra png is not installed")
    for name in ("plan.svg", "plan.png"):
        assert plan(*NINETY_SIX, "-o", str(tmp_path / name)).returncode == 1
    svg, drawn = Xml.parse(tmp_path / "plan.svg").getroot(), (tmp_path / "plan.png").read_bytes()
    wordless = png.of_svg(re.sub("<text.*</text>", "", (tmp_path / "plan.svg").read_text()))

    assert drawn.startswith(b"\x89PNG\r\n")
    assert struct.unpack(">I", drawn[16:20]) == (png.ZOOM * int(svg.attrib["width"]),)
    assert len(drawn) > 1.5 * len(wordless)


def test_png_without_its_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are not installed a sentence says so, and what can be drawn without."""
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(UsageError) as refused:
        png.of_svg("<svg/>")

    assert "needs resvg_py" in refused.value.message
    assert ".svg" in refused.value.next_step


def test_search_marks_the_asked_layout() -> None:
    """The recipe's own layout stands in the ranking, marked, and the front is starred."""
    done = plan("--model", "21b", "--method", "lora", *DIES, "--search")

    assert any(line.startswith(">") and "--tp 4 --pp 4" in line for line in done.stdout.splitlines())
    assert "*" in done.stdout


def test_sweep_shows_where_it_ends() -> None:
    """A sweep names a verdict for each value."""
    done = plan("--model", "qwen2.5-7b", "--method", "sft", "--device", "nvidia", "--cards", "8", "--sharding", "3",
                "--sweep", "seq-len=2048..131072")  # fmt: skip

    assert done.returncode == 0
    assert "fits" in done.stdout.splitlines()[0]
    assert "does not fit" in done.stdout.splitlines()[-1]


def test_models_are_listed() -> None:
    """Every model that --model takes is named, for people and for programs alike."""
    words, told = plan("--list-models").stdout, json.loads(plan("--list-models", "--json").stdout)

    assert [row["name"] for row in told["models"]] == [line.split()[0] for line in words.splitlines()]
    assert next(row for row in told["models"] if row["short"] == "300b")["parameters"] > 290e9


REFUSED = [
    (("--tp", "8"), "--tp 8 does not divide 20 heads and 4 key/value heads: 1, 2, 4"),
    (("--tp", "3"), "--tp 3 does not divide"),
    (("--pp", "29"), "--pp 29: the model has 28 layers"),
    (("--ep", "5"), "--ep 5 does not divide 64 experts"),
    (("--cards", "10", "--tp", "4"), "no multiple of tp x pp x cp = 4"),
    (("--cards", "64", "--nodes", "2"), "--cards 64 on --nodes 2: a node holds 16"),
    (("--lora-targets", "mamba"), "--lora-targets mamba"),
    (("--lora-rank", "100000"), "--lora-rank 100000: from 1 to the hidden size, 2560"),
    (("--seq-len", "200000"), "goes up to 131072"),
    (("--seq-len", "0"), "0 is not in the range"),
    (("--micro-batch", "-1"), "-1 is not in the range"),
    (("--memory-gib", "nan"), "nan"),
    (("--quant", "nf4", "--device", "npu"), "bitsandbytes has no kernels for ascend-910b"),
    (("--quant", "frob"), "--quant frob is not known"),
    (("--recompute", "some"), "--recompute some is not known"),
    (("--sharding", "9"), "--sharding 9 is not known"),
    (("--offload", "moon"), "--offload moon is not known"),
    (("--framework", "frob"), "--framework frob is not known"),
    (("--method", "frob"), "--method frob is not known"),
    (("--model", "frob"), "--model frob is no model"),
    (("--model", "frob"), "envcheck plan --list-models names all"),
    (("--model", "ernie45-21b"), "did you mean ernie-4.5-21b-a3b"),
    (("--model", "qwen"), "more)? envcheck plan --list-models"),
    (("--sweep", "frob=1..2"), "cannot be swept"),
    (("--sweep", "tp=a..b"), "not whole numbers from 1 on"),
    (("--sweep", "tp=1,2,x"), "not whole numbers from 1 on"),
    (("--sweep", "seq-len=1..8", "--search"), "--sweep cannot be combined with --search"),
    (("--optimizer", "frob"), "--optimizer frob is not known"),
    (("--used-gib", "32"), "--used-gib 32: a card has 32 GiB"),
    (("--used-gib", "nan"), "--used-gib: nan is no number"),
    (("--quant", "int3"), "--quant int3 is not known"),
    (("--quant", "awq-int4"), "--quant awq-int4: paddle does not have it"),
    (("--lora-targets", "q_proj,kv_b_proj"), "--lora-targets kv_b_proj: ernie-4.5-21b-a3b has no such module"),
    (("--cards", "4", "--nodes", "3"), "a multiple of 3"),
    (("--offload", "params"), "parameters are offloaded under stage3 or fsdp"),
    (("--offload", "activations"), "paddle does not offload them"),
    (("--sharding", "fsdp"), "paddle has none, stage1, stage2, stage3"),
    (("--optimizer", "adamw8bit", "--device", "npu"), "bitsandbytes has no kernels for ascend-910b"),
    (("--cards", "1000000001"), "is not in the range"),
    (("--cards", "1000001"), "1<=x<=1000000"),
    (("--etp", "3", "--ep", "2"), "--etp 3 does not divide"),
    (("--calibrate", ".", "--search"), "--calibrate cannot be combined with --search"),
    (("-o", "plan.jpg"), "only .svg and .png can be drawn"),
    (("--sharding", "3", "--pp", "4"), "a pipeline excludes stages 2 and 3"),
]


@pytest.mark.parametrize(("argv", "said"), REFUSED, ids=lambda v: " ".join(v) if isinstance(v, tuple) else "")
def test_bad_input(argv: tuple[str, ...], said: str) -> None:
    """What cannot be is refused with 2 and one sentence that names field, value and the legal ones."""
    done = plan(
        "--model", "21b", "--method", "lora", "--device", "iluvatar", "--cards", "16", "--memory-gib", "32", *argv
    )

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [("[]", "not an object"), ("{", "is no config.json"), ("{}", "none of hidden_size"), ("\0", "is no config.json"),
     ('{"hidden_size": "big"}', "hidden_size is 'big'"), ('{"hidden_size": -1}', "hidden_size is -1")],
)  # fmt: skip
def test_a_config_that_is_none(text: str, said: str, tmp_path: Path) -> None:
    """A config.json that is not one is refused in a sentence."""
    (tmp_path / "config.json").write_text(text)
    done = plan("--model", str(tmp_path), "--method", "lora", "--device", "nvidia", "--cards", "1")

    assert done.returncode == 2
    assert said in done.stderr


def test_rows(tmp_path: Path) -> None:
    """A table of jobs is answered row by row; a row that is no job stays undecided and says why."""
    rows = tmp_path / "rows.csv"
    rows.write_text(
        "id,framework,model,method,cards,device,device_mem_gib,tp,pp,sharding,offload,seq_len,micro_batch,recompute\n"
        "a,ERNIEKit,ernie-4.5-300b-a47b,full,96,Ascend-910B,64,8,12,paddle-stage1,optimizer,8192,1,full\n"
        "b,HF Trainer,qwen-7b,full,many,A100,80,1,1,none,none,2048,1,full\n"
        "c,,no-such-model,lora,1,A100,80,1,1,none,none,2048,1,full\n"
    )
    done = plan("--rows", str(rows), "-o", str(tmp_path / "out.csv"))
    lines = (tmp_path / "out.csv").read_text().splitlines()

    assert done.returncode == 0
    assert lines[1].split(",")[3] == "does-not-fit"
    assert "cards is 'many'" in lines[2]
    assert "cannot-tell" in lines[3]


def test_rows_without_columns(tmp_path: Path) -> None:
    """A CSV without the needed columns is refused with their names."""
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    done = plan("--rows", str(tmp_path / "rows.csv"), "-o", str(tmp_path / "out.csv"))

    assert done.returncode == 2
    assert "no column 'model', 'method'" in done.stderr


def test_calibration(tmp_path: Path) -> None:
    """Recorded runs correct the need by a bounded factor and offset, which the answer names."""
    for n, (predicted, measured) in enumerate([(1e10, 1.1e10), (2e10, 2.1e10), (4e10, 4.1e10)]):
        folder = tmp_path / f"run-{n}"
        folder.mkdir()
        memory = {"predicted_bytes": predicted, "measured_bytes": measured}
        (folder / "run.json").write_text(json.dumps({"memory": memory}))
    done = plan("--model", "21b", "--method", "lora", *DIES, "--calibrate", str(tmp_path))

    assert "corrected by 3 runs here: x 1.000 +0.93 GiB" in done.stdout


def test_a_machine_that_was_not_described_is_said() -> None:
    """How many cards and how large they are stands among what was assumed, unless both were told."""
    said = [plan("--model", "0.3b", "--method", "lora", "--device", "npu", *more).stdout for more in (
        ("--cards", "1"), ("--memory-gib", "64"), ("--cards", "1", "--memory-gib", "64"))]  # fmt: skip

    assert "machine: ascend-910b cards, 64 GiB each as usual" in said[0]
    assert "machine: ascend-910b cards, 8 of them as usual" in said[1]
    assert "machine:" not in said[2]


def simulated(machine: str, *argv: str) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-m", "envcheck")
    return subprocess.run(
        [*words, "simulate", machine, "--", *words, "plan", *argv],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_instances_of_a_card() -> None:
    """Of cards that MIG cuts the whole size is known, not an instance's: no promise until it is named."""
    job = ("--model", "0.3b", "--method", "lora")
    whole, named = (simulated("a100x8-mig", *job, *more) for more in ((), ("--memory-gib", "40")))

    assert whole.returncode == 3 and "MIG is on" in whole.stdout.splitlines()[0] and "no change" not in whole.stdout
    assert named.returncode == 0


def test_a_layout_that_was_found_is_all_that_is_assumed() -> None:
    """What the layout says of recompute and sharding is not contradicted by what was taken before it was found."""
    told = [line for line in plan("--model", "qwen2.5-7b", "--method", "lora", "--device", "npu").stdout.splitlines()
            if line.startswith("  assumed")]  # fmt: skip

    assert any("layout: the fastest that fits" in line for line in told)
    assert not [line for line in told if "recompute: full, as" in line or "sharding: " in line]


def test_calibration_without_runs(tmp_path: Path) -> None:
    """A folder without measured runs cannot correct anything."""
    done = plan("--model", "21b", "--method", "lora", *DIES, "--calibrate", str(tmp_path))

    assert done.returncode == 3
    assert "no run has a predicted and a measured peak" in done.stderr


@pytest.mark.parametrize("columns", [50, 80, 200])
def test_narrow_terminals(columns: int) -> None:
    """No line is wider than the terminal but options to paste, whose words are never cut."""
    done = subprocess.run(
        [sys.executable, "-m", "envcheck", "plan", *NINETY_SIX, "--explain"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, env={**os.environ, "COLUMNS": f"{columns}"},
    )  # fmt: skip
    wide = [line for line in done.stdout.splitlines() if len(line) > columns and " " in line.strip()]

    assert not [line for line in wide if "step x" not in line]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rows", "rows.csv", "-o", "out.csv", "--model", "21b"), "--model cannot be combined with --rows"),
        (("--rows", "rows.csv", "-o", "out.csv", "--json"), "--json cannot be combined with --rows"),
        (("--list-models", "--search"), "--search cannot be combined with --list-models"),
    ],
)
def test_no_option_is_left_unread(words: tuple[str, ...], said: str) -> None:
    """What a table's jobs, or the list of models, have no use for is refused."""
    done = plan(*words)

    assert (done.returncode, bool(done.stdout)) == (2, "--json" in words)
    assert said in done.stderr and "leave one of them out" in done.stderr


def test_the_largest_numbers_are_those_of_the_planner() -> None:
    """What the help tells as the range of an option is what a job may have."""
    params = {param.name: param.type for param in command.params}
    ranges = {name: kind.max for name, kind in params.items() if isinstance(kind, click.IntRange)}

    assert {name: ranges[name] for name in legal.LARGEST} == legal.LARGEST
    assert ranges["grad_accum"] == ranges["micro_batch"]


def test_no_output_is_lost(tmp_path: Path) -> None:
    """A table that cannot be read leaves the predictions of an earlier one as they were, and nothing beside them."""
    kept, rows = tmp_path / "out.csv", tmp_path / "rows.csv"
    kept.write_text("earlier\n")
    for text in (b"", b"\xff\x00", b"a,b\n1,2\n", b"model,method,cards,tp,pp,sharding,seq_len,micro_batch\n"):
        rows.write_bytes(text)
        assert plan("--rows", str(rows), "-o", str(kept)).returncode == 2

    assert kept.read_text() == "earlier\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "rows.csv"]


def test_links_and_devices_are_written_through(tmp_path: Path) -> None:
    """-o that is a link (as /dev/stdout is one) is written through, never replaced."""
    rows, link = tmp_path / "rows.csv", tmp_path / "link"
    rows.write_text("model,method,cards,tp,pp,sharding,seq_len,micro_batch\nqwen2.5-7b,lora,1,1,1,none,2048,1\n")
    link.symlink_to(tmp_path / "true.csv")

    assert plan("--rows", str(rows), "-o", str(link)).returncode == 0
    assert link.is_symlink()
    assert "fits" in (tmp_path / "true.csv").read_text()


def test_columns_that_are_not_read(tmp_path: Path) -> None:
    """A column that means nothing to the planner is named on standard error."""
    rows = tmp_path / "rows.csv"
    rows.write_text("model,method,cards,tp,pp,sharding,seq_len,micro_batch,sqe_len\nqwen2.5-7b,lora,1,1,1,none,9,1,9\n")
    done = plan("--rows", str(rows), "-o", str(tmp_path / "out.csv"))

    assert "not read: column sqe_len" in done.stderr


@pytest.mark.parametrize("device", ["npu", "iluvatar", "nvidia", "cpu"])
@pytest.mark.parametrize("name", ["erniekit", "paddleformers", "llamafactory", "swift", "megatron", "deepspeed",
                                  "torchtune", "litgpt"])  # fmt: skip
def test_frameworks_by_their_names(name: str, device: str) -> None:
    """Every framework of the help is known under that name, on every device."""
    machine = machines.described(device, 1, 64)

    assert resolve.build(machine, "qwen2.5-7b", "lora", {"framework": name}).model.name == "qwen2.5-7b"
