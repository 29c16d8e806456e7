"""docs/images/: screenshots of the HTML report by a headless Chromium, and the picture of a plan.

The Chinese one needs a font that has Chinese characters.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from envcheck.core import process

FAULTS = ("card-lost=3", "hot=101", "memory-held", "link-down=5")
FAULTY = ("atlas-800t-a2", *(word for fault in FAULTS for word in ("--fault", fault)))
REPORTS = {
    "report.png": ("en", FAULTY, "1280,1500"),
    "report-zh.png": ("zh", FAULTY, "1280,1500"),
    "report-topology.png": ("en", ("atlas-800t-a2", "--fault", "topology-degraded=5"), "1280,1720"),
}
PLAN = ("--model", "300b", "--method", "sft", "--device", "npu", "--cards", "96", "--memory-gib", "64", "--tp", "8")
CHROMIUM = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
DEADLINE_S = 120


def write(folder: Path) -> list[Path]:
    """Make all pictures; return their paths."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("pictures need a Chromium on PATH: apt-get install chromium")
    folder.mkdir(parents=True, exist_ok=True)
    for name, (lang, machine, size) in REPORTS.items():
        _report(folder / name, browser, lang, machine, size)
    _envcheck("en", "plan", *PLAN, "--pp", "12", "--offload", "optimizer", "-o", str(folder / "plan.png"))
    return [folder / name for name in (*REPORTS, "plan.png")]


def _report(picture: Path, browser: str, lang: str, machine: tuple[str, ...], size: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        page = Path(temporary) / "report.html"
        doctor = (sys.executable, "-m", "envcheck", "doctor", "--lang", lang, "-o", str(page))
        _envcheck(lang, "simulate", *machine, "--", *doctor)
        argv = [browser, *CHROMIUM, f"--user-data-dir={temporary}/profile", f"--window-size={size}"]
        process.run_command([*argv, f"--screenshot={picture}", page.as_uri()], timeout_s=DEADLINE_S)


def _envcheck(lang: str, *argv: str) -> None:
    env = {**os.environ, "ENVCHECK_LANG": lang}
    process.run_command([sys.executable, "-m", "envcheck", *argv], timeout_s=DEADLINE_S, env=env)
