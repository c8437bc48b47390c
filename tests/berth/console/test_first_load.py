"""What a browser fetches before any page of its own: the entry and the frame, at most 350 kB, gzipped."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

FRONTEND = Path(__file__).resolve().parents[3] / "frontend"
LIMIT_BYTES = 350_000
# The entry, what it waits for, and the frame around every page.
FIRST = ("index.html", "src/app.tsx", "src/shell/Shell.tsx")


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


def test_the_first_load_is_small(tmp_path: Path) -> None:
    command = ["npx", "vite", "build", "--outDir", str(tmp_path / "dist"), "--emptyOutDir", "--logLevel", "error"]
    subprocess.run(command, cwd=FRONTEND, check=True, timeout=240)
    manifest = json.loads((tmp_path / "dist/.vite/manifest.json").read_text())
    files = closure(manifest, FIRST)
    size = sum(len(gzip.compress((tmp_path / "dist" / file).read_bytes(), 6)) for file in files)
    assert 50_000 < size <= LIMIT_BYTES, f"{size} bytes in {len(files)} files"
