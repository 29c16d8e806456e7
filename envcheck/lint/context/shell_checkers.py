"""Other shell checkers, if installed: bash -n, and shellcheck, whose findings are included."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envcheck.core import process
from envcheck.core.lint.script_model import Remark, SourceBlock
from envcheck.core.messages import verbatim
from envcheck.core.model import Status

TIMEOUT_S = 20.0
# shellcheck codes that our rules report too, with the launch in view; on the same line they are reported once.
OURS = {
    2115: "shell.remove",
    1017: "shell.crlf",
    1101: "shell.backslash_blank",
    2069: "shell.redirect_order",
    2188: "shell.redirect_order",
    2164: "shell.no_errexit",
    2215: "shell.orphan_option",
    2276: "shell.spaced_assignment",
    2283: "shell.spaced_assignment",
    1036: "shell.syntax",
    1072: "shell.syntax",
    1073: "shell.syntax",
}
# Unset, unused and unquoted variables: our rules know what launchers read and job platforms set.
FOLLOWED = {2154, 2034, 2086}
# Style, and what the shebang-less blocks of a document cannot know.
# Quoting that matters only for values with blanks is excluded too: launch scripts rarely quote.
QUIET = {1090, 1091, 2148, 2312, 2250, 2248, 2292, 1128, 2239, 1082, 2046, 2006, 2181, 2002}
QUIET |= {2068, 2206, 2207, 2054, 2155, 2128, 2178, 2124}


def check_with_bash(raw: bytes) -> list[tuple[int, str]] | None:
    """Return (line, message) for what bash cannot parse; nothing is executed.  None if bash is not available."""
    bash = shutil.which("bash")
    if bash is None:
        return None
    with tempfile.TemporaryDirectory(prefix="envcheck-lint-") as folder:
        file = Path(folder, "script")
        file.write_bytes(raw)
        done = process.run_command(
            [bash, "--norc", "--noprofile", "-n", str(file)], timeout_s=TIMEOUT_S, env=_make_clean_environment()
        )
    if done.hung or done.absent:
        return None
    if done.status == 0:
        return []
    found = re.findall(r"script: line (\d{1,7}): ([^\n]{1,200})", done.err)
    # After "syntax error near ..." bash quotes the line in `...', as a second message.
    return [(int(line), words) for line, words in found if not words.startswith("`")] or None


def _make_clean_environment() -> dict[str, str]:
    """Without variables that make bash read a file first (BASH_ENV), and with English messages."""
    return {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}


def find_shellcheck() -> str | None:
    """Return shellcheck from PATH, or from the folder of our Python."""
    return shutil.which("shellcheck") or shutil.which("shellcheck", path=str(Path(sys.executable).parent))


LARGE = 1 << 16  # bytes that shellcheck reads within its time; a longer script is not checked by it


def run_shellcheck(block: SourceBlock) -> Iterator[Remark]:
    """Return shellcheck's warnings about a script; empty if it is not installed or does not respond."""
    found = find_shellcheck()
    if found is None or len(block.raw) > LARGE:
        return
    with tempfile.TemporaryDirectory(prefix="envcheck-lint-") as folder:
        file = Path(folder, "script")
        file.write_bytes(block.raw)
        argv = [found, "--norc", "--format=json", "--severity=warning", "--shell=bash", str(file)]
        done = process.run_command(argv, timeout_s=TIMEOUT_S, env=_make_clean_environment())
    try:
        comments = json.loads(done.out) if done.out.strip() else []
    except ValueError:
        return
    lines = block.raw.split(b"\n")
    for each in comments if isinstance(comments, list) else []:
        if isinstance(each, dict) and each.get("code") not in QUIET:
            yield _make_remark(block, lines, each)


def _make_remark(block: SourceBlock, lines: list[bytes], each: dict[str, Any]) -> Remark:
    start, end = (
        _count_bytes_before(lines, int(each.get(f"{w}ine", 1)), int(each.get(f"{c}olumn", 1)))
        for w, c in (("l", "c"), ("endL", "endC"))
    )
    code = int(each.get("code", 0))
    place = block.map_to_file(start), max(block.map_to_file(end), block.map_to_file(start) + 1)
    words = " ".join(str(each.get("message", "")).split())[:300]
    wiki = f"https://www.shellcheck.net/wiki/SC{code}"
    return Remark(f"shellcheck.SC{code}", Status.WARN, verbatim(words), verbatim(wiki), *place, origin="shellcheck")


def _count_bytes_before(lines: list[bytes], line: int, column: int) -> int:
    """Convert shellcheck's line and column; its tabs advance to the next multiple of eight."""
    line = min(max(line, 1), len(lines))
    before = sum(len(each) + 1 for each in lines[: line - 1])
    text, seen = lines[line - 1].decode("utf-8", "replace"), 1
    for at, letter in enumerate(text):
        if seen >= column:
            return before + len(text[:at].encode())
        seen = (seen + 7) // 8 * 8 + 1 if letter == "\t" else seen + 1
    return before + len(text.encode())
