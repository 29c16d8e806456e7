"""envcheck explain in Chinese: its messages and every entry of the catalogue."""

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
from envcheck.explain import catalogue, causality, codes, explainer, localize, render_report
from envcheck.explain.diagnosis import ExplainReport
from envcheck.report import Style
from launch.run import states
from tests.envcheck.core.language.test_language_reports import ENGLISH

AREAS = sorted({entry.area for entry in catalogue.load_entries()})
# How a code of a family is written on the command line, where not as its table's key.
WRITTEN: dict[str, Callable[[str], list[str]]] = {
    "cann": lambda key: [f"{key:0<6}"],
    "module": lambda key: [f"E{key}9999", f"E{key}4321"],
    "pta": lambda key: [f"ERR{part}{key}" for part in ("00", "01", "02", "03", "77")],
    "cuda": lambda key: [f"CUDA {key}"],
    "xid": lambda key: [f"Xid {key}"],
    "xid_program": lambda key: [f"Xid {key}"],
    "xid_event": lambda key: [f"Xid {key}"],
    "http": lambda key: [f"HTTP {key.replace('*', '18')}"],
    "xpu": lambda key: [f"XPU {key}"],
    "acl": lambda key: [key, f"{key[0]}99999"],
    "signal": lambda key: [f"-{key}", str(128 + int(key)), str(256 - int(key))],
}
NAMES = (
    "expandable segments|token id|envcheck (?:explain|train|plan|provision|doctor)"
    "|rank table|fabric manager|local rank|Xid|launch failed requeued held|cpu host|max loop devices"
    # commands within a remedy
    "|(?:apptainer|apt|apt-get|apt-cache|apk|aws|chronyc|conda|containerd|crictl|ctr|dnf|docker|enroot|git|helm|hf|import|kubeadm"
    "|kubectl|litgpt|module|ollama|pip|podman|poetry|python|ray|rclone|rustup|scontrol|sleep|sudo|swift|systemctl|tar|tune|uv)"
    r"(?: [\w./:<=@*'-]{1,60}){1,8}|Delegate=[\w ]{1,60}"
)
LOG = """
RuntimeError: [rank3] EI0006 Getting socket times out. Reason: Remote Rank did not send the data in time.
E30006: verify opp package failed
RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB
"""


@pytest.mark.parametrize("area", AREAS)
def test_what_the_line_did_not_name_leaves_no_english(area: str, chinese: None) -> None:
    """An entry whose log line names no file, option or code is also fully Chinese."""
    mine = [entry for entry in catalogue.load_entries() if entry.area == area]
    said = [localize.translate_diagnosis(causality.make_diagnosis(entry, {}, (), 1)).description for entry in mine]

    assert [text for text in said if not re.search("[一-鿿]", text) or re.search(r"\b(?:the|an?) [a-z]+", text)] == []


def test_a_log_is_explained_in_chinese(tmp_path: Path, chinese: None) -> None:
    """Cause, reason and remedy contain no English except log lines and commands."""
    (tmp_path / "x.log").write_text(LOG)
    text = CliRunner().invoke(main.main, ["explain", str(tmp_path / "x.log")]).output
    ours = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("|"))

    assert "原因：" in text and "下一步：请" in text
    assert _english(ours) == []


@pytest.mark.parametrize("family", sorted(codes.load_code_tables()))
def test_each_code_is_said_in_chinese(family: str, chinese: None) -> None:
    """The meaning of a bare code, and its entry, contain no English except names."""
    asked = [code for key in codes.load_code_tables()[family] for code in WRITTEN.get(family, _as_it_is)(key)]
    told = [(code, one) for code in asked for one in explainer.explain_codes([code])]
    screens = [render_report.as_text(ExplainReport((one,), None, (), ()), Style(width=1000)) for _, one in told]
    known = [known for code in asked if (known := codes.explain_code(code))]
    texts = {one.name for one in known if one.name} | {
        code for code in asked if " " in code
    }  # a message is its own code
    texts |= {text.replace(": ", "：") for text in texts}
    names = "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))
    left = [found for screen in screens for found in _english(re.sub(names, "", screen) if names else screen)]

    assert {code for code, _ in told} == set(asked)
    assert left == []


@pytest.mark.parametrize(
    ("code", "chinese_line"),
    [
        ("137", "137：被 SIGKILL 终止（137 即 128 + 9）：内存"),
        ("241", "241：被 SIGTERM 终止（241 即 256 - 15）：被要求停止"),
        ("CUDA 2", "CUDA 2：cudaErrorMemoryAllocation：显存不足"),
        ("Xid 31", "Xid 31：GPU memory page fault：通常是程序缺陷：访问了非法地址"),
        ("-8005", "-8005：DCMI_ERR_CODE_INNER_ERR：内部错误；在容器中通常是没有设备节点的访问权限"),
    ],
)
def test_a_code_keeps_its_name(code: str, chinese_line: str, chinese: None) -> None:
    """Numbers and vendor names are kept; their meaning is Chinese."""
    (told,) = explainer.explain_codes([code])

    assert f"    | {chinese_line}" in render_report.as_text(ExplainReport((told,), None, (), ()), Style(width=1000))


@pytest.mark.parametrize("words", ["not found", "x: not found; out of memory", "8 cards, 2 of 3", "{0}", "@what@"])
def test_what_the_line_said_stays_to_the_letter(words: str, chinese: None) -> None:
    """Quoted tool output is never partly translated, even if a table has a translation of it."""
    entry = next(entry for entry in catalogue.load_entries() if entry.name == "container.runtime")

    assert (
        localize.translate_diagnosis(causality.make_diagnosis(entry, {"what": words}, (), 1)).description
        == f"容器启动失败：{words}"
    )


def test_the_catalogue_is_listed_in_chinese(chinese: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """--list has a Chinese line for each entry, no wider than the terminal."""
    monkeypatch.setenv("COLUMNS", "60")
    lines = CliRunner().invoke(main.main, ["explain", "--list"]).output.splitlines()
    names = [entry.name for entry in catalogue.load_entries()]
    said = [lines[lines.index(name) + 1] for name in names]

    assert [name for name, text in zip(names, said, strict=True) if not re.search("^ {4}.*[一-鿿]", text)] == []
    assert max(map(width.display_width, lines)) <= 60


@pytest.mark.parametrize("how", states.ENDS)
def test_a_run_is_explained_in_chinese(how: str, tmp_path: Path, chinese: None) -> None:
    """State of the run, first failed rank and stop rule are Chinese; text from the run record is kept."""
    failed = {"rank": 1, "code": 3, "log": "workerlog.1"}
    rule = {"name": "watch.health", "seen": "x turned 7", "remedy": {"words": "z"}}
    record = {**states.list_end_values(how), "first_failed_worker": failed}
    record["stopped"] = rule if how == states.BY_RULE else None
    (tmp_path / "run.json").write_text(json.dumps(record))
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "workerlog.1").write_text("bye\n")
    text = CliRunner().invoke(main.main, ["explain", str(tmp_path)], env={"COLUMNS": "400"}).output

    assert re.fullmatch(f"运行 {tmp_path.name}：[一-鿿]+；工作进程 1 最先失败，退出码 3", text.splitlines()[0])
    ruled = "`envcheck train` 的停止规则终止了该运行。" in text and "x turned 7" in text
    assert ruled is (how == states.BY_RULE)
    assert _english(text) == []


def test_nothing_known_is_said_in_chinese(tmp_path: Path, chinese: None) -> None:
    """For a log without known errors: the files read, and the most relevant line unchanged."""
    (tmp_path / "a.log").write_text("step 1\nERROR: frobnication failed\n")
    text = CliRunner().invoke(main.main, ["explain", str(tmp_path / "a.log")], env={"COLUMNS": "300"}).output

    assert "未知：故障目录中没有匹配项" in text and "：2行）" in "".join(text.split())  # wherever the line was broken
    assert "ERROR: frobnication failed" in re.sub(r"\s+(?:\| )?", " ", text)
    assert _english("\n".join(line for line in text.splitlines() if "|" not in line)) == []


def test_our_words_in_place_of_a_value_have_no_blanks(chinese: None) -> None:
    """Chinese has blanks around a name from the log, and none around our words in its place."""
    text = "此版本的 {package} 还不认识它"

    assert localize._fill_translation(text, {"package": "vllm"}) == "此版本的 vllm 还不认识它"
    assert localize._fill_translation(text, {}) == "此版本的该软件包还不认识它"
    assert localize._fill_translation("读取 {path}", {"path": "数据 集"}) == "读取 数据 集"


def test_json_stays_english(tmp_path: Path, chinese: None) -> None:
    """A program's document does not follow the locale; --lang on the command line is taken as meant."""
    (tmp_path / "x.log").write_text(LOG)
    language.choose_language(["explain", "x.log", "--json"], {"LANG": "zh_CN.UTF-8"})
    plain = CliRunner().invoke(main.main, ["explain", str(tmp_path / "x.log"), "--json"]).output
    language.choose_language(["explain", "x.log", "--json", "--lang", "zh"], {})
    said = json.loads(CliRunner().invoke(main.main, ["explain", str(tmp_path / "x.log"), "--json"]).output)

    assert "Operator package verification failed (E30006)" in plain
    assert "算子包校验失败（E30006）" in [one["description"] for one in said["diagnoses"]]


def _as_it_is(key: str) -> list[str]:
    return [key]


def _english(screen: str) -> list[str]:
    """Runs of two English words in lines that are neither commands nor sources."""
    ours = [line for line in screen.splitlines() if not line.lstrip().startswith(("$", "参见", "http"))]
    return [run for line in ours for run in ENGLISH.findall(re.sub(NAMES, "", line))]
