"""What logs, scripts and web pages put around the lines of an output changes nothing in its document."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from envcheck.cli.commands.parse import as_json
from probes.kunlunxin import xpu_smi
from probes.paste.line_decorations import strip_decorations
from tests.probes.test_recordings import list_differences

DATA = Path(__file__).parents[2] / "data" / "xpu_smi"
CASES = (
    "table/p800_vf_processes.txt",
    "table/p800_processes_named_xpu.txt",
    "table/old_k200_error_state.txt",
    "table/old_r300_processes.txt",
    "query_text/p800_three.txt",
    "query_text/p800_power_ecc.txt",
    "machine/p800_two.txt",
    "list/p800_two.txt",
    "topo/two.txt",
    "topo/four_with_nics.txt",
    "xml/p800_two.xml",
    "log/by_awk.txt",
)


def decorate(change: Callable[[int, str], str]) -> Callable[[str], str]:
    """Return a function that changes each line, given its number."""
    return lambda text: "".join(change(at, line) + "\n" for at, line in enumerate(text.rstrip("\n").split("\n")))


DECORATIONS: dict[str, Callable[[str], str]] = {
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "no blanks at the ends": decorate(lambda at, line: line.rstrip()),
    "indented": decorate(lambda at, line: " " * 12 + line),
    "quoted": decorate(lambda at, line: "> " + line),
    "comment": decorate(lambda at, line: "# " + line),
    "docker compose": decorate(lambda at, line: "trainer-1  | " + line),
    "logger": decorate(lambda at, line: f"2026-09-11 04:00:{at % 60:02d},123 [INFO] - " + line),
    "host": decorate(lambda at, line: "node1: " + line),
    "mpirun": decorate(lambda at, line: "[1,0]<stdout>:" + line),
    "pod": decorate(lambda at, line: "[pod/train-0/main] " + line),
    "numbered": decorate(lambda at, line: f"{at + 1:6d}\t{line}"),
    "in a program": decorate(lambda at, line: "    '" + line.replace("'", "\\'") + "\\n'"),
    "line ends of Markdown": decorate(lambda at, line: line + "\\"),
    "line ends of HTML": decorate(lambda at, line: line + "<br>"),
    "entities": lambda text: text.replace('"', "&quot;"),
    "escaped quotation marks": lambda text: text.replace('"', '\\"'),
    "blank lines between": decorate(lambda at, line: line + "\n"),
    "colours": decorate(lambda at, line: f"\x1b[32m{line}\x1b[0m"),
    "no-break spaces": lambda text: text.replace(" ", "\u00a0"),
    "box drawing": lambda text: text.replace("|", "│").replace("-----", "─────"),
    "full-width colons": lambda text: text.replace(" : ", " ： "),
    "byte order mark": lambda text: "\ufeff" + text,
    "Markdown": lambda text: f"在宿主机执行 `xpu_smi`：\n\n```bash\n{text}```\n\n每张 P800 有 96 GB 显存。\n",
    "prompts": lambda text: f"[root@p800-01 ~]# pip list\npaddlepaddle-xpu 3.1.0\n{text}\n[root@p800-01 ~]# ",
    "one string of JSON": lambda text: json.dumps({"stdout": text}),
}


@pytest.mark.parametrize("decoration", DECORATIONS)
@pytest.mark.parametrize("case", CASES)
def test_a_decorated_output_gives_the_same_document(case: str, decoration: str) -> None:
    """The decorated recording parses to the JSON file of the plain one."""
    raw = DATA / case
    wanted = json.loads(raw.with_suffix(".json").read_text(encoding="utf-8"))
    document = xpu_smi.parse(DECORATIONS[decoration](raw.read_text(encoding="utf-8")))

    assert list_differences(wanted, as_json(document)) == []


@pytest.mark.parametrize("case", CASES)
def test_a_plain_output_is_kept(case: str) -> None:
    """A text without decorations stays as it is."""
    text = (DATA / case).read_text(encoding="utf-8")

    assert strip_decorations(text) == text


def test_lines_of_one_kind_are_no_decoration() -> None:
    """Lines that begin alike, as the keys of -q or the rows of -m do, lose nothing."""
    text = "Total : 3 MiB\nUsed : 3 MiB\nFree : 0 MiB\n0 1 2 3\n1 2 3 4\nGPU-1: a\n"

    assert strip_decorations(text) == text


def test_one_line_of_a_python_log() -> None:
    """The level and the logger's name are no part of a single line; a line with its own colons loses nothing."""
    line = "GPU 0: Tesla T4 (UUID: GPU-5a1b2c3d-0000-0000-0000-000000000000)\n"

    assert [strip_decorations(f"{mark}{line}") for mark in ("INFO:root:", "WARNING:my.module:")] == [line, line]
    assert strip_decorations(line) == line
    assert strip_decorations("ERROR: no device found\n") == "ERROR: no device found\n"
