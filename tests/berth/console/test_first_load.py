"""What a browser fetches before it shows the overview, at most 350 kB gzipped."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

DIST = Path(__file__).resolve().parents[3] / "frontend/dist"
LIMIT_BYTES = 350_000
# The entry, what it waits for, the frame around every page, and the first page.
FIRST = ("index.html", "src/app.tsx", "src/shell/Shell.tsx", "src/pages/overview/OverviewPage.tsx")


def closure(manifest: dict[str, Any], names: tuple[str, ...]) -> set[str]:
    """Every file that ``names`` import statically, scripts and styles."""
    files: set[str] = set()
    waiting, seen = list(names), set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        chunk = manifest[name]
        files |= {chunk["file"], *chunk.get("css", [])}
        waiting += chunk.get("imports", [])
    return files


def test_the_first_load_is_small() -> None:
    """Of the build that ``make test`` makes before it runs the tests."""
    manifest = json.loads((DIST / ".vite/manifest.json").read_text())
    files = closure(manifest, FIRST)
    size = sum(len(gzip.compress((DIST / file).read_bytes(), 6)) for file in files)
    assert 50_000 < size <= LIMIT_BYTES, f"{size} bytes in {len(files)} files"
