"""Other readers of shell, where they are installed: bash -n, and shellcheck, whose findings are taken along."""

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
from envcheck.core.lint.model import Block, Remark
from envcheck.core.model import Status

TIMEOUT_S = 20.0
# shellcheck's codes that our own rules tell as well, with the launch in view; at the same line they are told once.
OURS = {
    2115: "shell.remove",
    1017: "shell.crlf",
    1101: "shell.backslash_blank",
    2069: "shell.redirect_order",
    2164: "shell.no_errexit",
    2215: "shell.orphan_option",
    2276: "shell.spaced_assignment",
    2283: "shell.spaced_assignment",
    1036: "shell.syntax",
    1072: "shell.syntax",
    1073: "shell.syntax",
}
# Unset, unused and unquoted variables: ours know what a launcher reads, and what comes from a job platform.
FOLLOWED = {2154, 2034, 2086}
# Style, and what the shebang-less blocks of a document cannot know.
# Quoting that only matters for values with blanks is left out as well: launch scripts are made of such.
QUIET = {1090, 1091, 2148, 2312, 2250, 2248, 2292, 1128, 2239, 1082, 2046, 2006, 2181, 2002}
QUIET |= {2068, 2206, 2207, 2054, 2155, 2128, 2178, 2124}


def bash_says(raw: bytes) -> list[tuple[int, str]] | None:
    """(line, words) of what bash itself cannot read; nothing is run.  None: nobody could be asked."""
    bash = shutil.which("bash")
    if bash is None:
        return None
    with tempfile.TemporaryDirectory(prefix="envcheck-lint-") as folder:
        file = Path(folder, "script")
        file.write_bytes(raw)
        done = process.run([bash, "--norc", "--noprofile", "-n", str(file)], timeout_s=TIMEOUT_S, env=_environment())
    if done.hung or done.absent:
        return None
    if done.status == 0:
        return []
    found = re.findall(r"script: line (\d{1,7}): ([^\n]{1,200})", done.err)
    # Behind "syntax error near ..." bash quotes the line in `...', as a second message.
    return [(int(line), words) for line, words in found if not words.startswith("`")] or None


def _environment() -> dict[str, str]:
    """Nothing of ours that makes bash read a file first (BASH_ENV), and messages in English."""
    return {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}


def program() -> str | None:
    """shellcheck on the path, or beside our own Python."""
    return shutil.which("shellcheck") or shutil.which("shellcheck", path=str(Path(sys.executable).parent))


def shellcheck(block: Block) -> Iterator[Remark]:
    """What shellcheck warns of in a script; nothing where it is not installed or does not answer."""
    found = program()
    if found is None or len(block.raw) > 1 << 18:
        return
    with tempfile.TemporaryDirectory(prefix="envcheck-lint-") as folder:
        file = Path(folder, "script")
        file.write_bytes(block.raw)
        argv = [found, "--norc", "--format=json", "--severity=warning", "--shell=bash", str(file)]
        done = process.run(argv, timeout_s=TIMEOUT_S, env=_environment())
    try:
        comments = json.loads(done.out) if done.out.strip() else []
    except ValueError:
        return
    lines = block.raw.split(b"\n")
    for each in comments if isinstance(comments, list) else []:
        if isinstance(each, dict) and each.get("code") not in QUIET:
            yield _remark(block, lines, each)


def _remark(block: Block, lines: list[bytes], each: dict[str, Any]) -> Remark:
    start, end = (
        _offset(lines, int(each.get(f"{w}ine", 1)), int(each.get(f"{c}olumn", 1)))
        for w, c in (("l", "c"), ("endL", "endC"))
    )
    code = int(each.get("code", 0))
    place = block.at(start), max(block.at(end), block.at(start) + 1)
    words = " ".join(str(each.get("message", "")).split())[:300]
    wiki = f"https://www.shellcheck.net/wiki/SC{code}"
    return Remark(f"shellcheck.SC{code}", Status.WARN, words, wiki, *place, origin="shellcheck")


def _offset(lines: list[bytes], line: int, column: int) -> int:
    """Of shellcheck's line and column: tabs go to the next eighth."""
    line = min(max(line, 1), len(lines))
    before = sum(len(each) + 1 for each in lines[: line - 1])
    text, seen = lines[line - 1].decode("utf-8", "replace"), 1
    for at, letter in enumerate(text):
        if seen >= column:
            return before + len(text[:at].encode())
        seen = (seen + 7) // 8 * 8 + 1 if letter == "\t" else seen + 1
    return before + len(text.encode())
