"""docs/how-to/air-gapped.md, followed literally: made with this Python, installed without network with another one."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installers.provision_helpers import PADDLE, ROOT, serve_index, write_wheel
from tests.installers.test_provision_offline import NETLESS, require_network_namespaces
from tests.installers.test_provision_python import find_other_python

pytestmark = pytest.mark.extended
ENDS = {"doctor": " || test $? = 1 -o $? = 3", "train": " --dry-run --yes || test $? = 1"}
PAGE = ROOT / "docs" / "how-to" / "air-gapped.md"


def read_commands(heading: str) -> list[str]:
    """Return the commands below a heading of the page, without comments."""
    section = PAGE.read_text().split(f"\n## {heading}", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.S)
    return [line.partition("   #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


def write_tools(folder: Path, other: str) -> dict[str, str]:
    """Put `envcheck` and another `python3` on the PATHs of the two machines; return the PATHs."""
    for name, program in (("here/envcheck", f"{sys.executable} -m envcheck"), ("there/python3", other)):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        path.chmod(0o755)
    return {name: f"{folder / name}:/usr/bin:/bin" for name in ("here", "there")}


def run_line(line: str, folder: Path, env: dict[str, str], *before: str) -> None:
    done = subprocess.run(
        [*before, "bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True, timeout=300,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"


def test_the_page(tmp_path: Path) -> None:
    """Every command of the page works.  Paddle is a stand-in, so the training is only planned; the doctor may find
    faults of this machine; and a question is answered by --yes."""
    require_network_namespaces()
    minor, other = find_other_python()
    paths = write_tools(tmp_path, other)
    write_wheel(tmp_path / "index", "paddlepaddle", "3.1.0", PADDLE, needs="numpy")
    write_wheel(tmp_path / "index", "numpy", "1.26.4")
    home, config = tmp_path / "home", tmp_path / "home" / ".config" / "envcheck"
    (home / ".ssh").mkdir(parents=True)
    config.mkdir(parents=True)
    key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / ".ssh" / "id_ed25519")]
    subprocess.run(key, check=True)
    base = {"HOME": str(home), "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT), "PIP_RETRIES": "1", "PIP_NO_CACHE_DIR": "1"}
    with serve_index(tmp_path / "index") as index:
        (config / "envcheck.toml").write_text(f'[site]\nindex = "{index.base_url}"\n')
        for line in (*read_commands("1."), *read_commands("2.")):
            run_line(line.replace("--python 3.12", f"--python {minor}"), tmp_path, {**base, "PATH": paths["here"]})
    there = {"HOME": str(tmp_path / "other-home"), "LANG": "C.UTF-8", "PATH": paths["there"]}
    for line in read_commands("3."):
        words = shlex.split(line)
        more = {"doctor": " || test $? = 1 -o $? = 3", "train": " --dry-run --yes || test $? = 1"}.get(
            words[2], " --yes"
        )
        run_line(line + more, tmp_path, there, *NETLESS)
    assert (tmp_path / "tiny-cpu.tar.sig").exists()
