"""What all tests share: hypothesis without a deadline, because the machines that run this vary."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("roundtable", deadline=None, max_examples=100)
settings.load_profile("roundtable")
