"""Makes `python -m graphbandit.cli` work."""

from . import app

app()
