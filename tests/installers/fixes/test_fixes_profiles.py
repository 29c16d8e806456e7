"""doctor --fix and lines of shell profiles: safe ones are commented out, the rest is listed and left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.checks.host.system import STALE
from envcheck.core.errors import StepError
from envcheck.core.facts import Facts
from envcheck.core.model import Finding, Status
from installers.fixes import profiles
from installers.fixes.actions import CommentOutLines
from installers.fixes.proposals import list_manual_fixes, propose_fixes

WARN = Finding("host.stale_variables", Status.WARN, "RANK set")
# A profile, which of its lines are commented out, and which are listed.
CASES = {
    "plain": ("export RANK=3\nRANK=4\ndeclare -x RANK=5\nexport MASTER_PORT=1 RANK=2  # both\n", [1, 2, 3, 4], []),
    "quotes": ("export MASTER_ADDR='a;b'\nexport MASTER_ADDR=\"c && d\"\n", [1, 2], []),
    "if": ("if true; then\n  export RANK=3\nfi\n", [], [2]),
    "one line": ("if true; then export RANK=3; fi\n", [], [1]),
    "the same line twice": ("export RANK=3\nif true; then\nexport RANK=3\nfi\n", [1], [3]),
    "loop": ("for i in 1; do\nexport RANK=$i\ndone\n", [], [2]),
    "case": ("case $x in\na)\nexport RANK=1\n;;\nesac\n", [], [3]),
    "function": ("f() {\nexport RANK=1\n}\n", [], [2]),
    "and more": (
        "export RANK=3 FOO=4\nexport RANK=3; cd /x\n[ -n a ] && export RANK=2\nexport RANK=1 &\n",
        [],
        [1, 2, 3, 4],
    ),
    "several lines": ('export MASTER_ADDR="a\nb"\nexport RANK=$(echo \\\n3)\n', [], [1, 3]),
    "a document": ("cat <<EOF\nexport RANK=3\nEOF\n", [], []),
    "not this shell's": ("RANK=3 python x.py\n(export RANK=2)\nf() { local RANK=1; }\n# export RANK=3\n", [], []),
    "not understood": ("export RANK=3\nif\n", [], [1]),
    "windows": ("export RANK=3\r\nexport FOO=1\r\n", [1], []),
    "other marks of lines": ("echo 'a\x0cb\u2028c'\nexport RANK=3", [2], []),
    "no text": ("\udcff\udcfe\nexport RANK=3\n", [2], []),
}
each = pytest.mark.parametrize(("text", "safe", "left"), CASES.values(), ids=CASES)


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".bashrc"


def write_profile(profile: Path, text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    profile.write_bytes(raw)
    return raw


@each
def test_which_lines(profile: Path, text: str, safe: list[int], left: list[int]) -> None:
    """A line is safe if it is one top-level statement that sets nothing else; no other line is."""
    write_profile(profile, text)
    lines = profiles.find_assignments(profile, lambda name: bool(STALE.match(name)))

    assert ([line.number for line in lines if line.alone], [line.number for line in lines if not line.alone]) == (
        safe,
        left,
    )


@each
def test_done_and_taken_back(profile: Path, text: str, safe: list[int], left: list[int]) -> None:
    """The shell reads the profile as before except for the variable; after the undo it is identical."""
    raw = write_profile(profile, text)
    profile.chmod(0o600)
    fixes = [fix.action for fix in propose_fixes([WARN], Facts())]
    for deed in fixes:
        deed.apply_action()
    done = profile.read_bytes().split(b"\n")
    changed = [n for n, row in enumerate(raw.split(b"\n"), 1) if done[n - 1] != row]
    before, now = (subprocess.run(["bash", "-n"], input=t, capture_output=True) for t in (raw, b"\n".join(done)))
    words = [deed.undo_action() for deed in fixes]

    assert changed == safe and len(fixes) == bool(safe)
    assert (before.returncode == 0) == (now.returncode == 0), now.stderr
    assert [one.seen.split()[1] for one in list_manual_fixes([WARN], Facts())] == [str(number) for number in left]
    assert (profile.read_bytes(), profile.stat().st_mode & 0o777) == (raw, 0o600)
    assert words == [""] * len(fixes) and [path.name for path in profile.parent.iterdir()] == [".bashrc"]


def test_changed_meanwhile(profile: Path) -> None:
    """A profile that changes between check and fix is not edited; the undo reports one that was deleted."""
    write_profile(profile, "export RANK=3\n")
    (fix,) = propose_fixes([WARN], Facts())
    raw = write_profile(profile, "if true; then\nexport RANK=3\nfi\n")
    with pytest.raises(StepError, match="has changed since it was read"):
        fix.action.apply_action()

    assert profile.read_bytes() == raw
    assert fix.action.undo_action() == "kept: changed by someone else since"
    profile.unlink()
    assert fix.action.undo_action() == "the file no longer exists"


def test_lines_that_moved_and_old_journals(profile: Path) -> None:
    """Commented-out lines are found by their text, also from a journal without numbers."""
    write_profile(profile, "# mine\n# envcheck: export RANK=3\n")

    assert CommentOutLines(str(profile), ("export RANK=3",)).undo_action() == ""
    assert profile.read_text() == "# mine\nexport RANK=3\n"


def test_secret_in_the_comment(profile: Path) -> None:
    """The journal has no secret; the line is restored anyway, by its number."""
    raw = write_profile(profile, "export RANK=3 # password=hunter2\n")
    (fix,) = propose_fixes([WARN], Facts())
    fix.action.apply_action()
    back = CommentOutLines(str(profile), ("export RANK=3 # password=[redacted]",), (1,)).undo_action()

    assert (back, profile.read_bytes()) == ("", raw)


def test_the_command_says_what_is_left(tmp_path: Path) -> None:
    """A line inside an if is listed with file and number and left unchanged; the exit code reports it."""
    bashrc = tmp_path / ".bashrc"
    raw = write_profile(bashrc, "if true; then\n  export RANK=3\nfi\n")
    env = {**os.environ, "HOME": str(tmp_path), "ENVCHECK_HOME": str(tmp_path / "kept"), "RANK": "3"}
    argv = [sys.executable, "-m", "envcheck", "doctor", "--fix", "--yes", "--only", "host.stale_variables"]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)

    assert (done.returncode, bashrc.read_bytes()) == (1, raw), done.stderr
    assert f"line 2 of {bashrc} sets RANK" in done.stdout and f"+2 {bashrc}" in done.stdout
    assert "fixed:" not in done.stdout and "done:" not in done.stdout


def test_home_that_cannot_be_written(profile: Path) -> None:
    """If no new file can be created, the profile stays as it was."""
    raw = write_profile(profile, "export RANK=3\n")
    profile.with_name("..bashrc.envcheck").mkdir()  # where the new file would be
    (fix,) = propose_fixes([WARN], Facts())
    with pytest.raises(OSError, match="envcheck"):
        fix.action.apply_action()

    assert profile.read_bytes() == raw
