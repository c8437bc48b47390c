"""Settings an operator changes while the platform runs. Read one with ``from berth.options.selectors import get``."""
