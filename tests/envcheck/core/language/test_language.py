"""The chosen language, text in columns, and that English waits for no catalogue."""

from __future__ import annotations

import subprocess
import sys

import pytest

from envcheck.core import language
from envcheck.core.errors import UsageError
from envcheck.core.language import width


@pytest.mark.parametrize(
    ("argv", "around", "expected"),
    [
        (["doctor"], {}, "en"),
        (["doctor", "--lang", "zh"], {}, "zh"),
        (["--lang=zh_CN.UTF-8", "doctor"], {"ENVCHECK_LANG": "en"}, "zh"),
        (["doctor"], {"ENVCHECK_LANG": "zh-CN", "LANG": "C"}, "zh"),
        (["doctor"], {"LANG": "zh_CN.UTF-8"}, "zh"),
        (["doctor"], {"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, "en"),
        (["doctor"], {"LANG": "zh_TW.UTF-8"}, "en"),
        (["doctor"], {"LANG": "zh_HK.Big5"}, "en"),
        (["doctor"], {"LANG": "zh_SG.UTF-8"}, "zh"),
        (["doctor"], {"LANG": "zh-Hant"}, "en"),
        (["simulate", "m", "--", "envcheck", "--lang", "zh"], {}, "en"),
    ],
)
def test_language_is_chosen(argv: list[str], around: dict[str, str], expected: str) -> None:
    """The command line before the variable, the variable before the locale; Traditional Chinese is not Simplified."""
    try:
        assert language.choose_language(argv, around) == expected
    finally:
        language.choose_language([], {})


@pytest.mark.parametrize("asked", ["zh_TW", "zh-Hant-HK"])
def test_traditional_chinese_falls_back_to_english(asked: str) -> None:
    """Also where it is asked for by name: there is no catalogue of it yet."""
    assert language.validate_language(asked) == "en"


@pytest.mark.parametrize("asked", ["fr", "english", "zz_CN"])
def test_unknown_language_is_refused(asked: str) -> None:
    """A language without a catalogue is refused in one sentence that names those that exist."""
    with pytest.raises(UsageError, match=asked) as refused:
        language.choose_language(["doctor", "--lang", asked], {})

    assert "zh" in refused.value.next_step


@pytest.mark.parametrize("columns", [24, 37, 60, 100])
def test_lines_are_as_wide_as_the_terminal(columns: int) -> None:
    """A Chinese character counts two; nothing is lost, and no line begins with a comma or ends with an open bracket."""
    text = "请在 /etc/hosts 中把真实地址放在前面，或使用 --host（见 docs/faq.md）：否则多节点启动会一直等待。"
    lines = width.wrap_text(text, columns, "  ", "    ")

    assert max(map(width.display_width, lines)) <= columns
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert not [line for line in lines if line.strip()[0] in width.CLOSING or line[-1] in width.OPENING]


def test_english_loads_no_catalogue() -> None:
    """An English command imports neither Babel nor the module that reads catalogues."""
    modules = "{'babel', 'envcheck.core.language.gettext_catalogue'}"
    code = f"import sys, envcheck.report, envcheck.cli.commands.doctor; print({modules} & {{*sys.modules}})"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
