"""What a binding to ``recorded`` may say besides its directory. Pure."""

from runner.contract.activation import DigestText
from runner.contract.canonical import FrozenJson
from runner.contract.ids import Digest
from runner.contract.model import Frozen, read_model


class Settings(Frozen):
    """None: which recordings are replayed is a matter of each binding."""


class Options(Frozen):
    digest: DigestText | None = None
    """The content that was bound (``Fixture.digest``); another content is refused."""


def frozen_digest(options: FrozenJson) -> Digest | None:
    """The digest in checked options."""
    read = read_model(Options, {} if options is None else options)
    return Digest(read.digest) if isinstance(read, Options) and read.digest else None
