"""`envcheck parse` as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.cli import main
from envcheck.core.inputs import live_stream

CARD = Path(__file__).parents[2] / "data" / "npu_smi" / "list" / "two_cards.txt"


def run_parse(*args: str, given: bytes = b"", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-m", "envcheck", "parse", *args]
    return subprocess.run(argv, input=given, capture_output=True, timeout=60, env=os.environ | (env or {}), check=False)


@pytest.mark.slow
def test_a_file_and_standard_input_give_the_same_document() -> None:
    """FILE, - and no FILE at all are three ways to hand over one text."""
    answers = [
        run_parse("npu-smi", str(CARD)),
        *(run_parse("npu-smi", *rest, given=CARD.read_bytes()) for rest in ((), ("-",))),
    ]

    assert {answer.returncode for answer in answers} == {0}
    assert len({answer.stdout for answer in answers}) == 1
    assert json.loads(answers[0].stdout)["kind"] == "list"


def test_text_that_is_no_output_is_quoted_and_ends_with_1() -> None:
    """Exit code 1, kind unknown on standard output, and the first line quoted on standard error."""
    answer = run_parse("npu-smi", given=b"\n  good morning\nthe hall is cold\n")

    assert answer.returncode == 1
    assert json.loads(answer.stdout)["kind"] == "unknown"
    assert b"'good morning'" in answer.stderr


@pytest.mark.parametrize(
    "args", [("npu-smi", "no/such/file"), ("npu-smi", "."), ("rocm-smi", str(CARD)), ("no/such/file",)]
)
def test_what_cannot_be_read_is_said_with_a_next_step(args: tuple[str, ...]) -> None:
    """A missing file, a folder and an unknown tool end with 2 and one sentence, without a document."""
    answer = run_parse(*args)

    assert answer.returncode == 2
    assert answer.stdout == b""
    assert answer.stderr.startswith(b"envcheck: ")
    assert b"next: " in answer.stderr


def test_named_pipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A named pipe without a writer ends at the deadline; what a writer sent is read."""
    monkeypatch.setattr(live_stream, "SILENCE_S", 0.1)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(SystemExit) as silent:
        main.entry(["parse", str(path)])
    said = capsys.readouterr().err
    writer = os.open(path, os.O_RDWR)
    os.write(writer, CARD.read_bytes())
    with pytest.raises(SystemExit) as sent:
        main.entry(["parse", str(path)])
    os.close(writer)

    assert (silent.value.code, sent.value.code) == (1, 0)
    assert f"{path} did not end" in said
    assert "the text is empty" in said
    assert json.loads(capsys.readouterr().out)["detail"]["total_count"] == 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_powershells_utf_16_is_read(encoding: str) -> None:
    """Text that a Windows shell redirected is read as well."""
    answer = run_parse("npu-smi", given=CARD.read_text(encoding="utf-8").encode(encoding))

    assert json.loads(answer.stdout)["detail"]["total_count"] == 2


def test_any_locale_prints_the_document() -> None:
    """Characters that the locale cannot encode are escaped."""
    answer = run_parse(
        "npu-smi", given="Get 网络 failed, because no ip was preset there!\n".encode(), env={"LC_ALL": "C"}
    )

    assert "网络" in json.loads(answer.stdout)["error"]["message"]


def test_an_endless_file_is_read_in_part(tmp_path: Path) -> None:
    """A device that never ends is answered from its beginning: here, that it is no text."""
    if not Path("/dev/zero").exists():
        pytest.skip("this system has no /dev/zero")

    assert run_parse("npu-smi", "/dev/zero").returncode == 2


def test_a_binary_is_refused() -> None:
    """A program is no output of a tool; UTF-16, which has NUL bytes too, is text."""
    refused = run_parse("npu-smi", sys.executable)
    read = run_parse("npu-smi", given="Get 网络 failed, because no ip was preset there!\n".encode("utf-16"))

    assert (refused.returncode, refused.stdout) == (2, b"")
    assert b"is not text: an ELF program" in refused.stderr
    assert json.loads(read.stdout)["kind"] == "error"


NVIDIA = CARD.parents[2] / "nvidia_smi" / "table" / "a100x8_535.txt"
ILUVATAR = CARD.parents[2] / "ixsmi" / "table" / "biv150_busy_430.txt"


@pytest.mark.parametrize("words", [(), ("-",)])
def test_the_text_tells_the_tool(words: tuple[str, ...]) -> None:
    """Without TOOL, a paste of two tools is a session of both."""
    answer = run_parse(*words, given=NVIDIA.read_bytes() + ILUVATAR.read_bytes())
    document = json.loads(answer.stdout)

    assert answer.returncode == 0
    assert (document["kind"], [part["tool"] for part in document["parts"]]) == ("session", ["nvidia-smi", "ixsmi"])


def test_a_file_alone() -> None:
    assert json.loads(run_parse(str(NVIDIA)).stdout)["tool"] == "nvidia-smi"


def test_another_tools_output_names_that_tool() -> None:
    """Exit code 1, the right tool, and the command to run."""
    answer = run_parse("ixsmi", str(NVIDIA))

    assert answer.returncode == 1
    assert b"this looks like the output of nvidia-smi" in answer.stderr
    assert b"envcheck parse nvidia-smi" in answer.stderr


def test_strict() -> None:
    """What could not be read is a warning, and with --strict exit code 3."""
    damaged = NVIDIA.read_bytes().replace(b"00000000:07:00.0", b"xxxxxxxx:xx:xx.x")

    usual, strict = run_parse(given=damaged), run_parse("--strict", given=damaged)

    assert (usual.returncode, strict.returncode) == (0, 3)
    assert b"1 cell or row cannot be read" in usual.stderr
    assert json.loads(usual.stdout)["remarks"][0]["text"].startswith("xxxxxxxx:xx:xx.x")
    assert run_parse("--strict", str(NVIDIA)).returncode == 0


def test_field_names_of_a_csv() -> None:
    """A CSV without a header is read by the names that it was asked for."""
    rows = b"0, 12 MiB, 81920 MiB\n1, 13 MiB, 81920 MiB\n"
    answer = run_parse("--fields", "index, memory.used,memory.total", given=rows)

    assert [(each["index"], each["memory_used_mib"]) for each in json.loads(answer.stdout)["devices"]] == [
        (0, 12),
        (1, 13),
    ]


def test_gbk_is_read() -> None:
    """A Chinese Windows writes GBK."""
    text = NVIDIA.read_text(encoding="utf-8") + "以上是显卡的状态\n"

    assert len(json.loads(run_parse(given=text.encode("gbk")).stdout)["devices"]) == 8


def test_other_commands_are_not_imported() -> None:
    """A short text takes no longer than its parser: the engine that explains failures is another command's."""
    heavy = ("envcheck.explain", "envcheck.report", "envcheck.lint", "docker", "rich")
    code = f"""
import sys
from envcheck.cli import main as cli
try:
    cli.entry(["parse", {str(CARD)!r}])
except SystemExit as ended:
    print([name for name in {heavy!r} if name in sys.modules], ended.code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert done.stdout.splitlines()[-1] == "[] 0"


def test_a_long_document_has_one_line() -> None:
    """A line for each value of a short document; the document of a watch log has one line."""
    table = NVIDIA.read_bytes()
    short, long = run_parse(given=table).stdout, run_parse(given=table * 60).stdout

    assert short.decode() == json.dumps(json.loads(short), indent=2, ensure_ascii=False) + "\n"
    assert len(long.splitlines()) == 1
    assert len(json.loads(long)["parts"]) == 60
