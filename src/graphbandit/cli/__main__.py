"""`python -m graphbandit.cli`."""

from . import app

app()
