#!/usr/bin/env python
"""Berth's command line: ``manage.py up`` runs everything on this machine; ``manage.py help`` lists the rest."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent / "platform"))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "berth.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
