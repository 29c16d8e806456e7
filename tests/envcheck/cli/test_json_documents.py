"""--json: standard output holds one document, whatever becomes of the command."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from envcheck.cli import main, schemas

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is in the extra `test`")


def list_leaf_commands(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands of the tree that do something by themselves."""
    below = getattr(command, "commands", {})
    if not below or getattr(command, "invoke_without_command", False):
        yield path, command
    for name, each in below.items():
        yield from list_leaf_commands(each, (*path, name))


CONTEXT = click.Context(main.main, info_name="envcheck")
KNOWN = {name: main.main.get_command(CONTEXT, name) for name in main.COMMANDS}
COMMANDS = dict(each for name, command in KNOWN.items() if command for each in list_leaf_commands(command, (name,)))
every_command = pytest.mark.parametrize("path", COMMANDS, ids=" ".join)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an invalid file, an empty one, and a separate home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "empty").mkdir()
    (tmp_path / "garbage").write_bytes(b"\x00\xff{")
    (tmp_path / "launch.sh").write_text("OUT = 1\ntorchrun train.py \\ \n")
    (tmp_path / "empty.sh").write_text("")
    return tmp_path


def read_document(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any], str]:
    """Return exit code, the document on standard output, and standard error."""
    with pytest.raises(SystemExit) as left:
        main.entry([*words])
    said = capsys.readouterr()
    assert isinstance(left.value.code, int)
    return left.value.code, json.loads(said.out), said.err


def check_error(code: int, told: dict[str, Any]) -> None:
    assert told["exit_code"] == code
    assert told["error"] and isinstance(told["error"], str) and isinstance(told["next"], str)


@every_command
def test_every_command_takes_json(path: tuple[str, ...]) -> None:
    """No command is left whose answer a program cannot read."""
    assert "--json" in {word for param in COMMANDS[path].params for word in param.opts}


@every_command
def test_an_unknown_option(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """click's usage errors are a document of the schema, and a message."""
    code, told, err = read_document(capsys, *path, "--json", "--no-such-option")

    jsonschema.validate(told, schemas.build_schema("error"))
    assert code == told["exit_code"] == 2
    assert err == f"envcheck: {told['error']}\n  next: {told['next']}\n"


@every_command
@pytest.mark.parametrize(
    ("why", "code"),
    [
        (KeyboardInterrupt(), 130),
        (RuntimeError("a mistake"), 70),
        (OSError(errno.ENOSPC, "No space left on device", "there"), 2),
    ],
    ids=["interrupted", "bug", "full disk"],
)
def test_whatever_ends_it(
    path: tuple[str, ...],
    why: BaseException,
    code: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C, a mistake of ours and a full disk are documents, too."""

    def end(*words: Any, **settings: Any) -> None:
        raise why

    monkeypatch.setattr(KNOWN[path[0]], "make_context", end)
    left, told, _ = read_document(capsys, *path, "--json")

    jsonschema.validate(told, schemas.build_schema("error"))
    assert left == told["exit_code"] == code


# (words, exit code): refused, or failed before there is anything to tell of.
ERRORS = (
    ("doctor --replay no-such-file", 2),
    ("doctor --replay garbage", 2),
    ("doctor --replay empty", 2),
    ("doctor --device nothing", 2),
    ("doctor --model nothing", 2),
    ("doctor --only nothing", 2),
    ("doctor --fix --undo", 2),
    ("doctor --deep", 2),
    ("doctor --watch", 2),
    ("doctor --hosts node[1-", 2),
    ("doctor --config no-such-file", 2),
    ("doctor -o no-such-folder/x.html", 2),
    ("provision --recipe nothing", 2),
    ("provision --model nothing", 2),
    ("provision --undo --install-driver x", 2),
    ("provision --recipe tiny-cpu --locked no-such-file", 2),
    ("provision --recipe tiny-cpu --as-script", 2),
    ("bundle --recipe tiny-cpu -o no-such-folder/x", 2),
    ("bundle", 2),
    ("train", 2),
    ("train --recipe nothing", 2),
    ("train --model tiny --method lora --device cpu --write there", 2),
    ("train --model tiny --method lora --device cpu --on nothing", 2),
    ("runs --runs no-such-folder", 2),
    ("runs show nothing", 2),
    ("runs follow nothing", 2),
    ("runs stop nothing", 2),
    ("slurm verdict empty", 2),
    ("slurm nothing", 2),
    ("infer", 2),
    ("infer --run nothing --ask x", 2),
    ("plan", 2),
    ("plan --model nothing --method lora --device npu --cards 8", 2),
    ("plan --model 21b --method lora --search --sweep seq-len=1..2", 2),
    ("plan --rows no-such-file", 2),
    ("solve --driver nothing", 2),
    ("explain", 2),
    ("explain no-such-file.log", 2),
    ("lint", 2),
    ("lint no-such-file", 2),
    ("lint garbage --sarif", 2),
    ("parse nothing", 2),
    ("parse npu-smi no-such-file", 2),
    ("snapshot", 2),
    ("snapshot -o no-such-folder/x", 2),
    ("simulate", 2),
    ("simulate nothing -- true", 2),
    ("simulate cpu -- true", 2),
    ("recipes --recipes no-such-folder", 2),
    ("recipes show nothing", 2),
    ("schema nothing", 2),
    ("completion", 2),
    ("completion nothing", 2),
    ("nothing", 2),
)


@pytest.mark.parametrize(("words", "expected"), ERRORS)
def test_a_refusal(words: str, expected: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is missing or unreadable, a name that is none, options that contradict each other."""
    own, _, others = words.partition(" -- ")
    code, told, err = read_document(capsys, *own.split(), "--json", *(["--", others] if others else []))

    check_error(code, told)
    assert code == expected
    assert told["error"] in err


# (words, exit code, a key): a verdict has the command's own document.
VERDICTS = (
    ("doctor --replay machine.json --device npu --only devices", 3, "findings"),
    ("plan --model 21b --method lora", 3, "verdict"),
    ("plan --model 300b --method sft --device npu --cards 1 --memory-gib 1", 1, "verdict"),
    ("train --model 21b --method lora --device npu", 1, "gates"),
    ("train --model 300b --method lora --device npu --dry-run", 0, "failed_checks"),
    ("provision --model 300b --method lora --device npu --dry-run", 1, "obstacles"),
    ("lint launch.sh", 1, "findings"),
    ("lint empty.sh", 3, "findings"),
    ("solve --device npu --driver 1.0", 1, "tested"),
    ("plan --model 21b --method lora --device npu --cards 1 --memory-gib 1 --search", 1, "layouts"),
    ("train --model 21b --method lora --device npu --gates", 1, "gates"),
    ("provision --recipe tiny-cpu --into empty/.. --undo", 2, "result"),
    ("explain nothing that is known", 3, "verdict"),
    ("parse npu-smi garbage", 1, "kind"),
    ("slurm prolog", 0, "verdict"),
    ("doctor --hosts nobody.invalid", 1, "findings"),
    ("provision --recipe tiny-cpu --hosts nobody.invalid --dry-run", 1, "hosts"),
    ("train --recipe tiny-cpu --hosts nobody.invalid", 1, "gates"),
    ("snapshot --output-dir fleet --hosts nobody.invalid", 1, "hosts"),
    ("schema", 0, "documents"),
    ("completion bash", 0, "script"),
    ("lint --list-rules", 0, "rules"),
    ("snapshot -o machine", 0, "answers"),
    ("simulate cpu --keep there", 0, "folder"),
    ("runs", 0, "runs"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("words", "expected", "key"), VERDICTS)
def test_a_verdict(words: str, expected: int, key: str, capsys: pytest.CaptureFixture[str], place: Path) -> None:
    """The result is one document, with the same exit code if it contains one."""
    if "machine.json" in words:
        read_document(capsys, "snapshot", "-o", "machine.json", "--json")
    code, told, _ = read_document(capsys, *words.split(), "--json")

    assert code == told.get("exit_code", code) == expected
    assert key in told
    if code:
        assert told["error"] and told["exit_code"] == code and isinstance(told["next"], str)


def test_a_report_in_a_file(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    """-o FILE has its own format; the document stays on standard output."""
    code, told, err = read_document(capsys, "doctor", "--only", "host.swap", "--json", "-o", "report.md")

    assert told["exit_code"] == code and "report.md" in err
    assert (place / "report.md").read_text("utf-8").startswith("#")


def test_documents_are_english(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A program reads English whatever the locale, and a person the locale's language; --lang means both."""
    from envcheck.core import language

    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    try:
        _, told, err = read_document(capsys, "nothing", "--json")
        _, named, _ = read_document(capsys, "nothing", "--json", "--lang", "zh")
    finally:
        language.choose_language([], {})

    assert told["error"].isascii() and not err.isascii()
    assert not named["error"].isascii()


def test_behind_the_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    """The word of another program is none of ours: only standard error speaks."""
    with pytest.raises(SystemExit):
        main.entry(["simulate", "nothing", "--", "true", "--json"])

    assert capsys.readouterr().out == ""
