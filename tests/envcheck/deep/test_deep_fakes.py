"""doctor --deep on cards that are not there: the real paddle, its launcher, and a plugin whose devices misbehave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envcheck.core.model import Finding, Status
from envcheck.deep import session
from envcheck.deep.interpreter import Sizes
from envcheck.deep.session import Wish
from tests.envcheck.deep.deep_parts import HASTY, SMALL, cards, faulty, interpreter, left
from tests.tiers import thin_out

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[3]
KINDS = {"npu": "npu", "iluvatar": "iluvatar_gpu"}
OF_A_CARD = frozenset({"deep.cards", "deep.matmul", "deep.memory", "deep.copy"})
FAIL, WARN, OK = Status.FAIL, Status.WARN, Status.OK


@pytest.fixture(scope="module", params=thin_out(1, KINDS))
def vendor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def plugins(paddle_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("faulty")
    return {vendor: faulty(paddle_environment, kind, folder / kind) for vendor, kind in KINDS.items()}


def examined(
    environment: Path,
    plugin: Path,
    own: Path,
    vendor: str,
    count: int,
    names: frozenset[str],
    fault: str = "",
    sizes: Sizes = SMALL,
    **more: str,
) -> dict[str, list[Finding]]:
    env = {"CUSTOM_DEVICE_ROOT": str(plugin), "FAKE_DEVICES": str(count), "FAKE_FAULT": fault, **more}
    told: list[str] = []
    way = interpreter(environment, "paddle", vendor, own, env)
    found = session.examine(cards(vendor, count), way, Wish(sizes, names), told.append)
    assert left(own) == []
    return found


def failed(found: dict[str, list[Finding]]) -> dict[str, str]:
    return {name: each.seen for name, some in found.items() for each in some if each.status is FAIL}


def test_sixteen(vendor: str, paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path) -> None:
    """Sixteen devices multiply, hold and copy rightly, one after the other in one process, and send to each other."""
    names = OF_A_CARD | {"deep.peer"}
    found = examined(paddle_environment, plugins[vendor], tmp_path, vendor, 16, names)

    assert failed(found) == {}
    assert found["deep.cards"][0].seen.startswith("16 cards tested by paddle 3.1.0 of")
    assert found["deep.memory"][0].seen.startswith("3 MiB of devices 0-15 ")
    assert any("16 cards at" in f.seen or "slower" in f.seen for f in found["deep.copy"])
    assert "0, 15" in found["deep.peer"][0].seen


@pytest.mark.parametrize(
    ("fault", "name", "words"),
    thin_out(
        1,
        (
            ("crash:1", "deep.matmul", "device 1, the product: the process was ended by SIGSEGV"),
            ("lie:1", "deep.matmul", "device 1: a product is wrong, by up to"),
            ("hang:1", "deep.matmul", "device 1, the product: did not answer in 12 s"),
        ),
    ),
)
def test_one_that_fails(
    fault: str, name: str, words: str, paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path
) -> None:
    """A device that crashes, lies or hangs is named, by its deadline; the ones behind it are tested all the same."""
    sizes = HASTY if fault.startswith("hang") else SMALL
    found = examined(paddle_environment, plugins["npu"], tmp_path, "npu", 3, OF_A_CARD, fault, sizes)

    assert words in failed(found)[name]
    assert any("device" in f.seen and "2" in f.seen for f in found["deep.memory"] if f.status is OK)
    assert not any("device 0" in seen or "device 2" in seen for seen in failed(found).values())


def test_one_that_is_stopped(paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path) -> None:
    """A child that cannot even end itself is ended from outside when it has said nothing for too long."""
    found = examined(paddle_environment, plugins["npu"], tmp_path, "npu", 2, OF_A_CARD, "stop:0", HASTY)

    assert "device 0, the product: did not answer in 12 s" in failed(found)["deep.matmul"]
    assert found["deep.memory"][0].seen.startswith("3 MiB of device 1 ")


def test_a_slow_one(paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path) -> None:
    """A device that is far slower than the others is named in what it is slow at."""
    found = examined(paddle_environment, plugins["npu"], tmp_path, "npu", 4, OF_A_CARD, "slow:2")
    slow = [f.seen for name in ("deep.matmul", "deep.copy") for f in found[name] if f.status is WARN]

    assert failed(found) == {}
    assert sum("slower than the others" in seen and "device 2 " in seen for seen in slow) == 3


def test_a_link_that_changes_things(paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path) -> None:
    """What arrives otherwise at a peer is told with the pair."""
    found = examined(paddle_environment, plugins["npu"], tmp_path, "npu", 2, frozenset({"deep.peer"}), "peer:1")

    assert "devices 0, 1, the copies between cards: what arrived is not" in failed(found)["deep.peer"]


@pytest.mark.parametrize(("vendor", "count"), thin_out(1, (("npu", 16), ("iluvatar", 2))))
def test_all_add_up(
    vendor: str, count: int, paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path
) -> None:
    """All devices add up by paddle's own launcher, and the bus bandwidth is told by nccl-tests' formula."""
    names = frozenset({"deep.allreduce"})
    found = examined(paddle_environment, plugins[vendor], tmp_path, vendor, count, names)

    assert failed(found) == {}
    assert found["deep.allreduce"][0].seen.startswith(f"{count} cards add up rightly, ")
    assert f"times 2({count} - 1)/{count}" in found["deep.allreduce"][0].evidence[-1]


def test_ranks_that_hang(paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path) -> None:
    """A rank that never comes back ends all of them at the deadline, and nobody is left."""
    names = frozenset({"deep.allreduce"})
    found = examined(paddle_environment, plugins["npu"], tmp_path, "npu", 2, names, "hang:1", HASTY)

    assert "did not end in 12 s" in failed(found)["deep.allreduce"]


def test_too_few(paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path) -> None:
    """A framework that sees another number of devices is told, and no device is touched."""
    env = {"CUSTOM_DEVICE_ROOT": str(plugins["npu"]), "FAKE_DEVICES": "3"}
    way = interpreter(paddle_environment, "paddle", "npu", tmp_path, env)
    found = session.examine(cards("npu", 4), way, Wish(SMALL), print)

    assert list(found) == ["deep.cards"]
    assert "sees 3 devices of type npu, 4 are here" in failed(found)["deep.cards"]


PROGRAM = """
from pathlib import Path
from envcheck.deep import session
from envcheck.core.signals import heard_by, interrupt
from tests.envcheck.deep.deep_parts import SMALL, cards, interpreter
env = {{"CUSTOM_DEVICE_ROOT": {plugin!r}, "FAKE_DEVICES": "2", "FAKE_FAULT": "hang:0"}}
with heard_by(interrupt):
    way = interpreter(Path({environment!r}), "paddle", "npu", Path({own!r}), env)
    session.examine(cards("npu", 2), way, session.Wish(SMALL), lambda text: print(text, flush=True))
"""


@pytest.mark.parametrize("sign", (signal.SIGINT, signal.SIGKILL))
def test_nobody_is_left(sign: int, paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path) -> None:
    """Ctrl-C, or a kill, even one that nobody can hear: the child that works on the card ends with us."""
    code = PROGRAM.format(plugin=str(plugins["npu"]), environment=str(paddle_environment), own=str(tmp_path))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert child.stdout
    while "matmul" not in (line := child.stdout.readline()):
        assert line, "it ended before it came to a card"
    assert left(tmp_path / "deep")
    os.kill(child.pid, sign)
    child.wait(300)
    deadline = time.monotonic() + 120
    while left(tmp_path / "deep") and time.monotonic() < deadline:
        time.sleep(0.1)

    assert left(tmp_path / "deep") == []
