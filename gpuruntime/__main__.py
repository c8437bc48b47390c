"""``python -m gpuruntime serve``: one replica, told by an agent on stdin or by a person with ``--model``."""

from __future__ import annotations

import sys

from gpuruntime.door.serve import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
