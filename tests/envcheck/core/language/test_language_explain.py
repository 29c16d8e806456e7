"""envcheck explain in Chinese: its own words, and the entries of the catalogue, all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.cli import main
from envcheck.core import language
from envcheck.core.language import width
from envcheck.explain import catalogue, codes, localize, order, session, show
from envcheck.explain.model import Report
from envcheck.report import Style
from tests.envcheck.core.language import language_parts
from tests.envcheck.core.language.test_language import lacking
from tests.envcheck.core.language.test_language_reports import ENGLISH

AREAS = sorted({entry.area for entry in catalogue.entries()})
# How a code of a family is written on the command line, where not as its table's key.
WRITTEN: dict[str, Callable[[str], list[str]]] = {
    "cann": lambda key: [f"{key:0<6}"],
    "module": lambda key: [f"E{key}9999", f"E{key}4321"],
    "pta": lambda key: [f"ERR{part}{key}" for part in ("00", "01", "02", "03", "77")],
    "cuda": lambda key: [f"CUDA {key}"],
    "xid": lambda key: [f"Xid {key}"],
    "acl": lambda key: [key, f"{key[0]}99999"],
    "signal": lambda key: [f"-{key}", str(128 + int(key)), str(256 - int(key))],
}
NAMES = "envcheck (?:explain|train)|rank table|fabric manager|local rank|Xid"
LOG = """
RuntimeError: [rank3] EI0006 Getting socket times out. Reason: Remote Rank did not send the data in time.
E30006: verify opp package failed
RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB
"""


@pytest.mark.parametrize("area", AREAS)
def test_each_entry_has_its_chinese(area: str) -> None:
    """What it says, why, and what to do; {code} and its kin are values."""
    mine = [entry for entry in catalogue.entries() if entry.name.partition(".")[0] == area]
    texts = [text for entry in mine for text in (entry.says, entry.why, entry.do) if text]

    assert len(mine) >= 3
    assert lacking(re.sub(r"\{\w+\}", "{}", text) for text in texts) == []


@pytest.mark.parametrize("area", AREAS)
def test_what_the_line_did_not_name_leaves_no_english(area: str, chinese: None) -> None:
    """An entry whose line named neither file nor option nor code is said in Chinese, too."""
    mine = [entry for entry in catalogue.entries() if entry.area == area]
    said = [language.say(order.made_of(entry, {}, (), 1).says) for entry in mine]

    assert [text for text in said if not re.search("[一-鿿]", text) or re.search(r"\b(?:the|an?) [a-z]+", text)] == []


def test_each_word_of_the_report_has_its_chinese() -> None:
    """What the report says by itself."""
    said = language_parts.sentences(Path(show.__file__), {"say": (0,), "_lines": (0,)})

    assert len(said) > 10
    assert lacking(said) == []


def test_a_log_is_explained_in_chinese(tmp_path: Path, chinese: None) -> None:
    """Cause, reason and deed of what is translated keep no English but the log's lines and commands."""
    (tmp_path / "x.log").write_text(LOG)
    text = CliRunner().invoke(main.main, ["explain", str(tmp_path / "x.log")]).output
    ours = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("|"))

    assert "原因：" in text and "处理：请" in text
    assert _english(ours) == []


@pytest.mark.parametrize("family", sorted(codes.tables()))
def test_each_code_is_said_in_chinese(family: str, chinese: None) -> None:
    """What a bare code means, and the entry that it leads to, keep no English but names."""
    asked = [code for key in codes.tables()[family] for code in WRITTEN.get(family, _as_it_is)(key)]
    told = [(code, one) for code in asked for one in session.explain_codes([code])]
    screens = [show.as_text(Report((one,), None, (), ()), Style(width=1000)) for _, one in told]
    names = "|".join(re.escape(known.name) for code in asked if (known := codes.read(code)) and known.name)
    left = [found for screen in screens for found in _english(re.sub(names, "", screen) if names else screen)]

    assert {code for code, _ in told} == set(asked)
    assert left == []


@pytest.mark.parametrize(
    ("code", "chinese_line"),
    [
        ("137", "137：被 SIGKILL（137 即 128 + 9）结束：内存"),
        ("241", "241：被 SIGTERM 结束（241 即 256 - 15）：有人"),
        ("CUDA 2", "CUDA 2：cudaErrorMemoryAllocation：卡的显存已用尽"),
        ("Xid 31", "Xid 31：GPU memory page fault：多半是程序的问题：访问了不属于自己的地址"),
        ("-8005", "-8005：DCMI_ERR_CODE_INNER_ERR：内部错误；在容器中多半是无权打开设备节点"),
    ],
)
def test_a_code_keeps_its_name(code: str, chinese_line: str, chinese: None) -> None:
    """Numbers and vendors' names stand as they are, what they mean in Chinese."""
    (told,) = session.explain_codes([code])

    assert f"    | {chinese_line}" in show.as_text(Report((told,), None, (), ()), Style(width=1000))


@pytest.mark.parametrize("words", ["not found", "x: not found; out of memory", "8 cards, 2 of 3", "{0}", "@what@"])
def test_what_the_line_said_stays_to_the_letter(words: str, chinese: None) -> None:
    """A tool's words within ours are never said half in Chinese, even where a table has them."""
    entry = next(entry for entry in catalogue.entries() if entry.name == "container.runtime")

    assert localize.spoken(order.made_of(entry, {"what": words}, (), 1)).says == f"容器没有启动：{words}"


def test_the_catalogue_is_listed_in_chinese(chinese: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """--list has a Chinese line for each entry, no wider than the terminal."""
    monkeypatch.setenv("COLUMNS", "60")
    lines = CliRunner().invoke(main.main, ["explain", "--list"]).output.splitlines()
    names = [entry.name for entry in catalogue.entries()]
    said = [lines[lines.index(name) + 1] for name in names]

    assert [name for name, text in zip(names, said, strict=True) if not re.search("^ {4}.*[一-鿿]", text)] == []
    assert max(map(width.columns, lines)) <= 60


@pytest.mark.parametrize(
    "state", ["finished", "failed", "deadline", "unstarted", "stopped", "interrupted", "refused", "lost"]
)
def test_a_run_is_explained_in_chinese(state: str, tmp_path: Path, chinese: None) -> None:
    """Of a run its state, who failed first, and the stop rule that ended it; its record's own words stay."""
    failed = {"rank": 1, "code": 3, "log": "workerlog.1"}
    stopped = {"name": "watch.health", "seen": "x turned 7", "remedy": {"words": "z"}}
    (tmp_path / "run.json").write_text(json.dumps({"state": state, "first_failed_worker": failed, "stopped": stopped}))
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "workerlog.1").write_text("bye\n")
    text = CliRunner().invoke(main.main, ["explain", str(tmp_path)], env={"COLUMNS": "400"}).output

    assert re.fullmatch(f"运行 {tmp_path.name}：[一-鿿]+；工作进程 1 最先失败，退出码 3", text.splitlines()[0])
    assert "envcheck train 按其停止规则之一结束了这次运行。" in text and "x turned 7" in text
    assert _english(text) == []


@pytest.mark.parametrize("file", ["envcheck/cli/commands/explain.py", "envcheck/explain/reading.py"])
def test_each_refusal_has_its_chinese(file: str) -> None:
    """What explain refuses, and what to do instead."""
    said = language_parts.sentences(Path(main.__file__).parents[2] / file)

    assert len(said) > 3
    assert lacking(said) == []


def test_nothing_known_is_said_in_chinese(tmp_path: Path, chinese: None) -> None:
    """A log that nothing knows: what was read, and its most telling line to the letter."""
    (tmp_path / "a.log").write_text("step 1\nERROR: frobnication failed\n")
    text = CliRunner().invoke(main.main, ["explain", str(tmp_path / "a.log")], env={"COLUMNS": "300"}).output

    assert "未知：没有故障目录认识的内容" in text and "：2行）" in "".join(text.split())  # wherever the line was broken
    assert "ERROR: frobnication failed" in re.sub(r"\s+(?:\| )?", " ", text)
    assert _english("\n".join(line for line in text.splitlines() if "|" not in line)) == []


def test_json_stays_english(tmp_path: Path, chinese: None) -> None:
    """A program's document does not follow the locale; --lang on the command line is taken as meant."""
    (tmp_path / "x.log").write_text(LOG)
    language.choose(["explain", "x.log", "--json"], {"LANG": "zh_CN.UTF-8"})
    plain = CliRunner().invoke(main.main, ["explain", str(tmp_path / "x.log"), "--json"]).output
    language.choose(["explain", "x.log", "--json", "--lang", "zh"], {})
    said = json.loads(CliRunner().invoke(main.main, ["explain", str(tmp_path / "x.log"), "--json"]).output)

    assert "The operator package does not verify (E30006)" in plain
    assert "算子包校验不通过（E30006）" in [one["says"] for one in said["diagnoses"]]


def _as_it_is(key: str) -> list[str]:
    return [key]


def _english(screen: str) -> list[str]:
    """Runs of two English words in lines that are not commands, nor sources."""
    ours = [line for line in screen.splitlines() if not line.lstrip().startswith(("$", "参见", "http"))]
    return [run for line in ours for run in ENGLISH.findall(re.sub(NAMES, "", line))]
