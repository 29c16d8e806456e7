"""The page's colours in two schemes, and which text is placed on which background; a test computes the contrast.

States differ in lightness and hue, and always have a mark and a word as well.
"""

from __future__ import annotations

STATES = ("ok", "not_applicable", "blocked", "unknown", "warn", "fail")
LINKS = ("package", "fabric", "switch", "bridge", "sys", "untold")  # fastest first

LIGHT = {
    "page": "#f6f7f9",
    "card": "#ffffff",
    "sunk": "#eef1f4",
    "line": "#d9dee5",
    "text": "#17202b",
    "soft": "#4d5a69",
    "accent": "#1b5fa8",
    "on-accent": "#ffffff",
    "bar": "#3b76b5",
    "ok": "#0a6b57",
    "ok-ground": "#e6f4f0",
    "not_applicable": "#56616e",
    "not_applicable-ground": "#eef1f4",
    "blocked": "#34507f",
    "blocked-ground": "#e6ecf7",
    "unknown": "#6a3fb0",
    "unknown-ground": "#f1ebfb",
    "warn": "#855500",
    "warn-ground": "#fdf1d7",
    "fail": "#b3123a",
    "fail-ground": "#fdeaee",
    "link-package": "#0f2f57",
    "on-link-package": "#ffffff",
    "link-fabric": "#2a66a8",
    "on-link-fabric": "#ffffff",
    "link-switch": "#86b6de",
    "on-link-switch": "#0d1b2a",
    "link-bridge": "#cfe2f2",
    "on-link-bridge": "#0d1b2a",
    "link-sys": "#f2e4c9",
    "on-link-sys": "#2d2410",
    "link-untold": "#ffffff",
    "on-link-untold": "#8f160d",
}
DARK = {
    "page": "#10151b",
    "card": "#18202a",
    "sunk": "#202a36",
    "line": "#324050",
    "text": "#e8edf3",
    "soft": "#a9b6c5",
    "accent": "#7db8f2",
    "on-accent": "#0b1622",
    "bar": "#5f9fdc",
    "ok": "#5fd1b4",
    "ok-ground": "#14312c",
    "not_applicable": "#a9b6c5",
    "not_applicable-ground": "#202a36",
    "blocked": "#a5c0ee",
    "blocked-ground": "#1f2d47",
    "unknown": "#c3a6f5",
    "unknown-ground": "#2b2342",
    "warn": "#f3c35b",
    "warn-ground": "#362a10",
    "fail": "#ff9d8f",
    "fail-ground": "#431c18",
    "link-package": "#b9dbfb",
    "on-link-package": "#0b1622",
    "link-fabric": "#6caae4",
    "on-link-fabric": "#0b1622",
    "link-switch": "#2f6499",
    "on-link-switch": "#ffffff",
    "link-bridge": "#22415c",
    "on-link-bridge": "#e8edf3",
    "link-sys": "#453a22",
    "on-link-sys": "#f5e9cf",
    "link-untold": "#0b1016",
    "on-link-untold": "#ffb3a7",
}
# (text, background) pairs of the style sheet
PAIRS = (
    *((text, ground) for text in ("text", "soft", "accent") for ground in ("page", "card", "sunk")),
    ("on-accent", "accent"),
    *((state, ground) for state in STATES for ground in ("card", f"{state}-ground")),
    *(("text", f"{state}-ground") for state in STATES),
    *((f"on-link-{link}", f"link-{link}") for link in LINKS),
)
