"""A real rootless Docker: what it cannot give a container is in the plan, before anything is pulled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installers.containers.container_helpers import render_recipe
from tests.installers.containers.user_parts import make_user
from tests.installers.images.engine_parts import make_scratch, require_engine
from tests.installers.provision_helpers import wait_until

pytestmark = pytest.mark.extended
ROOT = Path(__file__).parents[3]
OPTIONS = 'pid = "host"\nulimits = { memlock = "-1" }\nports = ["127.0.0.1:80:80"]\n'
# As dockerd-rootless.sh does: /run of the user's name space, without the links to the system's own folders.
START = 'rm -f /run/docker /run/containerd /run/xtables.lock; exec dockerd "$@"'


def test_missing_features_are_obstacles_before_the_pull(tmp_path: Path) -> None:
    """The plan names engine and feature for each, and what helps; the registry of the image does not even exist."""
    require_engine()
    for program in ("rootlesskit", "newuidmap"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed: tests/system-packages.sh")
    (tmp_path / "recipes").mkdir()
    text = render_recipe("boxed", "127.0.0.1:9/none:1", "envcheck-rootless-test", "/work", "pass", OPTIONS)
    (tmp_path / "recipes" / "boxed.toml").write_text(text)
    with make_user() as user, make_scratch() as folder:
        (own := folder / "u").mkdir(mode=0o700)
        os.chown(own, user.pw_uid, user.pw_gid)
        words = ["--rootless", "--data-root", f"{own}/data", "--exec-root", f"{own}/run", "--pidfile", f"{own}/pid"]
        words += ["-H", f"unix://{own}/s", "--storage-driver", "vfs", "--bridge=none", "--ip-forward=false"]
        words += ["--iptables=false", "--ip6tables=false", "--exec-opt", "native.cgroupdriver=cgroupfs"]
        argv = ["rootlesskit", f"--state-dir={own}/kit", "--net=host", "--copy-up=/etc", "--copy-up=/run"]
        argv += ["--propagation=rslave", "sh", "-c", START, "sh", *words]
        env = {"HOME": user.pw_dir, "XDG_RUNTIME_DIR": str(own), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        with (folder / "log").open("wb") as log:
            daemon = subprocess.Popen(
                argv, cwd=own, env=env, user=user.pw_uid, group=user.pw_gid, extra_groups=[],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
            try:
                wait_until((own / "s").exists, 60)
                planned = subprocess.run(
                    [sys.executable, "-m", "envcheck", "provision", "--recipe", "boxed", "--dry-run",
                     "--recipes", str(tmp_path / "recipes")],
                    cwd=tmp_path, capture_output=True, text=True, timeout=120,
                    env={**os.environ, "DOCKER_HOST": f"unix://{own}/s", "ENVCHECK_HOME": str(tmp_path / "home"),
                         "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
                )  # fmt: skip
            finally:
                daemon.terminate()
                daemon.wait()

    assert planned.returncode == 1, planned.stderr
    for feature in ("the host's network", "unlimited locked memory"):
        assert f"rootless Docker cannot give a container {feature}" in planned.stdout, planned.stdout
    assert "use the engine of the system: unset DOCKER_HOST" in planned.stdout
