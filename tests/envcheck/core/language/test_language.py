"""What people read has its Chinese: found in the code by its syntax, so that a new sentence without one is missed."""

from __future__ import annotations

import dataclasses
import importlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import pytest

from envcheck.checks import CHECKS
from envcheck.cli import main, translate_help
from envcheck.compat import loading
from envcheck.compat.components import own_files
from envcheck.core import language, toml_file
from envcheck.core.errors import UsageError
from envcheck.core.language import translator, width
from envcheck.deep import table
from envcheck.report import page_words, summary
from envcheck.settings.thresholds import THRESHOLDS
from probes.ascend import npu_errors
from probes.smi import smi_errors
from tests.envcheck.core.language import language_parts

ROOT = Path(language.__file__).parents[2]
ZH = sorted((ROOT / "core/language" / "zh").glob("*.toml"))
CODE = [
    *(f for f in sorted((ROOT / "checks").rglob("*.py")) if f.stem != "known_issues"),
    *sorted((ROOT / "job" / "requirements").glob("*.py")),
    *sorted((ROOT / "vendors").rglob("checks*.py")),
    ROOT / "compat" / "version_findings.py",
    *sorted((ROOT / "core" / "derived").glob("*.py")),
    *(ROOT / f"core/{name}.py" for name in ("check", "findings", "key_value", "safe_regex", "toml_file")),
    *(ROOT / f"{name}.py" for name in ("settings/thresholds", "report/check_list", "collect/snapshot")),
    *(ROOT / "deep" / f"{name}.py" for name in ("judge", "session", "cards", "drive")),
    *(ROOT / "cli/commands" / f"{name}.py" for name in ("deep", "find_python", "doctor")),
    *(ROOT / "report" / f"{name}.py" for name in ("write", "formats", "watch")),
    ROOT / "core/language/__init__.py",
    *sorted((ROOT.parent / "installers" / "fixes").glob("*.py")),
]
TABLES = dict(translator.pairs(ZH))
KNOWN = "\n".join(TABLES)
# Holes alone, or words that are the same in Chinese.
SAME = {"libatb.so", "it"}
COMMAND = re.compile(r"(?:envcheck|mkdir|ls|sudo) -?[\w{-]")  # a next step that is a command alone


def lacking(texts: Iterable[str]) -> list[str]:
    untold = {text for text in texts if text not in TABLES and not COMMAND.match(text)}
    return sorted({text for text in untold if "{}" not in text or not whole(text)} - SAME)


def whole(text: str) -> bool:
    """Whether it is a part of sentences that stand whole in a table, or what they have in common."""
    alike = re.escape(text).replace(r"\{\}", ".{0,60}")
    return bool(re.search(rf"^{alike}$" if text.startswith("{}") else alike, KNOWN, re.MULTILINE))


@pytest.mark.parametrize("file", CODE, ids=lambda file: f"{file.parent.stem}.{file.stem}")
def test_each_sentence_of_a_check_has_its_chinese(file: Path) -> None:
    """What a check, or the judge of the active tests, says of a machine and advises stands in a table, values aside."""
    assert lacking(language_parts.sentences(file)) == []


def test_the_code_is_really_read() -> None:
    """The sentences are found: a reader of the code that finds nothing would find nothing lacking."""
    found = {text for file in CODE for text in language_parts.sentences(file)}

    assert len(found) > 600
    assert {"docker {} is older than {}", "{} running containers", "Reload the driver."} <= found


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("yield ok(f'{n} fit')", "{} fit"),
        ("yield warn(f'{n} lost', words)", "Look there."),
        ("yield (warn if n else fail)('it is gone', 'Go.')", "it is gone"),
        ("judge = warn if n else fail\n    yield judge('it is odd', 'Go.')", "it is odd"),
        ("seen = 'a' if n else f'{n} of all'\n    yield unknown(seen)", "{} of all"),
        ("yield ok(f'{plural(n, \"card\")} here')", "{} cards"),
        ("yield ok(f'well{_more(n)}')", ", with {} more"),
    ],
)
def test_a_sentence_is_found_however_it_is_written(code: str, sentence: str) -> None:
    """A value's own words, a choice between two sayers, a name or a helper: none of them hides a sentence."""
    helper = "def _more(n):\n    return f', with {n} more'\n"
    source = f"{helper}\ndef check(n):\n    words = 'Look there.'\n    {code}\n"

    assert sentence in language_parts.of_source(source)


def test_what_lists_tell_has_its_chinese() -> None:
    """What each check promises, where each threshold comes from, areas, verdicts."""
    promised = (" ".join(c.says.split()) for c in (*CHECKS, *table.checks(cards=False)))
    told = (*(t.source for t in THRESHOLDS.values()), *summary.TITLES.values(), *summary.VERDICTS.values())

    assert lacking((*promised, *told)) == []


def test_what_tools_complain_of_has_its_chinese() -> None:
    """What a known complaint of a vendor's tool means, and what to do about it."""
    phrases = [npu_errors.WARNING, *npu_errors.COMPLAINTS]
    phrases += [
        p for group in vars(smi_errors).values() if isinstance(group, tuple) for p in group if hasattr(p, "fix")
    ]
    said = {text for p in phrases for text in (p.fix, p.meaning) if text}

    assert len(said) > 40
    assert lacking(f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in said) == []


def test_what_the_version_tables_tell_has_its_chinese() -> None:
    """Symptom and remedy of each pair of versions that is known to be bad."""
    told = [found for file in own_files() for found in _told(dataclasses.asdict(file))]

    assert len(told) > 60
    assert lacking(told) == []
    assert loading.table()


def test_each_help_has_its_chinese() -> None:
    """Paragraphs, examples, summaries and options of every command, and of those below it."""
    verbs = [main.main, *(getattr(importlib.import_module(at), name) for name, at in main.COMMANDS.items())]
    told = {text for verb in verbs for text in _helps(verb) if re.search("[A-Za-z]{2}", text)}

    assert len(told) > 200
    assert lacking(told) == []


def test_each_word_of_the_page_has_its_chinese() -> None:
    """The page's words are told in both languages, under the same names."""
    assert page_words.WORDS["zh"].keys() == page_words.EN.keys()
    assert [k for k, text in page_words.words("zh").items() if re.search("[a-z]{3}", text) and k not in PAGE_SAME] == []


PAGE_SAME = {"title", "made_by", "more_lines", "link_package"}  # names of programs, and "die"


def test_tables_are_toml_with_one_chinese_for_a_sentence() -> None:
    """The quick reader of the tables reads what TOML says; none is told twice, and each keeps its values."""
    read = [pair for file in ZH for section in _read(file).values() for pair in section.items()]
    twice = [text for text, n in Counter(text for text, _ in read).items() if n > 1]
    holes = [text for text, said in read if _numbers(said) != list(range(text.count("{}")))]

    assert list(translator.pairs(ZH)) == read
    assert (twice, holes) == ([], [])
    assert [text for text, said in read if not said] == []


def test_chinese_has_full_width_marks() -> None:
    """No Chinese clause ends with a mark of English."""
    wrong = [said for said in TABLES.values() if re.search(r"[一-鿿] ?[,;:!?](?:\s|$)|[一-鿿]\.$", said)]

    assert wrong == []


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("could not be told", "无法判断"),
        ("2 running containers, none with these cards", "2 个运行中的容器，均未使用这些卡"),
        ("3 of 12 checks failed", "12 项检查中有 3 项未通过"),
        ("Enlarge /dev/shm. ", "请扩大 /dev/shm。"),
        ("983 GiB free of 1024 GiB", "剩余 983 GiB（共 1024 GiB）"),
        ("driver 24.1.0, as its file says", "驱动 24.1.0（据其版本文件）"),
        (
            "could not be told (envcheck's look at host: not asked; cat /x: absent)",
            "无法判断（envcheck 对 host 的查询：没有询问；cat /x：不存在）",
        ),
        ("Write --devices.", "请写成 --devices。"),
        ("the launcher torchrun has no --device", "启动器 torchrun 没有 --device"),
        ("device 0: 3 uncorrectable memory errors", "设备 0：3 个不可纠正的内存错误"),
        ("device 7 chip 1: Alarm", "设备 7 芯片 1：Alarm"),
        (
            "job.shm: this job needs 16.0 GiB of /dev/shm; 64 MiB found. Enlarge /dev/shm.",
            "job.shm：此任务需要 16.0 GiB 的 /dev/shm；现有 64 MiB。请扩大 /dev/shm。",
        ),
        (
            "engine.reachable: docker is not there. Enlarge /dev/shm.",
            "engine.reachable：docker 不存在。请扩大 /dev/shm。",
        ),
        (
            "driver.tool: ixsmi: Failed to ask: mismatch. Enlarge /dev/shm.",
            "driver.tool：ixsmi: Failed to ask: mismatch. 请扩大 /dev/shm。",
        ),
        ("network.host_ip: HCCL_IF_IP is not set", "network.host_ip：未设置 HCCL_IF_IP"),
        (
            "layout: that of the recipe job (LoRA of rank 32 on one machine of 8 GPUs), with 2 stages for 4 cards",
            "布局：取自配方 job（单机 8 GPU LoRA，秩 32），4 张卡用 2 级",
        ),
        (
            "links of this machine: 2 cards NV 450 GB/s, 4 cards NV 450 GB/s",
            "本机的链路：2 张卡 NV 450 GB/s，4 张卡 NV 450 GB/s",
        ),
        ("there is no check devices", "没有检查 devices"),
        ("devices is not there", "devices 不存在"),
        ("2 of 3 files are wrong, seen from /workspace", "2/3 个文件有误，查看位置：/workspace"),
        ("2 of 3 files are wrong, seen from /workspace in job", "2/3 个文件有误，查看位置：job 中的 /workspace"),
        (
            "there: tar xf job envcheck.pyz && python3 envcheck.pyz provision --bundle job",
            "在那里运行：tar xf job envcheck.pyz && python3 envcheck.pyz provision --bundle job",
        ),
        ("did you mean devices, devices.order?", "您是否要找 devices, devices.order？"),
        (
            'for one run, and on its record, --waive NAME --because "why" opens: devices.count, devices',
            '只对一次运行并记录在案，--waive NAME --because "理由" 可打开：devices.count, devices',
        ),
        ("nvidia-smi: Failed to initialize NVML: x", "nvidia-smi: Failed to initialize NVML: x"),
        ("error in line 3 of the tool", "error in line 3 of the tool"),
        ("dcmi module initialize failed. ret is -8005", "dcmi module initialize failed. ret is -8005"),
    ],
)
def test_values_are_kept_and_known_words_among_them_are_said(english: str, chinese: str) -> None:
    """Values find their place, sentences in them are said in turn, and a tool's own words stay."""
    assert translator.load("zh")(english) == chinese


def test_each_area_is_known_as_one_where_a_finding_is_quoted() -> None:
    """What stands before a finding's words is its name, and no value of theirs, in each area that reports have."""
    assert {*translator.AREAS.split()} == {*summary.TITLES, "gate"}


@pytest.mark.parametrize("mark", ["; ", ", ", ": ", ". ", " of ", " in ", "(", "{}", " and ", " free"])
def test_hostile_text_is_left_alone_soon(mark: str) -> None:
    """A text made to match everywhere costs no more than its length: the translator looks at few of its parts."""
    said = translator.load("zh")
    looked: list[str] = []
    watched = translator.Translator(said.sentences)
    object.__setattr__(watched, "_whole", lambda text, depth: looked.append(text) or said._whole(text, depth))

    assert len(watched(f"x{mark}" * 490)) >= 490
    assert len(looked) < 2000


@pytest.mark.parametrize(
    ("argv", "around", "expected"),
    [
        (["doctor"], {}, "en"),
        (["doctor", "--lang", "zh"], {}, "zh"),
        (["--lang=zh_CN.UTF-8", "doctor"], {"ENVCHECK_LANG": "en"}, "zh"),
        (["doctor"], {"ENVCHECK_LANG": "zh-CN", "LANG": "C"}, "zh"),
        (["doctor"], {"LANG": "zh_CN.UTF-8"}, "zh"),
        (["doctor"], {"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, "en"),
        (["simulate", "m", "--", "envcheck", "--lang", "zh"], {}, "en"),
    ],
)
def test_language_is_chosen(argv: list[str], around: dict[str, str], expected: str) -> None:
    """The command line before the variable, the variable before the locale; a command behind -- has its own."""
    try:
        assert language.choose(argv, around) == expected
    finally:
        language.choose([], {})


def test_unknown_language_is_refused() -> None:
    """A language that nobody wrote is one sentence and exit code 2, and names those that there are."""
    with pytest.raises(UsageError, match="there is no language 'fr'") as refused:
        language.choose(["doctor", "--lang", "fr"], {})

    assert "zh" in refused.value.next_step


@pytest.mark.parametrize("columns", [24, 37, 60, 100])
def test_lines_are_as_wide_as_the_terminal(columns: int) -> None:
    """A Chinese character counts two; nothing is lost, and no line begins with a comma or ends with an open bracket."""
    text = "请在 /etc/hosts 中把真实地址放在前面，或使用 --host（见 docs/train.md）：否则多节点启动会一直等待。"
    lines = width.wrap(text, columns, "  ", "    ")

    assert max(map(width.columns, lines)) <= columns
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert not [line for line in lines if line.strip()[0] in width.CLOSING or line[-1] in width.OPENING]


def test_english_needs_no_table() -> None:
    """Who speaks English does not wait for tables of other languages."""
    assert language.chosen() == "en"
    assert language.say("could not be told") == "could not be told"
    code = "import sys, envcheck.report, envcheck.cli.commands.doctor as d; print('{}' in sys.modules)"
    code = code.format("envcheck.core.language.translator")

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def _numbers(said: str) -> list[int]:
    """Of the values, in order; those without a number go by their place, and the two ways do not mix."""
    named = re.findall(r"\{(\d?)(?:!s)?\}", said)
    return sorted(map(int, named)) if all(named) else [] if any(named) else list(range(len(named)))


def _read(file: Path) -> dict[str, dict[str, str]]:
    return toml_file.table(file.read_text(encoding="utf-8"), str(file), "")


def _told(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if remedy := value.get("remedy"):
            yield f"{remedy[:1].upper()}{remedy[1:]} ({{}})."
        if symptom := value.get("symptom"):
            yield symptom
    for below in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
        yield from _told(below)


def _helps(command: click.Command) -> Iterator[str]:
    for paragraph in translate_help.paragraphs(command.help):
        yield from (
            (found[3] for line in paragraph.split("\n") if (found := translate_help.EXAMPLE.match(line)))
            if ("\b" in paragraph)
            else (" ".join(paragraph.split()),)
        )
    yield command.short_help or ""
    yield from (param.help or "" for param in command.params if isinstance(param, click.Option))
    for below in (getattr(command, "commands", None) or {}).values():
        yield from _helps(below)


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("this job needs 16.0 GiB of /dev/shm; 64 MiB found", "此任务需要 16.0 GiB 的 /dev/shm；现有 64 MiB"),
        ("this job needs 16.0 GiB of host memory; 64 MiB free", "此任务需要 16.0 GiB 主机内存；剩余 64 MiB"),
        ("node: 8 NVIDIA devices are on the bus", "node：总线上有 8 个 NVIDIA 设备"),
    ],
)
def test_blanks_beside_other_letters(english: str, chinese: str) -> None:
    """A value in Latin letters has a blank on both sides, one in Chinese none."""
    assert translator.load("zh")(english) == chinese


def test_each_part_of_a_text_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool's words with a mark behind each are cut in some thousand ways at most, not in all that there are."""
    made, calls = translator.Translator._made, Counter[str]()

    def counted(self: translator.Translator, text: str, depth: int) -> str:
        calls[text] += 1
        return made(self, text, depth)

    monkeypatch.setattr(translator.Translator, "_made", counted)
    said = "".join(f"driver of {n}{mark}" for n in range(12) for mark in ("; ", ", ", ": ", ". "))

    assert translator.Translator(TABLES)(said[: translator.TEXT_LIMIT])
    assert 100 < calls.total() < 5_000
