"""Keys of providers: where they come from, and where they must not go.

A key is an environment variable, exported or written in `.env`. litellm reads the environment at
every call, so it holds what `.env` says for as long as models are asked (`Keys.lent`), and never
while evaluators start (`keys_withheld`): what they inherit holds no key at all.

Covered: keys in what a provider answers, in error messages above all (`Keys.redact`); in the
environment of processes started inside `keys_withheld`; in `repr`.
Not covered: a key of fewer than 8 characters in an answer; a variable whose name does not say that
it is secret; the environment that a shell gave this very process, which the kernel keeps.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from operators.llm.loading import load_litellm
from problems.errors import ConfigError

__all__ = ["REDACTED", "Keys", "is_secret_name", "keys_withheld", "load_keys"]

REDACTED = "[key removed]"
MIN_KEY_CHARACTERS = 8
_SECRET = re.compile(
    r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys that this process has been given.

    Attributes:
        file: The `.env` that was looked for; it need not exist.
        written: Variables that it sets.
        secrets: Values that must show up nowhere, the longest first.
    """

    file: Path
    written: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def redact(self, text: str) -> str:
        """Return a text with every key in it replaced."""
        for secret in self.secrets:
            text = text.replace(secret, REDACTED)
        return text

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Put what `.env` says into the environment, as long as the context lasts.

        A variable that is exported keeps its value.
        """
        added = {name: text for name, text in self.written.items() if name not in os.environ}
        os.environ.update(added)
        try:
            yield
        finally:
            for name in added:
                os.environ.pop(name, None)

    def missing_key(self, model: str, api_base: str | None = None) -> str:
        """Tell in one sentence what a model lacks before it can be asked; "" where nothing.

        Args:
            model: Name of the model, as litellm knows it.
            api_base: Address of a server of one's own, which may need no key.
        """
        litellm = load_litellm()
        try:
            litellm.get_llm_provider(model=model, api_base=api_base)
        except litellm.exceptions.BadRequestError:
            return (
                f"the provider of the model {model!r} is not known: name it first, as in "
                f"'openai/{model}'; litellm's documentation lists the providers"
            )
        if api_base is not None:
            return ""
        with self.lent():
            names = litellm.validate_environment(model=model)["missing_keys"]
        # Servers on this machine (Ollama, vLLM) have a usual address and need no key.
        if all(name.endswith("_API_BASE") for name in names):
            return ""
        return (
            f"the model {model!r} has no key: expected {', '.join(names)}, found in neither the "
            f"environment nor {self.file}; export it, or write a line {names[-1]}=... there"
        )


def load_keys(folder: Path) -> Keys:
    """Read the keys from the environment and from `.env` in a folder.

    Raises:
        ConfigError: `.env` is there and cannot be read.
    """
    from dotenv import dotenv_values

    file = folder / ".env"
    try:
        found = dotenv_values(file, interpolate=False) if file.is_file() else {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    written = {name: text for name, text in found.items() if text}
    secrets = {
        text.strip()
        for name, text in (*os.environ.items(), *written.items())
        if is_secret_name(name) and len(text.strip()) >= MIN_KEY_CHARACTERS
    }
    # Providers that take the key as part of the address quote it the way addresses do.
    secrets |= {quote(text, safe="") for text in secrets}
    longest_first = tuple(sorted(secrets, key=lambda text: (-len(text), text)))
    return Keys(file=file, written=written, secrets=longest_first)


def is_secret_name(name: str) -> bool:
    """Tell whether a variable of this name holds a secret, as far as its name says."""
    return _SECRET.search(name) is not None


@contextmanager
def keys_withheld() -> Iterator[None]:
    """Keep keys out of the environment: processes started meanwhile inherit none.

    Ray's own variables stay: its processes need them to find and to trust each other.
    """
    hidden = {
        name: text
        for name, text in os.environ.items()
        if is_secret_name(name) and not name.startswith("RAY_")
    }
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(hidden)
