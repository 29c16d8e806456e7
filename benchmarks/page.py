"""What the page of `envcheck doctor` costs: its size, the time to write it, and the time until a browser has drawn it.

python -m benchmarks.page [MACHINE [FAULT...]]

Sixteen cards with faults where nothing is said.  A real, headless Chromium draws it, each time with a new profile; the
medians of RUNS starts.  Targets: under 300 kB, drawn in under 1 s.
"""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

from tabulate import tabulate

from envcheck import checks
from envcheck.collect import facts
from envcheck.report import formats
from tests.envcheck.checks.doctor_helpers import simulate_machine
from tests.envcheck.report import browser
from tests.envcheck.report.report_helpers import make_machine_report

RUNS = 5
BOX = ("atlas-200t-a2-box16", "health-alarm=3", "memory-held", "hot=93", "shm-small", "topology-degraded")
# Asked for its height, the browser lays the page out; the clock begins with the navigation.
CLOCK = """<script>addEventListener('load',function(){document.body.getBoundingClientRect();
document.title='ready at '+performance.now()})</script>"""


def ready_ms(page: Path) -> float:
    """Parsed, styled and laid out, by the browser's own clock."""
    policy = r'<meta http-equiv="Content-Security-Policy"[^>]*>'
    copy = page.with_name("timed.html")
    copy.write_text(re.sub(policy, lambda _: CLOCK, page.read_text("utf-8"), count=1), encoding="utf-8")
    done = browser.run_browser(copy, "--dump-dom")
    found = re.search(r"<title>ready at ([\d.]+)", done.stdout)
    if not found:
        raise SystemExit(f"the browser told no time:\n{done.stderr[-500:]}")
    return float(found[1])


def picture_ms(page: Path) -> float:
    """A whole start of the browser that takes a picture of the page."""
    began = time.perf_counter()
    browser.run_browser(page, "--window-size=1280,3000", f"--screenshot={page.with_name('page.png')}")
    return (time.perf_counter() - began) * 1000


def main() -> None:
    name, *wishes = sys.argv[1:] or BOX
    with simulate_machine(name, wishes) as machine:
        found = facts.gather_facts(machine)
    report = make_machine_report(checks.run_checks(found), found, made=datetime.now(timezone.utc))
    formats.render("html", report)  # jinja2's import and the templates' compilation are no part of the page
    began = time.process_time()
    text = formats.render("html", report)
    written_ms = (time.process_time() - began) * 1000
    with tempfile.TemporaryDirectory() as folder:
        page, empty = Path(folder) / "page.html", Path(folder) / "empty.html"
        page.write_text(text, encoding="utf-8")
        empty.write_text("<!doctype html><title>empty</title>", encoding="utf-8")
        ready = statistics.median(ready_ms(page) for _ in range(RUNS))
        pairs = [(picture_ms(page), picture_ms(empty)) for _ in range(RUNS)]
    drawn = statistics.median(full for full, _ in pairs) - statistics.median(bare for _, bare in pairs)
    rows = [
        ("size", f"{len(text.encode()) / 1000:.0f} kB", "under 300 kB"),
        ("written", f"{written_ms:.0f} ms of processor", ""),
        ("parsed and laid out", f"{ready:.0f} ms", ""),
        ("drawn: a picture of it, less one of an empty page", f"{drawn:.0f} ms", "under 1000 ms"),
    ]
    print(f"{name} {' '.join(wishes)}: {len(report.findings)} findings")
    print(tabulate(rows, headers=("", "median", "target")))


if __name__ == "__main__":
    main()
