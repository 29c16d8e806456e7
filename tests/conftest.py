"""What all tests share: the one real paddle environment, and the rule that under the gate nothing is skipped."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from envcheck.cli.message_catalogue import compile_catalogues
from envcheck.core import language

ROOT = Path(__file__).parent.parent

# pip's words when it reached no index at all.
UNREACHABLE = ("NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "ProxyError", "MaxRetryError")
# The tiers; simulated machines; a real engine and registry; machines with a network; a newer paddle.
pytest_plugins = [
    "tests.tiers",
    "tests.simulated_machines",
    "tests.installers.images.engine_parts",
    "tests.launch.node_parts",
    "tests.launch.real_parts",
]

compile_catalogues(ROOT)

# Files run side by side on few cores: that a machine is busy is no fault of what is tested.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# Each of the thousands of children would compile envcheck anew, which takes longer than what it is started for.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What a terminal's width is must not hang on how the tests were started.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)

# A shell starts what it puts in the background with SIGINT ignored, nohup with SIGHUP; children inherit that: tests of
# Ctrl-C would test nothing.  A handler that does nothing ignores as well, and is not inherited.
for _sign in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(_sign) is signal.SIG_IGN:
        signal.signal(_sign, lambda number, frame: None)


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Help stays as it is: commands are the same objects in the tests that come after."""
    monkeypatch.setattr("envcheck.cli.translate_help._translate_help", lambda command: None)
    language.choose_language(["--lang", "zh"], {})
    yield
    language.choose_language([], {})


# Minutes each: two versions of paddle as 16 cards, models of torch, cuts at every boundary, two nodes.
LONG = (
    "launch/test_train_real.py",
    "launch/memory/test_counted_on_torch.py",
    "installers/test_cut.py",
    "launch/test_train_nodes.py",
    "launch/test_train_real_torch.py",
)


# DeepSpeed and what it needs besides torch; its operators are not built.
DEEPSPEED = ("deepspeed==0.19.8", "hjson", "ninja", "py-cpuinfo", "pydantic", "msgpack", "einops")
MEGATRON = "megatron-core==0.16.1"
LITGPT = ("litgpt==0.5.13", "lightning==2.6.6", "lightning-utilities==0.15.3", "torchmetrics==1.9.0")

# HCCL's usual ports lie in the range that the kernel gives to any connection: those of other tests, or their TIME_WAIT,
# would close gate.ports now and then.  Kept free meanwhile as that gate advises.
RESERVED, PORTS = Path("/proc/sys/net/ipv4/ip_local_reserved_ports"), "60000-60031"
_ours = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """By the one process that starts the others; where we may not, nothing."""
    if not hasattr(config, "workerinput") and os.access(RESERVED, os.W_OK):
        there = _read_reserved_ports()
        config.stash[_ours] = PORTS not in there
        RESERVED.write_text(",".join({*there, PORTS}))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Those that were reserved before stay so."""
    if config.stash.get(_ours, False):
        RESERVED.write_text(",".join(_read_reserved_ports() - {PORTS}) + "\n")


def _read_reserved_ports() -> set[str]:
    return set(filter(None, RESERVED.read_text().strip().split(",")))


@pytest.fixture(scope="session")
def paddle_home() -> Path:
    """An ENVCHECK_HOME in which tiny-cpu is provisioned, by envcheck itself; kept between runs.

    A minute the first time, later a fifth of a second.  $ENVCHECK_TEST_CACHE moves it.
    """
    home = Path(os.environ.get("ENVCHECK_TEST_CACHE") or ROOT / "tests" / ".cache").absolute()
    argv = [sys.executable, "-m", "envcheck", "provision", "--recipe", "tiny-cpu", "--yes"]
    deadline = time.monotonic() + 900
    while True:
        done = subprocess.run(
            argv, cwd=ROOT, env={**os.environ, "ENVCHECK_HOME": str(home)}, capture_output=True, text=True
        )
        if "another envcheck" not in done.stderr or time.monotonic() > deadline:  # two test runs on one machine
            break
        time.sleep(2)
    if done.returncode != 0:
        pytest.fail(f"the paddle environment could not be made:\n{done.stdout}{done.stderr}", pytrace=False)
    return home


@pytest.fixture(scope="session")
def paddle_environment(paddle_home: Path) -> Path:
    """The virtual environment of tiny-cpu with a real paddle in it.  Read-only by agreement."""
    return paddle_home / "environments" / "tiny-cpu"


@pytest.fixture(scope="session")
def torch_environment() -> Path:
    """A virtual environment with torch-requirements.txt in it; a minute the first time, kept until the file changes."""
    cache = Path(os.environ.get("ENVCHECK_TEST_CACHE") or ROOT / "tests" / ".cache").absolute()
    place, wanted = cache / "torch", ROOT / "tests" / "torch-requirements.txt"
    mark = place / "complete.txt"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "torch.lock").open("w") as lock:  # two test runs on one machine
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mark.exists() or mark.read_text() != wanted.read_text():
            shutil.rmtree(place, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
            argv = [str(place / "bin" / "python"), "-m", "pip", "install", "-q", "--no-compile", "-r", str(wanted)]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=1200)
            if done.returncode != 0 and any(word in done.stderr for word in UNREACHABLE):
                pytest.skip("no package index can be reached, and torch is not in the cache")
            if done.returncode != 0:
                pytest.fail(f"the torch environment could not be made:\n{done.stderr}", pytrace=False)
            mark.write_text(wanted.read_text())
    return place


@pytest.fixture(scope="session")
def deepspeed(torch_environment: Path) -> Path:
    """A folder with DeepSpeed for the torch environment, kept next to it; a minute the first time."""
    return _install_library(torch_environment, "deepspeed", ("--no-build-isolation", DEEPSPEED[0]), DEEPSPEED[1:])


@pytest.fixture(scope="session")
def megatron(torch_environment: Path) -> Path:
    """A folder with Megatron-core for the torch environment, kept next to it."""
    return _install_library(torch_environment, "megatron", (MEGATRON,))


@pytest.fixture(scope="session")
def litgpt(torch_environment: Path) -> Path:
    """A folder with litgpt and Lightning for the torch environment, kept next to it."""
    return _install_library(torch_environment, "litgpt", LITGPT)


def _install_library(environment: Path, name: str, library: tuple[str, ...], needed: tuple[str, ...] = ()) -> Path:
    """Return a folder next to the torch environment with a library, without what that needs but `needed`."""
    place = environment.with_name(name)
    with place.with_suffix(".lock").open("w") as lock:  # two test runs on one machine
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete.txt").exists():
            shutil.rmtree(place, ignore_errors=True)
            pip = (str(environment / "bin" / "python"), "-m", "pip", "install", "-q", "--target", str(place))
            for more in filter(None, (("--no-deps", *library), needed)):
                variables = {**os.environ, "DS_BUILD_OPS": "0"}
                done = subprocess.run([*pip, *more], env=variables, capture_output=True, text=True, timeout=600)
                if done.returncode != 0 and any(word in done.stderr for word in UNREACHABLE):
                    pytest.skip(f"no package index can be reached, and {name} is not in the cache")
                assert done.returncode == 0, done.stderr
            (place / "complete.txt").touch()
    return place


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files come first, files of fast tests alone last: side by side nothing is left to run alone at the end."""
    long = {ROOT / "tests" / file for file in LONG}
    heavy = {item.path for item in items if ("tier", "fast") not in item.user_properties}
    items.sort(key=lambda item: (item.path not in long, item.path not in heavy))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Under the gate (.ci/run sets ENVCHECK_SKIP_FAILS=1) a skipped test has failed."""
    outcome = yield
    _fail_skipped(outcome.get_result())  # type: ignore[attr-defined]


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """A module that is skipped whole, too."""
    outcome = yield
    _fail_skipped(outcome.get_result())  # type: ignore[attr-defined]


def _fail_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("ENVCHECK_SKIP_FAILS") == "1" and report.skipped and not hasattr(report, "wasxfail"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"ENVCHECK_SKIP_FAILS: {why}"
