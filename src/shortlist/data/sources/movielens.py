"""MovieLens in all its editions (100K, 1M, 10M, 20M, 25M, 32M, latest), from a folder or a zip."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from shortlist.data.catalog import as_lists
from shortlist.data.raw_events import RawEvents
from shortlist.data.tables.delimited import read_delimited
from shortlist.data.tables.files import File, find_file, require_file
from shortlist.data.tables.layout import Layout
from shortlist.data.tables.parsed import ParsedTable
from shortlist.data.tables.to_events import attribute_table, to_events

RATINGS = {"user": "integer", "item": "integer", "rating": "number", "time": "integer"}
MOVIES = {"item": "integer", "title": "text", "genres": "text"}
USER_COLUMNS = ("gender", "age", "occupation", "zip")


def read_movielens(path: Path | str, bad_lines: str = "refuse") -> RawEvents:
    """Read ratings, titles, genres (as `category`, a list) and, in 100K and 1M, user attributes."""
    ratings = require_file(path, ("u.data", "ratings.dat", "ratings.csv"))
    layout = _layout(ratings, RATINGS, "\t")
    found = read_delimited(_encoded(ratings), layout, bad_lines)
    raw = to_events(found, user="user", item="item", time="time", weight="rating", unit="s")
    return replace(raw, item_table=_movies(path, ratings, raw), user_table=_users(path, raw))


def _layout(file: File, kinds: dict[str, str], delimiter: str) -> Layout:
    end = Path(file.member or file.path).suffix
    if end == ".dat":
        return Layout(tuple(kinds), kinds, "::")
    if end == ".csv":
        return Layout(tuple(kinds), kinds, ",", header=True, quoted=True)
    return Layout(tuple(kinds), kinds, delimiter)


def _encoded(file: File) -> File:
    """The editions up to 10M are in Latin-1, the later ones (`.csv`) in UTF-8."""
    return file if file.name.endswith(".csv") else replace(file, encoding="latin-1")


def _movies(path: Path | str, ratings: File, raw: RawEvents) -> pa.Table | None:
    found = _movies_100k(path) if ratings.name.endswith("u.data") else _movies_later(path)
    if found is None:
        return None
    columns = {"title": "title", "category": "genres"}
    return _with_lists(attribute_table(found, "item", "item", columns, raw.items))


def _with_lists(table: pa.Table) -> pa.Table:
    return table.set_column(2, "category", as_lists(table["category"], "|"))


def _movies_later(path: Path | str) -> ParsedTable | None:
    file = find_file(path, "movies.dat") or find_file(path, "movies.csv")
    return read_delimited(_encoded(file), _layout(file, MOVIES, ",")) if file else None


def _movies_100k(path: Path | str) -> ParsedTable | None:
    """`u.item` has a 0/1 column per genre; they become names separated by `|`, as in later editions."""
    file, genres = find_file(path, "u.item"), find_file(path, "u.genre")
    if file is None or genres is None:
        return None
    kinds = {"genre": "text", "number": "integer"}
    genre_names = read_delimited(genres, Layout(tuple(kinds), kinds, "|")).table["genre"].to_pylist()
    flags = tuple(f"is {genre}" for genre in genre_names)
    names = ("item", "title", "released", "video", "link", *flags)
    columns = {"item": "integer", "title": "text", **dict.fromkeys(flags, "integer")}
    found = read_delimited(_encoded(file), Layout(names, columns, "|"))
    joined = [_joined(row, genre_names, flags) for row in found.table.select(list(flags)).to_pylist()]
    return replace(found, table=found.table.append_column("genres", pa.array(joined, pa.string())))


def _joined(row: dict[str, int], names: list[str], flags: tuple[str, ...]) -> str:
    return "|".join(genre for genre, flag in zip(names, flags, strict=True) if row[flag])


def _users(path: Path | str, raw: RawEvents) -> pa.Table | None:
    """User attributes: 1M writes `user::gender::age::...`, 100K writes `user|age|gender|...`."""
    if file := find_file(path, "users.dat"):
        kinds = {"user": "integer", "gender": "text", "age": "integer", "occupation": "text", "zip": "text"}
    elif file := find_file(path, "u.user"):
        kinds = {"user": "integer", "age": "integer", "gender": "text", "occupation": "text", "zip": "text"}
    else:
        return None
    found = read_delimited(_encoded(file), _layout(file, kinds, "|"))
    return attribute_table(found, "user", "user", _named(*USER_COLUMNS), raw.users)


def _named(*names: str) -> dict[str, str]:
    return {name: name for name in names}
