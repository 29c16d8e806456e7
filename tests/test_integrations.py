"""integrations/: files for other programs name only what envcheck has, and their commands do what they promise."""

from __future__ import annotations

import configparser
import itertools
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import parser

from envcheck.report import formats
from launch.logs.training_step import TrainingStep
from launch.watching.metrics_file import MetricsFile
from tests.conftest import ROOT
from tests.envcheck.report.report_helpers import make_doctor_report

FOLDER = ROOT / "integrations"
ALERTS = FOLDER / "prometheus" / "envcheck-alerts.yml"
DASHBOARD = FOLDER / "grafana" / "envcheck-dashboard.json"
HOOKS = ROOT / ".pre-commit-hooks.yaml"
ENVCHECK = Path(sys.executable).parent / "envcheck"
# Labels that Prometheus adds to each series, and functions and words of its query language.
SCRAPE_LABELS = {"instance", "job"}
BROKEN = "rm -rf ${log_dir}\npaddleformers-cli train sft.yaml\n"
GOOD = "set -euo pipefail\necho ok\n"


@cache
def collect_metrics(folder: Path) -> Mapping[str, set[str]]:
    """All metrics that doctor and train export, each with the names of its labels."""
    path = folder / "run.prom"
    run = MetricsFile(path, {"run": "r", "recipe": "tiny-cpu"}, planned=9)
    run.add_step(TrainingStep(1.0, 1, 1.0, 1.0, 9, 1.0, 1.0, 1.0))
    run.write_state("running")
    text = formats.render("prometheus", make_doctor_report("h200x8", ("memory-held",))) + path.read_text()
    metrics: dict[str, set[str]] = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            metrics.setdefault(sample.name, set()).update(sample.labels)
    return metrics


def list_selectors(expression: str) -> Iterator[tuple[str, set[str]]]:
    """The metrics of a query, each with the labels of its selector."""
    for name, labels in re.findall(r"\b(envcheck_\w+)(?:\{([^}]*)\})?", expression):
        yield name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels))


def list_expressions() -> Iterator[tuple[str, str]]:
    """Name and query of each alert and each panel."""
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        yield from ((rule["alert"], rule["expr"]) for rule in group["rules"])
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel.get("targets", ()))


@pytest.mark.parametrize(("title", "expression"), list(list_expressions()), ids=lambda text: text.split("{")[0][:40])
def test_queries_name_exported_metrics(title: str, expression: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Alerts and panels use metrics and labels that envcheck exports."""
    metrics = collect_metrics(tmp_path_factory.getbasetemp())
    selectors = list(list_selectors(expression))

    assert selectors, title
    for name, labels in selectors:
        assert name in metrics, title
        assert labels <= metrics[name] | SCRAPE_LABELS, title


def test_alerts_explain_themselves() -> None:
    """Each alert has a severity, a summary with its machine, and a command to run, and a test in promtool's file."""
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    tests = yaml.safe_load(ALERTS.with_name("envcheck-alerts.test.yml").read_text())
    tested = {case["alertname"] for test in tests["tests"] for case in test["alert_rule_test"]}

    assert {rule["labels"]["severity"] for rule in rules} == {"critical", "warning"}
    assert all("{{ $labels.instance }}" in rule["annotations"]["summary"] for rule in rules)
    assert all(re.search(r"envcheck |systemctl ", rule["annotations"]["description"]) for rule in rules)
    assert tested == {rule["alert"] for rule in rules}


def test_dashboard_is_whole() -> None:
    """Panels have their own ids and places, and each uses the data source that its reader chooses."""
    board = json.loads(DASHBOARD.read_text())
    panels = board["panels"]
    variables = {variable["name"] for variable in board["templating"]["list"]}
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x, y in itertools.product(
            range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        )
    ]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(set(cells)) == len(cells) and max(x for x, _ in cells) == 23
    assert {p["datasource"]["uid"] for p in panels if p["type"] != "row"} == {"${datasource}"}
    assert set(re.findall(r"\$\{?(\w+)", DASHBOARD.read_text())) - {"__all"} == variables


@pytest.fixture
def runner(tmp_path: Path) -> dict[str, str]:
    """What a runner of GitHub gives its steps, with envcheck installed as the action does; tmp_path is the checkout."""
    programs = tmp_path / "runner" / "envcheck" / "bin"
    programs.mkdir(parents=True)
    (programs / "envcheck").symlink_to(ENVCHECK)
    (tmp_path / "bad.sh").write_text(BROKEN)
    (tmp_path / "good.sh").write_text(GOOD)
    files = {name: str(tmp_path / "runner" / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    return {**os.environ, "RUNNER_TEMP": str(tmp_path / "runner"), **files, "DEVICE": "npu", "STRICT": "false"}


def load_action() -> dict[str, Any]:
    return dict(yaml.safe_load((FOLDER / "github" / "action.yml").read_text()))


def run_action(runner: dict[str, str], folder: Path, *before: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the step as GitHub runs it."""
    (step,) = (step for step in load_action()["runs"]["steps"] if step.get("id") == "run")
    argv = [*before, "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(argv, env={**runner, **env}, cwd=folder, capture_output=True, text=True, timeout=120)


def test_action_passes_inputs_as_variables() -> None:
    """No input is pasted into a script; inputs and outputs that are used are declared."""
    action = load_action()
    text = (FOLDER / "github" / "action.yml").read_text()
    scripts = [step["run"] for step in action["runs"]["steps"] if "run" in step]
    outputs = {name for script in scripts for name in re.findall(r'echo "([\w-]+)=\$', script)}

    assert not any("${{" in script for script in scripts)
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(action["inputs"])
    assert set(re.findall(r"steps\.run\.outputs\.([\w-]+)", text)) == outputs == set(action["outputs"])
    assert (FOLDER / "github" / ".." / ".." / "setup.cfg").is_file(), "what the action installs"


@pytest.mark.slow
@pytest.mark.parametrize(("file", "code", "results"), [("bad.sh", 1, True), ("good.sh", 0, False)])
def test_action_lints(runner: dict[str, str], tmp_path: Path, file: str, code: int, results: bool) -> None:
    """The step prints the mistakes, and leaves SARIF and the exit code for the steps after it."""
    done = run_action(runner, tmp_path, COMMAND="lint", FILES=file)
    outputs = dict(line.split("=", 1) for line in Path(runner["GITHUB_OUTPUT"]).read_text().splitlines())

    assert (done.returncode, outputs["exit-code"]) == (code, str(code)), done.stderr
    assert bool(json.loads(Path(outputs["report"]).read_text())["runs"][0]["results"]) is results
    assert ("shell.remove" in done.stdout) is results


@pytest.mark.slow
def test_action_runs_no_file_name(runner: dict[str, str], tmp_path: Path) -> None:
    """A name with a command in it is a name, and an unknown command is refused."""
    done = run_action(runner, tmp_path, COMMAND="lint", FILES="$(touch${IFS}pwned);touch pwned")

    assert done.returncode == 2 and not (tmp_path / "pwned").exists(), done.stdout
    assert run_action(runner, tmp_path, COMMAND="train", FILES="").returncode == 2


@pytest.mark.slow
def test_action_checks_a_runner(runner: dict[str, str], tmp_path: Path) -> None:
    """The report is the summary of the job, and the verdict its result."""
    simulated = (str(ENVCHECK), "simulate", "atlas-800t-a2", "--fault", "link-down=3", "--")
    done = run_action(runner, tmp_path, *simulated, COMMAND="doctor", ENVCHECK_HOME=str(tmp_path / "home"))

    assert done.returncode == 1, done.stdout + done.stderr
    assert "Not ready to train" in Path(runner["GITHUB_STEP_SUMMARY"]).read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "env", "code", "report"),
    [
        (".envcheck-lint", {"ENVCHECK_FILES": "bad.sh"}, 1, "envcheck.sarif"),
        (".envcheck-lint", {"ENVCHECK_FILES": "good.sh"}, 0, "envcheck.sarif"),
        (".envcheck-doctor", {}, 0, "envcheck.xml"),
    ],
)
def test_gitlab_jobs(tmp_path: Path, job: str, env: dict[str, str], code: int, report: str) -> None:
    """The scripts of the template end with the exit code of envcheck and leave the report that the job keeps."""
    template = yaml.safe_load((FOLDER / "gitlab" / "envcheck.gitlab-ci.yml").read_text())
    (tmp_path / ".envcheck-venv" / "bin").mkdir(parents=True)
    (tmp_path / ".envcheck-venv" / "bin" / "envcheck").symlink_to(ENVCHECK)
    (tmp_path / "bad.sh").write_text(BROKEN)
    (tmp_path / "good.sh").write_text(GOOD)
    script = "set -eo pipefail\n" + "\n".join(template[job]["script"])
    variables = {**template["variables"], "ENVCHECK_DEVICE": "npu", **env}
    argv = [str(ENVCHECK), "simulate", "atlas-800t-a2", "--", "bash", "-c", script]
    done = subprocess.run(
        argv, cwd=tmp_path, env={**os.environ, **variables}, capture_output=True, text=True, timeout=120
    )

    assert done.returncode == code, done.stdout + done.stderr
    assert report in template[job]["artifacts"]["paths"] and (tmp_path / report).stat().st_size > 100


def test_gitlab_installs_no_name_of_a_public_index(tmp_path: Path) -> None:
    """What pip installs has no default; without it the job ends with one sentence, before pip is called."""
    template = yaml.safe_load((FOLDER / "gitlab" / "envcheck.gitlab-ci.yml").read_text())
    script = "set -eo pipefail\n" + "\n".join(template[".envcheck"]["before_script"])
    env = {"PATH": os.environ["PATH"], **template["variables"]}
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)

    assert (template["variables"]["ENVCHECK_PACKAGE"], done.returncode, [*tmp_path.iterdir()]) == ("", 2, [])
    assert re.fullmatch(r"envcheck: set ENVCHECK_PACKAGE to [^\n]+\n", done.stderr)


def load_hooks() -> dict[str, dict[str, Any]]:
    return {hook["id"]: hook for hook in yaml.safe_load(HOOKS.read_text())}


def test_hooks_take_training_files_only() -> None:
    """The hook of configurations takes what is named like one; the other takes shell scripts."""
    hooks = load_hooks()
    pattern = re.compile(hooks["envcheck-lint-config"]["files"])
    taken = ("sft.yaml", "conf/ernie_LoRA.yml", "ds_config.json", "a/train_21b.yaml", "zero2.json")
    passed = ("values.yaml", ".github/workflows/test.yml", "package.json", "train.py", "sft/readme.md")

    assert hooks["envcheck-lint"]["types"] == ["shell"]
    assert all(pattern.search(name) for name in taken)
    assert not any(pattern.search(name) for name in passed)


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["envcheck-lint", "envcheck-lint-config"])
@pytest.mark.parametrize(("file", "code"), [("bad.sh", 1), ("good.sh", 0)])
def test_hook_commands(tmp_path: Path, hook: str, file: str, code: int) -> None:
    """pre-commit appends the names of files to the command."""
    (tmp_path / "bad.sh").write_text(BROKEN)
    (tmp_path / "good.sh").write_text(GOOD)
    name, *words = load_hooks()[hook]["entry"].split()
    argv = [str(ENVCHECK.with_name(name)), *words, file]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    assert done.returncode == code, done.stdout + done.stderr


def load_unit(name: str) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # as configparser documents it: keep capitals
    unit.read(FOLDER / "systemd" / name)
    return unit


@pytest.mark.slow
def test_service_writes_metrics(tmp_path: Path) -> None:
    """The command of the service writes the file, with an exit code that the service expects."""
    service = load_unit("envcheck-doctor.service")["Service"]
    metrics = tmp_path / "envcheck.prom"
    words = service["ExecStart"].replace("$OPTIONS ", "").replace("${METRICS}", str(metrics)).split()
    argv = [str(ENVCHECK), "simulate", "h200x8", "--fault", "memory-held", "--", *words]
    env = {"PATH": f"{ENVCHECK.parent}:{os.defpath}", "ENVCHECK_HOME": str(tmp_path / "home")}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)

    assert done.returncode in (0, *map(int, service["SuccessExitStatus"].split())), done.stdout + done.stderr
    assert list(parser.text_string_to_metric_families(metrics.read_text()))
    assert load_unit("envcheck-doctor.timer")["Timer"].keys() >= {"OnBootSec", "OnUnitInactiveSec"}


def test_playbook_runs_the_doctor() -> None:
    """The play runs the single file, and takes the exit codes of a verdict for answers."""
    (play,) = yaml.safe_load((FOLDER / "ansible" / "doctor.yml").read_text())
    (check,) = (task for task in play["tasks"] if "ansible.builtin.command" in task)

    assert "'doctor'" in check["ansible.builtin.command"]["argv"]
    assert check["failed_when"] == "envcheck_doctor.rc not in [0, 1, 3]"
    assert play["vars"]["envcheck_folder"].startswith("~/"), "a folder that others could have made is run from"
    assert {v["mode"] for task in play["tasks"] for v in task.values() if isinstance(v, dict) and "mode" in v} == {
        "0700"
    }
    assert all(re.match(r"ansible\.builtin\.\w+$", next(k for k in task if "." in k)) for task in play["tasks"])


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs that read these files, from the package index."""
    folder = tmp_path_factory.mktemp("tools")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    wanted = ("check-jsonschema", "ansible-core", "pre-commit")
    subprocess.run([str(folder / "bin" / "pip"), "install", "-q", *wanted], check=True, timeout=600)
    return folder / "bin"


def run_tool(*words: str | Path, cwd: Path = FOLDER, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [str(word) for word in words]
    return subprocess.run(argv, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=600)


@pytest.mark.extended
def test_published_schemas(tools: Path) -> None:
    """Action and template match the schemas of GitHub and GitLab."""
    check = tools / "check-jsonschema"
    action = run_tool(check, "--builtin-schema", "vendor.github-actions", "github/action.yml")
    template = run_tool(
        check, "--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci", "gitlab/envcheck.gitlab-ci.yml"
    )

    assert (action.returncode, template.returncode) == (0, 0), action.stdout + template.stdout


@pytest.mark.extended
def test_playbook_on_this_machine(tools: Path, tmp_path: Path) -> None:
    """A machine that is not ready fails the play, and its report is fetched."""
    made = run_tool(ENVCHECK, "pyz", "-o", tmp_path / "envcheck.pyz")
    assert made.returncode == 0, made.stderr
    values = {
        "envcheck_pyz": str(tmp_path / "envcheck.pyz"), "envcheck_reports": str(tmp_path / "reports"),
        "envcheck_python": sys.executable, "ansible_python_interpreter": sys.executable,
    }  # fmt: skip
    play = (
        tools / "ansible-playbook",
        "-i",
        "localhost,",
        "-c",
        "local",
        "ansible/doctor.yml",
        "-e",
        json.dumps(values),
    )
    local: dict[str, Any] = {"ANSIBLE_HOME": str(tmp_path / "ansible"), "LC_ALL": "C.UTF-8", "HOME": str(tmp_path)}
    simulated = (ENVCHECK, "simulate", "atlas-800t-a2", "--fault", "link-down=3", "--")

    ready = run_tool(ENVCHECK, "simulate", "atlas-800t-a2", "--", *play, **local)
    broken = run_tool(*simulated, *play, **local)

    assert ready.returncode == 0, ready.stdout + ready.stderr
    assert broken.returncode == 2 and "not ready (exit code 1)" in broken.stdout, broken.stdout + broken.stderr
    assert "<html" in (tmp_path / "reports" / "localhost.html").read_text()
    assert stat.S_IMODE((tmp_path / ".cache" / "envcheck" / "ansible").stat().st_mode) == 0o700


@pytest.mark.extended
def test_hooks_in_pre_commit(tools: Path, tmp_path: Path) -> None:
    """pre-commit installs the hook from HEAD and runs it."""
    (tmp_path / "bad.sh").write_text(BROKEN)
    run_tool("git", "init", "-q", ".", cwd=tmp_path)
    run_tool("git", "add", "-A", cwd=tmp_path)
    head = run_tool("git", "rev-parse", "HEAD", cwd=ROOT).stdout.strip()
    done = run_tool(
        tools / "pre-commit", "try-repo", ROOT, "envcheck-lint", "--ref", head, "--files", "bad.sh", cwd=tmp_path,
        PRE_COMMIT_HOME=str(tmp_path / "cache"),
    )  # fmt: skip

    assert done.returncode == 1 and "shell.remove" in done.stdout, done.stdout + done.stderr


@pytest.mark.extended
def test_alerts_in_prometheus() -> None:
    """promtool accepts the rules, and they fire as their tests say."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (package prometheus)")
    checked = run_tool(promtool, "check", "rules", ALERTS.name, cwd=ALERTS.parent)
    tested = run_tool(promtool, "test", "rules", "envcheck-alerts.test.yml", cwd=ALERTS.parent)

    assert (checked.returncode, tested.returncode) == (0, 0), checked.stdout + tested.stdout + tested.stderr


@pytest.mark.extended
def test_units_in_systemd(tmp_path: Path) -> None:
    """systemd accepts both units; the program is where it looks for programs."""
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze is not installed")
    for unit in (FOLDER / "systemd").iterdir():
        text = unit.read_text().replace("ExecStart=envcheck", "ExecStart=/bin/true")
        (tmp_path / unit.name).write_text(text)
    done = run_tool(verify, "verify", *sorted(tmp_path.iterdir()), cwd=tmp_path)

    assert (done.returncode, done.stderr.strip()) == (0, "")
