"""Words that envcheck was not made for: a sentence, the next step, and exit code 2."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from envcheck.cli import main
from envcheck.cli.usage_errors import SYNONYMS
from envcheck.core import language
from envcheck.core.language import width

ROOT = Path(__file__).parents[3]


def run_envcheck(*words: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    around = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    return subprocess.run(
        [sys.executable, "-m", "envcheck", *words], cwd=cwd, env=around, capture_output=True, text=True, timeout=120
    )


def read_refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return standard error; the exit code is 2 and standard output has only the document of --json."""
    with pytest.raises(SystemExit) as left:
        main.entry(list(words))
    said = capsys.readouterr()

    assert left.value.code == 2
    assert json.loads(said.out)["exit_code"] == 2 if "--json" in words else said.out == ""
    return said.err


BROKEN_CATALOGUE = """
from envcheck.cli import main
from envcheck.core import language

def fail(_message):
    raise ValueError("damaged catalogue")

language.translate = fail
main.entry(["plan"])
"""


def test_a_broken_catalogue_hides_no_error() -> None:
    """If the message cannot be translated, it is printed in English."""
    done = subprocess.run(
        [sys.executable, "-c", BROKEN_CATALOGUE], cwd=ROOT, capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("envcheck: plan needs --model and --method\n  next: for example:")


def test_bare_shows_the_help() -> None:
    """Without a word the help is shown, line by line, and nothing counts as fit."""
    done, asked = run_envcheck(COLUMNS="80"), run_envcheck("--help", COLUMNS="80")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == asked.stdout
    assert len(done.stderr.splitlines()) > 20


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_help_on_a_narrow_terminal(lang: str) -> None:
    """Forty columns hold the help, but for what is to be pasted, and for lists of choices, each one word."""
    done = run_envcheck("doctor", "--help", "--lang", lang, COLUMNS="40", PYTHONUTF8="1")
    exceptions = ("  envcheck doctor", "  --format", "  --device")
    lines = [ln for ln in done.stdout.splitlines() if not ln.startswith(exceptions)]

    assert len(lines) > 60
    assert [ln for ln in lines if width.display_width(ln) > 40] == []


@pytest.mark.parametrize("words", [("recipes", "list"), ("runs", "ls")], ids=" ".join)
def test_a_list_command_names_the_group(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """A group that lists by default has no command "list"; the hint names the group."""
    assert f"run envcheck {words[0]}, which prints the list" in read_refusal(capsys, *words)


def test_a_bare_group_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    """A group without a subcommand shows its help."""
    said = read_refusal(capsys, "slurm")

    assert said.startswith("Usage: envcheck slurm ") and "\nCommands:\n" in said


@pytest.mark.parametrize("group", ["recipes", "runs"])
def test_bare_groups_answer(group: str, tmp_path: Path) -> None:
    """A group of commands by itself lists what it is about."""
    done = run_envcheck(group, cwd=tmp_path, ENVCHECK_HOME=str(tmp_path))

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("doktor",), "envcheck doctor"),
        (("Doctor",), "envcheck doctor"),
        (("runs", "folow"), "envcheck runs follow"),
        (("recipes", "shwo"), "envcheck recipes show"),
        (("doctor", "--formt", "html"), "--format"),
        (("--versoin",), "--version"),
        (("doctor", "--hepl"), "--help"),
        (("doctor", "--format", "htm"), "html"),
        (("doctor", "--format", "JSN"), "json"),
        (("completion", "bahs"), "bash"),
        (("plan", "--card", "RTX4090"), "--device"),
        (("plan", "--num_gpus", "8"), "--cards"),
        (("plan", "--crads", "8"), "--cards"),
        (("explain", "--locale", "zh"), "--lang"),
        (("--json", "doctor"), "envcheck doctor --json"),
        (("--cards", "8", "plan"), "envcheck plan --cards"),
        (("--strict",), "envcheck COMMAND --strict"),
    ],
)
def test_the_nearest_is_offered(words: tuple[str, ...], near: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A slip in a command, an option or a choice is answered with what was probably meant."""
    assert f"next: did you mean {near}? Run envcheck" in read_refusal(capsys, *words)


JOB = ("--model", "tiny", "--method", "lora")
ON_NPU = ("plan", "--model", "21b", "--method", "lora", "--device", "npu", "--cards", "8", "--memory-gib", "64")


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("doctor", "--device", "Nvidai"), "nvidia"),
        (("doctor", "--device", "cpu", "--only", "Host.shmm"), "host.shm"),
        (("doctor", "--device", "cpu", "--skip", "DEVICES.ECCC"), "devices.ecc"),
        (("doctor", "--format", "Markdwon"), "markdown"),
        (("doctor", *JOB[:3], "LORRA"), "lora"),
        (("train", "--model", "21c"), "21b"),
        (("train", "--model", "Tinny", "--method", "lora"), "tiny"),
        (("train", "--recipe", "Tiny-Cup"), "tiny-cpu"),
        (("train", *JOB, "--framework", "Envchek"), "envcheck"),
        (("train", *JOB, "--on", "Slrum"), "slurm"),
        (("train", *JOB, "--device", "cpu", "--dry-run", "--waive", "Dsk", "--because", "x"), "disk"),
        (("train", *JOB, "--device", "cpu", "--dry-run", "--no-stop", "Los"), "loss"),
        (("train", "--model", "qwen-7b", "--method", "lora", "--variant", "Zero4"), "zero3"),
        (("recipes", "show", "TINY-CUP"), "tiny-cpu"),
        (("simulate", "ATLAS-800", "--", "true"), "atlas-800t-a2"),
        (("simulate", "h200x8", "--fault", "Card-lots", "--", "true"), "card-lost"),
        (("plan", "--model", "21c", "--method", "lora", *ON_NPU[5:]), "21b"),
        ((*ON_NPU[:4], "Lorra", *ON_NPU[5:]), "lora"),
        ((*ON_NPU, "--framework", "Megatorn"), "megatron"),
        ((*ON_NPU, "--recompute", "Fulll"), "full"),
        ((*ON_NPU, "--sharding", "Stage33"), "stage3"),
        ((*ON_NPU, "--offload", "Optimiser"), "optimizer"),
        ((*ON_NPU, "--optimizer", "Adamww"), "adamw"),
        ((*ON_NPU, "--sweep", "Seqlen=1..8"), "seq-len"),
        (("solve", "--library", "Padle"), "paddle"),
        (("solve", "--arch", "Aarch46"), "aarch64"),
        (("lint", "--kind", "Yml", "x"), "yaml"),
        (("parse", "NPUSMI"), "npu-smi"),
        (("schema", "Doctr"), "doctor"),
        (("completion", "Bsh"), "bash"),
        (("Docter",), "envcheck doctor"),
    ],
)
def test_each_choice_has_suggestions(words: tuple[str, ...], near: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A slip in whatever has names, in any case: the next step begins with what was probably meant."""
    assert re.search(rf"next: did you mean {re.escape(near)}[,?]", read_refusal(capsys, *words))


@pytest.mark.parametrize(
    "words",
    [
        ("doctor", "--only", "Devices", "--format", "JSON", "--device", "CPU"),
        ("recipes", "show", "TINY-CPU"),
        (*ON_NPU[:3], "--method", "LoRA", *ON_NPU[5:], "--optimizer", "AdamW", "--offload", "Optimizer"),
        ("simulate", "CPU", "--fault", "SHM-small", "--", "true"),
        ("solve", "--device", "npu", "--driver", "24.1.rc1", "--library", "Torch", "--arch", "AARCH64"),
        ("schema", "Doctor"),
        ("completion", "Bash"),
    ],
)
def test_names_are_accepted_in_any_case(words: tuple[str, ...]) -> None:
    """What has names takes them in capitals as well."""
    assert "unknown" not in (done := run_envcheck(*words)).stderr
    assert done.returncode in (0, 1, 3)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("doctor", "--fanout", "abc"), "--fanout: expected a whole number from 1 to 1024, got 'abc'"),
        (("doctor", "--fanout", "1.5"), "--fanout: expected a whole number from 1 to 1024, got '1.5'"),
        (("doctor", "--watch", "0"), "--watch: expected a number of seconds from 1 to 3600, got '0'"),
        (("train", "--deadline", "1.5"), "expected a whole number of seconds from 1 to 1000000000, got '1.5'"),
        (("train", "--steps", "0"), "--steps: expected a whole number >= 1, got '0'"),
        (("plan", "--memory-gib", "inf"), "--memory-gib: expected a number of GiB from 0.5 to 4096, got 'inf'"),
    ],
)
def test_numbers_are_refused_in_words(
    words: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was expected, with its unit and range, and what was given."""
    assert expected in read_refusal(capsys, *words)


@pytest.mark.parametrize(
    "words", [("frobnicate",), ("doctor", "--zzzz"), ("doctor", "--format", "0"), ("-x",), ("",), ("--zzzz", "doctor")]
)
def test_nothing_is_made_up(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Where nothing is near, the help is named alone."""
    said = read_refusal(capsys, *words)

    assert "did you mean" not in said
    assert said.endswith(" --help\n") and said.startswith("envcheck: ")


def test_synonyms_lead_to_options() -> None:
    """Each synonym leads to an option that a command has."""
    commands = [main.main.get_command(click.Context(main.main), name) for name in main.COMMANDS]
    options = {word for command in commands if command for param in command.params for word in param.opts}

    assert set(SYNONYMS.values()) <= options


@pytest.mark.parametrize(
    ("words", "path"),
    [(("doctor", "--only"), "doctor"), (("runs", "--runs"), "runs"), (("doctor", "--strict=1"), "doctor")],
)
def test_the_help_of_the_command(words: tuple[str, ...], path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An option without a value, or with too many, leads to the help of its command."""
    assert f"next: envcheck {path} --help" in read_refusal(capsys, *words)


def test_contraries_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """To mend and to take back is not done at once: both are named."""
    said = read_refusal(capsys, "doctor", "--fix", "--undo", "--dry-run")

    assert "--fix cannot be combined with --undo" in said and "use only one of them" in said


@pytest.mark.parametrize("words", [("--yes",), ("--dry-run", "--only", "host")])
def test_deeds_that_are_none(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Doctor only looks: not to be asked, or to be shown first, means something with what changes something alone."""
    assert "requires one of --undo, --fix, --deep" in read_refusal(capsys, "doctor", *words)


@pytest.mark.parametrize("words", [(), ("--method", "lora", "--dry-run"), ("--device", "cpu", "--hosts", "node[1-2]")])
def test_nothing_is_trained_unasked(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """A model or a recipe is named by a person: that one job alone would fit here starts none."""
    assert "no model or recipe specified" in read_refusal(capsys, "train", *words)


TINY = ("train", "--model", "tiny", "--method", "lora", "--device", "cpu")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--dry-run", "--waive", "disk"), "each --waive needs one --because; got 1 and 0"),
        (("--as-script", "--waive", "dsk", "--because", "x"), "did you mean disk?"),
        (("--on", "slurm", "--dry-run", "--waive", "dsk", "--because", "x"), "did you mean disk?"),
        (("--write", "there", "--no-stop", "los"), "did you mean loss"),
        (("--dry-run", "--limit", "stalled.secs=9"), "did you mean stalled.seconds"),
        (("--as-script", "--write", "there"), "--as-script cannot be combined with --write"),
        (("--json", "--write", "there"), "--dry-run --json contains all results"),
        (("--on", "slurm", "--json", "--write", "there"), "--dry-run --json contains all results"),
        (("--detach", "--dashboard"), "--dashboard cannot be combined with --detach"),
        (("--hosts", "a,b", "--dry-run", "--json"), "remove --json"),
        (("--hosts", "a,b", "--dry-run", "--gates"), "--gates cannot be combined with --dry-run"),
    ],
)
def test_what_is_only_shown_is_refused_as_well(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown gate or rule is rejected even if the job is only shown or submitted."""
    assert said in read_refusal(capsys, *TINY, *words)


def test_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    """The slip is answered in the language that was asked for."""

    try:
        said = read_refusal(capsys, "doktor", "--lang", "zh")
    finally:
        language.choose_language([], {})

    assert said.startswith("envcheck：没有命令 'doktor'\n  下一步：")
    assert "did you mean" not in said and "envcheck doctor" in said and said.endswith("envcheck --help。\n")


@pytest.mark.parametrize("words", [("{}",), ("doctor", "--{}"), ("doctor", "--format", "{}"), ("lint", "--kind", "{}")])
def test_a_word_of_any_length(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """A word without end is not answered with all of it."""
    assert len(read_refusal(capsys, *(word.format("d" * 100_000) for word in words))) < 900


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("explain", ""), "FILE|RUN|TEXT|CODE ..."),
        (("explain", "SIGKILL", ""), "FILE|RUN|TEXT|CODE ..."),
        (("lint", ""), "FILE|DIR|- ..."),
        (("schema", ""), "DOCUMENT"),
        (("recipes", "show", ""), "NAME"),
        (("runs", "--runs", "", "show", "latest"), "--runs"),
        (("simulate", "cpu", "--keep", "", "--", "true"), "--keep"),
        (("plan", "--rows="), "--rows"),
        (("doctor", "--only", "host", "--only", ""), "--only"),
        (("doctor", "--config", ""), "--config"),
    ],
)
def test_empty_texts_are_refused(words: tuple[str, ...], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty text, as of a variable that is not set, is no folder, no file and no name."""
    said = read_refusal(capsys, *words)

    assert said.startswith(f"envcheck: {what}: the value is empty\n  next: ")


LONG = "a" * 3000


@pytest.mark.parametrize(
    "words",
    [
        ("doctor", "--replay", "{}"),
        ("doctor", "-o", "{}"),
        ("snapshot", "-o", "{}"),
        ("recipes", "--recipes", "{}"),
        ("simulate", "cpu", "--machines", "{}", "--", "true"),
        ("provision", "--recipe", "tiny-cpu", "--dry-run", "--lock", "{}"),
        ("train", "--model", "tiny", "--method", "lora", "--device", "cpu", "--dry-run", "--data", "{}"),
        ("bundle", "--recipe", "tiny-cpu", "--dry-run", "-o", "{}"),
    ],
)
def test_no_file_can_be_so(words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is too long, and links in a circle, are refused before anything is done with them."""
    (tmp_path / "loop").symlink_to("loop")
    for name in (LONG, str(tmp_path / "loop")):
        said = read_refusal(capsys, *(word.format(name) for word in words))

        assert "is not a valid path: " in said and len(said) < 500


@pytest.mark.parametrize("nan", ["nan", "-NaN"])
def test_nan_is_in_no_range(nan: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is neither below the least nor above the most."""
    said = read_refusal(capsys, "doctor", "--hosts", "n1", f"--host-timeout={nan}")

    assert f"--host-timeout: expected a number of seconds from 1 to 86400, got {nan!r}" in said


@pytest.mark.parametrize("words", [("plan", "--model", LONG, "--device", "npu"), ("parse", LONG), ("lint", LONG)])
def test_names_without_end(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """A name as long as no file has one is a sentence of a readable length wherever it is taken for one."""
    assert len(read_refusal(capsys, *words)) < 1500


def test_another_programs_empty_words_stay() -> None:
    """Behind -- an empty word is the other program's."""
    done = run_envcheck("simulate", "cpu", "--", sys.executable, "-c", "import sys; print(sys.argv[1:])", "", "x")

    assert (done.returncode, done.stdout) == (0, "['', 'x']\n")


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "words", ["doctor --list-checks", "doctor --only host.swap --json", "explain 507033", "doktor"]
)
def test_closed_streams(words: str, closed: str, tmp_path: Path) -> None:
    """A stream that was closed before us goes nowhere: no fault of ours, and the exit code stays."""
    line = f"{sys.executable} -m envcheck {words} {closed}"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)

    assert done.returncode in ((2,) if words == "doktor" else (0, 3)), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_calibrate_reads_records_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A device that never ends and a folder that may not be entered hold no run."""
    (tmp_path / "run.json").symlink_to("/dev/zero")
    job = ("plan", "--device", "npu", "--model", "21b", "--method", "sft", "--cards", "8", "--nodes", "1")
    for place in ("/dev/zero", str(tmp_path)):
        with pytest.raises(SystemExit) as left:
            main.entry([*job, "--memory-gib", "64", "--calibrate", place])

        assert left.value.code == 3
        assert "no run has both a predicted and a measured memory peak" in capsys.readouterr().err


def test_every_group_names_its_commands() -> None:
    """No group is left that would answer a slip in click's words alone."""
    from envcheck.cli.usage_errors import SuggestingGroup

    context = click.Context(main.main, info_name="envcheck")
    known = [main.main.get_command(context, name) for name in main.COMMANDS]

    assert [
        each.name for each in known if isinstance(each, click.Group) and not isinstance(each, SuggestingGroup)
    ] == []


def test_closed_working_folder(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A working folder that the user may not enter, as a container may have, is named at once."""
    monkeypatch.setattr("os.access", lambda *_: False)

    with pytest.raises(SystemExit) as ended:
        main.entry(["recipes"])

    assert ended.value.code == 2
    assert "may not enter the working folder" in capsys.readouterr().err


FILE_COMMANDS = (
    *(("plan",), ("lint",), ("parse",), ("explain",), ("doctor",)),
    *(("train", "--dry-run"), ("recipes", "create"), ("doctor", "--replay")),
)


@pytest.mark.parametrize("words", FILE_COMMANDS, ids=" ".join)
def test_file_in_closed_folder_is_refused(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file in a folder that may not be searched is reported as such: it is neither missing nor a bug."""
    close_folder(tmp_path / "closed", monkeypatch)

    err = read_refusal(capsys, *words, str(tmp_path / "closed/run.sh"))

    assert "closed/run.sh" in err and "permission denied" in err, err


def test_closed_folder_of_logs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`explain` does not claim that a folder which it may not list has no logs."""
    (tmp_path / "closed").mkdir()
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "closed" and allowed(path, mode))

    err = read_refusal(capsys, "explain", str(tmp_path / "closed"))

    assert "permission denied" in err, err


def close_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every look into the folder, as the system does for a user without rights; root has them all."""

    def refuse_inside(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *more: Any, **named: Any) -> Any:
            if isinstance(path, (str, os.PathLike)) and folder in Path(path).parents:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return function(path, *more, **named)

        return call

    for module, name in ((os, "stat"), (os, "lstat"), (os, "open"), (io, "open")):
        monkeypatch.setattr(module, name, refuse_inside(getattr(module, name)))
