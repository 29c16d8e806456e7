"""Fixtures that put the tests' own process on a simulated machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

Enter = Callable[..., None]


@pytest.fixture
def on_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Enter:
    """Puts this process on a simulated machine with these faults, with a home and a folder of its own."""
    from envcheck.simulate import faults, machine_file, simulated_run
    from envcheck.simulate.build import write_simulation

    def enter(name: str, *wishes: str) -> None:
        folder = tmp_path / "-".join(("machine", name, *wishes))
        if not folder.exists():
            folder.mkdir()
            write_simulation(
                faults.apply_faults(machine_file.load_machine(name), [faults.parse_fault(wish) for wish in wishes]),
                folder,
                1e9,
            )
        for variable, text in simulated_run.make_environment(folder).items():
            monkeypatch.setenv(variable, text)
        monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("COLUMNS", "400")
        monkeypatch.chdir(tmp_path)

    return enter


@pytest.fixture
def run_on(on_machine: Enter) -> Callable[..., Result]:
    """Runs envcheck's words on a simulated machine."""
    from envcheck.cli import main

    def run(machine: str, *words: str) -> Result:
        on_machine(machine)
        return CliRunner().invoke(main.main, list(words), standalone_mode=False)

    return run
