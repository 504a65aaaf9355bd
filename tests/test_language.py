"""The language of a debate is that of its decision, where the script tells it."""

from __future__ import annotations

import pytest

from roundtable_local.language import UNKNOWN, language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("주문 시스템을 나눌까요?", "Korean"),
        ("Kubernetes 도입 여부를 결정합니다: PostgreSQL, Python.", "Korean"),
        ("この設計を採用すべきか。", "Japanese"),
        ("我们应该采用这个设计吗？", "Chinese"),
        ("Should we split the order system?", UNKNOWN),
        ("Sollen wir das Bestellsystem teilen?", UNKNOWN),
        ("The word 결정 means decision in a long English sentence about something else.", UNKNOWN),
        ("", UNKNOWN),
        ("12 + 30", UNKNOWN),
    ],
)
def test_a_script_tells_the_language(text: str, language: str) -> None:
    assert language_of(text) == language
