"""`doctor --replay FOLDER`: recordings that cannot be read, and a document per host."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.cli import recordings
from envcheck.cli.main import main
from envcheck.collect import snapshot
from envcheck.core import workers
from envcheck.core.errors import UsageError
from envcheck.core.model import Answer, Outcome


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recording of a host without cards, one that is cut off, and one of another kind."""
    answers = {"run uname -m": Answer("run uname -m", Outcome.ANSWERED, out="x86_64\n")}
    (tmp_path / "node01.json").write_text(snapshot.render_snapshot(answers, "cpu"))
    (tmp_path / "node02.json").write_text('{"schema": ')
    (tmp_path / "node03.json").write_text("[]")
    return tmp_path


def test_a_broken_recording_is_a_finding_of_its_host(folder: Path) -> None:
    """The others are judged; the report names the file and its fault."""
    done = CliRunner().invoke(main, ["doctor", "--replay", str(folder), "--json"], standalone_mode=False)
    hosts = json.loads(done.output)["hosts"]

    assert (done.return_value, list(hosts)) == (1, ["node01", "node02", "node03"])
    assert hosts["node01"]["answered"] is True
    for name in ("node02", "node03"):
        (finding,) = hosts[name]["findings"]
        assert (finding["name"], finding["status"], name in finding["seen"]) == ("fleet.reach", "FAIL", True)


def test_json_lines_have_one_document_per_host(folder: Path) -> None:
    """Each line is a whole document; the exit code is that of the worst host."""
    done = CliRunner().invoke(main, ["doctor", "--replay", str(folder), "--json-lines"], standalone_mode=False)
    documents = [json.loads(line) for line in done.output.splitlines()]

    assert done.return_value == 1
    assert [(each["host"], each["answered"]) for each in documents] == [
        ("node01", True), ("node02", False), ("node03", False)
    ]  # fmt: skip
    assert all(each["findings"] for each in documents)
    assert [*documents[0]] == ["schema", "host", "answered", "verdict", "findings"]
    whole = CliRunner().invoke(main, ["doctor", "--replay", str(folder), "--json"], standalone_mode=False)
    hosts = json.loads(whole.stdout)["hosts"]
    assert all(documents[0][key] == hosts["node01"][key] for key in ("answered", "verdict"))


def test_json_lines_need_several_hosts(folder: Path) -> None:
    """For a single recording the option is refused; a folder of broken recordings only is a wrong option."""
    (folder / "broken").mkdir()
    (folder / "broken" / "a.json").write_text("{")
    single = CliRunner().invoke(main, ["doctor", "--replay", str(folder / "node01.json"), "--json-lines"])
    broken = CliRunner().invoke(main, ["doctor", "--replay", str(folder / "broken")])

    assert isinstance(single.exception, UsageError) and "--json-lines" in str(single.exception)
    assert isinstance(broken.exception, UsageError) and "a.json" in str(broken.exception)


def test_recordings_are_judged_by_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results come in the order of the names, also of recordings that a killed process left undone."""
    here, names = os.getpid(), [f"node{number:04}" for number in range(5 * recordings.CHUNK)]
    for name in names:
        (tmp_path / f"{name}.json").write_text("{}")
    monkeypatch.setattr(workers, "count_usable_cores", lambda: 2)

    def judge(path: Path) -> tuple[str, int]:
        if path.stem == names[recordings.CHUNK + 3] and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return path.stem, os.getpid()

    found = list(recordings.judge_each(tmp_path, judge))

    assert [name for name, _ in found] == names
    assert len({pid for _, pid in found}) > 1 and dict(found)[names[recordings.CHUNK]] == here
    assert {pid for _, pid in recordings.judge_each(tmp_path, judge, is_parallel=False)} == {here}


def test_several_processes_find_what_one_finds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report and the lines of many recordings are the same with one process and with two."""
    for number in range(4, 4 + 2 * recordings.CHUNK):
        (folder / f"node{number:02}.json").write_text((folder / "node01.json").read_text())

    def run(cores: int, *more: str) -> str:
        monkeypatch.setattr(workers, "count_usable_cores", lambda: cores)
        return CliRunner().invoke(main, ["doctor", "--replay", str(folder), *more], standalone_mode=False).output

    for more in ((), ("--json-lines",)):
        assert run(1, *more) == run(2, *more) != ""
