"""Words that envcheck was not made for: a sentence, the next step, and exit code 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from envcheck.cli import main
from envcheck.core.language import width

ROOT = Path(__file__).parents[3]


def envcheck(*words: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    around = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    return subprocess.run(
        [sys.executable, "-m", "envcheck", *words], cwd=cwd, env=around, capture_output=True, text=True, timeout=120
    )


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What standard error says, when the exit code is 2 and standard output has nothing but the document of --json."""
    with pytest.raises(SystemExit) as left:
        main.entry(list(words))
    said = capsys.readouterr()

    assert left.value.code == 2
    assert json.loads(said.out)["exit_code"] == 2 if "--json" in words else said.out == ""
    return said.err


def test_bare_shows_the_help() -> None:
    """Without a word the help is shown, line by line, and nothing counts as fit."""
    done, asked = envcheck(COLUMNS="80"), envcheck("--help", COLUMNS="80")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == asked.stdout
    assert len(done.stderr.splitlines()) > 20


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_help_on_a_narrow_terminal(lang: str) -> None:
    """Forty columns hold the help, but for what is to be pasted, and for a list of choices that is one word."""
    done = envcheck("doctor", "--help", "--lang", lang, COLUMNS="40", PYTHONUTF8="1")
    lines = [ln for ln in done.stdout.splitlines() if not ln.startswith(("  envcheck doctor", "  --format"))]

    assert len(lines) > 60
    assert [ln for ln in lines if width.columns(ln) > 40] == []


def test_a_bare_group_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    """So does a group of commands that says nothing by itself."""
    said = refused(capsys, "slurm")

    assert said.startswith("Usage: envcheck slurm ") and "\nCommands:\n" in said


@pytest.mark.parametrize("group", ["recipes", "runs"])
def test_bare_groups_answer(group: str, tmp_path: Path) -> None:
    """A group of commands by itself lists what it is about."""
    done = envcheck(group, cwd=tmp_path, ENVCHECK_HOME=str(tmp_path))

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
        (("doctor", "--format", "JSON"), "json"),
        (("completion", "bahs"), "bash"),
    ],
)
def test_the_nearest_is_offered(words: tuple[str, ...], near: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A slip in a command, an option or a choice is answered with what was probably meant."""
    assert f"next: did you mean {near}? envcheck" in refused(capsys, *words)


@pytest.mark.parametrize("words", [("frobnicate",), ("doctor", "--zzzz"), ("doctor", "--format", "0"), ("-x",), ("",)])
def test_nothing_is_made_up(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Where nothing is near, the help is named alone."""
    said = refused(capsys, *words)

    assert "did you mean" not in said
    assert said.endswith(" --help\n") and said.startswith("envcheck: ")


@pytest.mark.parametrize(
    ("words", "path"),
    [(("doctor", "--only"), "doctor"), (("runs", "--runs"), "runs"), (("doctor", "--strict=1"), "doctor")],
)
def test_the_help_of_the_command(words: tuple[str, ...], path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that lacks its value, or has one too many, leads to the help of its own command."""
    assert f"next: envcheck {path} --help" in refused(capsys, *words)


def test_contraries_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """To mend and to take back is not done at once: both are named."""
    said = refused(capsys, "doctor", "--fix", "--undo", "--dry-run")

    assert "--fix cannot be combined with --undo" in said and "leave one of them out" in said


@pytest.mark.parametrize("words", [("--yes",), ("--dry-run", "--only", "host")])
def test_deeds_that_are_none(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Doctor only looks: not to be asked, or to be shown first, means something with what changes something alone."""
    assert "requires one of --undo, --fix, --deep" in refused(capsys, "doctor", *words)


@pytest.mark.parametrize("words", [(), ("--method", "lora", "--dry-run"), ("--device", "cpu", "--hosts", "node[1-2]")])
def test_nothing_is_trained_unasked(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """A model or a recipe is named by a person: that one job alone would fit here starts none."""
    assert "what to train was not said" in refused(capsys, "train", *words)


TINY = ("train", "--model", "tiny", "--method", "lora", "--device", "cpu")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--dry-run", "--waive", "disk"), "1 --waive beside 0 --because"),
        (("--as-script", "--waive", "dsk", "--because", "x"), "did you mean disk?"),
        (("--on", "slurm", "--dry-run", "--waive", "dsk", "--because", "x"), "did you mean disk?"),
        (("--write", "there", "--no-stop", "los"), "did you mean loss"),
        (("--dry-run", "--limit", "stalled.secs=9"), "did you mean stalled.seconds"),
        (("--as-script", "--write", "there"), "--as-script cannot be combined with --write"),
        (("--json", "--write", "there"), "--dry-run --json holds all of them"),
        (("--on", "slurm", "--json", "--write", "there"), "--dry-run --json holds all of them"),
        (("--detach", "--watch"), "--watch cannot be combined with --detach"),
        (("--hosts", "a,b", "--dry-run", "--json"), "leave --json out"),
        (("--hosts", "a,b", "--dry-run", "--gates"), "--gates cannot be combined with --dry-run"),
    ],
)
def test_what_is_only_shown_is_refused_as_well(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gate or a rule that there is not is told where the job is only shown or handed on, and not at its start; so
    are two options of which one would be left out in silence."""
    assert said in refused(capsys, *TINY, *words)


def test_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    """The slip is answered in the language that was asked for."""
    from envcheck.core import language

    try:
        said = refused(capsys, "doktor", "--lang", "zh")
    finally:
        language.choose([], {})

    assert said.startswith("envcheck：没有命令 'doktor'。\n  下一步：")
    assert "did you mean" not in said and "envcheck doctor" in said and said.endswith("envcheck --help\n")


@pytest.mark.parametrize("words", [("{}",), ("doctor", "--{}"), ("doctor", "--format", "{}"), ("lint", "--kind", "{}")])
def test_a_word_of_any_length(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """A word without end is not answered with all of it."""
    assert len(refused(capsys, *(word.format("d" * 100_000) for word in words))) < 900


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("explain", ""), "FILE|RUN|TEXT|CODE ..."),
        (("explain", "SIGKILL", ""), "FILE|RUN|TEXT|CODE ..."),
        (("lint", ""), "FILE"),
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
    said = refused(capsys, *words)

    assert said.startswith(f"envcheck: {what}: an empty text\n  next: ")


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
        said = refused(capsys, *(word.format(name) for word in words))

        assert ": no file can be '" in said and len(said) < 500


@pytest.mark.parametrize("nan", ["nan", "-NaN"])
def test_nan_is_in_no_range(nan: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is neither below the least nor above the most."""
    said = refused(capsys, "doctor", "--hosts", "n1", f"--deadline={nan}")

    assert f"--deadline: {nan} is no number" in said and "from 1 to 86400" in said


@pytest.mark.parametrize("words", [("plan", "--model", LONG, "--device", "npu"), ("parse", LONG), ("lint", LONG)])
def test_names_without_end(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """A name as long as no file has one is a sentence of a readable length wherever it is taken for one."""
    assert len(refused(capsys, *words)) < 1500


def test_another_programs_empty_words_stay() -> None:
    """Behind -- an empty word is the other program's."""
    done = envcheck("simulate", "cpu", "--", sys.executable, "-c", "import sys; print(sys.argv[1:])", "", "x")

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
        assert "no run has a predicted and a measured peak" in capsys.readouterr().err


def test_every_group_names_its_commands() -> None:
    """No group is left that would answer a slip in click's words alone."""
    from envcheck.cli.usage_errors import Group

    context = click.Context(main.main, info_name="envcheck")
    known = [main.main.get_command(context, name) for name in main.COMMANDS]

    assert [each.name for each in known if isinstance(each, click.Group) and not isinstance(each, Group)] == []
