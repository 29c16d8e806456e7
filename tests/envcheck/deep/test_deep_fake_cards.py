"""doctor --deep on fake cards: the real paddle, its launcher, and a plugin with faulty devices."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envcheck.core.model import Finding, Status
from envcheck.deep import active_tests
from envcheck.deep.active_tests import DeepRequest
from envcheck.deep.interpreter import Sizes
from tests.envcheck.deep.deep_parts import (
    HASTY,
    SMALL,
    list_remaining_processes,
    make_cards,
    make_faulty_plugin,
    make_interpreter,
)
from tests.tiers import thin_out

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[3]
KINDS = {"npu": "npu", "iluvatar": "iluvatar_gpu", "xpu": "xpu"}
OF_A_CARD = frozenset({"deep.cards", "deep.matmul", "deep.memory", "deep.copy"})
FAIL, WARN, OK = Status.FAIL, Status.WARN, Status.OK


@pytest.fixture(scope="module", params=thin_out(2, KINDS))
def vendor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def plugins(paddle_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("faulty")
    return {vendor: make_faulty_plugin(paddle_environment, kind, folder / kind) for vendor, kind in KINDS.items()}


def examine_cards(
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
    way = make_interpreter(environment, "paddle", vendor, own, env)
    found = active_tests.examine_cards(make_cards(vendor, count), way, DeepRequest(sizes, names), told.append)
    assert list_remaining_processes(own) == []
    return found


def list_failures(found: dict[str, list[Finding]]) -> dict[str, str]:
    return {name: each.seen for name, some in found.items() for each in some if each.status is FAIL}


def test_sixteen(vendor: str, paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path) -> None:
    """Sixteen devices pass multiplication, memory and copy tests in one process, and the transfers between them
    pass."""
    names = OF_A_CARD | {"deep.peer"}
    found = examine_cards(paddle_environment, plugins[vendor], tmp_path, vendor, 16, names)

    assert list_failures(found) == {}
    assert found["deep.cards"][0].seen.startswith("16 cards tested with paddle 3.1.0 from ")
    assert found["deep.memory"][0].seen.startswith("3 MiB of devices 0-15 ")
    assert any(f.seen.startswith("16 cards: ") or "slower" in f.seen for f in found["deep.copy"])
    assert "0, 15" in found["deep.peer"][0].seen


@pytest.mark.parametrize(
    ("fault", "name", "words"),
    thin_out(
        1,
        (
            ("crash:1", "deep.matmul", "device 1, matrix product: process terminated by SIGSEGV"),
            ("lie:1", "deep.matmul", "device 1: wrong matrix product; error up to "),
            ("hang:1", "deep.matmul", "device 1, matrix product: no response within 12 s"),
        ),
    ),
)
def test_one_that_fails(
    fault: str, name: str, words: str, paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path
) -> None:
    """A device that crashes, gives wrong results or hangs is named by its deadline; later devices are still tested."""
    sizes = HASTY if fault.startswith("hang") else SMALL
    found = examine_cards(paddle_environment, plugins["npu"], tmp_path, "npu", 3, OF_A_CARD, fault, sizes)

    assert words in list_failures(found)[name]
    assert any("device" in f.seen and "2" in f.seen for f in found["deep.memory"] if f.status is OK)
    assert not any("device 0" in seen or "device 2" in seen for seen in list_failures(found).values())


def test_one_that_is_stopped(paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path) -> None:
    """A child process stuck in a stopped state is killed by the parent after its silence limit."""
    found = examine_cards(paddle_environment, plugins["npu"], tmp_path, "npu", 2, OF_A_CARD, "stop:0", HASTY)

    assert "device 0, matrix product: no response within 12 s" in list_failures(found)["deep.matmul"]
    assert found["deep.memory"][0].seen.startswith("3 MiB of device 1 ")


def test_a_slow_one(paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path) -> None:
    """A device much slower than the others is named for each slow figure."""
    found = examine_cards(paddle_environment, plugins["npu"], tmp_path, "npu", 4, OF_A_CARD, "slow:2")
    slow = [f.seen for name in ("deep.matmul", "deep.copy") for f in found[name] if f.status is WARN]

    assert list_failures(found) == {}
    assert sum("device 2 at " in seen and "slower than the median" in seen for seen in slow) == 3


def test_a_link_that_changes_things(paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path) -> None:
    """Data corrupted on a link is reported with the pair of devices."""
    found = examine_cards(paddle_environment, plugins["npu"], tmp_path, "npu", 2, frozenset({"deep.peer"}), "peer:1")

    assert (
        "devices 0, 1, copies between cards: received data differs from the data sent"
        in list_failures(found)["deep.peer"]
    )


@pytest.mark.parametrize(("vendor", "count"), thin_out(1, (("iluvatar", 2), ("npu", 16))))
def test_all_add_up(
    vendor: str, count: int, paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path
) -> None:
    """All-reduce over all devices runs with paddle's launcher; bus bandwidth follows the nccl-tests formula."""
    names = frozenset({"deep.allreduce"})
    found = examine_cards(paddle_environment, plugins[vendor], tmp_path, vendor, count, names)

    assert list_failures(found) == {}
    assert re.match(rf"{count} cards: all-reduce of \d+ MiB is correct, ", found["deep.allreduce"][0].seen)
    assert f"times 2({count} - 1)/{count}" in found["deep.allreduce"][0].evidence[-1]


def test_ranks_that_hang(paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path) -> None:
    """A rank that hangs ends all ranks at the deadline; no process is left."""
    names = frozenset({"deep.allreduce"})
    found = examine_cards(paddle_environment, plugins["npu"], tmp_path, "npu", 2, names, "hang:1", HASTY)

    assert "not finished within 12 s" in list_failures(found)["deep.allreduce"]


def test_too_few(paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path) -> None:
    """When the framework sees a different number of devices, that is reported and no device is used."""
    env = {"CUSTOM_DEVICE_ROOT": str(plugins["npu"]), "FAKE_DEVICES": "3"}
    way = make_interpreter(paddle_environment, "paddle", "npu", tmp_path, env)
    found = active_tests.examine_cards(make_cards("npu", 4), way, DeepRequest(SMALL), print)

    assert list(found) == ["deep.cards"]
    assert "finds 3 devices of type npu; this host has 4" in list_failures(found)["deep.cards"]


PROGRAM = """
from pathlib import Path
from envcheck.deep import active_tests
from envcheck.core.signals import handle_signals, raise_interrupt
from tests.envcheck.deep.deep_parts import SMALL, make_cards, make_interpreter
env = {{"CUSTOM_DEVICE_ROOT": {plugin!r}, "FAKE_DEVICES": "2", "FAKE_FAULT": "hang:0"}}
with handle_signals(raise_interrupt):
    way = make_interpreter(Path({environment!r}), "paddle", "npu", Path({own!r}), env)
    asked = active_tests.DeepRequest(SMALL)
    active_tests.examine_cards(make_cards("npu", 2), way, asked, lambda text: print(text, flush=True))
"""


@pytest.mark.parametrize("sign", (signal.SIGINT, signal.SIGKILL))
def test_nobody_is_left(sign: int, paddle_environment: Path, plugins: dict[str, Path], tmp_path: Path) -> None:
    """After Ctrl-C, SIGTERM or SIGKILL of the parent, the child process that uses the card ends too."""
    code = PROGRAM.format(plugin=str(plugins["npu"]), environment=str(paddle_environment), own=str(tmp_path))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert child.stdout
    while "matmul" not in (line := child.stdout.readline()):
        assert line, "it ended before it came to a card"
    assert list_remaining_processes(tmp_path / "deep")
    os.kill(child.pid, sign)
    child.wait(300)
    deadline = time.monotonic() + 120
    while list_remaining_processes(tmp_path / "deep") and time.monotonic() < deadline:
        time.sleep(0.1)

    assert list_remaining_processes(tmp_path / "deep") == []
