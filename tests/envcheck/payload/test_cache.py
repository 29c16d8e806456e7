"""The cached archive for hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.payload import cache as kept


def test_it_is_kept_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built once for the same sources; rebuilt when a source changes or the cached file is damaged."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "a.py").write_text("1")
    made: list[int] = []

    def make() -> bytes:
        made.append(1)
        return b"data %d" % len(made)

    assert [kept.read_or_make([tmp_path / "sources"], make, "made-") for _ in range(2)] == [b"data 1"] * 2
    (tmp_path / "sources" / "a.py").write_text("12")
    assert [kept.read_or_make([tmp_path / "sources"], make, "made-") for _ in range(2)] == [b"data 2"] * 2
    (place,) = (tmp_path / "cache" / "envcheck").iterdir()
    place.write_bytes(place.read_bytes()[:-1])
    assert kept.read_or_make([tmp_path / "sources"], make, "made-") == b"data 3"
