"""Clones by a real git from real repositories, over files, plain http and git's own http; cut, and taken up."""

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
from installers.plan.requirement import Need, Satisfied
from installers.recipes.recipe import Checkout
from installers.software import checkouts, git_words
from installers.software.checkouts import Clone, CloneOptions, need, perform, there
from installers.targets.target import VenvTarget

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("git"), reason="there is no git on this machine"),
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


def git(folder: Path, *words: str) -> str:
    argv = ("git", "-C", str(folder), "-c", "init.defaultBranch=main", *words)
    return subprocess.run(argv, env={**os.environ, **AUTHOR}, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with project.git: two commits, v1.0 at the first, and enough of a file that it can be cut."""
    folder = tmp_path_factory.mktemp("origin")
    work = folder / "work"
    work.mkdir()
    git(work, "init", "-q")
    for name, text in {**SETUP, "said.txt": "one\n"}.items():
        (work / name).write_text(text)
    (work / "blob.bin").write_bytes(os.urandom(3 << 20))
    git(work, "add", ".")
    git(work, "commit", "-qm", "one")
    git(work, "tag", "-am", "first", "v1.0")
    (work / "said.txt").write_text("two\n")
    git(work, "commit", "-qam", "two")
    git(folder, "clone", "-q", "--bare", "work", "project.git")
    git(folder / "project.git", "update-server-info")
    return folder


def commit_of(origin: Path, ref: str) -> str:
    return git(origin / "project.git", "rev-parse", f"{ref}^{{commit}}")


class Handler(http.server.SimpleHTTPRequestHandler):
    """`smart`: git's own CGI behind it; `mode`: "" serves, "cut" closes in the pack, "slow" waits there."""

    mode, smart = "", True
    asked: list[str] = []  # noqa: RUF012

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        if self.smart:
            return self.backend(b"")
        return super().do_GET()

    def do_POST(self) -> None:
        type(self).asked.append(self.path)
        self.backend(self.rfile.read(int(self.headers["Content-Length"])))

    def backend(self, body: bytes) -> None:
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
def serving(origin: Path, *, smart: bool) -> Iterator[tuple[str, type[Handler]]]:
    kind = type("Ours", (Handler,), {"smart": smart, "asked": []})
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


def wanted(url: str, ref: str, tmp_path: Path) -> Checkout:
    return Checkout(url, ref, str(tmp_path / "a folder" / "project"))


def quiet(line: str) -> None:
    pass


@pytest.mark.parametrize("way", ("file", "plain", "smart"))
def test_clone(way: str, origin: Path, target: VenvTarget, tmp_path: Path) -> None:
    """A tag and a commit are cloned from each kind of server, proved, seen as there; and moved to another commit."""
    with serving(origin, smart=way == "smart") as (address, _):
        url = f"file://{origin}/project.git" if way == "file" else address
        tag = wanted(url, "v1.0", tmp_path)
        assert isinstance(need(tag, there(target, tag)), Need)
        done = perform(target, tag, quiet)

        assert (done.url, done.commit) == (url, commit_of(origin, "v1.0"))
        assert (Path(tag.directory) / "said.txt").read_text() == "one\n"
        assert isinstance(need(tag, there(target, tag)), Satisfied)

        later = replace(tag, ref=commit_of(origin, "main"))
        planned = need(later, there(target, later))
        assert isinstance(planned, Need) and planned.title.startswith("move ")
        assert perform(target, later, quiet).commit == later.ref
        assert (Path(tag.directory) / "said.txt").read_text() == "two\n"


def test_no_more_than_needed(origin: Path, target: VenvTarget, tmp_path: Path) -> None:
    """Where the server allows it one commit is fetched, not its history; a second time nobody is asked."""
    with serving(origin, smart=True) as (url, server):
        asked = wanted(url, commit_of(origin, "main"), tmp_path)
        perform(target, asked, quiet)
        count = len(server.asked)
        perform(target, asked, quiet)

    assert git(Path(asked.directory), "rev-list", "--count", "HEAD") == "1"
    assert len(server.asked) == count


def test_cut_then_whole(origin: Path, target: VenvTarget, tmp_path: Path) -> None:
    """A transfer that is cut is told as such, and repeated it is whole."""
    with serving(origin, smart=True) as (url, server):
        asked = wanted(url, "v1.0", tmp_path)
        server.mode = "cut"
        with pytest.raises(StepError, match="the transfer was cut off"):
            perform(target, asked, quiet)
        server.mode = ""
        assert there(target, asked).making
        assert perform(target, asked, quiet).commit == commit_of(origin, "v1.0")

    assert not there(target, asked).making


def test_killed_then_whole(origin: Path, target: VenvTarget, tmp_path: Path) -> None:
    """kill -9 in the middle of the transfer, locks left behind and half a checkout: the next run ends as the first."""
    program = (
        "import sys; from pathlib import Path; from installers.targets.target import VenvTarget\n"
        "from installers.software import checkouts\n"
        "from installers.recipes.recipe import Checkout\n"
        "checkouts.perform(VenvTarget(Path(sys.argv[1])), Checkout(*sys.argv[2:]), print)"
    )
    with serving(origin, smart=True) as (url, server):
        server.mode = "slow"
        asked = wanted(url, "v1.0", tmp_path)
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
        planned = need(asked, there(target, asked))

        assert isinstance(planned, Need) and planned.why == "an earlier run did not get to its end there"
        assert perform(target, asked, quiet).commit == commit_of(origin, "v1.0")
    assert (Path(asked.directory) / "said.txt").read_text() == "one\n"


def test_somebodys_work(origin: Path, target: VenvTarget, tmp_path: Path) -> None:
    """Changed files, another remote and foreign folders are refused with the difference, and left as they are."""
    asked = wanted(f"file://{origin}/project.git", "v1.0", tmp_path)
    folder = Path(asked.directory)
    perform(target, asked, quiet)
    (folder / "said.txt").write_text("mine")
    (folder / "new.txt").write_text("an untracked file is nobody's business")

    with pytest.raises(StepError, match=r"has changes of somebody's: said\.txt"):
        perform(target, replace(asked, ref="main"), quiet)
    assert (folder / "said.txt").read_text() == "mine"
    with pytest.raises(StepError, match=r"is a clone of file://.*project\.git, wanted is https://else"):
        perform(target, replace(asked, url="https://else.example/x.git"), quiet)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "said.txt").write_text("mine")
    for begun in (False, True):
        if begun:  # nothing committed yet
            git(tmp_path / "full", "init", "-q")
        with pytest.raises(StepError, match="holds other things"):
            perform(target, replace(asked, directory=str(tmp_path / "full")), quiet)
    assert (tmp_path / "full" / "said.txt").read_text() == "mine"


def test_not_there(origin: Path, target: VenvTarget, tmp_path: Path) -> None:
    """No such ref, commit, repository or server: a sentence each, without the password in the address."""
    with serving(origin, smart=True) as (url, _):
        for asked, words in (
            (wanted(url, "v9", tmp_path), "has no v9|does not have it"),
            (wanted(url, "1" * 40, tmp_path / "b"), "does not have it|has no 1111"),
            (wanted(url.replace("project", "other"), "v1.0", tmp_path / "c"), "no such repository"),
        ):
            with pytest.raises(StepError, match=words):
                perform(target, asked, quiet)
    secret = url.replace("http://", "http://me:hunter2@")
    said: list[str] = []
    with pytest.raises(StepError, match="cannot be reached") as caught:
        perform(target, wanted(secret, "v1.0", tmp_path / "d"), said.append)
    config = Path(wanted(secret, "v1.0", tmp_path / "d").directory) / ".git" / "config"
    assert "hunter2" not in f"{caught.value}{caught.value.next_step}{said}{config.read_text()}"


def test_editable(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editable clone is installed by the target's own pip; that it is not yet is seen when planning."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    target, asked = VenvTarget(folder), wanted(f"file://{origin}/project.git", "v1.0", tmp_path)
    perform(target, asked, quiet)
    asked = replace(asked, editable=True)
    planned = need(asked, there(target, asked))

    assert isinstance(planned, Need) and "installed" in planned.why
    perform(target, asked, quiet, CloneOptions(limits=("numpy<2",)))
    assert isinstance(need(asked, there(target, asked)), Satisfied)
    assert target.environment().packages["demo"] == "1"


def test_no_git(origin: Path, target: VenvTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target without git is told as that, not as a clone that is at fault."""
    asked = wanted(f"file://{origin}/project.git", "v1.0", tmp_path)
    perform(target, asked, quiet)
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(bare))
    for ask in (there, lambda s, c: perform(s, replace(c, directory=f"{c.directory}2"), quiet)):
        with pytest.raises(StepError, match="there is no git"):
            ask(target, asked)


def test_bundle(origin: Path, target: VenvTarget, tmp_path: Path) -> None:
    """A git bundle stands in for the address where there is no network."""
    bundle = tmp_path / "p.bundle"
    git(origin / "project.git", "bundle", "create", "-q", str(bundle), "--all")
    asked = wanted("https://unreachable.example/project.git", commit_of(origin, "main"), tmp_path)

    assert perform(target, asked, quiet, CloneOptions(source=str(bundle))).commit == asked.ref


HOSTILE = ("--upload-pack=touch x", "-x", "a..b", "x^{commit}", "a b", "", "refs/heads/x.lock", "@{-1}", "a:b", "x\n")


@pytest.mark.parametrize("ref", HOSTILE)
def test_hostile_ref(ref: str, target: VenvTarget, tmp_path: Path) -> None:
    """What would be an option or an expression to git never reaches it."""
    with pytest.raises(UsageError, match="expected a commit or a tag"):
        there(target, wanted("https://h.example/p.git", ref, tmp_path))


@pytest.mark.parametrize(
    "url", ("ext::sh -c touch% x", "--upload-pack=x", "-x", "/etc", "u@h:-oProxyCommand=x", "https://h/a b")
)
def test_hostile_address(url: str, target: VenvTarget, tmp_path: Path) -> None:
    """Addresses that run commands, or are options, are refused; so are folders outside."""
    with pytest.raises(UsageError, match="expected the https"):
        there(target, wanted(url, "v1", tmp_path))
    with pytest.raises(UsageError, match="expected a folder"):
        there(target, Checkout("https://h.example/p.git", "v1", "a/../../b"))


@pytest.mark.parametrize("left", (4017, 4043, 40444))
def test_a_count_of_bytes_is_no_status(left: int) -> None:
    """A cut transfer counts what is missing in the words in which a server's refusal is printed."""
    text = f"error: {left} bytes of body are still expected\nfatal: early EOF\nfatal: unpack-objects failed"

    assert git_words.understood(text)[0] == "the transfer was cut off"
    assert git_words.understood("error: 404 Not Found")[0] == "there is no such repository"


@given(st.text(max_size=300))
def test_any_words(text: str) -> None:
    """Whatever git says becomes one sentence and a next step."""
    sentence, step = git_words.understood(text)

    assert sentence and step and "\n" not in sentence


def test_nothing_is_green_by_itself() -> None:
    """A clone whose commit nobody can compare is not taken for what is wanted."""
    asked = Checkout("https://h.example/p.git", "v1", "/w/p")

    assert isinstance(need(asked, Clone(commit="1" * 40, remote=asked.url)), Need)
    assert checkouts.refused(asked, Clone(commit="1" * 40, remote=asked.url)) is None
