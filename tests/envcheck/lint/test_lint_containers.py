"""envcheck lint on compose files and Dockerfiles: places, what is followed, and files that mean no good."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.cli.commands.lint import lint as command
from envcheck.core.facts import Facts
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.lint import fix, linter
from envcheck.lint.linter import LintResult
from envcheck.scripts import source_file

COMPOSE = """\
x-all: &all
  image: registry.example/npu:8.0
services:
  train:
    <<: *all
    command:
      - bash
      - -c
      - |
        set -o pipefail
        echo $$HOME; torchrun --nproc_per_nod 4 train.py
  other:
    <<: *all
    command: >
      torchrun
      --nproc_per_nod 4 train.py
  third:
    <<: *all
    command: ["torchrun", "--nproc_per_nod", "4", "train.py"]
"""
DOCKERFILE = """\
# syntax=docker/dockerfile:1
FROM registry.example/npu:8.0
ENV A="1 2" \\
    FLAGS_allocator_strategy_kind=x
RUN pip install rich \\
    # a comment between
    && chmod 777 /work
CMD ["bash", "-c", "torchrun --nproc_per_nod 4 train.py"]
"""
# Right ones: nothing is to be said of them.
QUIET = {
    "compose.yaml": """\
name: finetune
services:
  train:
    build:
      context: .
      args: {TAG: "8.0"}
    image: registry.example/train:1.2
    shm_size: 64gb
    ulimits: {memlock: -1}
    working_dir: /work
    env_file: .env
    environment:
      HCCL_CONNECT_TIMEOUT: 1200
      HF_TOKEN: ${HF_TOKEN}
      ASCEND_RT_VISIBLE_DEVICES: ${CARDS:-0,1}
    devices: [/dev/davinci0, /dev/davinci1, /dev/davinci_manager, /dev/devmm_svm, /dev/hisi_hdc]
    volumes:
      - /usr/local/Ascend/driver:/usr/local/Ascend/driver:ro
      - /usr/local/dcmi:/usr/local/dcmi
      - /etc/ascend_install.info:/etc/ascend_install.info
      - models:/models
    command: bash -lc 'torchrun --nproc_per_node 2 train.py --max_steps 100 --warmup_steps 5'
volumes: {models: {}}
""",
    "train.Dockerfile": """\
ARG CANN=8.0.0-910b-ubuntu22.04-py3.10
FROM registry.example/cann:${CANN} AS base
ARG http_proxy
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ENV PYTHONUNBUFFERED=1 HCCL_CONNECT_TIMEOUT=1200
COPY . /work
WORKDIR /work
RUN source /usr/local/Ascend/ascend-toolkit/set_env.sh \\
    && pip install --no-cache-dir torch==2.5.1 torch-npu==2.5.1 \\
    && echo "proxy: $http_proxy"

FROM base
ONBUILD RUN true
ENTRYPOINT ["/work/entry.sh"]
""",
}


def lint_text(name: str, text: str) -> LintResult:
    machine = TargetMachine(lambda: Facts(), live=True)
    return linter.lint_source(source_file.make_source(name, text.encode()), machine, others=False)


def list_places(name: str, text: str) -> list[tuple[str, int, int]]:
    result = lint_text(name, text)
    return [(remark.rule, *result.source.find_position(remark.start)) for remark in result.remarks]


def test_places_in_a_compose_file() -> None:
    """Remarks in literal, folded and list scalars have the right line and column, also after $$."""
    found = list_places("compose.yaml", COMPOSE)

    assert [each for each in found if each[0] == "launch.option"] == [
        ("launch.option", 11, 31),
        ("launch.option", 16, 7),
        ("launch.option", 19, 28),
    ]


def test_places_in_a_dockerfile() -> None:
    """Of a second ENV, behind a comment in the midst of a step, and in a list of words."""
    assert list_places("Dockerfile", DOCKERFILE) == [
        ("variables.unknown", 4, 5),
        ("shell.chmod_777", 7, 14),
        ("launch.option", 8, 30),
    ]


@pytest.mark.parametrize("name", QUIET)
def test_right_ones_are_left_alone(name: str) -> None:
    """A correct compose file and Dockerfile get only remarks that files cannot avoid."""
    found = [remark.rule for remark in lint_text(name, QUIET[name]).remarks]

    assert [rule for rule in found if rule not in ("container.mount_source",)] == []


@pytest.mark.parametrize("name", QUIET)
def test_they_are_known(name: str, tmp_path: Path) -> None:
    """The kind is detected by name, by content, or given by --kind."""
    (tmp_path / name).write_text(QUIET[name])
    (tmp_path / "unnamed").write_text(QUIET[name])
    for argv in ([str(tmp_path / name)], [str(tmp_path / "unnamed")]):
        done = CliRunner().invoke(command, [*argv, "--no-shellcheck", "--json"], standalone_mode=False)

        assert json.loads(done.stdout)["read"] > 0
        assert not [each for each in json.loads(done.stdout)["findings"] if each["severity"] == "FAIL"]


def test_fixes_keep_the_rest() -> None:
    """What --write-fixed mends in them is that word alone; where bytes were rewritten on the way, nothing is mended."""
    quoted = COMPOSE.replace('"--nproc_per_nod"', "'it''s', \"--nproc_per_nod\"")
    for name, text, count in (("compose.yaml", COMPOSE, 3), ("Dockerfile", DOCKERFILE, 1), ("a.yaml", quoted, 2)):
        raw, _ = fix.apply_fixes(lint_text(name, text))

        assert raw.decode() == text.replace("--nproc_per_nod ", "--nproc_per_node ", 2).replace(
            '"--nproc_per_nod"', '"--nproc_per_node"' if count == 3 else '"--nproc_per_nod"'
        )


HOSTILE = {
    "compose.yaml": (
        "services:\n  a: &a\n    <<: *a\n    image: x:1\n",
        "services:\n" + "".join(f"  s{n}:\n    image: x:1\n    command: {'a ' * 500}\n" for n in range(300)),
        "a0: &a0 {image: x:1}\n" + "".join(f"a{n + 1}: &a{n + 1} {{<<: [*a{n}, *a{n}, *a{n}]}}\n" for n in range(40))
        + "services:\n  a:\n    <<: *a40\n    image: x:1\n",
        "services:\n  a:\n    image: [x]\n    command: {a: b}\n    devices: {a: b}\n    deploy: 1\n",
        "services:\n  a:\n    image: x:1\n    command: !!python/object/apply:os.system [touch pwned]\n",
        "services: [a]\n",
        "a0: &a0 {image: x:1}\n"
        + "".join(f"a{n + 1}: &a{n + 1} {{<<: [{', '.join([f'*a{n}'] * 190)}]}}\n" for n in range(6))
        + "services:\n  a:\n    <<: *a6\n    image: x:1\n",
        "services:\n  a:\n    image: x:1\n    volumes: [1, {source: 1}, [a], ':', '::']\n    ports: [{target: 1}]\n",
    ),
    "Dockerfile": (
        "FROM\nFROM \nRUN\nENV\nARG\nCMD\n",
        "FROM a:1\n" + "RUN echo \\\n" * 5000,
        "FROM a:1\nRUN <<E\nnever ends\n",
        "FROM a:1\nCMD " + "[" * 50_000 + "\n",
        "FROM a:1\nENV =\nENV a\nENV a=\nARG =\nSHELL x\nSHELL [1]\n",
        "FROM a:1\n" + "".join(f"ENV A{n}=$A{n - 1}$A{n - 1}\n" for n in range(60)),
        "FROM ${A:-${B:-${C}}}\nFROM $(touch pwned)\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in HOSTILE for text in HOSTILE[name]])
def test_bounded(name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of anchors, thousands of steps and kinds that no key takes end soon, and run nothing."""
    monkeypatch.chdir(tmp_path)
    began = time.monotonic()
    lint_text(name, text)

    assert time.monotonic() - began < 60
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("node", "size"), [("/dev/xpu0", "128g"), ("/dev/davinci0", "64g"), ("/dev/other", None)])
def test_advised_shared_memory(node: str, size: str | None) -> None:
    """The size is that of the vendor's published set-ups, as doctor advises it."""
    found = lint_text("run.sh", f"#!/bin/bash\ndocker run --rm --device {node} a.example/b:1 true\n").remarks
    advised = [remark.remedy for remark in found if remark.rule == "container.shm"]

    assert advised == ([f"Add --shm-size {size} or --ipc host."] if size else [])


@pytest.mark.parametrize(("cards", "text"), [(1, "gets 1 device"), (2, "gets 2 devices")])
def test_number_of_devices(cards: int, text: str) -> None:
    """One device is named in the singular."""
    devices = " ".join(f"--device=/dev/davinci{n}" for n in range(cards))
    result = lint_text("run.sh", f"#!/bin/bash\ndocker run {devices} a/b:1 torchrun --nproc_per_node 4 train.py\n")

    assert any(str(remark.seen).endswith(text) for remark in result.remarks if remark.rule == "launch.processes")
