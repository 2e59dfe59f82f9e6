"""From a log as it lies on disk to a data set: read, sieve, count."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from shortlist.data.cleaning import Filters, sieve, told
from shortlist.data.dataset import Dataset, from_raw
from shortlist.data.raw import Raw
from shortlist.data.sources import read
from shortlist.data.split import PROTOCOLS
from shortlist.errors import ConfigError, DataError

HALF_HISTORY: Mapping[str, Any] = {"protocol": "half-history"}


def prepare(
    source: str,
    path: Path | str,
    name: str = "",
    *,
    options: Mapping[str, Any] | None = None,
    filters: Filters | None = None,
    strict: bool = False,
    split_settings: Mapping[str, Any] = HALF_HISTORY,
) -> Dataset:
    """Read `path` with the reader called `source`, leave out what `filters` name; `strict` allows no loss."""
    if split_settings.get("protocol") not in PROTOCOLS:
        asked = split_settings.get("protocol")
        raise ConfigError(f"split: expected a protocol of {', '.join(PROTOCOLS)}, got {asked!r}")
    path = Path(path)
    raw = read(source, path, **(options or {}))
    _check_some(path, raw)
    whole = from_raw(raw, name or path.name.partition(".")[0], split_settings=dict(split_settings))
    dataset, lost = sieve(whole, filters or Filters())
    dropped = {**raw.dropped, **lost}
    if strict and dropped:
        raise DataError(
            f"{path}: rows would be left out ({told(dropped)}); mend them or do not ask for strict"
        )
    return replace(dataset, facts=_facts(source, path, raw, dataset, dropped))


def _check_some(path: Path, raw: Raw) -> None:
    if not len(raw):
        raise DataError(f"{path}: expected events, got none of {raw.read:,} rows ({told(raw.dropped)})")


def _facts(source: str, path: Path, raw: Raw, dataset: Dataset, dropped: Mapping[str, int]) -> dict[str, Any]:
    """Only the name of the path: a data set must not tell where it was made."""
    return {
        "source": source,
        "path": path.name,
        "read": raw.read,
        "kept": len(dataset.events),
        "dropped": dict(dropped),
    }
