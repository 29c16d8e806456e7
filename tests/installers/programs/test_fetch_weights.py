"""The program that downloads weights: a damaged file is fetched again, and a hub that lies ends it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from installers.programs import fetch_weights

CONTENT = {"model-00001-of-00002.safetensors": b"1" * 5000, "model-00002-of-00002.safetensors": b"2" * 5000}


class StandInHub:
    """A hub's client: the files in the folder are `served`; it knows the sums of CONTENT."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.served, self.again = folder, dict(CONTENT), list[str]()

    def list_sums(self) -> dict[str, str]:
        return {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}

    def download(self, *_unused: object, **options: object) -> str:
        allowed = options.get("allow_file_pattern")
        for name, content in self.served.items():
            if allowed and name in allowed:  # type: ignore[operator]
                self.again.append(name)
            if not (self.folder / name).exists():
                (self.folder / name).write_bytes(content)
        return str(self.folder)

    def download_file(self, _repository: str, name: str, **options: object) -> None:
        assert options["force_download"]
        self.again.append(name)
        (self.folder / name).write_bytes(self.served[name])

    def list_siblings(self, *_unused: object, **_options: object) -> object:
        found = [SimpleNamespace(rfilename=name, lfs={"sha256": sum_}) for name, sum_ in self.list_sums().items()]
        return SimpleNamespace(siblings=[*found, SimpleNamespace(rfilename="config.json", lfs=None)])

    def list_files(self, *_unused: object, **_options: object) -> list[dict[str, str]]:
        return [{"Path": name, "Sha256": sum_} for name, sum_ in self.list_sums().items()]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandInHub:
    made = StandInHub(tmp_path)

    def offer(name: str, **functions: object) -> None:
        module = ModuleType(name)
        vars(module).update(functions)
        monkeypatch.setitem(sys.modules, name, module)

    api = SimpleNamespace(model_info=made.list_siblings, get_model_files=made.list_files)
    make_api: Callable[[], object] = lambda: api  # noqa: E731
    offer("huggingface_hub", HfApi=make_api, hf_hub_download=made.download_file, snapshot_download=made.download)
    offer("modelscope", snapshot_download=made.download)
    offer("modelscope.hub")
    offer("modelscope.hub.api", HubApi=make_api)
    return made


@pytest.mark.parametrize("name", ("huggingface", "modelscope"))
def test_a_damaged_file(name: str, hub: StandInHub, capsys: pytest.CaptureFixture[str]) -> None:
    """A cached file with other content is fetched again, the whole ones are not; the last line is the folder."""
    damaged = sorted(CONTENT)[1]
    (hub.folder / damaged).write_bytes(b"2" * 4999 + b"x")

    assert fetch_weights.main(name, "a/b", str(hub.folder)) == 0
    assert hub.again == [damaged]
    assert (hub.folder / damaged).read_bytes() == CONTENT[damaged]
    assert capsys.readouterr().out.splitlines()[-1] == str(hub.folder)


@pytest.mark.parametrize("name", ("huggingface", "modelscope"))
def test_a_hub_that_lies(name: str, hub: StandInHub) -> None:
    """Content that never has its checksum ends the download with a reason that envcheck knows."""
    hub.served[sorted(CONTENT)[0]] = b"other"

    with pytest.raises(SystemExit, match="consistency check failed: model-00001"):
        fetch_weights.main(name, "a/b", str(hub.folder))


def test_no_checksums(hub: StandInHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror without checksums is no failure."""

    def refuse(*_unused: object, **_options: object) -> object:
        raise OSError("404")

    monkeypatch.setattr(sys.modules["huggingface_hub"].HfApi(), "model_info", refuse)

    assert fetch_weights.main("huggingface", "a/b", str(hub.folder)) == 0
