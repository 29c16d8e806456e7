"""doctor --list-checks and --show-thresholds: lists for people, documents for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.cli.commands.doctor import doctor
from envcheck.core.errors import UsageError

LISTS = ("--list-checks", "--show-thresholds")


def run_doctor(*words: str) -> str:
    done = CliRunner().invoke(doctor, words, catch_exceptions=False)

    assert done.exit_code == 0
    return done.stdout


def test_thresholds_of_a_site(tmp_path: Path) -> None:
    """The document has the site's value, the default, and the file."""
    site = tmp_path / "site.toml"
    site.write_text('[thresholds]\n"host.memory.warn_gib" = 4.5\n')
    told = json.loads(run_doctor("--show-thresholds", "--json", "--config", str(site)))
    rows = {row.pop("name"): row for row in told["thresholds"]}

    assert told["file"] == str(site)
    assert {**rows["host.memory.warn_gib"], "source": ""} == {"value": 4.5, "default": 8, "unit": "gib", "source": ""}
    assert rows["host.swap.warn_percent"]["value"] == rows["host.swap.warn_percent"]["default"]
    assert all(row["source"] for row in rows.values())


@pytest.mark.parametrize("what", LISTS)
def test_one_document(what: str) -> None:
    """--json and --format json are one; without them people read a list of the same names."""
    told = run_doctor(what, "--json")
    names = [row["name"] for row in json.loads(told)[{"-l": "checks", "-s": "thresholds"}[what[1:3]]]]
    listed = run_doctor(what)

    assert run_doctor(what, "--format", "json") == told and told.isascii()
    assert len(names) > 10 and all(name in listed for name in names)


def test_the_same_checks_for_both(tmp_path: Path) -> None:
    """Text and JSON list the same checks, including those of --deep and of the site's file."""
    site = tmp_path / "site.toml"
    site.write_text(
        '[[check]]\nname = "own.up"\ndescription = "It is up."\ncommand = ["true"]\npattern = "x"\nremedy = "y"\n'
    )
    words = ("--list-checks", "--config", str(site))
    names = [row["name"] for row in json.loads(run_doctor(*words, "--json"))["checks"]]
    lines = run_doctor(*words).splitlines()

    assert {"host.shm", "deep.matmul", "own.up"} <= set(names)
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == names
    assert "It is up." in lines[-1]


@pytest.mark.parametrize("what", LISTS)
@pytest.mark.parametrize(
    ("more", "why"),
    [(("-o", "x.html"), "--output cannot be combined with {}"), (("--format", "html"), "{} does not produce a report")],
)
def test_no_report(what: str, more: tuple[str, str], why: str) -> None:
    """A list is written nowhere else, and is no page: that is refused rather than passed over."""
    with pytest.raises(UsageError, match=why.format(what)):
        CliRunner().invoke(doctor, [what, *more], catch_exceptions=False)
