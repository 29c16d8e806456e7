"""Clones with real git from real repositories over files, plain http and smart http; interrupted and resumed."""

from __future__ import annotations

import http.server
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core.errors import StepError, UsageError
from installers.plan.requirement import SatisfiedRequirement, UnmetRequirement
from installers.recipes.recipe import Checkout
from installers.software import checkouts, git_errors
from installers.software.checkouts import CloneOptions, CloneState, inspect_clone, plan_clone, update_clone
from installers.targets.target import VenvTarget

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("git"), reason="git not found on this machine"),
]
ROOT = Path(__file__).parents[3]
AUTHOR = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
SETUP = {
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    "backend.py": """
import os, zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    about = "Metadata-Version: 2.1\\nName: demo\\nVersion: 1\\n"
    files = {"demo.pth": os.getcwd() + "\\n", "demo-1.dist-info/METADATA": about,
             "demo-1.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"}
    with zipfile.ZipFile(os.path.join(folder, "demo-1-py3-none-any.whl"), "w") as archive:
        for path, text in [*files.items(), ("demo-1.dist-info/RECORD", "".join(f + ",,\\n" for f in files))]:
            archive.writestr(path, text)
    return "demo-1-py3-none-any.whl"
""",
}


def run_git(folder: Path, *words: str) -> str:
    argv = ("git", "-C", str(folder), "-c", "init.defaultBranch=main", *words)
    return subprocess.run(argv, env={**os.environ, **AUTHOR}, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with project.git: two commits, v1.0 at the first, and a file large enough to cut a transfer."""
    folder = tmp_path_factory.mktemp("origin")
    work = folder / "work"
    work.mkdir()
    run_git(work, "init", "-q")
    for name, text in {**SETUP, "said.txt": "one\n"}.items():
        (work / name).write_text(text)
    (work / "blob.bin").write_bytes(os.urandom(3 << 20))
    run_git(work, "add", ".")
    run_git(work, "commit", "-qm", "one")
    run_git(work, "tag", "-am", "first", "v1.0")
    (work / "said.txt").write_text("two\n")
    run_git(work, "commit", "-qam", "two")
    run_git(folder, "clone", "-q", "--bare", "work", "project.git")
    run_git(folder / "project.git", "update-server-info")
    return folder


def read_commit(origin: Path, ref: str) -> str:
    return run_git(origin / "project.git", "rev-parse", f"{ref}^{{commit}}")


class GitHandler(http.server.SimpleHTTPRequestHandler):
    """`smart`: uses git's CGI; `mode`: "" serves, "cut" closes in the pack, "slow" waits there."""

    mode, smart = "", True
    asked: list[str] = []  # noqa: RUF012

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        if self.smart:
            return self.run_git_backend(b"")
        return super().do_GET()

    def do_POST(self) -> None:
        type(self).asked.append(self.path)
        self.run_git_backend(self.rfile.read(int(self.headers["Content-Length"])))

    def run_git_backend(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        env = {
            **os.environ, "GIT_PROJECT_ROOT": self.directory, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
            "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "CONTENT_LENGTH": str(len(body)),
        }  # fmt: skip
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        lines = [line.split(": ", 1) for line in head.decode().splitlines()]
        status = next((int(value[:3]) for name, value in lines if name == "Status"), 200)
        self.send_response(status)
        for name, value in lines:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        cut = self.mode and len(content) > 1 << 20
        self.wfile.write(content[: len(content) // 2] if cut else content)
        while cut and type(self).mode == "slow":
            time.sleep(0.05)


@contextmanager
def serve_git(origin: Path, *, smart: bool) -> Iterator[tuple[str, type[GitHandler]]]:
    kind = type("Ours", (GitHandler,), {"smart": smart, "asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: kind(*a, directory=str(origin)))
    server.handle_error = lambda *a: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/project.git", kind
    finally:
        kind.mode = "cut"
        server.shutdown()
        server.server_close()


@pytest.fixture
def target(tmp_path: Path) -> VenvTarget:
    return VenvTarget(tmp_path / "venv")


def make_checkout(url: str, ref: str, tmp_path: Path) -> Checkout:
    return Checkout(url, ref, str(tmp_path / "a folder" / "project"))


def ignore_line(line: str) -> None:
    pass


@pytest.mark.parametrize("way", ("file", "plain", "smart"))
def test_clone(way: str, origin: Path, target: VenvTarget, tmp_path: Path) -> None:
    """A tag and a commit are cloned from each kind of server, verified, and moved to another commit."""
    with serve_git(origin, smart=way == "smart") as (address, _):
        url = f"file://{origin}/project.git" if way == "file" else address
        tag = make_checkout(url, "v1.0", tmp_path)
        assert isinstance(plan_clone(tag, inspect_clone(target, tag)), UnmetRequirement)
        done = update_clone(target, tag, ignore_line)

        assert (done.url, done.commit) == (url, read_commit(origin, "v1.0"))
        assert (Path(tag.directory) / "said.txt").read_text() == "one\n"
        assert isinstance(plan_clone(tag, inspect_clone(target, tag)), SatisfiedRequirement)

        later = replace(tag, ref=read_commit(origin, "main"))
        planned = plan_clone(later, inspect_clone(target, later))
        assert isinstance(planned, UnmetRequirement) and planned.title.startswith("check out ")
        assert update_clone(target, later, ignore_line).commit == later.ref
        assert (Path(tag.directory) / "said.txt").read_text() == "two\n"


def test_no_more_than_needed(origin: Path, target: VenvTarget, tmp_path: Path) -> None:
    """Where possible one commit is fetched without history; the second time no server is asked."""
    with serve_git(origin, smart=True) as (url, server):
        asked = make_checkout(url, read_commit(origin, "main"), tmp_path)
        update_clone(target, asked, ignore_line)
        count = len(server.asked)
        update_clone(target, asked, ignore_line)

    assert run_git(Path(asked.directory), "rev-list", "--count", "HEAD") == "1"
    assert len(server.asked) == count


def test_cut_then_whole(origin: Path, target: VenvTarget, tmp_path: Path) -> None:
    """A cut transfer is reported as such, and complete after a second run."""
    with serve_git(origin, smart=True) as (url, server):
        asked = make_checkout(url, "v1.0", tmp_path)
        server.mode = "cut"
        with pytest.raises(StepError, match="the transfer was interrupted"):
            update_clone(target, asked, ignore_line)
        server.mode = ""
        assert inspect_clone(target, asked).making
        assert update_clone(target, asked, ignore_line).commit == read_commit(origin, "v1.0")

    assert not inspect_clone(target, asked).making


def test_killed_then_whole(origin: Path, target: VenvTarget, tmp_path: Path) -> None:
    """After kill -9 in mid-transfer, with stale locks and half a checkout, the next run ends as the first would."""
    program = (
        "import sys; from pathlib import Path; from installers.targets.target import VenvTarget\n"
        "from installers.software import checkouts\n"
        "from installers.recipes.recipe import Checkout\n"
        "checkouts.update_clone(VenvTarget(Path(sys.argv[1])), Checkout(*sys.argv[2:]), print)"
    )
    with serve_git(origin, smart=True) as (url, server):
        server.mode = "slow"
        asked = make_checkout(url, "v1.0", tmp_path)
        argv = [sys.executable, "-c", program, str(target.folder), asked.url, asked.ref, asked.directory]
        child = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + 120
        while not any(path.endswith("upload-pack") for path in server.asked[2:]) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        server.mode = ""
        (Path(asked.directory) / ".git" / "index.lock").touch()
        (Path(asked.directory) / "said.txt").write_text("half")
        planned = plan_clone(asked, inspect_clone(target, asked))

        assert isinstance(planned, UnmetRequirement) and planned.why == "an earlier run was interrupted"
        assert update_clone(target, asked, ignore_line).commit == read_commit(origin, "v1.0")
    assert (Path(asked.directory) / "said.txt").read_text() == "one\n"


def test_somebodys_work(origin: Path, target: VenvTarget, tmp_path: Path) -> None:
    """Changed files, another remote and other folders are refused with the difference, and left unchanged."""
    asked = make_checkout(f"file://{origin}/project.git", "v1.0", tmp_path)
    folder = Path(asked.directory)
    update_clone(target, asked, ignore_line)
    (folder / "said.txt").write_text("mine")
    (folder / "new.txt").write_text("an untracked file is nobody's business")

    with pytest.raises(StepError, match=r"has local changes: said\.txt"):
        update_clone(target, replace(asked, ref="main"), ignore_line)
    assert (folder / "said.txt").read_text() == "mine"
    with pytest.raises(StepError, match=r"is a clone of file://.*project\.git; expected https://else"):
        update_clone(target, replace(asked, url="https://else.example/x.git"), ignore_line)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "said.txt").write_text("mine")
    for begun in (False, True):
        if begun:  # no commits yet
            run_git(tmp_path / "full", "init", "-q")
        with pytest.raises(StepError, match="is not a git clone and is not empty"):
            update_clone(target, replace(asked, directory=str(tmp_path / "full")), ignore_line)
    assert (tmp_path / "full" / "said.txt").read_text() == "mine"


def test_not_there(origin: Path, target: VenvTarget, tmp_path: Path) -> None:
    """A missing ref, commit, repository or server has its own message, without the password in the URL."""
    with serve_git(origin, smart=True) as (url, _):
        for asked, words in (
            (make_checkout(url, "v9", tmp_path), "has no ref v9|the ref does not exist in the repository"),
            (make_checkout(url, "1" * 40, tmp_path / "b"), "the ref does not exist in the repository|has no ref 1111"),
            (make_checkout(url.replace("project", "other"), "v1.0", tmp_path / "c"), "repository not found"),
        ):
            with pytest.raises(StepError, match=words):
                update_clone(target, asked, ignore_line)
    secret = url.replace("http://", "http://me:hunter2@")
    said: list[str] = []
    with pytest.raises(StepError, match="the server is unreachable") as caught:
        update_clone(target, make_checkout(secret, "v1.0", tmp_path / "d"), said.append)
    config = Path(make_checkout(secret, "v1.0", tmp_path / "d").directory) / ".git" / "config"
    assert "hunter2" not in f"{caught.value}{caught.value.next_step}{said}{config.read_text()}"


def test_editable(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editable clone is installed by the target's own pip; the plan shows if it is not installed yet."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    target, asked = VenvTarget(folder), make_checkout(f"file://{origin}/project.git", "v1.0", tmp_path)
    update_clone(target, asked, ignore_line)
    asked = replace(asked, editable=True)
    planned = plan_clone(asked, inspect_clone(target, asked))

    assert isinstance(planned, UnmetRequirement) and "installed" in planned.why
    update_clone(target, asked, ignore_line, CloneOptions(limits=("numpy<2",)))
    assert isinstance(plan_clone(asked, inspect_clone(target, asked)), SatisfiedRequirement)
    assert target.read_environment().packages["demo"] == "1"


def test_no_git(origin: Path, target: VenvTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target without git is reported as such, not as a broken clone."""
    asked = make_checkout(f"file://{origin}/project.git", "v1.0", tmp_path)
    update_clone(target, asked, ignore_line)
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(bare))
    for ask in (inspect_clone, lambda s, c: update_clone(s, replace(c, directory=f"{c.directory}2"), ignore_line)):
        with pytest.raises(StepError, match="git not found"):
            ask(target, asked)


def test_bundle(origin: Path, target: VenvTarget, tmp_path: Path) -> None:
    """A git bundle replaces the URL where there is no network."""
    bundle = tmp_path / "p.bundle"
    run_git(origin / "project.git", "bundle", "create", "-q", str(bundle), "--all")
    asked = make_checkout("https://unreachable.example/project.git", read_commit(origin, "main"), tmp_path)

    assert update_clone(target, asked, ignore_line, CloneOptions(source=str(bundle))).commit == asked.ref


HOSTILE = ("--upload-pack=touch x", "-x", "a..b", "x^{commit}", "a b", "", "refs/heads/x.lock", "@{-1}", "a:b", "x\n")


@pytest.mark.parametrize("ref", HOSTILE)
def test_hostile_ref(ref: str, target: VenvTarget, tmp_path: Path) -> None:
    """Refs that would be options or expressions never reach git."""
    with pytest.raises(UsageError, match="expected a commit or a tag"):
        inspect_clone(target, make_checkout("https://h.example/p.git", ref, tmp_path))


@pytest.mark.parametrize(
    "url", ("ext::sh -c touch% x", "--upload-pack=x", "-x", "/etc", "u@h:-oProxyCommand=x", "https://h/a b")
)
def test_hostile_address(url: str, target: VenvTarget, tmp_path: Path) -> None:
    """URLs that run commands or are options are refused; so are folders outside."""
    with pytest.raises(UsageError, match="expected the https"):
        inspect_clone(target, make_checkout(url, "v1", tmp_path))
    with pytest.raises(UsageError, match="expected a separate folder"):
        inspect_clone(target, Checkout("https://h.example/p.git", "v1", "a/../../b"))


@pytest.mark.parametrize("left", (4017, 4043, 40444))
def test_a_count_of_bytes_is_no_status(left: int) -> None:
    """A byte count in git's output is not mistaken for an HTTP status."""
    text = f"error: {left} bytes of body are still expected\nfatal: early EOF\nfatal: unpack-objects failed"

    assert git_errors.explain_output(text)[0] == "the transfer was interrupted"
    assert git_errors.explain_output("error: 404 Not Found")[0] == "repository not found"


@given(st.text(max_size=300))
def test_any_words(text: str) -> None:
    """Any output of git gives one sentence and a next step."""
    sentence, step = git_errors.explain_output(text)

    assert sentence and step and "\n" not in sentence


def test_nothing_is_green_by_itself() -> None:
    """A clone whose commit cannot be compared is not accepted as correct."""
    asked = Checkout("https://h.example/p.git", "v1", "/w/p")

    assert isinstance(plan_clone(asked, CloneState(commit="1" * 40, remote=asked.url)), UnmetRequirement)
    assert checkouts.explain_refusal(asked, CloneState(commit="1" * 40, remote=asked.url)) is None
