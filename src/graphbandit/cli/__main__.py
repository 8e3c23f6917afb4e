"""Entry point of `python -m graphbandit.cli`."""

from . import app

app()
