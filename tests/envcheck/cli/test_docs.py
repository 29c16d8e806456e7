"""docs/ and README: generated parts are current, commands exist, screens are real, links lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from envcheck.cli.docs import command_pages, generate, markdown_table, screens
from envcheck.cli.main import COMMANDS, main

ROOT = Path(__file__).parents[3]
PAGES = [*screens.files(ROOT), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
BLOCK = re.compile(r"^ *```(sh|bash|console)\n(.*?)^ *```$", re.M | re.S)
SCREENS = [(page, *screen) for page in screens.files(ROOT) for screen in screens.screens(page)]
SCREEN_IDS = [f"{page.relative_to(ROOT)}-{number}" for number, (page, *_) in enumerate(SCREENS)]
STARTS = ("envcheck", "python3 envcheck.pyz", "sudo envcheck")
HINT = "run python -m envcheck.cli.docs"


def test_generated_pages_are_current() -> None:
    """What is committed is what the code makes; HINT writes it."""
    made = generate.pages()
    stale = [name for name, text in made.items() if (ROOT / "docs" / name).read_text(encoding="utf-8") != text]

    assert stale == [], HINT


def test_no_page_of_the_reference_is_left_over() -> None:
    """A generated page that the code no longer makes is deleted."""
    marked = {page for page in (ROOT / "docs").rglob("*.md") if markdown_table.NOTE in page.read_text(encoding="utf-8")}

    assert {str(page.relative_to(ROOT / "docs")) for page in marked} == set(generate.pages())


@pytest.mark.slow
@pytest.mark.parametrize(("page", "command", "shown"), SCREENS, ids=SCREEN_IDS)
def test_screens_are_real(page: Path, command: str, shown: str) -> None:
    """Each screen is the output of its command."""
    assert screens.run(command, screens.is_chinese(page)) == shown, HINT


def commands(page: Path) -> Iterator[list[str]]:
    """The words behind `envcheck` of each command that the page's blocks have."""
    for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        starts = ("$ ",) if language == "console" else STARTS
        for line in block.replace("\\\n", " ").splitlines():
            if "envcheck" in line and (line.lstrip().startswith(starts) or "| envcheck" in line):
                yield from split_commands(line)


def split_commands(line: str) -> Iterator[list[str]]:
    """`a | envcheck b > c` and `envcheck simulate M -- envcheck d` have one and two commands."""
    words = shlex.split(line.strip().removeprefix("$ ").replace("python3 envcheck.pyz", "envcheck"), comments=True)
    starts = [number for number, word in enumerate(words) if word == "envcheck"]
    for start in starts:
        rest = words[start + 1 :]
        ends = [n for n, word in enumerate(rest) if word in ("|", "&&", "--", "2>&1") or word.startswith((">", ";"))]
        yield rest[: min(ends, default=len(rest))]


EVERY = [(page.relative_to(ROOT), words) for page in PAGES for words in commands(page) if words]


def test_commands_are_found() -> None:
    """The pattern still matches."""
    assert len(EVERY) > 150
    assert ["doctor", "--only", "devices"] in [words for _, words in EVERY]


def test_commands_parse() -> None:
    """Every command in a block of a page exists, and has the options that it is given."""
    wrong = [(str(page), " ".join(words), said) for page, words in EVERY if (said := refusal(words))]

    assert wrong == []


def refusal(words: list[str]) -> str:
    """Return why click does not read these words; "" where it does."""
    if words[0].startswith("-"):
        return ""
    context = click.Context(main, info_name="envcheck")
    try:
        command = main.get_command(context, words[0])
        rest = words[1:]
        if command is None:
            return "no such command"
        if isinstance(command, click.Group) and rest and rest[0] in command.commands:
            command, rest = command.commands[rest[0]], rest[1:]
        command.make_parser(click.Context(command, parent=context)).parse_args(list(rest))
    except click.ClickException as err:
        return err.format_message()
    return ""


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_quoted_commands_exist(page: Path) -> None:
    """No page quotes a command that envcheck does not have."""
    quoted = re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))
    named = {verb for text in quoted for verb in re.findall(r"^envcheck ([a-z]+)", text)}

    assert named <= set(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_quoted_options_are_those_of_the_command(page: Path) -> None:
    """`provision --undo` in a sentence: the command has each option that stands after its name."""
    own: dict[str, set[str]] = {}
    for context in command_pages.commands():
        words = {word for param in context.command.params for word in (*param.opts, *param.secondary_opts)}
        own.setdefault(context.command_path.split()[1], set()).update(words)
    wrong = [
        (text, option)
        for text in re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))
        if (named := re.match(r"(?:envcheck )?([a-z]+) (.*)", text.split(" -- ")[0])) and named[1] in own
        for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", named[2])
        if option not in own[named[1]]
    ]

    assert wrong == []


# Options of other programs that pages mention.
FOREIGN = {
    *(
        "--device=",
        "--gpus",
        "--privileged",
        "--tuner_type",
        "--train_type",
        "--sft_type",
        "--model_type",
        "--deepspeed",
    ),
    *("--ckpt_dir", "--adapters", "--load_dataset_config", "--load_data_args"),
    *("--rm", "--device", "--user", "--group-add", "--pid", "--platform", "--push"),  # of docker
    "--from",  # of uvx
    "--prefix",  # of kubectl logs
    "--quantiles",  # of benchmarks.memory_intervals
}


def test_quoted_options_exist() -> None:
    """Every option that the prose names is one of envcheck's, or a known one of another program."""
    known = {word for command in command_pages.commands() for param in command.command.params for word in param.opts}
    known |= {
        word
        for command in command_pages.commands()
        for param in command.command.params
        for word in param.secondary_opts
    }
    written = [
        page for page in PAGES if "reference" not in page.parts and page.name not in ("supported.md", "CONTRIBUTING.md")
    ]
    texts = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in written}
    named = {
        (name, word)
        for name, text in texts.items()
        for code in re.findall(r"`([^`\n]+)`", text)
        for word in re.findall(r"(?<![\w-])--[a-z][\w-]*", code)
    }

    assert sorted((name, word) for name, word in named if word not in known | FOREIGN | {"--help"}) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent == ROOT], ids=lambda page: page.name)
def test_links_from_the_top_lead_somewhere(page: Path) -> None:
    """Pages outside of docs/ are not read by mkdocs; a link's anchor is a heading of its page."""
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        there = ROOT / path if path else page
        assert there.exists(), target
        assert not anchor or anchor in headings(there), target


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub and mkdocs make them of plain headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_nothing_refers_to_private_documents() -> None:
    """Readers have the published documents, not our copies of them."""
    private = re.compile(r"\bseeds? \d|\ball seeds\b|\bshared/", re.I)

    assert [str(page) for page in PAGES if private.search(page.read_text(encoding="utf-8"))] == []


def test_chinese_pages_are_complete() -> None:
    """The tutorial and every guide have a Chinese page, but those for developers of envcheck."""
    english = {page.name for page in (ROOT / "docs" / "how-to").iterdir()}

    assert {page.name for page in (ROOT / "docs" / "zh" / "how-to").iterdir()} == english
    assert (ROOT / "docs" / "zh" / "tutorial.md").exists()


def test_pictures_are_small() -> None:
    """No picture makes the clone heavy, and each is shown."""
    pictures = list((ROOT / "docs" / "images").iterdir())
    texts = "".join(page.read_text(encoding="utf-8") for page in PAGES)

    assert [picture.name for picture in pictures if picture.stat().st_size > 250_000] == []
    assert [picture.name for picture in pictures if picture.name not in texts] == []


@pytest.mark.slow
def test_site_builds(tmp_path: Path) -> None:
    """mkdocs --strict: no broken link or anchor, no page that the navigation lacks."""
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=600)

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "zh" / "tutorial.html").exists()
