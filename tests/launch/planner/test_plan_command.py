"""envcheck plan on the command line: output, exit codes, pictures, errors."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest

from envcheck.cli.commands.plan import plan as command
from envcheck.cli.number_types import WholeNumber
from envcheck.core.errors import UsageError
from launch.catalogue import devices
from launch.planner import default_layout, layout_rules, machines, option_words, resolve
from launch.planner.output import png
from launch.planner.output.terms import TERMS

ROOT = Path(__file__).parents[3]
DIES = ("--device", "iluvatar", "--cards", "16", "--memory-gib", "32", "--tp", "4", "--pp", "4")
NINETY_SIX = ("--model", "300b", "--method", "sft", "--device", "npu", "--cards", "96", "--memory-gib", "64",
              "--tp", "8", "--pp", "12", "--offload", "optimizer")  # fmt: skip


def run_plan(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "envcheck", "plan", *argv], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def test_fits() -> None:
    """For a job that fits the first line is the verdict, the headroom follows, and the exit code is 0."""
    done = run_plan("--model", "21b", "--method", "lora", *DIES)

    assert done.returncode == 0
    assert done.stdout.startswith(("fits: ", "fits, most likely: "))
    assert "headroom: up to " in done.stdout
    assert "4 cards are enough" in done.stdout


@pytest.mark.parametrize(("words", "code"), ((("--model", "21b", "--method", "lora", *DIES), 0), (NINETY_SIX, 1)))
def test_a_reader_of_the_first_line_gets_the_exit_code(words: tuple[str, ...], code: int) -> None:
    """A reader that leaves after what it got first, as head -1, does not change the exit code."""
    argv = [sys.executable, "-m", "envcheck", "plan", *words]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stderr is not None
        first = os.read(child.stdout.fileno(), 1 << 16)
        child.stdout.close()
        said = child.stderr.read()

    assert re.match(rb"(fits|does not fit)(, most likely)?: ", first)
    assert (child.returncode, said) == (code, b"")


def test_does_not_fit_with_changes_that_do() -> None:
    """A job that does not fit exits with 1 and names phase, stage and fitting changes."""
    done = run_plan(*NINETY_SIX)

    assert done.returncode == 1
    assert re.match("does not fit(, most likely)?: optimizer step on stage 1", done.stdout)
    same, more = (done.stdout.index(options) for options in ("--offload tensorwise", "--cards 112 --pp 14"))
    assert done.stdout.index("Changes that fit, those with the same cards and base model first:") < same < more


def test_nodes_larger_than_usual() -> None:
    """Nodes of 16 Ascend cards are sold; larger ones need --cards-per-node."""
    asked = ("--model", "300b", "--method", "lora", "--device", "npu", "--nodes", "1")
    one = run_plan(*asked, "--cards", "16", "--cards-per-node", "16")
    full = run_plan(*asked, "--cards-per-node", "16")
    sold = run_plan(*asked, "--cards", "16")
    refused = run_plan(*asked, "--cards", "32")

    assert all("16 x 64 GiB ascend-910b" in done.stdout for done in (one, full, sold))
    assert refused.returncode == 2
    assert "set --cards-per-node 32" in refused.stderr


def test_device_takes_names_of_cards() -> None:
    """--device with a card plans for it, on a typical node of it; an unknown name is refused with the known ones."""
    one, node, wrong = (
        run_plan("--model", "qwen2.5-7b", "--method", "lora", "--device", *more)
        for more in (("NVIDIA H20", "--cards", "1"), ("a3",), ("h2000",))
    )

    help_of_plan = run_plan("--help").stdout

    assert "also a card: 910b3, h200, 4090." in help_of_plan and "--device h200 --cards 8" in help_of_plan
    assert "1 x 95.6 GiB nvidia-h20" in one.stdout
    assert "16 x 64 GiB ascend-910c" in node.stdout
    assert wrong.returncode == 2 and "h200" in wrong.stderr


@pytest.mark.parametrize(("model", "has_tower"), [("qwen3-vl-8b", True), ("qwen3-8b", False)])
def test_what_is_assumed_of_a_vision_tower(model: str, has_tower: bool) -> None:
    done = run_plan("--model", model, "--method", "lora", "--device", "h100", "--cards", "1")

    assert ("assumed vision tower: frozen" in done.stdout) is has_tower


def test_json_document() -> None:
    """--json prints one document: verdict, phases by term, fitting changes."""
    done = run_plan(*NINETY_SIX, "--json")
    document = json.loads(done.stdout)

    assert document["verdict"] == "does-not-fit"
    assert document["peak"] == {"phase": "optimizer step", "stage": 1}
    assert all(change["need_bytes"] < document["usable_bytes"] for change in document["changes"])
    assert {"weights", "gradients", "moments"} <= document["phases"][3]["bytes"].keys()
    assert {"workspace", "allocator slack", "context", "in use when idle"} == document["other_bytes"].keys()


def test_recipes_own_layout_is_taken() -> None:
    """Without degrees the recipe's layout is planned, and listed as assumed."""
    done = run_plan("--model", "300b", "--method", "sft", "--device", "npu", "--cards", "128", "--memory-gib", "64")

    assert done.returncode == 0
    assert "tp8 pp16" in done.stdout
    assert "assumed layout: from recipe ernie-300b-npu" in done.stdout


def test_memory_as_sold_is_assumed() -> None:
    """The size of a data sheet means what the card's tool prints, and the plan says so."""
    done = run_plan(
        "--model", "qwen2.5-7b", "--method", "lora", "--device", "h100", "--cards", "8", "--memory-gib", "80"
    )

    assert "assumed machine: nvidia-h100 cards sold with 80 GB have 79.6 GiB" in " ".join(done.stdout.split())


def test_where_no_layout_fits() -> None:
    """Without degrees, if no layout fits, the one that needs the least memory is shown."""
    done = run_plan("--model", "300b", "--method", "sft", "--device", "nvidia", "--cards", "64", "--memory-gib", "32")

    assert done.returncode == 1
    assert "assumed layout: none fits; smallest: --" in done.stdout


def test_recipes_stages_follow_the_cards() -> None:
    """On 96 cards the recipe's layout has twelve stages, and does not fit because of the optimizer step."""
    done = run_plan("--model", "300b", "--method", "sft", "--device", "npu", "--cards", "96", "--memory-gib", "64")

    assert done.returncode == 1
    assert re.match("does not fit(, most likely)?: optimizer step on stage 1", done.stdout)
    assert "changed to --pp 12 for 96 cards" in done.stdout


def test_explain_names_sources() -> None:
    """--explain prints formula and source of each term."""
    done = run_plan("--model", "21b", "--method", "lora", *DIES, "--explain")

    assert "arXiv 1910.02054" in " ".join(done.stdout.split())
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
    """-o writes a well-formed SVG with content."""
    run_plan(*argv, "-o", str(tmp_path / "plan.svg"))
    picture = Xml.parse(tmp_path / "plan.svg").getroot()

    assert picture.tag.endswith("svg")
    assert len(list(picture)) > 5


def test_picture_is_png(tmp_path: Path) -> None:
    """-o plan.png writes the same picture as PNG including its text: without text it would be smaller."""
    pytest.importorskip("resvg_py", reason="the extra png is not installed")
    pytest.importorskip("font_roboto", reason="the extra png is not installed")
    for name in ("plan.svg", "plan.png"):
        assert run_plan(*NINETY_SIX, "-o", str(tmp_path / name)).returncode == 1
    svg, drawn = Xml.parse(tmp_path / "plan.svg").getroot(), (tmp_path / "plan.png").read_bytes()
    wordless = png.convert_svg(re.sub("<text.*</text>", "", (tmp_path / "plan.svg").read_text()))

    assert drawn.startswith(b"\x89PNG\r\n")
    assert struct.unpack(">I", drawn[16:20]) == (png.ZOOM * int(svg.attrib["width"]),)
    assert len(drawn) > 1.5 * len(wordless)


def test_png_without_its_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its libraries the error names them and suggests .svg."""
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(UsageError) as refused:
        png.convert_svg("<svg/>")

    assert "needs resvg_py" in refused.value.message
    assert ".svg" in refused.value.next_step


def test_search_of_a_framework_without_degrees() -> None:
    """It ranks sharding, recompute and offload: the only layout of its degrees is no answer to a search."""
    asked = "--model qwen2.5-7b --method lora --device h20 --cards 8 --framework trl --search --json"
    found = [one["options"] for one in json.loads(run_plan(*asked.split()).stdout)["layouts"]]

    for option in ("--sharding stage1", "--sharding stage3", "--sharding fsdp", "--offload optimizer"):
        assert any(option in one for one in found)
    assert len(set(found)) == len(found) == 10


def test_search_marks_the_asked_layout() -> None:
    """The requested layout is marked in the ranking, and the Pareto front has stars."""
    done = run_plan("--model", "21b", "--method", "lora", *DIES, "--search")

    assert any(line.startswith(">") and "--tp 4 --pp 4" in line for line in done.stdout.splitlines())
    assert "*" in done.stdout


def test_sweep_shows_where_it_ends() -> None:
    """A sweep prints a verdict for each value."""
    done = run_plan("--model", "qwen2.5-7b", "--method", "sft", "--device", "nvidia", "--cards", "8", "--sharding", "3",
                "--sweep", "seq-len=2048..131072")  # fmt: skip

    assert done.returncode == 0
    assert "fits" in done.stdout.splitlines()[1]
    assert "does not fit" in done.stdout.rpartition(" 131072 ")[2]


SWEPT = ("--model", "qwen2.5-7b", "--method", "sft", "--device", "a100", "--cards", "8")


@pytest.mark.parametrize("more", [(), ("--sharding", "stage1")])
def test_a_row_of_a_sweep_is_the_plan_of_its_value(more: tuple[str, ...]) -> None:
    """A sweep has for each value what plan has for it, with the framework and the layout."""
    points = json.loads(run_plan(*SWEPT, *more, "--sweep", "tp=1,2", "--json").stdout)["points"]
    plans = [json.loads(run_plan(*SWEPT, *more, "--tp", tp, "--json").stdout) for tp in ("1", "2")]

    assert [point["need_bytes"] for point in points] == [found["need_bytes"]["expected"] for found in plans]
    assert [point["framework"] for point in points] == [found["framework"] for found in plans]
    assert "--sharding stage1" in points[0]["options"] and "--tp 2" in points[1]["options"]


def test_a_degree_of_1_leaves_the_rest_to_choose() -> None:
    """--tp 1 where the chosen layout has no tensor parallelism plans the same job."""
    plain, given = (json.loads(run_plan(*SWEPT, *more, "--json").stdout) for more in ((), ("--tp", "1")))

    assert {**given, "assumed": []} == {**plain, "assumed": []}


def test_a_degree_of_1_is_kept() -> None:
    """A layout that is chosen keeps the degrees of 1 that are given."""
    machine = machines.build_described_machine("npu", 128, None)
    job = default_layout.choose_layout(machine, "300b", "sft", {"tp": 1})

    assert (job.layout.tp, job.layout.ep > 1) == (1, True)


def test_models_are_listed() -> None:
    """--list-models lists every model, as text and as JSON."""
    words, document = run_plan("--list-models").stdout, json.loads(run_plan("--list-models", "--json").stdout)

    assert [row["name"] for row in document["models"]] == [line.split()[0] for line in words.splitlines()]
    assert next(row for row in document["models"] if row["alias"] == "300b")["parameters"] > 290e9


REFUSED = [
    (("--tp", "8"), "--tp 8 does not divide 20 heads and 4 key/value heads; valid: 1, 2, 4"),
    (("--tp", "3"), "--tp 3 does not divide"),
    (("--pp", "29"), "--pp 29: the model has 28 layers"),
    (("--ep", "5"), "--ep 5 does not divide 64 experts"),
    (("--cards", "10", "--tp", "4"), "not a multiple of tp x pp x cp = 4"),
    (("--cards", "64", "--nodes", "2"), "--cards 64 with --nodes 2: a node has 16 cards"),
    (("--lora-targets", "mamba"), "--lora-targets mamba"),
    (("--lora-rank", "100000"), "--lora-rank 100000: expected 1 to 2560 (the hidden size)"),
    (("--seq-len", "200000"), "supports up to 131072 tokens"),
    (("--seq-len", "0"), "expected a whole number from 1 to 100000000, got '0'"),
    (("--micro-batch", "-1"), "expected a whole number from 1 to 65536, got '-1'"),
    (("--memory-gib", "nan"), "nan"),
    (("--quant", "nf4", "--device", "npu"), "bitsandbytes has no kernels for ascend-910b"),
    (("--quant", "frob"), "unknown --quant frob"),
    (("--recompute", "some"), "unknown --recompute some"),
    (("--sharding", "9"), "unknown --sharding 9"),
    (("--offload", "moon"), "unknown --offload moon"),
    (("--framework", "frob"), "unknown --framework frob"),
    (("--method", "frob"), "unknown --method frob"),
    (("--model", "frob"), "unknown --model frob"),
    (("--model", "frob"), "list all models with `envcheck plan --list-models`"),
    (("--model", "ernie45-21b"), "did you mean ernie-4.5-21b-a3b"),
    (("--model", "qwen"), "more)? list all models with `envcheck plan --list-models`"),
    (("--sweep", "frob=1..2"), "cannot be swept"),
    (("--sweep", "tp=a..b"), "expected ascending integers from 1"),
    (("--sweep", "tp=1,2,x"), "expected ascending integers from 1"),
    (("--sweep", "seq-len=1..8", "--search"), "--sweep cannot be combined with --search"),
    (("--optimizer", "frob"), "unknown --optimizer frob"),
    (("--used-gib", "32"), "--used-gib 32: a card has 32 GiB"),
    (("--used-gib", "nan"), "--used-gib: expected a number of GiB from 0 to 4096, got 'nan'"),
    (("--quant", "int3"), "unknown --quant int3"),
    (("--quant", "awq-int4"), "--quant awq-int4: not supported by paddle"),
    (("--lora-targets", "q_proj,kv_b_proj"), "--lora-targets kv_b_proj: ernie-4.5-21b-a3b has no such module"),
    (("--cards", "4", "--nodes", "3"), "a multiple of 3"),
    (("--offload", "params", "--sharding", "stage1"), "needs --sharding stage3 in paddle, not stage1"),
    (("--offload", "activations"), "--offload activations: paddle supports optimizer, params, tensorwise"),
    (("--sharding", "fsdp"), "paddle supports none, stage1, stage2, stage3"),
    (("--optimizer", "adamw8bit", "--device", "npu"), "bitsandbytes has no kernels for ascend-910b"),
    (("--cards", "1000000001"), "expected a whole number from 1 to 1000000"),
    (("--cards", "1000001"), "got '1000001'"),
    (("--etp", "3", "--ep", "2"), "--etp 3 does not divide"),
    (("--calibrate", ".", "--search"), "--calibrate cannot be combined with --search"),
    (("-o", "plan.jpg"), "only .svg and .png are supported"),
    (("--sharding", "3", "--pp", "4"), "pipeline parallelism excludes stages 2 and 3"),
    (("--sharding", "3", "--tp", "2"), "paddle requires stage 1 or 2"),
]


@pytest.mark.parametrize(("argv", "message"), REFUSED, ids=lambda v: " ".join(v) if isinstance(v, tuple) else "")
def test_bad_input(argv: tuple[str, ...], message: str) -> None:
    """Invalid input exits with 2 and one message with option, value and valid values."""
    done = run_plan(
        "--model", "21b", "--method", "lora", "--device", "iluvatar", "--cards", "16", "--memory-gib", "32", *argv
    )

    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [("[]", "not a JSON object"), ("{", "is not a valid config.json"), ("{}", "missing hidden_size"),
     ("\0", "is not a valid config.json"),
     ('{"hidden_size": "big"}', "hidden_size is 'big'"), ('{"hidden_size": -1}', "hidden_size is -1")],
)  # fmt: skip
def test_an_invalid_config(text: str, message: str, tmp_path: Path) -> None:
    """An invalid config.json is rejected with one message."""
    (tmp_path / "config.json").write_text(text)
    done = run_plan("--model", str(tmp_path), "--method", "lora", "--device", "nvidia", "--cards", "1")

    assert done.returncode == 2
    assert message in done.stderr


def test_rows(tmp_path: Path) -> None:
    """A table of jobs is planned row by row; an invalid row has the verdict unknown and a note."""
    rows = tmp_path / "rows.csv"
    rows.write_text(
        "id,framework,model,method,cards,device,device_mem_gib,tp,pp,sharding,offload,seq_len,micro_batch,recompute\n"
        "a,ERNIEKit,ernie-4.5-300b-a47b,full,96,Ascend-910B,64,8,12,paddle-stage1,optimizer,8192,1,full\n"
        "b,HF Trainer,qwen-7b,full,many,A100,80,1,1,none,none,2048,1,full\n"
        "c,,no-such-model,lora,1,A100,80,1,1,none,none,2048,1,full\n"
    )
    done = run_plan("--rows", str(rows), "-o", str(tmp_path / "out.csv"))
    lines = (tmp_path / "out.csv").read_text().splitlines()

    assert done.returncode == 0
    assert lines[1].split(",")[5] == "does-not-fit"
    assert "cards is 'many'" in lines[2]
    assert "unknown" in lines[3]
    assert run_plan("--rows", str(rows), "-o", "-").stdout.splitlines() == lines


def test_rows_without_columns(tmp_path: Path) -> None:
    """A CSV without the required columns is rejected with their names."""
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    done = run_plan("--rows", str(tmp_path / "rows.csv"), "-o", str(tmp_path / "out.csv"))

    assert done.returncode == 2
    assert "missing column 'model', 'method'" in done.stderr


def test_calibration(tmp_path: Path) -> None:
    """Recorded runs correct the estimate by a bounded factor and offset, which are printed."""
    for n, (predicted, measured) in enumerate([(1e10, 1.1e10), (2e10, 2.1e10), (4e10, 4.1e10)]):
        folder = tmp_path / f"run-{n}"
        folder.mkdir()
        memory = {"predicted_bytes": predicted, "measured_bytes": measured}
        (folder / "run.json").write_text(json.dumps({"memory": memory}))
    done = run_plan("--model", "21b", "--method", "lora", *DIES, "--calibrate", str(tmp_path))

    assert "calibrated with 3 runs: x 1.000 +0.93 GiB" in done.stdout


def test_assumed_cards_are_listed() -> None:
    """Number and size of the cards are listed as assumed unless they are given."""
    shown = [run_plan("--model", "0.3b", "--method", "lora", "--device", "npu", *more).stdout for more in (
        ("--cards", "1"), ("--memory-gib", "64"), ("--cards", "1", "--memory-gib", "64"))]  # fmt: skip

    assert "machine: ascend-910b cards with 64 GiB each (typical)" in shown[0]
    assert "machine: 8 ascend-910b cards (typical)" in shown[1]
    assert "machine:" not in shown[2]


def run_simulated_plan(machine: str, *argv: str) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-m", "envcheck")
    return subprocess.run(
        [*words, "simulate", machine, "--", *words, "plan", *argv],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_instances_of_a_card() -> None:
    """With MIG the size of an instance is unknown: no verdict until --memory-gib sets it."""
    job = ("--model", "0.3b", "--method", "lora")
    whole, named = (run_simulated_plan("a100x8-mig", *job, *more) for more in ((), ("--memory-gib", "40")))

    assert (
        whole.returncode == 3 and "MIG is enabled" in whole.stdout.splitlines()[0] and "no change" not in whole.stdout
    )
    assert named.returncode == 0


def test_a_found_layout_replaces_assumptions() -> None:
    """Recompute and sharding of a found layout replace the earlier assumptions about them."""
    shown = run_plan("--model", "qwen2.5-7b", "--method", "lora", "--device", "npu").stdout
    assumed = [line for line in shown.splitlines() if line.startswith("  assumed")]

    assert any("layout: fastest that fits: " in line for line in assumed)
    assert not [line for line in assumed if "recompute: full, as" in line or "sharding: " in line]


def test_calibration_without_runs(tmp_path: Path) -> None:
    """A folder without measured runs is an error."""
    done = run_plan("--model", "21b", "--method", "lora", *DIES, "--calibrate", str(tmp_path))

    assert done.returncode == 3
    assert "no run has both a predicted and a measured memory peak" in done.stderr


@pytest.mark.parametrize("columns", [50, 80, 200])
def test_narrow_terminals(columns: int) -> None:
    """No line is wider than the terminal, except lines with options to paste."""
    done = subprocess.run(
        [sys.executable, "-m", "envcheck", "plan", *NINETY_SIX, "--explain"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, env={**os.environ, "COLUMNS": f"{columns}"},
    )  # fmt: skip
    wide = [line for line in done.stdout.splitlines() if len(line) > columns and " " in line.strip()]

    assert not [line for line in wide if "step time x" not in line]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rows", "rows.csv", "-o", "out.csv", "--model", "21b"), "--model cannot be combined with --rows"),
        (("--rows", "rows.csv", "-o", "out.csv", "--json"), "--json cannot be combined with --rows"),
        (("--list-models", "--search"), "--search cannot be combined with --list-models"),
    ],
)
def test_no_option_is_left_unread(words: tuple[str, ...], message: str) -> None:
    """Options without effect on a table or on the list of models are rejected."""
    done = run_plan(*words)

    assert (done.returncode, bool(done.stdout)) == (2, "--json" in words)
    assert message in done.stderr and "use only one of them" in done.stderr


def test_the_largest_numbers_are_those_of_the_planner() -> None:
    """The ranges of options in the help are those of the planner."""
    params = {param.name: param.type for param in command.params}
    ranges = {name: kind.maximum for name, kind in params.items() if isinstance(kind, WholeNumber)}

    assert {name: ranges[name] for name in layout_rules.MAX_VALUES} == layout_rules.MAX_VALUES
    assert ranges["grad_accum"] == ranges["micro_batch"]


def test_no_output_is_lost(tmp_path: Path) -> None:
    """An unreadable table leaves the predictions of an earlier one unchanged, and no temporary file."""
    kept, rows = tmp_path / "out.csv", tmp_path / "rows.csv"
    kept.write_text("earlier\n")
    for text in (b"", b"\xff\x00", b"a,b\n1,2\n", b"model,method,cards,tp,pp,sharding,seq_len,micro_batch\n"):
        rows.write_bytes(text)
        assert run_plan("--rows", str(rows), "-o", str(kept)).returncode == 2

    assert kept.read_text() == "earlier\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "rows.csv"]


def test_links_and_devices_are_written_through(tmp_path: Path) -> None:
    """A symlink given by -o (such as /dev/stdout) is written through, never replaced."""
    rows, link = tmp_path / "rows.csv", tmp_path / "link"
    rows.write_text("model,method,cards,tp,pp,sharding,seq_len,micro_batch\nqwen2.5-7b,lora,1,1,1,none,2048,1\n")
    link.symlink_to(tmp_path / "true.csv")

    assert run_plan("--rows", str(rows), "-o", str(link)).returncode == 0
    assert link.is_symlink()
    assert "predicted_verdict" in (tmp_path / "true.csv").read_text()


def test_unknown_columns(tmp_path: Path) -> None:
    """An ignored column is named on standard error."""
    rows = tmp_path / "rows.csv"
    rows.write_text("model,method,cards,tp,pp,sharding,seq_len,micro_batch,sqe_len\nqwen2.5-7b,lora,1,1,1,none,9,1,9\n")
    done = run_plan("--rows", str(rows), "-o", str(tmp_path / "out.csv"))

    assert "column sqe_len ignored" in done.stderr


@pytest.mark.parametrize("device", ["npu", "iluvatar", "nvidia", "cpu"])
@pytest.mark.parametrize("name", ["erniekit", "paddleformers", "llamafactory", "swift", "megatron", "deepspeed",
                                  "torchtune", "litgpt"])  # fmt: skip
def test_frameworks_by_their_names(name: str, device: str) -> None:
    """Every framework in the help is accepted on every device."""
    machine = machines.build_described_machine(device, 1, 64)

    assert resolve.build_planned_job(machine, "qwen2.5-7b", "lora", {"framework": name}).model.name == "qwen2.5-7b"


def test_legend_lists_every_letter() -> None:
    """Every letter in the bars is in the legend, and every letter of the legend is in a bar."""
    done = run_plan("--model", "llama-3-8b", "--method", "lora", "--device", "4090", "--cards", "8", "--sharding", "3")
    lines = done.stdout.splitlines()
    bars = [
        line.partition("|")[2].rpartition(" ")[0].replace("|", "")
        for line in lines
        if re.match("[> ] [a-z].*[|].*[|]", line)
    ]
    first = next(n for n, line in enumerate(lines) if line.startswith("  W weights"))
    legend = "  ".join(lines[first : lines.index("", first)])

    assert {word.strip()[0] for word in legend.split("  ") if word.strip()} == set("".join(bars).replace(" ", ""))


def test_tables_have_headers() -> None:
    """Searches and sweeps name their columns."""
    asked = ("--model", "qwen2.5-7b", "--method", "lora", "--device", "4090", "--cards", "2")
    search, sweep = (
        run_plan(*asked, *more).stdout.splitlines() for more in (("--search",), ("--sweep", "seq-len=512"))
    )

    assert search[0].split() == ["step", "time", "tensors", "verdict", "options"]
    assert sweep[0].split() == ["value", "tensors", "verdict", "deciding", "phase;", "framework,", "options"]


def test_explain_gives_public_sources() -> None:
    """The source of each term is a document that a reader can find, and no file of envcheck."""
    assert not [name for name, term in TERMS.items() if ".toml" in term.source or "envcheck" in term.source]
    assert all(card.source for card in devices.load_devices())


def test_fastest_layout_is_the_default() -> None:
    """If the plain data-parallel layout is the fastest that fits, it is planned, and not called too large."""
    done = run_plan("--model", "qwen2.5-7b", "--method", "lora", "--device", "4090", "--cards", "8")

    assert "assumed layout: fastest that fits: --sharding none" in done.stdout


@pytest.mark.parametrize(
    ("framework", "offload", "scheme"),
    (
        ("transformers", "optimizer:0.5", "stage"),
        ("transformers", "params", "fsdp"),
        ("megatron", "optimizer:0.5", "stage1"),
        ("paddle", "params", "stage3"),
    ),
)
def test_a_layout_for_an_offload(framework: str, offload: str, scheme: str) -> None:
    """Without --sharding the layout is one that carries the offload, as it is one that fits without an offload."""
    machine = machines.build_described_machine("h200", 8, 140.4)
    asked = {"framework": framework, "offload": offload}
    job = default_layout.choose_layout(machine, "llama-3-8b", "full", asked)

    assert option_words.format_offload(job) == offload
    assert not [*layout_rules.list_refusals(job)]
    assert option_words.SHARDING_NAMES[job.sharding].startswith(scheme)


def test_an_offload_that_no_layout_carries() -> None:
    """What the framework cannot move at all is refused with the words of the option."""
    machine = machines.build_described_machine("h200", 8, 140.4)
    with pytest.raises(UsageError, match="--offload tensorwise: generic supports"):
        default_layout.choose_layout(
            machine, "llama-3-8b", "full", {"framework": "transformers", "offload": "tensorwise"}
        )
