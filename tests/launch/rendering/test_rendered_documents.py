"""Our scripts compared with the commands of the published documents: every difference is deliberate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from envcheck.job.command import render_command
from installers.recipes import catalogue
from installers.recipes.catalogue import JobShape
from tests.launch.script_parts import move_command, prepare_files, read_recorded_call, run_script

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DATA = Path(__file__).parents[2] / "data" / "rendered"
SEEDS: dict[str, Any] = tomllib.loads((DATA / "seed_commands.toml").read_text(encoding="utf-8"))
DELIBERATE: dict[str, Any] = tomllib.loads((DATA / "deliberate.toml").read_text(encoding="utf-8"))
ABSENT, BARE = "(absent)", "(bare)"
Facts = dict[str, str]


def make_rows(words: list[list[str]], mark: str) -> Facts:
    """Options with their values; a repeated option has both values."""
    found: Facts = {}
    for name, *values in words:
        text = " ".join(value or "(empty)" for value in values) if values else BARE
        found[mark + name] = f"{found[mark + name]} and {text}" if mark + name in found else text
    return found


def group_words(words: list[str]) -> list[list[str]]:
    made: list[list[str]] = []
    for word in words:
        if word.startswith("--") or not made:
            made.append([])
        made[-1].append(word)
    return made


def read_published(seed: dict[str, Any]) -> Facts:
    """The document's command as facts."""
    options = {**make_rows(seed["launch"], "launch "), **make_rows(seed["arguments"], "")}
    sourced = {f"source {path}": "yes" for path in seed["sourced"]}
    env = {f"${name}": text for name, text in seed["environment"].items()}
    return {"program": " ".join(seed["program"]), "script": seed["script"], **options, **env, **sourced}


def run_ours(seed: dict[str, Any], root: Path) -> Facts:
    """What a stand-in receives from our script, in the same form; folders of the run are replaced by names."""
    shape = JobShape(seed.get("variant"), seed.get("role"))
    recipe, job = catalogue.select_job(catalogue.load_all(), seed["recipe"], seed["method"], None, None, shape)
    command = move_command(render_command(recipe, job), root)
    assert set(seed["unset"]) <= {*command.unset, *command.environment}
    prepare_files(command, root)
    done = run_script(command, root, RUN_DIR=str(root / "run"), MASTER_PORT="4711")
    assert done.returncode == 7, done.stderr
    call = read_recorded_call(root)
    words = [word.replace(str(root / "run"), "<run>").replace(str(root), "") for word in call.argv]
    script = seed["script"].removeprefix("../../../../")
    cut = words.index(script)
    first = next((n for n, word in enumerate(words[:cut]) if word.startswith("--")), cut)
    options = {**make_rows(group_words(words[first:cut]), "launch "), **make_rows(group_words(words[cut + 1 :]), "")}
    names = {*command.environment, *command.prepend, *seed["environment"]}
    env = {f"${name}": call.env[name].split(":")[0].replace(str(root), "") for name in names if name in call.env}
    sourced = {f"source {path.replace(str(root), '')}": "yes" for path in command.scripts}
    return {"program": " ".join(words[:first]), "script": script, **options, **env, **sourced}


@pytest.mark.parametrize("name", SEEDS)
def test_every_difference_from_the_document_is_deliberate(name: str, tmp_path: Path) -> None:
    """The differences between the document and what the program receives, option by option and variable by variable,
    are exactly those listed with a reason."""
    seed = SEEDS[name]
    one, other = read_published(seed), run_ours(seed, tmp_path / "root")
    pairs = {key: [one.get(key, ABSENT), other.get(key, ABSENT)] for key in one | other}
    found = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
    listed = {key: pair for entry in DELIBERATE[name] for key, pair in entry["fields"].items()}

    assert found == listed
    assert len(pairs) > len(found)


def test_every_deliberate_difference_has_a_reason() -> None:
    """Each entry has a reason, and each command of the documents has one table."""
    entries = [entry for group in DELIBERATE.values() for entry in group]

    assert set(DELIBERATE) == set(SEEDS)
    assert all(len(entry["reason"]) > 10 and entry["fields"] for entry in entries)
