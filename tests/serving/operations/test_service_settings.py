"""Settings from all sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbandit.serving import ServiceSettings
from graphbandit.serving.operations import settings as library
from graphbandit.serving.operations.settings import Token


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    config = tmp_path / "service.toml"
    config.write_text('policy = "linucb"\nport = 1\nseed = 1\n[params]\nridge = 2.0\n')
    environment = {"GRAPHBANDIT_PORT": "2", "GRAPHBANDIT_SEED": "2", "GRAPHBANDIT_DATA": "elsewhere", "PORT": "9"}
    found = library.load({"seed": 3, "host": None}, config, environment)
    assert (found.policy, found.port, found.seed, found.host) == ("linucb", 2, 3, "127.0.0.1")
    assert found.params == {"ridge": 2.0} and not found.skip_bad
    for text in ("true", "1"):
        tables = library.load({}, None, {"GRAPHBANDIT_SKIP_BAD": text, "GRAPHBANDIT_COLUMNS": "user=uid"})
        assert tables.skip_bad and tables.columns == "user=uid"
    assert not library.load({}, None, {"GRAPHBANDIT_SKIP_BAD": "false"}).skip_bad
    assert library.load({}, None, {"GRAPHBANDIT_TOKEN_FILE": "/x", "GRAPHBANDIT_BODY_DEADLINE": "0.5"}).token_file == Path("/x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "is not a setting"),
        ('port = "many"', "port must be of the kind int"),
        ("port = true", "port must be a number"),
        ("port = 0", "port must be an integer between 1 and 65535"),
        ("epsilon = 2", "epsilon must be a share from 0 to 1"),
        ("body_deadline = 0", "body_deadline must be"),
        ("snapshot_every = 0", "snapshot_every must be an integer of at least 1"),
        ('log_level = "loud"', "log_level must be one of debug, info"),
        ("params = 3", "must be a table"),
        ('skip_bad = "maybe"', "skip_bad must be true or false, but it is 'maybe'"),
        ("port =", "is not TOML"),
        ('host = "0.0.0.0"', "give a token_file, put a proxy in front"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, text: str, message: str) -> None:
    config = tmp_path / "service.toml"
    config.write_text(text)
    with pytest.raises(ValueError, match=message):
        library.load({}, config, {})


def test_tokens_are_long_enough_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    for text, message in (("", "holds no token"), ("short\n", "16 or more"), ("ééééééééééééééééé\n", "ASCII")):
        file.write_text(text)
        with pytest.raises(ValueError, match=message):
            ServiceSettings(token_file=file).tokens()
    file.write_text("a-token-that-is-long\n\n another-one-that-is-too \n")
    found = ServiceSettings(token_file=file, host="0.0.0.0", allow_direct=True, store="postgresql://me:secret@db/x")
    assert found.tokens() == [Token("a-token-that-is-long"), Token("another-one-that-is-too")]
    file.write_text("a-token-that-is-long\nread  another-one-that-is-too\na-token-that-is-long\n")
    assert found.tokens() == [Token("a-token-that-is-long"), Token("another-one-that-is-too", may_write=False)]
    assert "a-token" not in str(found.public()) and "secret" not in str(found.public())


def test_a_misspelt_variable_is_an_error() -> None:
    with pytest.raises(ValueError, match="GRAPHBANDIT_TOKEN_FIEL is not a setting; there are"):
        library.load({}, None, {"GRAPHBANDIT_TOKEN_FIEL": "/x"})
    assert library.load({}, None, {"GRAPHBANDIT_DATA": "/data", "HOME": "/"}) == library.ServiceSettings()
