"""Find an item by its id or its title."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import reduce
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data import Catalog
from shortlist.errors import ConfigError

SHOWN = 10  # candidates in a message
CLOSE = 5  # similar titles in a message
COMMAS = 5  # in one title of a history

By = Literal["id", "title", "prefix", "substring", "similar"]


@dataclass(frozen=True)
class FoundItems:
    """The items that a text may mean, as rows; "similar" ones are only suggestions."""

    text: str
    by: By
    rows: tuple[int, ...]

    @property
    def unique(self) -> bool:
        """Whether the text means exactly one item."""
        return len(self.rows) == 1 and self.by != "similar"


def find_items(catalog: Catalog, text: str) -> FoundItems:
    """The items of an id; of a title; of titles that begin with the text; that contain it; similar ones.

    The first of these with any item counts. Upper and lower case are the same, except in ids, and a title is also found
    without what stands in parentheses at its end. A text without letters is not searched inside titles: an unknown id
    "99" does not mean a film of 1999.
    """
    row = catalog.vocabulary.row(text)
    if row >= 0:
        return FoundItems(text, "id", (row,))
    titles, word = _titles(catalog), _lower(text.strip())
    if titles is None or not word:
        return FoundItems(text, "similar", ())
    searches: list[tuple[By, Callable[[], pa.BooleanArray]]] = [
        ("title", lambda: pc.equal(titles, word)),
        ("title", lambda: pc.equal(pc.replace_substring_regex(titles, r"\s*\([^()]*\)$", ""), word)),
        ("prefix", lambda: pc.starts_with(titles, word)),
    ]
    if any(map(str.isalpha, word)):
        searches.append(("substring", lambda: pc.match_substring(titles, word)))
    for by, search in searches:
        if rows := _rows(search()):
            return FoundItems(text, by, rows)
    return FoundItems(text, "similar", _similar(titles, word))


def find_item(catalog: Catalog, text: str) -> int:
    """The row of the only item that a text means; ConfigError with candidates where it means none or several."""
    found = find_items(catalog, text)
    if found.unique:
        return found.rows[0]
    shown = "; ".join(f"{catalog.vocabulary.id(row)} ({catalog.title(row)})" for row in found.rows[:SHOWN])
    if found.by == "similar":
        hint = f"; the most similar titles are {shown}" if shown else "; check the id or the title"
        raise ConfigError(f"item {text!r} is not in the catalogue of {len(catalog)} items{hint}")
    more = f" and {len(found.rows) - SHOWN} more" if len(found.rows) > SHOWN else ""
    raise ConfigError(f"item {text!r} may be one of {len(found.rows)} items, give its id: {shown}{more}")


def find_history(catalog: Catalog, text: str) -> list[str]:
    """The ids in a comma-separated text of ids and whole titles, which may contain commas; others stay as they are."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    known, titles = catalog.vocabulary, _titles(catalog)
    if titles is None or all(known.row(part) >= 0 for part in parts):
        return parts
    whole = set(titles.to_pylist())
    history = []
    while parts:
        sizes = range(min(len(parts), COMMAS + 1), 0, -1) if known.row(parts[0]) < 0 else ()
        size = next((n for n in sizes if _lower(", ".join(parts[:n])) in whole), 0)
        history.append(str(known.id(find_item(catalog, ", ".join(parts[:size])))) if size else parts[0])
        parts = parts[max(size, 1) :]
    return history


def _titles(catalog: Catalog) -> pa.StringArray | None:
    """The titles in lower case, None for a catalogue without titles."""
    if "title" not in catalog.table.column_names:
        return None
    titles = catalog.table["title"].cast(pa.string())
    return pc.utf8_lower(pa.concat_arrays(titles.chunks) if titles.num_chunks else pa.array([], pa.string()))


def _lower(text: str) -> str:
    return str(pc.utf8_lower(pa.scalar(text)).as_py())


def _rows(matches: pa.BooleanArray) -> tuple[int, ...]:
    return tuple(pc.indices_nonzero(pc.fill_null(matches, False)).to_pylist())


def _similar(titles: pa.StringArray, word: str) -> tuple[int, ...]:
    """Rows of the titles that share most letter triples with the word, the most similar first."""
    triples = Counter(word[at : at + 3] for at in range(len(word) - 2)) or Counter([word])
    shared: NDArray[np.int64] = reduce(np.add, (_contains(titles, triple) for triple in triples))
    likely = [row for row in np.argsort(-shared, kind="stable")[:200].tolist() if shared[row]]
    ratios = {row: SequenceMatcher(None, word, titles[row].as_py()).ratio() for row in likely}
    return tuple(sorted(likely, key=lambda row: -ratios[row])[:CLOSE])


def _contains(titles: pa.StringArray, triple: str) -> NDArray[np.int64]:
    matches = pc.fill_null(pc.match_substring(titles, triple), False)
    return np.asarray(matches.to_numpy(zero_copy_only=False), np.int64)
