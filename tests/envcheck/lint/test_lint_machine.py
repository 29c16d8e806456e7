"""Rules that need a machine's facts: the right machine, the wrong one, and none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from envcheck.collect import facts
from envcheck.core.facts import Facts, Host, Interface, Network, Packages, VendorFacts
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.model import Status
from envcheck.lint import lint
from envcheck.scripts import source
from envcheck.vendors import VENDORS
from tests.envcheck.checks.doctor_helpers import simulated

FAIL, UNKNOWN = Status.FAIL, Status.UNKNOWN
PADDLE = "python -m paddle.distributed.launch --npus 0,1,2,3,4,5,6,7 "


def found(text: str, machine: TargetMachine | None, rule: str, device: str = "auto") -> list[Status]:
    raw = f"#!/bin/bash\n{text}\n".encode()
    result = lint.lint(source.of("run.sh", raw), machine, device, others=False)
    return [remark.severity for remark in result.remarks if remark.rule == rule]


def known(**more: object) -> TargetMachine:
    """An NPU machine of which just this is known."""
    told = Facts(vendors=(VendorFacts(VENDORS["npu"]),), **more)  # type: ignore[arg-type]
    return TargetMachine(lambda: told)


def gpus(architecture: str | None) -> TargetMachine:
    return TargetMachine(lambda: Facts(vendors=(VendorFacts(VENDORS["nvidia"]),), host=Host(architecture=architecture)))


CARDS = f"{PADDLE} train.py --device npu"


@pytest.mark.parametrize(
    ("machine", "severities"),
    [("atlas-800t-a2", []), ("atlas-200t-a2-box16", []), ("h200x8", []), ("cpu", [])],
)
def test_eight_cards(machine: str, severities: list[Status]) -> None:
    """Eight cards are asked for: where there are eight or more nothing is said, nor of another vendor's."""
    with simulated(machine) as answers:
        there = facts.gather(answers, "auto")

    assert found(CARDS, TargetMachine(lambda: there), "launch.cards") == severities


def test_too_many_cards() -> None:
    """A list of devices that goes beyond those of the machine fails."""
    with simulated("atlas-800t-a2") as answers:
        there = facts.gather(answers, "auto")
    wanted = CARDS.replace("6,7", "6,7,8,9,10,11,12,13,14,15")

    assert found(wanted, TargetMachine(lambda: there), "launch.cards") == [FAIL]


SIXTEEN = "torchrun --standalone --nproc_per_node=16 train.py --device npu"
ELSEWHERE = (
    (SIXTEEN, FAIL),
    (f"docker exec box {SIXTEEN}", FAIL),
    (f"srun --gres=npu:16 {SIXTEEN}", UNKNOWN),
    (f"ssh large {SIXTEEN}", UNKNOWN),
    (f"ssh large 'cd /work && {SIXTEEN}'", UNKNOWN),
    (f"#SBATCH --gres=npu:16\n{SIXTEEN}", UNKNOWN),
)


@pytest.mark.parametrize(("text", "severity"), ELSEWHERE)
def test_cards_of_another_machine(text: str, severity: Status) -> None:
    """Of what is started on another machine this one's cards tell nothing."""
    with simulated("atlas-800t-a2") as answers:
        there = facts.gather(answers, "auto")

    assert found(text, TargetMachine(lambda: there), "launch.cards") == [severity]


EITHER = """if command -v npu-smi; then
  CARDS=$(npu-smi info -l | grep -c NPU)
else
  CARDS=$(nvidia-smi -L | wc -l)
fi
torchrun --standalone --nproc_per_node="$CARDS" train.py"""


@pytest.mark.parametrize(("vendor", "expected"), [("npu", [Status.WARN]), ("nvidia", []), ("iluvatar", [Status.WARN])])
def test_script_for_several_vendors(vendor: str, expected: list[Status]) -> None:
    """Where it names the cards of several vendors it is read for those that the machine has, if it has one's."""
    machine = TargetMachine(lambda: Facts(vendors=(VendorFacts(VENDORS[vendor]),)))

    assert found(EITHER, machine, "variables.set_env") == expected


NAMELESS = "torchrun --nproc_per_node 9 train.py --optim adamw_bnb_8bit"


@pytest.mark.parametrize(
    ("vendors", "expected"),
    [(("npu",), [FAIL]), (("nvidia",), []), (("npu", "nvidia"), []), ((), [])],
)
def test_a_training_that_names_no_cards(vendors: tuple[str, ...], expected: list[Status]) -> None:
    """It is judged for the cards that the machine has, where all are of one vendor."""
    machine = TargetMachine(lambda: Facts(vendors=tuple(VendorFacts(VENDORS[name]) for name in vendors)))

    assert found(NAMELESS, machine, "training.optimiser") == expected


def test_too_many_processes_of_a_training_that_names_no_cards() -> None:
    """Nine processes on eight cards fail, though the script does not say whose cards it wants."""
    with simulated("h200x8") as answers:
        there = facts.gather(answers, "auto")

    assert found(NAMELESS, TargetMachine(lambda: there), "launch.cards") == [FAIL]


def test_device_of_another_machine() -> None:
    """--device npu on a machine of NVIDIA cards fails; on a machine that nobody asked, nothing is said."""
    with simulated("h200x8") as answers:
        there = facts.gather(answers, "auto")

    assert found("python train.py --device npu --lr 1", TargetMachine(lambda: there), "launch.device") == [FAIL]
    assert found("python train.py --device npu --lr 1", None, "launch.device") == []


ARCHITECTURES = (("x86_64", []), ("aarch64", [FAIL]), (None, [UNKNOWN]))


@pytest.mark.parametrize(("architecture", "severities"), ARCHITECTURES)
def test_image_for_a_processor(architecture: str | None, severities: list[Status]) -> None:
    """An image named for x86_64 is right there, wrong on ARM, and cannot be told where the processor is not known."""
    machine = known(host=Host(architecture=architecture))

    assert found("docker pull a.example/npu:8.0-x86_64", machine, "container.architecture") == severities


INTERFACES = (("eth0", []), ("eth", []), ("=eth0", []), ("bond0", [FAIL]), ("^docker0", []))


@pytest.mark.parametrize(("value", "severities"), INTERFACES)
def test_interfaces(value: str, severities: list[Status]) -> None:
    """Interfaces are looked up as the collectives do: by prefix, exactly behind =, not at all behind ^."""
    machine = known(network=Network(interfaces={"eth0": Interface(("10.0.0.5/24",)), "lo": Interface()}))

    assert found(f"export HCCL_SOCKET_IFNAME={value}", machine, "variables.interface") == severities


MASTERS = (
    ("10.0.0.5:99 --nnodes 2 --rank 0", []),
    ("10.0.0.6:99 --nnodes 2 --rank 0", [UNKNOWN]),
    ("10.0.0.6:99", [FAIL]),
)


@pytest.mark.parametrize(("master", "severities"), MASTERS)
def test_master_of_this_machine(master: str, severities: list[Status]) -> None:
    """The first node's own address is right; another one is wrong for one node, and cannot be told for two."""
    machine = known(network=Network(interfaces={"eth0": Interface(("10.0.0.5",))}))
    where = master.partition(" ")
    text = f"{PADDLE} --master {where[0]} {where[2]} train.py"

    assert found(text, machine, "launch.master_elsewhere") == severities


VERSIONS = (("0.3.1", []), ("1.2.0", [FAIL]))


@pytest.mark.parametrize(("version", "severities"), VERSIONS)
def test_options_of_the_installed_version(version: str, severities: list[Status]) -> None:
    """Names of options that a later PaddleFormers renamed fail where the later one is installed."""
    machine = known(packages=Packages(packages={"paddleformers": version}))
    text = f"{PADDLE} examples/post-training/sft/train.py --tensor_parallel_degree 8"

    assert found(text, machine, "options.other_version") == severities


def test_backend_by_version() -> None:
    """Without PADDLE_XCCL_BACKEND: Paddle 3.1 fails, 3.3 does not need it."""
    old, new = (known(packages=Packages(packages={"paddlepaddle": v})) for v in ("3.1.0", "3.3.1"))

    assert found(CARDS, old, "variables.backend") == [FAIL]
    assert found(CARDS, new, "variables.backend") == []


def test_paths_of_another_machine() -> None:
    """Paths of a machine that is not this one cannot be told; one question for all of them."""
    machine = known()
    text = f"{PADDLE} /data/a/train.py --train_dataset_path /data/b.jsonl"

    assert found(text, machine, "paths.missing") == [UNKNOWN]


def test_why_nothing_was_looked_up() -> None:
    """A machine without the script's cards is called that; only one that was recorded is called another."""
    text = f"{PADDLE} /data/a/train.py"
    raw = source.of("run.sh", f"#!/bin/bash\n{text}\n".encode())
    cpu = Facts(vendors=(VendorFacts(VENDORS["cpu"]),))
    machines = {"here": TargetMachine(lambda: cpu, live=True), "recorded": known()}
    results = {name: lint.lint(raw, machine, "npu", others=False) for name, machine in machines.items()}
    seen = {
        name: [each.seen for each in result.remarks if each.rule == "paths.missing"] for name, result in results.items()
    }

    assert seen == {
        "here": ["not looked up, for this machine has no npu, which the script is for: /data/a/train.py"],
        "recorded": ["not looked up, for that machine is not this one: /data/a/train.py"],
    }


def test_paths_here(tmp_path: Path) -> None:
    """On this machine paths are looked up: beside the script, in the folder that it enters, and by themselves."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()
    machine = TargetMachine(lambda: Facts(), live=True, folder=tmp_path)

    assert found("torchrun src/train.py", machine, "paths.missing") == []
    assert found("cd src\ntorchrun train.py", machine, "paths.missing") == []
    assert found(f"torchrun {tmp_path}/src/train.py", machine, "paths.missing") == []
    assert found("torchrun train.py", machine, "paths.missing") == [Status.WARN]
    assert found("[ -e train.py ] || exit 1\ntorchrun train.py", machine, "paths.missing") == []
    assert found("cd $SOMEWHERE\ntorchrun train.py", machine, "paths.missing") == []


def test_mounted_of_this_machine(tmp_path: Path) -> None:
    """A mount of a folder that is there is silent; what the engine would make is told."""
    machine = TargetMachine(lambda: Facts(), live=True)
    run = "docker run --rm -v {}:/x a.example/b:1"

    assert found(run.format(tmp_path), machine, "container.mount_source") == []
    assert found(run.format(tmp_path / "gone"), machine, "container.mount_source") == [Status.WARN]
    assert found(run.format("/usr/gone"), machine, "container.mount_source") == [FAIL]


def test_room_for_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole large model's checkpoints fail where the disk of its cards' machine has no room, and are silent else."""
    whole = (
        "paddleformers-cli train --model_name_or_path baidu/ERNIE-4.5-300B-A47B-Paddle --device npu --output_dir a/b"
    )
    told = Facts(vendors=(VendorFacts(VENDORS["npu"]),))
    found_by_free = {}
    for free in (1 << 30, 1 << 50):
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        found_by_free[free] = found(whole, TargetMachine(lambda: told, live=True, folder=tmp_path), "training.disk")

    assert list(found_by_free.values()) == [[FAIL], []]
    assert found(whole, TargetMachine(lambda: told), "training.disk") == [UNKNOWN]
    assert found(f"{whole} --lora true", TargetMachine(lambda: told), "training.disk") == []


def test_pins_against_the_machine() -> None:
    """A pinned package fails where the machine's processor has no wheel of it, and is silent where it is not known."""
    text = "pip install paddlepaddle-gpu==3.1.0"
    severities = [found(text, gpus(each), "packages.together", "nvidia") for each in ("aarch64", "x86_64", None)]

    assert severities == [[FAIL], [], []]


def test_nothing_is_asked_without_need() -> None:
    """A script whose rules need no facts asks the machine nothing."""
    asked: list[bool] = []

    def gather() -> Facts:
        asked.append(True)
        return Facts()

    found("echo hello\nsteps = 5", TargetMachine(gather), "shell.spaced_assignment")

    assert asked == []


@pytest.mark.parametrize("package", ["paddlepaddle-gpu==3.1.0", "torch==2.5.1+cu121"])
def test_builds_for_other_cards(package: str) -> None:
    """A build for NVIDIA's cards, on a machine of NPUs: told once, with what there is in its place."""
    with simulated("atlas-800t-a2") as answers:
        machine = TargetMachine(lambda: facts.gather(answers), live=True)
        raw = f"#!/bin/bash\npip install {package}\n".encode()
        result = lint.lint(source.of("run.sh", raw), machine, others=False)

    assert [each.rule for each in result.remarks] == ["packages.gpu_list"]


def test_a_file_beside_that_is_sourced(tmp_path: Path) -> None:
    """By its path from this folder: told where it is not there, and nothing makes or tests it."""
    machine = TargetMachine(lambda: Facts(), live=True, folder=tmp_path)
    (tmp_path / "there.sh").touch()
    quiet = ("./there.sh", "~/.profile-of-nobody", "env.sh", "./made.sh")

    assert found("source ./env.sh", machine, "paths.sourced") == [Status.WARN]
    for name in quiet:
        assert found(f"touch ./made.sh\necho a > ./made.sh\nsource {name}", machine, "paths.sourced") == [], name
