"""The errors a user can meet: each says what was expected, what came and what to do."""


class ShortlistError(Exception):
    """Anything `shortlist` refuses to do; the message is meant for a person."""


class DataError(ShortlistError):
    """A file or a column is not what it should be."""


class ConfigError(ShortlistError):
    """A setting, a TOML file or a command line is not what it should be."""


class ArtifactError(ShortlistError):
    """A saved artifact fails one of the checks made before it is trusted."""


class GrammarError(ShortlistError):
    """Stages were put together in a way that has no meaning."""


class ConservationError(ShortlistError):
    """A stage lost, doubled or invented a candidate."""


class MissingExtraError(ShortlistError):
    """An optional package is needed for what was asked."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"this needs the package {package!r}; install it with: pip install 'shortlist[{extra}]'"
        )
