"""The language seats write in: the one named, or that of the decision."""

from __future__ import annotations

import unicodedata
from collections import Counter

from roundtable_local.decision import whole_text

UNKNOWN = "the language of the decision"
"""What prompts say where the script does not tell the language."""

_SCRIPTS = {"HANGUL": "Korean", "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "CJK": "Chinese"}
_SHARE = 4
"""One letter in so many decides: texts in these scripts quote Latin names and code."""


_NAMES = {
    "ko": "Korean",
    "kor": "Korean",
    "한국어": "Korean",
    "en": "English",
    "eng": "English",
    "ja": "Japanese",
    "zh": "Chinese",
}


def named(language: str) -> str:
    """The English name of a language that a user names by it or by its code; other names stay as they are."""
    text = " ".join(whole_text(language).split())
    return _NAMES.get(text.casefold().split("-")[0].split("_")[0], text[:1].upper() + text[1:])


def language_of(text: str) -> str:
    """The English name of a text's language where its script tells it, else `UNKNOWN`."""
    letters = [character for character in text if character.isalpha()]
    counts = Counter(_SCRIPTS.get(unicodedata.name(each, "").split(" ")[0].split("-")[0], "") for each in letters)
    told = {language: count for language, count in counts.items() if language and count * _SHARE >= len(letters)}
    if "Japanese" in told or (counts["Japanese"] and "Chinese" in told):
        return "Japanese"  # Japanese text has Chinese characters, Chinese text has no kana
    return max(told, key=lambda language: told[language], default=UNKNOWN)
