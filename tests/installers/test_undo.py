"""What an undo removes and keeps: the environment's own files, clones without local changes."""

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
from envcheck.core.messages import Message, verbatim
from installers import undo
from installers.containers import lifecycle
from installers.images import docker_engine, local_image
from installers.images.docker_engine import DockerEngine
from installers.software.checkouts import GitRunner
from installers.state import environment, journal, state_file, undo_result, venv_parts
from installers.state.environment import FolderKind
from installers.state.state_file import EnvironmentState, RecipeProof
from installers.steps import checkout_undo
from installers.steps.dispatch import BY_NAME
from installers.targets.target import VenvTarget
from tests.installers.provision_helpers import ProvisionCommand, serve_index, stock_index, write_recipe


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def make_venv(folder: Path, doing: str = "") -> Path:
    """Write a virtual environment of envcheck with a file of the user."""
    for name in ("bin", "lib", "include", "keep"):
        (folder / name).mkdir(parents=True)
    (folder / "lib64").symlink_to("lib")
    (folder / "pyvenv.cfg").write_text("version = 3.11.2\n")
    (folder / ".gitignore").write_text("# Created by venv; see https://docs.python.org\n*\n")
    (folder / "keep" / "f").write_text("mine")
    state_file.save_state(folder, EnvironmentState(made=True, proofs={"little": RecipeProof()}, doing=doing))
    return folder


def list_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_the_users_stays(tmp_path: Path) -> None:
    """Undo removes the environment and the records, and lists the rest, which stays."""
    folder = make_venv(tmp_path / "v")
    shown = undo.list_removable(folder)
    told = undo.undo_provisioning(folder)

    assert list_files(folder) == ["keep"]
    assert (folder / "keep" / "f").read_text() == "mine"
    assert "not removed: 'keep'" in shown[-1]
    assert any("keep: kept" in line for line in told)


@pytest.mark.parametrize("how", (functools.partial(shutil.copytree, symlinks=True), shutil.move))
def test_copied_or_moved(how: Callable[..., object], tmp_path: Path) -> None:
    """A folder that was copied or moved with its state file is not envcheck's."""
    how(make_venv(tmp_path / "v"), tmp_path / "w")
    env = environment.read_environment(tmp_path / "w")

    assert not env.is_ours
    with pytest.raises(UsageError, match="was copied, moved or created by another user"):
        undo.list_removable(tmp_path / "w")
    with pytest.raises(UsageError):
        undo.undo_provisioning(tmp_path / "w")
    assert (tmp_path / "w" / "keep" / "f").exists()


@pytest.mark.parametrize("more", ({}, {"place": "here"}, {"place": "here", "id": "0" * 32}, {"id": "../../x"}))
def test_a_forged_mark(more: dict[str, str], tmp_path: Path) -> None:
    """A repository that contains a state file is not envcheck's, not even with the path of its clone."""
    folder = tmp_path / "repository"
    (folder / ".envcheck").mkdir(parents=True)
    said = {"schema": 1, "made": True, "recipe": "x", "doing": "clear", "digest": "", "proven": {}, "added": []}
    placed = {key: str(folder) if value == "here" else value for key, value in more.items()}
    (folder / ".envcheck" / "state.json").write_text(json.dumps(said | placed))
    (folder / "lib").mkdir()

    assert environment.read_environment(folder).kind is FolderKind.OTHER
    with pytest.raises(UsageError):
        undo.undo_provisioning(folder)
    assert (folder / "lib").is_dir()


def test_an_old_mark_counts_at_home(home: Path, tmp_path: Path) -> None:
    """State files of earlier versions have no path: they count below envcheck's home only."""
    for folder, ours in ((make_venv(home / "environments" / "e"), True), (make_venv(tmp_path / "e"), False)):
        file = folder / ".envcheck" / "state.json"
        said = json.loads(file.read_text())
        file.write_text(json.dumps({key: said[key] for key in said if key not in ("place", "id")}))

        assert environment.read_environment(folder).is_ours is ours


@pytest.mark.parametrize(
    ("doing", "kind"), (("", FolderKind.OTHER), ("proof", FolderKind.OTHER), ("clear", FolderKind.EMPTY))
)
def test_other_things_are_ours_only_while_we_empty(doing: str, kind: FolderKind, tmp_path: Path) -> None:
    """Without pyvenv.cfg, a folder is envcheck's only if its removal was interrupted."""
    folder = make_venv(tmp_path / "v", doing)
    (folder / "pyvenv.cfg").unlink()

    assert environment.read_environment(folder).kind is kind
    assert bool(venv_parts.list_own(folder)) is (doing == "clear")


def test_only_a_lock(tmp_path: Path) -> None:
    """What an interruption between lock and first state file leaves is removed; a foreign folder of that name is
    not."""
    (tmp_path / "a" / ".envcheck").mkdir(parents=True)
    (tmp_path / "a" / ".envcheck" / "lock").write_text("4711")
    (tmp_path / "b" / ".envcheck").mkdir(parents=True)
    (tmp_path / "b" / ".envcheck" / "photo").write_text("cat")

    assert "interrupted before its first step" in undo.list_removable(tmp_path / "a")[0]
    assert undo.undo_provisioning(tmp_path / "a") == ()
    assert not (tmp_path / "a").exists()
    with pytest.raises(UsageError):
        undo.list_removable(tmp_path / "b")


def test_a_torn_line_loses_nothing(tmp_path: Path) -> None:
    """Entries after a line truncated by a full disk are read."""
    state_file.state_folder(tmp_path).mkdir()
    journal.journal_path(tmp_path).write_text('{"event": "made", "deed": "folder /a"}\n{"event": "made", "de')
    journal.write_entry(tmp_path, "container", "made", deed="container c")

    assert [entry["deed"] for entry in journal.list_made(tmp_path)] == ["folder /a", "container c"]


@pytest.mark.parametrize("step", ("image", "load", "container", "clone", "build"))
def test_what_earlier_runs_noted(step: str) -> None:
    """Each kind of step undoes the entries of its name."""
    assert step in BY_NAME


def test_a_journal_of_an_earlier_run(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Image, folders, bundle and container are undone in reverse order, with their recorded values."""
    folder, asked = make_venv(tmp_path / "v"), []
    client = SimpleNamespace(api="api")
    monkeypatch.setattr(
        docker_engine, "engine_client", lambda answer_s: nullcontext((DockerEngine("unix:///none"), client))
    )
    monkeypatch.setattr(
        local_image, "remove_image", lambda client, which, names: asked.append((which, names)) or verbatim("removed")
    )
    monkeypatch.setattr(local_image, "restore_tags", lambda client, which, names: asked.append(("back to", which)))
    monkeypatch.setattr(lifecycle, "is_foreign", lambda api, name: False)
    monkeypatch.setattr(lifecycle, "remove_container", lambda api, name: asked.append(("container", name)) or True)
    (home / "bundles" / "b").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    lines = (
        {"step": "bundle", "deed": f"parts {home}/bundles/b"},
        {"step": "load", "deed": "image sha256:1", "names": ["a:1"]},
        {"step": "image", "deed": "image sha256:2", "names": ["b:1"], "was": "sha256:0"},
        {"step": "container", "deed": f"folder {tmp_path}/empty"},
        {"step": "container", "deed": "container box"},
    )
    journal.journal_path(folder).write_text("".join(json.dumps({"event": "made", **line}) + "\n" for line in lines))

    assert [line for line in undo.undo_provisioning(folder) if "keep" not in line] == []
    assert asked == [
        ("container", "box"), ("sha256:2", ["b:1"]), ("back to", "sha256:0"), ("sha256:1", ["a:1"]),
    ]  # fmt: skip
    assert not (tmp_path / "empty").exists()
    assert not (home / "bundles" / "b").exists()


def test_what_another_version_made(tmp_path: Path) -> None:
    """An entry of an unknown kind is named and kept."""
    folder = make_venv(tmp_path / "v")
    journal.write_entry(folder, "tunnel", "made", deed="tunnel t")

    assert "tunnel t: kept: another version of envcheck created it" in undo.undo_provisioning(folder)[0]


def run_git(*words: str, where: Path) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(["git", "-C", where, *who, *words], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> tuple[Path, str]:
    """A clone as provisioning creates it, detached at its commit, and that commit."""
    path = tmp_path / "clone"
    path.mkdir()
    run_git("init", "-q", "-b", "x", where=path)
    (path / "file").write_text("1")
    (path / ".gitignore").write_text("out/\n*.pyc\n")
    run_git("add", ".", where=path)
    run_git("commit", "-qm", "1", where=path)
    run_git("checkout", "-q", "--detach", where=path)
    run_git("branch", "-D", "x", where=path)
    return path, run_git("rev-parse", "HEAD", where=path)


def undo_checkout(tmp_path: Path, path: Path, commit: str, **more: object) -> Message:
    (tmp_path / "notes" / ".envcheck").mkdir(parents=True)
    return checkout_undo.undo_clone(tmp_path / "notes", {"host": str(path), "commit": commit, **more}, ())


def test_a_clone_as_we_left_it(clone: tuple[Path, str], tmp_path: Path) -> None:
    """A clone is removed with the files of its installation and of a build."""
    path, commit = clone
    for name in ("p.egg-info/PKG-INFO", "a/__pycache__/m.pyc", "out/lib.so", "log"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("")

    assert undo_checkout(tmp_path, path, commit, built=["out/", "log"]) == "removed"
    assert not path.exists()


def change_file(path: Path) -> None:
    (path / "file").write_text("2")


def add_file(path: Path) -> None:
    (path / "mine").write_text("2")


def write_checkpoint(path: Path) -> None:
    (path / "out").mkdir()
    (path / "out" / "checkpoint").write_text("2")


def add_commit(path: Path) -> None:
    change_file(path)
    run_git("commit", "-qam", "2", where=path)


def add_branch(path: Path) -> None:
    run_git("branch", "mine", where=path)


def add_filter(path: Path) -> None:
    run_git("config", "filter.x.clean", "touch ran", where=path)


@pytest.mark.parametrize(
    ("work", "reason"),
    (
        (change_file, "it has local changes: file"),
        (add_file, "it has local changes: mine"),
        (write_checkpoint, "it has local changes: out/"),
        (add_commit, "its HEAD is not the commit that envcheck checked out"),
        (add_branch, "it has local branches or a stash"),
        (add_filter, "its git configuration sets 'filter.x.clean'"),
    ),
)
def test_a_clone_with_work_in_it(
    work: Callable[[Path], None], reason: str, clone: tuple[Path, str], tmp_path: Path
) -> None:
    """Any local change keeps it, also an ignored file; a command in its configuration is not run."""
    path, commit = clone
    work(path)

    result = undo_checkout(tmp_path, path, commit)

    assert undo_result.is_kept(result)
    assert reason in result
    assert (path / ".git").is_dir()
    assert not (path / "ran").exists()


def test_a_clone_that_was_cut_off(clone: tuple[Path, str], tmp_path: Path) -> None:
    """Without a commit in the journal, it is envcheck's only with the note of its creation."""
    path, _ = clone
    (tmp_path / "n" / ".envcheck").mkdir(parents=True)
    mine = GitRunner(VenvTarget(tmp_path / "n"), str(path))

    assert "cannot determine which commit" in checkout_undo.explain_changes(mine, "")
    run_git("config", "envcheck.making", "true", where=path)
    assert checkout_undo.explain_changes(mine, "") == ""


def test_where_a_containers_folder_stands() -> None:
    """The innermost mount counts; a path in no bind mount belongs to the container."""
    mounts = [
        {"Type": "bind", "Source": "/host/w", "Destination": "/workspace"},
        {"Type": "volume", "Source": "/var/x", "Destination": "/workspace/cache"},
    ]

    assert checkout_undo.find_host_path("/workspace/ERNIE", mounts) == "/host/w/ERNIE"
    assert checkout_undo.find_host_path("/workspace/cache/a", mounts) == ""
    assert checkout_undo.find_host_path("/workspace2/a", mounts) == ""


def test_a_clone_inside_its_container(tmp_path: Path) -> None:
    """A clone in a container is removed with the container, and listed if the container stays."""
    entry = {"host": "", "container": "c"}

    assert checkout_undo.undo_clone(tmp_path, entry, ["container c"]) == "removed with its container"
    assert checkout_undo.undo_clone(tmp_path, entry, []) == "kept: it is in container c"


@pytest.mark.real
@pytest.mark.parametrize("worked", (False, True))
def test_clones_by_the_command(worked: bool, clone: tuple[Path, str], tmp_path: Path) -> None:
    """provision clones, --undo removes the clone; one with local changes is named and kept."""
    source, commit = clone
    stock_index(tmp_path / "index")
    place = tmp_path / "work" / "project"
    more = f'[[checkouts]]\nsource = "t"\nurl = "file://{source}"\nref = "{commit}"\ndirectory = "{place}"\n'
    with serve_index(tmp_path / "index") as index:
        machine = ProvisionCommand(tmp_path, index)
        write_recipe(machine.recipes, "alpha ==1.0", "beta <2", more=more)
        made = machine.run_command("--yes")
        if worked:
            (place / "mine").write_text("1")
        shown = machine.run_command("--undo", "--dry-run")
        back = machine.run_command("--undo", "--yes")

    assert made.returncode == 0, made.stderr
    assert str(place) in shown.stdout
    assert back.returncode == 0, back.stderr
    assert ("kept: it has local changes: mine" in back.stdout) is worked
    assert place.exists() is worked
    assert not machine.environment_folder.exists()
