"""What an undo takes and what it leaves: the environment's own entries, clones that nobody has worked in."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from envcheck.core.errors import UsageError
from installers import undo
from installers.containers import container
from installers.images import engine, image
from installers.images.engine import Engine
from installers.software.checkouts import Git
from installers.state import environment, journal, state_file, venv_parts
from installers.state.environment import FolderKind
from installers.state.state_file import EnvironmentState, Proof
from installers.steps import checkout_undo
from installers.steps.dispatch import BY_NAME
from installers.targets.target import VenvTarget
from tests.installers.provision_helpers import Machine, recipe_file, serving, stock


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def venv(folder: Path, doing: str = "") -> Path:
    """What a virtual environment of ours looks like, with a file of the user's beside it."""
    for name in ("bin", "lib", "include", "keep"):
        (folder / name).mkdir(parents=True)
    (folder / "lib64").symlink_to("lib")
    (folder / "pyvenv.cfg").write_text("version = 3.11.2\n")
    (folder / ".gitignore").write_text("# Created by venv; see https://docs.python.org\n*\n")
    (folder / "keep" / "f").write_text("mine")
    state_file.save(folder, EnvironmentState(made=True, proofs={"little": Proof()}, doing=doing))
    return folder


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_the_users_stays(tmp_path: Path) -> None:
    """Undo takes the environment and our notes, and names the rest, which stays."""
    folder = venv(tmp_path / "v")
    shown = undo.removable(folder)
    told = undo.undo(folder)

    assert files(folder) == ["keep"]
    assert (folder / "keep" / "f").read_text() == "mine"
    assert "'keep' there stay" in shown[-1]
    assert any("keep: kept" in line for line in told)


@pytest.mark.parametrize("how", (functools.partial(shutil.copytree, symlinks=True), shutil.move))
def test_copied_or_moved(how: Callable[..., object], tmp_path: Path) -> None:
    """A folder that came from somewhere else with our mark in it is not ours."""
    how(venv(tmp_path / "v"), tmp_path / "w")
    env = environment.read(tmp_path / "w")

    assert not env.ours
    with pytest.raises(UsageError, match="copied or moved"):
        undo.removable(tmp_path / "w")
    with pytest.raises(UsageError):
        undo.undo(tmp_path / "w")
    assert (tmp_path / "w" / "keep" / "f").exists()


@pytest.mark.parametrize("more", ({}, {"place": "here"}, {"place": "here", "id": "0" * 32}, {"id": "../../x"}))
def test_a_forged_mark(more: dict[str, str], tmp_path: Path) -> None:
    """A repository that brings a mark along is not ours, not even with the path where it will lie."""
    folder = tmp_path / "repository"
    (folder / ".envcheck").mkdir(parents=True)
    said = {"schema": 1, "made": True, "recipe": "x", "doing": "clear", "digest": "", "proven": {}, "added": []}
    placed = {key: str(folder) if value == "here" else value for key, value in more.items()}
    (folder / ".envcheck" / "state.json").write_text(json.dumps(said | placed))
    (folder / "lib").mkdir()

    assert environment.read(folder).kind is FolderKind.OTHER
    with pytest.raises(UsageError):
        undo.undo(folder)
    assert (folder / "lib").is_dir()


def test_an_old_mark_counts_at_home(home: Path, tmp_path: Path) -> None:
    """Marks of earlier versions have no path: below our own home they are ours, elsewhere not."""
    for folder, ours in ((venv(home / "environments" / "e"), True), (venv(tmp_path / "e"), False)):
        file = folder / ".envcheck" / "state.json"
        said = json.loads(file.read_text())
        file.write_text(json.dumps({key: said[key] for key in said if key not in ("place", "id")}))

        assert environment.read(folder).ours is ours


@pytest.mark.parametrize(
    ("doing", "kind"), (("", FolderKind.OTHER), ("proof", FolderKind.OTHER), ("clear", FolderKind.EMPTY))
)
def test_other_things_are_ours_only_while_we_empty(doing: str, kind: FolderKind, tmp_path: Path) -> None:
    """A folder without pyvenv.cfg is one that we were emptying, or holds the user's things."""
    folder = venv(tmp_path / "v", doing)
    (folder / "pyvenv.cfg").unlink()

    assert environment.read(folder).kind is kind
    assert bool(venv_parts.own(folder)) is (doing == "clear")


def test_only_a_lock(tmp_path: Path) -> None:
    """What a cut between lock and first mark leaves is removed; a stranger's folder of that name is not."""
    (tmp_path / "a" / ".envcheck").mkdir(parents=True)
    (tmp_path / "a" / ".envcheck" / "lock").write_text("4711")
    (tmp_path / "b" / ".envcheck").mkdir(parents=True)
    (tmp_path / "b" / ".envcheck" / "photo").write_text("cat")

    assert "cut off" in undo.removable(tmp_path / "a")[0]
    assert undo.undo(tmp_path / "a") == ()
    assert not (tmp_path / "a").exists()
    with pytest.raises(UsageError):
        undo.removable(tmp_path / "b")


def test_a_torn_line_loses_nothing(tmp_path: Path) -> None:
    """After a line that a full disk cut off the next deed is still known."""
    state_file.folder_of(tmp_path).mkdir()
    journal.path(tmp_path).write_text('{"event": "made", "deed": "folder /a"}\n{"event": "made", "de')
    journal.write(tmp_path, "container", "made", deed="container c")

    assert [entry["deed"] for entry in journal.made(tmp_path)] == ["folder /a", "container c"]


@pytest.mark.parametrize("step", ("image", "load", "container", "clone", "build"))
def test_what_earlier_runs_noted(step: str) -> None:
    """Whatever step a journal names for what it made, its kind takes that back."""
    assert step in BY_NAME


def test_a_journal_of_an_earlier_run(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Image, folders, bundle and container are taken back, the last first, with what was noted of each."""
    folder, asked = venv(tmp_path / "v"), []
    client = SimpleNamespace(api="api")
    monkeypatch.setattr(engine, "connected", lambda answer_s: nullcontext((Engine("unix:///none"), client)))
    monkeypatch.setattr(image, "undo", lambda client, which, names: asked.append((which, names)) or "removed")
    monkeypatch.setattr(image, "lead_back", lambda client, which, names: asked.append(("back to", which)))
    monkeypatch.setattr(container, "is_strangers", lambda api, name: False)
    monkeypatch.setattr(container, "remove", lambda api, name: asked.append(("container", name)) or True)
    (home / "bundles" / "b").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    lines = (
        {"step": "bundle", "deed": f"parts {home}/bundles/b"},
        {"step": "load", "deed": "image sha256:1", "names": ["a:1"]},
        {"step": "image", "deed": "image sha256:2", "names": ["b:1"], "was": "sha256:0"},
        {"step": "container", "deed": f"folder {tmp_path}/empty"},
        {"step": "container", "deed": "container box"},
    )
    journal.path(folder).write_text("".join(json.dumps({"event": "made", **line}) + "\n" for line in lines))

    assert [line for line in undo.undo(folder) if "keep" not in line] == []
    assert asked == [
        ("container", "box"), ("sha256:2", ["b:1"]), ("back to", "sha256:0"), ("sha256:1", ["a:1"]),
    ]  # fmt: skip
    assert not (tmp_path / "empty").exists()
    assert not (home / "bundles" / "b").exists()


def test_what_another_version_made(tmp_path: Path) -> None:
    """A deed of a kind that is not known here is named, and left."""
    folder = venv(tmp_path / "v")
    journal.write(folder, "tunnel", "made", deed="tunnel t")

    assert "tunnel t: kept, another version of envcheck made it" in undo.undo(folder)[0]


def git(*words: str, where: Path) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(["git", "-C", where, *who, *words], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> tuple[Path, str]:
    """A clone as checkouts makes it, detached at its commit, and that commit."""
    path = tmp_path / "clone"
    path.mkdir()
    git("init", "-q", "-b", "x", where=path)
    (path / "file").write_text("1")
    (path / ".gitignore").write_text("out/\n*.pyc\n")
    git("add", ".", where=path)
    git("commit", "-qm", "1", where=path)
    git("checkout", "-q", "--detach", where=path)
    git("branch", "-D", "x", where=path)
    return path, git("rev-parse", "HEAD", where=path)


def taken_back(tmp_path: Path, path: Path, commit: str, **more: object) -> str:
    (tmp_path / "notes" / ".envcheck").mkdir(parents=True)
    return checkout_undo.undo(tmp_path / "notes", {"host": str(path), "commit": commit, **more}, ())


def test_a_clone_as_we_left_it(clone: tuple[Path, str], tmp_path: Path) -> None:
    """It is removed, with what its installation and a build of ours left in it."""
    path, commit = clone
    for name in ("p.egg-info/PKG-INFO", "a/__pycache__/m.pyc", "out/lib.so", "log"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("")

    assert taken_back(tmp_path, path, commit, built=["out/", "log"]) == "removed"
    assert not path.exists()


def change(path: Path) -> None:
    (path / "file").write_text("2")


def add(path: Path) -> None:
    (path / "mine").write_text("2")


def train(path: Path) -> None:
    (path / "out").mkdir()
    (path / "out" / "checkpoint").write_text("2")


def commit_more(path: Path) -> None:
    change(path)
    git("commit", "-qam", "2", where=path)


def branch(path: Path) -> None:
    git("branch", "mine", where=path)


def configure(path: Path) -> None:
    git("config", "filter.x.clean", "touch ran", where=path)


@pytest.mark.parametrize("work", (change, add, train, commit_more, branch, configure))
def test_a_clone_with_work_in_it(work: Callable[[Path], None], clone: tuple[Path, str], tmp_path: Path) -> None:
    """Whatever somebody did in it, ignored results too, keeps it; a command that it names is not run."""
    path, commit = clone
    work(path)

    assert taken_back(tmp_path, path, commit).startswith("kept, ")
    assert (path / ".git").is_dir()
    assert not (path / "ran").exists()


def test_a_clone_that_was_cut_off(clone: tuple[Path, str], tmp_path: Path) -> None:
    """Without a commit in the journal, only the note of its making makes it ours."""
    path, _ = clone
    (tmp_path / "n" / ".envcheck").mkdir(parents=True)
    mine = Git(VenvTarget(tmp_path / "n"), str(path))

    assert "nobody knows" in checkout_undo.worked_in(mine, "")
    git("config", "envcheck.making", "true", where=path)
    assert checkout_undo.worked_in(mine, "") == ""


def test_where_a_containers_folder_stands() -> None:
    """By its innermost mount; what no folder of this host holds is the container's own."""
    mounts = [
        {"Type": "bind", "Source": "/host/w", "Destination": "/workspace"},
        {"Type": "volume", "Source": "/var/x", "Destination": "/workspace/cache"},
    ]

    assert checkout_undo.on_host("/workspace/ERNIE", mounts) == "/host/w/ERNIE"
    assert checkout_undo.on_host("/workspace/cache/a", mounts) == ""
    assert checkout_undo.on_host("/workspace2/a", mounts) == ""


def test_a_clone_inside_its_container(tmp_path: Path) -> None:
    """It goes with the container where that is taken back, and is named where it is not."""
    entry = {"host": "", "boxed": "c"}

    assert checkout_undo.undo(tmp_path, entry, ["container c"]).startswith("goes")
    assert checkout_undo.undo(tmp_path, entry, []).startswith("kept")


@pytest.mark.real
@pytest.mark.parametrize("worked", (False, True))
def test_clones_by_the_command(worked: bool, clone: tuple[Path, str], tmp_path: Path) -> None:
    """provision clones, --undo takes the clone back; one in which somebody has worked is named, and stays."""
    source, commit = clone
    stock(tmp_path / "index")
    place = tmp_path / "work" / "project"
    more = f'[[checkouts]]\nsource = "t"\nurl = "file://{source}"\nref = "{commit}"\ndirectory = "{place}"\n'
    with serving(tmp_path / "index") as index:
        machine = Machine(tmp_path, index)
        recipe_file(machine.recipes, "alpha ==1.0", "beta <2", more=more)
        made = machine.run("--yes")
        if worked:
            (place / "mine").write_text("1")
        shown = machine.run("--undo", "--dry-run")
        back = machine.run("--undo", "--yes")

    assert made.returncode == 0, made.stderr
    assert str(place) in shown.stdout
    assert back.returncode == 0, back.stderr
    assert ("kept, it has changes of somebody's: mine" in back.stdout) is worked
    assert place.exists() is worked
    assert not machine.folder.exists()
