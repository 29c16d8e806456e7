"""Our scripts beside the published documents' commands: run by bash, and every difference is deliberate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from envcheck.job.command import render
from installers.recipes import catalogue
from installers.recipes.catalogue import Shape
from tests.launch.script_parts import elsewhere, heard, prepare, run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DATA = Path(__file__).parents[2] / "data" / "rendered"
SEEDS: dict[str, Any] = tomllib.loads((DATA / "seed_commands.toml").read_text(encoding="utf-8"))
DELIBERATE: dict[str, Any] = tomllib.loads((DATA / "deliberate.toml").read_text(encoding="utf-8"))
ABSENT, BARE = "(absent)", "(bare)"
Facts = dict[str, str]


def rows(words: list[list[str]], mark: str) -> Facts:
    """Each option with its values; one that stands twice has both."""
    found: Facts = {}
    for name, *values in words:
        text = " ".join(value or "(empty)" for value in values) if values else BARE
        found[mark + name] = f"{found[mark + name]} and {text}" if mark + name in found else text
    return found


def grouped(words: list[str]) -> list[list[str]]:
    made: list[list[str]] = []
    for word in words:
        if word.startswith("--") or not made:
            made.append([])
        made[-1].append(word)
    return made


def theirs(seed: dict[str, Any]) -> Facts:
    """The document's command as facts."""
    options = {**rows(seed["launch"], "launch "), **rows(seed["arguments"], "")}
    sourced = {f"source {path}": "yes" for path in seed["sourced"]}
    env = {f"${name}": text for name, text in seed["environment"].items()}
    return {"program": " ".join(seed["program"]), "script": seed["script"], **options, **env, **sourced}


def ours(seed: dict[str, Any], root: Path) -> Facts:
    """What a stand-in was given by our script, in the same form; this run's own folders have names."""
    shape = Shape(seed.get("variant"), seed.get("role"))
    recipe, job = catalogue.select(catalogue.load_all(), seed["recipe"], seed["method"], None, None, shape)
    command = elsewhere(render(recipe, job), root)
    assert set(seed["unset"]) <= {*command.unset, *command.environment}
    prepare(command, root)
    done = run(command, root, RUN_DIR=str(root / "run"), MASTER_PORT="4711")
    assert done.returncode == 7, done.stderr
    told = heard(root)
    words = [word.replace(str(root / "run"), "<run>").replace(str(root), "") for word in told.argv]
    script = seed["script"].removeprefix("../../../../")
    cut = words.index(script)
    first = next((n for n, word in enumerate(words[:cut]) if word.startswith("--")), cut)
    options = {**rows(grouped(words[first:cut]), "launch "), **rows(grouped(words[cut + 1 :]), "")}
    names = {*command.environment, *command.prepend, *seed["environment"]}
    env = {f"${name}": told.env[name].split(":")[0].replace(str(root), "") for name in names if name in told.env}
    sourced = {f"source {path.replace(str(root), '')}": "yes" for path in command.scripts}
    return {"program": " ".join(words[:first]), "script": script, **options, **env, **sourced}


@pytest.mark.parametrize("name", SEEDS)
def test_every_difference_from_the_document_is_deliberate(name: str, tmp_path: Path) -> None:
    """Option by option and variable by variable, as the program receives them: what differs from the document is listed
    with a reason, and no more is listed than differs."""
    seed = SEEDS[name]
    one, other = theirs(seed), ours(seed, tmp_path / "root")
    pairs = {key: [one.get(key, ABSENT), other.get(key, ABSENT)] for key in one | other}
    found = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
    listed = {key: pair for entry in DELIBERATE[name] for key, pair in entry["fields"].items()}

    assert found == listed
    assert len(pairs) > len(found)


def test_every_deliberate_difference_has_a_reason() -> None:
    """Each entry says why, and there is one table for each command of the documents."""
    entries = [entry for group in DELIBERATE.values() for entry in group]

    assert set(DELIBERATE) == set(SEEDS)
    assert all(len(entry["reason"]) > 10 and entry["fields"] for entry in entries)
