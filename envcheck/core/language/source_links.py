"""Sources that messages cite, in the selected language: translated titles, and Chinese pages where they exist."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck.core.language import current_language, translate

# English and Chinese addresses of the same pages; the identifiers of the pages are equal.
_CHINESE_PAGES: Sequence[tuple[str, str]] = (
    (r"(hiascend\.com/document/detail)/en/", r"\1/zh/"),
    (r"(paddlepaddle\.org\.cn/documentation/docs)/en/(\S+?)_en\.html", r"\1/zh/\2_cn.html"),
    (r"(swift\.readthedocs\.io)/en/", r"\1/zh-cn/"),
    (r"(support\.huaweicloud\.com)/intl/en-us/", r"\1/"),
    (r"(paddleocr\.ai/latest)/en/", r"\1/"),
)


def translate_source(source: str) -> str:
    """Return the title or address of a source in the selected language."""
    text = translate(source)
    if current_language() == "zh" and "://" in text:
        for english, chinese in _CHINESE_PAGES:
            text = re.sub(english, chinese, text)
    return text
