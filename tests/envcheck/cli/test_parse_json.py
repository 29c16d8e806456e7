"""The JSON of `envcheck parse` is that of `json.dumps` with an indent of 2, which takes longer."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck.cli.commands.parse import _render_json

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS | st.sampled_from(["},\n    {", "{}", "[]", '},\n{"']),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=30,
)


@settings(deadline=None, max_examples=300)
@given(VALUES)
def test_the_text_is_that_of_the_standard_encoder(value: Any) -> None:
    """Also for empty containers, and for texts that look like what separates rows."""
    assert _render_json(value, "\n") == json.dumps(value, indent=2, ensure_ascii=False)
