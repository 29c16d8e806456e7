"""Rules that need a machine's facts: the right machine, the wrong one, and none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from envcheck.collect import facts
from envcheck.core.facts import Facts, Interface, Network, Packages, SystemFacts, VendorFacts
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.model import Device, Status, Topology
from envcheck.lint import linter
from envcheck.scripts import source_file
from envcheck.vendors import VENDORS
from tests.envcheck.checks.doctor_helpers import simulate_machine

FAIL, UNKNOWN, WARN = Status.FAIL, Status.UNKNOWN, Status.WARN
PADDLE = "python -m paddle.distributed.launch --npus 0,1,2,3,4,5,6,7 "


def list_severities(text: str, machine: TargetMachine | None, rule: str, device: str = "auto") -> list[Status]:
    raw = f"#!/bin/bash\n{text}\n".encode()
    result = linter.lint_source(source_file.make_source("run.sh", raw), machine, device, others=False)
    return [remark.severity for remark in result.remarks if remark.rule == rule]


def make_npu_machine(**more: object) -> TargetMachine:
    """An NPU machine of which just this is known."""
    told = Facts(vendors=(VendorFacts(VENDORS["npu"]),), **more)  # type: ignore[arg-type]
    return TargetMachine(lambda: told)


def make_gpu_machine(architecture: str | None) -> TargetMachine:
    return TargetMachine(
        lambda: Facts(vendors=(VendorFacts(VENDORS["nvidia"]),), host=SystemFacts(architecture=architecture))
    )


CARDS = f"{PADDLE} train.py --device npu"


@pytest.mark.parametrize(
    ("machine", "severities"),
    [("atlas-800t-a2", []), ("atlas-200t-a2-box16", []), ("h200x8", []), ("cpu", [])],
)
def test_eight_cards(machine: str, severities: list[Status]) -> None:
    """With eight or more devices there is no remark, nor for another vendor."""
    with simulate_machine(machine) as answers:
        there = facts.gather_facts(answers, "auto")

    assert list_severities(CARDS, TargetMachine(lambda: there), "launch.cards") == severities


@pytest.mark.parametrize(
    ("name", "severities"),
    [("910B3", [FAIL]), ("Ascend910", [FAIL]), ("910A", []), ("910B", [Status.WARN])],
)
def test_a_range_that_depends_on_the_device(name: str, severities: list[Status]) -> None:
    """HCCL_RDMA_TIMEOUT goes to 20 on Atlas A2 and A3, to 24 on older ones; where that is unknown it is a warning."""
    vendor = VendorFacts(VENDORS["npu"], devices=(Device(0, name=name),))
    machine = TargetMachine(lambda: Facts(vendors=(vendor,)))

    assert list_severities("export HCCL_RDMA_TIMEOUT=22", machine, "variables.range") == severities
    assert list_severities("export HCCL_RDMA_TIMEOUT=20", machine, "variables.range") == []


def test_too_many_cards() -> None:
    """A list of devices that goes beyond those of the machine fails."""
    with simulate_machine("atlas-800t-a2") as answers:
        there = facts.gather_facts(answers, "auto")
    wanted = CARDS.replace("6,7", "6,7,8,9,10,11,12,13,14,15")

    assert list_severities(wanted, TargetMachine(lambda: there), "launch.cards") == [FAIL]


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
    """A start on another machine is not compared with this one's devices."""
    with simulate_machine("atlas-800t-a2") as answers:
        there = facts.gather_facts(answers, "auto")

    assert list_severities(text, TargetMachine(lambda: there), "launch.cards") == [severity]


EITHER = """if command -v npu-smi; then
  CARDS=$(npu-smi info -l | grep -c NPU)
else
  CARDS=$(nvidia-smi -L | wc -l)
fi
torchrun --standalone --nproc_per_node="$CARDS" train.py"""


@pytest.mark.parametrize(("vendor", "expected"), [("npu", [Status.OK]), ("nvidia", []), ("iluvatar", [Status.OK])])
def test_script_for_several_vendors(vendor: str, expected: list[Status]) -> None:
    """Where it names the cards of several vendors it is read for those that the machine has, if it has one's."""
    machine = TargetMachine(lambda: Facts(vendors=(VendorFacts(VENDORS[vendor]),)))

    assert list_severities(EITHER, machine, "variables.set_env") == expected


NAMELESS = "torchrun --nproc_per_node 9 train.py --optim adamw_bnb_8bit --output_dir out"


@pytest.mark.parametrize(
    ("vendors", "expected"),
    [(("npu",), [FAIL]), (("nvidia",), []), (("npu", "nvidia"), []), ((), [])],
)
def test_a_training_that_names_no_cards(vendors: tuple[str, ...], expected: list[Status]) -> None:
    """It is judged for the cards that the machine has, where all are of one vendor."""
    machine = TargetMachine(lambda: Facts(vendors=tuple(VendorFacts(VENDORS[name]) for name in vendors)))

    assert list_severities(NAMELESS, machine, "training.optimiser") == expected


def test_too_many_processes_of_a_training_that_names_no_cards() -> None:
    """Nine processes on eight devices fail, even if the script does not name the vendor."""
    with simulate_machine("h200x8") as answers:
        there = facts.gather_facts(answers, "auto")

    assert list_severities(NAMELESS, TargetMachine(lambda: there), "launch.cards") == [FAIL]


def test_device_of_another_machine() -> None:
    """--device npu on an NVIDIA machine fails; without facts there is no remark."""
    with simulate_machine("h200x8") as answers:
        there = facts.gather_facts(answers, "auto")

    assert list_severities("python train.py --device npu --lr 1", TargetMachine(lambda: there), "launch.device") == [
        FAIL
    ]
    assert list_severities("python train.py --device npu --lr 1", None, "launch.device") == []


ARCHITECTURES = (("x86_64", []), ("aarch64", [FAIL]), (None, [UNKNOWN]))


@pytest.mark.parametrize(("architecture", "severities"), ARCHITECTURES)
def test_image_for_a_processor(architecture: str | None, severities: list[Status]) -> None:
    """An x86_64 image is right there, wrong on ARM, and unknown without the architecture."""
    machine = make_npu_machine(host=SystemFacts(architecture=architecture))

    assert list_severities("docker pull a.example/npu:8.0-x86_64", machine, "container.architecture") == severities


INTERFACES = (
    ("eth0", []),
    ("eth", []),
    ("=eth0", []),
    ("bond0", [FAIL]),
    ("^docker0", []),
    ("eth0,", []),
    ("your_if", [FAIL]),
    ("xxx", [FAIL]),
    ("'a b,bond0'", [FAIL, WARN]),
)


@pytest.mark.parametrize(("value", "severities"), INTERFACES)
def test_interfaces(value: str, severities: list[Status]) -> None:
    """Interfaces are looked up as the collectives do: by prefix, exactly behind =, not at all behind ^."""
    machine = make_npu_machine(network=Network(interfaces={"eth0": Interface(("10.0.0.5/24",)), "lo": Interface()}))

    assert list_severities(f"export HCCL_SOCKET_IFNAME={value}", machine, "variables.interface") == severities


MASTERS = (
    ("10.0.0.5:99 --nnodes 2 --rank 0", []),
    ("10.0.0.6:99 --nnodes 2 --rank 0", [UNKNOWN]),
    ("10.0.0.6:99", [FAIL]),
)


@pytest.mark.parametrize(("master", "severities"), MASTERS)
def test_master_of_this_machine(master: str, severities: list[Status]) -> None:
    """The first node's own address is right; another fails for one node and is unknown for two."""
    machine = make_npu_machine(network=Network(interfaces={"eth0": Interface(("10.0.0.5",))}))
    where = master.partition(" ")
    text = f"{PADDLE} --master {where[0]} {where[2]} train.py"

    assert list_severities(text, machine, "launch.master_elsewhere") == severities


VERSIONS = (("0.3.1", []), ("1.2.0", [FAIL]))


@pytest.mark.parametrize(("version", "severities"), VERSIONS)
def test_options_of_the_installed_version(version: str, severities: list[Status]) -> None:
    """Names of options that a later PaddleFormers renamed fail where the later one is installed."""
    machine = make_npu_machine(packages=Packages(packages={"paddleformers": version}))
    text = f"{PADDLE} examples/post-training/sft/train.py --tensor_parallel_degree 8"

    assert list_severities(text, machine, "options.other_version") == severities


def test_backend_by_version() -> None:
    """Without PADDLE_XCCL_BACKEND: Paddle 3.1 fails, 3.3 does not need it."""
    old, new = (make_npu_machine(packages=Packages(packages={"paddlepaddle": v})) for v in ("3.1.0", "3.3.1"))

    assert list_severities(CARDS, old, "variables.backend") == [FAIL]
    assert list_severities(CARDS, new, "variables.backend") == []


def test_paths_of_another_machine() -> None:
    """Paths of another machine are unknown, with one remark for all."""
    machine = make_npu_machine()
    text = f"{PADDLE} /data/a/train.py --train_dataset_path /data/b.jsonl"

    assert list_severities(text, machine, "paths.missing") == [UNKNOWN]


def test_why_nothing_was_looked_up() -> None:
    """A machine without the script's cards is called that; only one that was recorded is called another."""
    text = f"{PADDLE} /data/a/train.py"
    raw = source_file.make_source("run.sh", f"#!/bin/bash\n{text}\n".encode())
    cpu = Facts(vendors=(VendorFacts(VENDORS["cpu"]),))
    machines = {"here": TargetMachine(lambda: cpu, live=True), "recorded": make_npu_machine()}
    results = {name: linter.lint_source(raw, machine, "npu", others=False) for name, machine in machines.items()}
    seen = {
        name: [each.seen for each in result.remarks if each.rule == "paths.missing"] for name, result in results.items()
    }

    assert seen == {
        "here": ["cannot check /data/a/train.py: the script is for npu, and this host has no such device"],
        "recorded": ["cannot check /data/a/train.py: the target is another host"],
    }


def test_paths_here(tmp_path: Path) -> None:
    """Paths are checked relative to the script, to the folder that it enters, and as absolute paths."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()
    machine = TargetMachine(lambda: Facts(), live=True, folder=tmp_path)

    assert list_severities("torchrun src/train.py", machine, "paths.missing") == []
    assert list_severities("cd src\ntorchrun train.py", machine, "paths.missing") == []
    assert list_severities(f"torchrun {tmp_path}/src/train.py", machine, "paths.missing") == []
    assert list_severities("torchrun train.py", machine, "paths.missing") == [Status.WARN]
    assert list_severities("[ -e train.py ] || exit 1\ntorchrun train.py", machine, "paths.missing") == []
    assert list_severities("cd $SOMEWHERE\ntorchrun train.py", machine, "paths.missing") == []


def test_mounted_of_this_machine(tmp_path: Path) -> None:
    """An existing mount source gets no remark; one that the engine would create does."""
    machine = TargetMachine(lambda: Facts(), live=True)
    run = "docker run --rm -v {}:/x a.example/b:1"

    assert list_severities(run.format(tmp_path), machine, "container.mount_source") == []
    assert list_severities(run.format(tmp_path / "gone"), machine, "container.mount_source") == [Status.WARN]
    assert list_severities(run.format("/usr/gone"), machine, "container.mount_source") == [FAIL]


def test_room_for_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole large model's checkpoints fail where the disk of its cards' machine has no room, and are silent else."""
    whole = (
        "paddleformers-cli train --model_name_or_path baidu/ERNIE-4.5-300B-A47B-Paddle --device npu --output_dir a/b"
    )
    told = Facts(vendors=(VendorFacts(VENDORS["npu"]),))
    found_by_free = {}
    for free in (1 << 30, 1 << 50):
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        found_by_free[free] = list_severities(
            whole, TargetMachine(lambda: told, live=True, folder=tmp_path), "training.disk"
        )

    assert list(found_by_free.values()) == [[FAIL], []]
    assert list_severities(whole, TargetMachine(lambda: told), "training.disk") == [UNKNOWN]
    assert list_severities(f"{whole} --lora true", TargetMachine(lambda: told), "training.disk") == []


def test_pins_against_the_machine() -> None:
    """A pinned package fails where the machine's processor has no wheel of it, and is silent where it is not known."""
    text = "pip install paddlepaddle-gpu==3.1.0"
    severities = [
        list_severities(text, make_gpu_machine(each), "packages.together", "nvidia")
        for each in ("aarch64", "x86_64", None)
    ]

    assert severities == [[FAIL], [], []]


def test_nothing_is_asked_without_need() -> None:
    """A script whose rules need no facts asks the machine nothing."""
    asked: list[bool] = []

    def gather() -> Facts:
        asked.append(True)
        return Facts()

    list_severities("echo hello\nsteps = 5", TargetMachine(gather), "shell.spaced_assignment")

    assert asked == []


@pytest.mark.parametrize("package", ["paddlepaddle-gpu==3.1.0", "torch==2.5.1+cu121"])
def test_builds_for_other_cards(package: str) -> None:
    """A build for NVIDIA on an NPU machine is reported once, with its replacement."""
    with simulate_machine("atlas-800t-a2") as answers:
        machine = TargetMachine(lambda: facts.gather_facts(answers), live=True)
        raw = f"#!/bin/bash\npip install {package}\n".encode()
        result = linter.lint_source(source_file.make_source("run.sh", raw), machine, others=False)

    assert [each.rule for each in result.remarks] == ["packages.gpu_list"]


def test_a_file_beside_that_is_sourced(tmp_path: Path) -> None:
    """A relative sourced file is reported if it is missing and the script neither creates nor tests it."""
    machine = TargetMachine(lambda: Facts(), live=True, folder=tmp_path)
    (tmp_path / "there.sh").touch()
    quiet = ("./there.sh", "~/.profile-of-nobody", "env.sh", "./made.sh")

    assert list_severities("source ./env.sh", machine, "paths.sourced") == [Status.WARN]
    assert list_severities("source ./env.sh", machine, "paths.sourced", "npu") == [Status.UNKNOWN]
    assert list_severities("source ./there.sh; . /opt/env.sh", machine, "paths.sourced", "npu") == []
    for name in quiet:
        assert list_severities(f"touch ./made.sh\necho a > ./made.sh\nsource {name}", machine, "paths.sourced") == [], (
            name
        )


def make_xpu_machine(devices: tuple[Device, ...] = (), topology: Topology | None = None) -> TargetMachine:
    """A machine with Kunlunxin cards, of which just this is known, and with the interfaces eth0 and eth1."""
    told = Facts(
        vendors=(VendorFacts(VENDORS["xpu"], devices=devices, topology=topology),),
        network=Network(interfaces={"eth0": Interface(), "eth1": Interface()}),
    )
    return TargetMachine(lambda: told)


NICS = (("eth0,eth0,eth1,eth1", []), ("eth0,eth0,eth2,eth2", [FAIL]), ("eth", [FAIL]))


@pytest.mark.parametrize(("value", "severities"), NICS)
def test_interface_of_each_card(value: str, severities: list[Status]) -> None:
    """Of a list with an interface for each card, every name must exist, in full."""
    text = f"export BKCL_RDMA_NICS={value}\npython -m paddle.distributed.launch train.py --device xpu"

    assert list_severities(text, make_xpu_machine(), "variables.interface") == severities


@pytest.mark.parametrize(
    "command",
    [
        "pip install paddlepaddle-xpu -i https://www.paddlepaddle.org.cn/packages/stable/xpu-p800/",
        "pip install paddlepaddle==3.1.0a0 -i https://www.paddlepaddle.org.cn/packages/stable/cpu/",
        "pip install paddle-iluvatar-gpu==3.1.1 -i https://www.paddlepaddle.org.cn/packages/stable/ixuca/",
        "pip install paddlepaddle-gpu==3.2.0 -i https://www.paddlepaddle.org.cn/packages/stable/cu126/",
    ],
)
def test_commands_that_envcheck_suggests(command: str) -> None:
    """The commands of solve and explain for paddle get no remark about the index."""
    assert list_severities(command, None, "packages.index") == []


def test_linked_cards_of_the_machine() -> None:
    """Cards that the machine shows as linked are right, whatever their numbers."""
    names = tuple(f"XPU{n}" for n in range(8))
    full = Topology(names, matrix={a: dict.fromkeys(names, "XL") for a in names})
    text = "python -m paddle.distributed.launch --xpus 2,3,4,5 train.py --device xpu"

    assert list_severities(text, make_xpu_machine(topology=full), "training.linked_cards") == []
    assert list_severities(text, make_xpu_machine(topology=Topology(names)), "training.linked_cards") == [FAIL]


INDEXES = (("R200", "xpu", []), ("R200", "xpu-p800", [Status.WARN]), ("P800 OAM", "xpu-p800", []))


@pytest.mark.parametrize(("card", "index", "severities"), INDEXES)
def test_index_of_the_cards(card: str, index: str, severities: list[Status]) -> None:
    """The index of the wheel is that of the machine's generation of cards."""
    text = f"pip install paddlepaddle-xpu -i https://www.paddlepaddle.org.cn/packages/stable/{index}/"
    machine = make_xpu_machine(devices=(Device(0, name=card),))

    assert list_severities(text, machine, "packages.xpu_index") == severities


FACTORY = "model_name_or_path: a/b\nstage: sft\nfinetuning_type: lora\ntemplate: qwen\ndataset: x\n"
SWIFT = "model: a/b\ntrain_type: lora\nsplit_dataset_ratio: 0\ndataset: [x/y]\n"


@pytest.mark.parametrize(
    ("text", "command"), [(FACTORY, "llamafactory-cli train"), (SWIFT, "swift sft --config")], ids=("factory", "swift")
)
@pytest.mark.parametrize(
    ("named", "severities"),
    [("conf/absent.json", [Status.WARN]), ("conf/ds.json", []), ("absent.json", [Status.WARN]), ("zero3", [])],
)
def test_deepspeed_file_of_a_configuration(
    text: str, command: str, named: str, severities: list[Status], tmp_path: Path
) -> None:
    """A missing DeepSpeed file is reported for a configuration and for a script that uses it; a preset is no file."""
    for folder in ("conf", "examples/lora"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "conf" / "ds.json").write_text("{}")
    (tmp_path / "examples" / "lora" / "a.yaml").write_text(f"{text}deepspeed: {named}\n")
    inside = TargetMachine(live=True, folder=tmp_path / "examples" / "lora", gather=lambda: Facts())
    above = TargetMachine(live=True, folder=tmp_path, gather=lambda: Facts())
    raw = (tmp_path / "examples" / "lora" / "a.yaml").read_bytes()
    alone = linter.lint_source(source_file.make_source("a.yaml", raw), inside, others=False)

    assert [each.severity for each in alone.remarks if each.rule == "paths.missing"] == severities
    assert list_severities(f"{command} examples/lora/a.yaml", above, "paths.missing") == severities
