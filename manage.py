#!/usr/bin/env python
"""Berth's command line: ``manage.py up`` runs everything on this machine; ``manage.py help`` lists the rest."""

import os
import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent / "platform"))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "berth.settings")
    # Ctrl-C ends it at once until it is set up: an import somewhere may swallow KeyboardInterrupt.
    on_interrupt = signal.getsignal(signal.SIGINT)
    if on_interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import django
    from django.core.management import execute_from_command_line

    django.setup()
    signal.signal(signal.SIGINT, on_interrupt)
    try:
        execute_from_command_line(sys.argv)
    except Exception as error:
        from berth.management.services_away import explained

        if not (said := explained(error)):
            raise
        sys.exit(f"berth: {said}")
