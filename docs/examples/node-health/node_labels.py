"""Labels of a node for node-feature-discovery, from the JSON document and the metrics of `envcheck doctor`.

python3 node_labels.py DOCTOR.json METRICS.prom    prints lines NAME=VALUE
python3 node_labels.py --worst DOCTOR.json         prints the worst finding in one line
"""

import json
import re
import sys
from pathlib import Path

ORDER = ("FAIL", "UNKNOWN", "WARN")
VERSIONS = {"driver-version": "driver.version", "toolkit-version": "toolkit.version"}
HEALTH = {0: "ready", 1: "failed", 3: "unknown"}


def make_value(text):
    """Return a text as the value of a label: at most 63 letters, digits, dots, hyphens and underscores."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:63].strip("-._")


def list_labels(document, metrics):
    """Yield (name, value) for the health, the versions, and the model and number of cards."""
    yield "envcheck.health", HEALTH.get(document.get("exit_code"), "unknown")
    seen = {finding["name"]: finding["seen"] for finding in document.get("findings", ()) if finding["status"] != "FAIL"}
    for name, check in VERSIONS.items():
        version = re.search(r"\d[\w.]*", seen.get(check, ""))
        if version:
            yield "envcheck." + name, make_value(version.group())
    models = re.findall(r'^envcheck_device_info\{[^\n]*?\bname="([^"\n]*)"', metrics, re.MULTILINE)
    if models:
        yield "envcheck.card-model", make_value(max(set(models), key=models.count))
        yield "envcheck.card-count", str(len(models))


def find_worst(document):
    """Return the first finding of the worst status as one line."""
    for status in ORDER:
        for finding in document.get("findings", ()):
            if finding["status"] == status and not finding.get("waived"):
                return " ".join(f"{finding['name']}: {finding['seen']}".split())
    return "envcheck doctor found no failure"


def main(argv):
    is_worst = argv[0] == "--worst"
    document = json.loads(Path(argv[1 if is_worst else 0]).read_text(encoding="utf-8"))
    if is_worst:
        print(find_worst(document))
        return
    metrics = Path(argv[1]).read_text(encoding="utf-8")
    for name, value in list_labels(document, metrics):
        print(f"{name}={value}")


if __name__ == "__main__":
    main(sys.argv[1:])
