"""roundtable-local: structured multi-seat debates on local models.

Importing this package does nothing and needs none of the heavy packages.
"""

from __future__ import annotations

__version__ = "0.1.0"
