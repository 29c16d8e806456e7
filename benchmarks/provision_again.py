"""A complete provisioning in a container, and the second run of it, which finds nothing to do (goal: one second).

    sudo python -m benchmarks.provision_again

On an engine, a registry and a package index of its own (tests/installers/images/engine_parts.py);
seconds, the best and the median of nine second runs, beside a bare `docker exec NAME true`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.installers.images import image_parts
from tests.installers.images.engine_parts import start_engine, start_registry
from tests.installers.provision_helpers import serve_index, write_wheel
from tests.installers.test_container_provision import ContainerCommand

RUNS = 9


def timed(argv: list[str], env: dict[str, str], folder: Path) -> float:
    began = time.perf_counter()
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return time.perf_counter() - began


def main() -> None:
    with start_engine() as engine, start_registry() as registry, tempfile.TemporaryDirectory() as scratch:
        image = f"{registry.address}/envcheck/python:debian12"
        image_parts.push_image(image, [image_parts.load_debian()], config=image_parts.PYTHON_CONFIG)
        folder = Path(scratch) / "again"
        folder.mkdir()
        for name, version in (("first", "1.0"), ("second", "2.1")):
            write_wheel(folder / "index", name, version)
        with serve_index(folder / "index") as served:
            box = ContainerCommand(engine, image, served.base_url, folder)
            env = {key: value for key, value in box.child_variables.items() if key != "PYTHONDONTWRITEBYTECODE"}
            print(f"first run   {timed(box.make_argv('--yes'), env, folder):6.2f} s")
            again = [timed(box.make_argv("--yes"), env, folder) for _ in range(RUNS)]
            bare = [timed(["docker", "exec", box.name, "true"], env, folder) for _ in range(RUNS)]
            engine.run_docker("rm", "-f", box.name)
    for words, found in (("second run", again), ("docker exec", bare)):
        print(f"{words:11} {min(found):6.2f} s best, {statistics.median(found):.2f} s median")


if __name__ == "__main__":
    main()
