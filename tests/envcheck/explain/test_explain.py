"""`envcheck explain` as a person and a program meet it: what it takes, exit codes, screens, its page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.explain import causality, codes, explainer
from envcheck.explain.catalogue import load_entries

ROOT = Path(__file__).parents[3]
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def run_explain(
    *argv: str, stdin: bytes = b"", columns: int = 80, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLUMNS": str(columns), "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "envcheck", "explain", *argv], cwd=cwd, env=env, input=stdin, capture_output=True
    )
    return subprocess.CompletedProcess(argv, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize(
    ("argv", "stdin", "code", "words"),
    [
        (["EI0006"], b"", 0, "hccl.connect_timeout"),
        (["-8020"], b"", 0, "dcmi.occupied"),
        (["-6"], b"", 0, "host.aborted"),
        (["241", "137"], b"", 0, "host.killed"),
        (["Xid", "79"], b"", 0, "cuda.off_the_bus"),
        (["Xid 13"], b"", 0, "a program failed on a GPU: Xid 13"),
        (["PermissionError: [Errno 13] Permission denied: '/data/out'"], b"", 0, "Permission denied: /data/out"),
        (["OSError: [Errno 98] Address already in use"], b"", 0, "network.port_in_use"),
        (["RuntimeError:", "Address", "already", "in", "use"], b"", 0, "network.port_in_use"),
        (["what is EJ0003 ?"], b"", 0, "hccl.port_bound"),
        (["-"], OOM.encode(), 1, "standard input:1:"),
        (["-"], b"", 3, "no line mentions an error"),
        (["the weather is fine"], b"", 3, "next: read the complete log"),
        ([], b"", 2, "needs a file, a text or a code"),
        (["no/such/file.log"], b"", 2, "does not exist"),
        (["setup.cfg", "no-such"], b"", 2, "file 'no-such' does not exist"),
        (["--list", "EI0006"], b"", 2, "cannot be combined with other arguments"),
        (["--jsno", "EI0006"], b"", 2, "no such option"),
    ],
)
def test_what_it_takes(argv: list[str], stdin: bytes, code: int, words: str) -> None:
    """Files, text and codes each with their exit code; wrong usage in two lines and no traceback."""
    done = run_explain(*argv, stdin=stdin)

    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr
    assert "Traceback (most" not in done.stderr
    assert code != 2 or len(done.stderr.splitlines()) == 2


def test_one_document(tmp_path: Path) -> None:
    """--json is one document and nothing else, with the same answer."""
    (tmp_path / "workerlog.0").write_text("step 1\nConnection reset by peer\n")
    (tmp_path / "workerlog.1").write_text(f"step 1\n{OOM}\n")
    done = run_explain("--json", str(tmp_path))
    said = json.loads(done.stdout)

    assert done.returncode == said["exit_code"] == 1
    assert [(d["name"], d["caused_by"]) for d in said["diagnoses"]] == [
        ("memory.card", None),
        ("network.peer_gone", "memory.card"),
    ]
    assert said["first_failed"] == str(tmp_path / "workerlog.1")
    assert said["diagnoses"][0]["evidence"] == [{"file": str(tmp_path / "workerlog.1"), "line": 2, "text": OOM}]


def test_unknown_as_document(tmp_path: Path) -> None:
    """An unknown failure is reported as unknown in JSON too."""
    (tmp_path / "a.log").write_text("ERROR: frobnication failed\n")
    done = run_explain("--json", "a.log", cwd=tmp_path)
    said = json.loads(done.stdout)

    assert done.returncode == 3
    assert (said["verdict"], said["relevant_lines"][0]["text"]) == ("unknown", "ERROR: frobnication failed")


def test_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    """Is a file that cannot be read, and no text of an error."""
    (tmp_path / "latest-log").symlink_to("gone.log")
    done = run_explain("latest-log", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot read latest-log" in done.stderr


@pytest.mark.parametrize("columns", (40, 60, 100))
def test_narrow_terminals(columns: int, tmp_path: Path) -> None:
    """No line is wider than the terminal, but for what is to be pasted, and links."""
    (tmp_path / "a.log").write_text(f"{OOM}\nBroken pipe\nERROR: x\n")
    for argv in (["a.log"], ["--list"]):
        lines = run_explain(*argv, columns=columns, cwd=tmp_path).stdout.splitlines()
        wide = [line for line in lines if len(line) > columns and not re.search(r"^\s*\$ |https?://|\S{35}", line)]

        assert wide == []


def test_escapes_do_not_reach_the_terminal(tmp_path: Path) -> None:
    """What a log holds moves no cursor and sets no title."""
    (tmp_path / "a.log").write_bytes(
        b"\x1b]0;evil\x07\x1b[2J" + OOM.encode() + b"\x1b[8m\x9b31m\nERROR: \x1b[5mblink\n"
    )

    said = run_explain("a.log", cwd=tmp_path).stdout + run_explain("ERROR \x1b[31mred failed").stdout

    assert all(c.isprintable() or c == "\n" for c in said)


def test_secrets_do_not_come_out() -> None:
    """A password in a line that is shown is blanked."""
    said = run_explain("OSError: No space left on device, token=abcdef0123456789 http://me:geheim@proxy:3128").stdout

    assert "geheim" not in said
    assert "abcdef0123456789" not in said


def test_list_names_all() -> None:
    """--list has every entry, for people and for programs."""
    text, document = run_explain("--list").stdout, json.loads(run_explain("--list", "--json").stdout)

    assert all(entry.name in text for entry in load_entries())
    assert [entry["name"] for entry in document["entries"]] == [entry.name for entry in load_entries()]


def test_starts_without_heavy_libraries() -> None:
    """The command needs neither docker nor pexpect nor rich."""
    code = "import sys; from envcheck.explain import explainer; explainer.explain_arguments(['EI0006']); "
    code += "sys.exit(any(n in sys.modules for n in ('docker', 'rich', 'pexpect')))"

    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.mark.parametrize("text", ("misaligned address", "too many resources requested for launch"))
def test_error_texts_of_cuda_have_advice(text: str) -> None:
    """An error of CUDA whose text says what to do is explained with it."""
    found = codes.explain_code(text, "cuda")

    assert found is not None
    assert found.entry == "cuda.error"
    assert found.advice


@pytest.mark.parametrize(
    ("what", "shown"),
    [
        ("num_frob_heads (12) must be divisible by tensor parallel size (8)", "divides them: 1, 2, 3, 4, 6, 12. "),
        ("num_frob_heads must be divisible by tensor parallel size (8)", "divides them. "),
        ("sequence length 1001 must be divisible by context parallel size 8", "divides them. "),
    ],
)
def test_degrees_that_divide(what: str, shown: str) -> None:
    """The remedy lists the degrees that divide the size in the line, if the line has it."""
    (found,) = explainer.diagnose([f"AssertionError: {what}"])

    assert shown in found.do


def test_long_value_ends_with_a_word() -> None:
    """A long value is cut between two words."""
    said = causality.fill_placeholders("{what}", {"what": "frob, " * 99})

    assert said.endswith("frob ...")
