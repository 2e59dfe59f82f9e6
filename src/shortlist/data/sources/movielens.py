"""MovieLens in all its editions (100K, 1M, 10M, 20M, 25M, 32M, latest), from a folder or a zip."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from shortlist.data.raw import Raw
from shortlist.data.sources.delimited import read_delimited
from shortlist.data.sources.door import admit, describe
from shortlist.data.sources.files import File, find, need
from shortlist.data.sources.found import Found
from shortlist.data.sources.layout import Layout

RATINGS = {"user": "integer", "item": "integer", "rating": "number", "time": "integer"}
MOVIES = {"item": "integer", "title": "text", "genres": "text"}
PEOPLE = ("gender", "age", "occupation", "zip")


def read_movielens(path: Path | str, bad_lines: str = "refuse") -> Raw:
    """Read ratings, titles, genres (`category` is the first) and, in 100K and 1M, user attributes."""
    ratings = need(path, ("u.data", "ratings.dat", "ratings.csv"))
    layout = _layout(ratings, RATINGS, "\t")
    found = read_delimited(ratings, layout, bad_lines)
    raw = admit(found, user="user", item="item", time="time", weight="rating", unit="s")
    return replace(raw, described=_movies(path, ratings, raw), people=_people(path, raw))


def _layout(file: File, kinds: dict[str, str], delimiter: str) -> Layout:
    end = Path(file.member or file.path).suffix
    if end == ".dat":
        return Layout(tuple(kinds), kinds, "::", encoding="latin-1")
    if end == ".csv":
        return Layout(tuple(kinds), kinds, ",", header=True, quoted=True)
    return Layout(tuple(kinds), kinds, delimiter, encoding="latin-1")


def _movies(path: Path | str, ratings: File, raw: Raw) -> pa.Table | None:
    found = _movies_100k(path) if ratings.name.endswith("u.data") else _movies_later(path)
    if found is None:
        return None
    return _with_category(describe(found, "item", "item", _named("title", "genres"), raw.items))


def _with_category(table: pa.Table) -> pa.Table:
    first = pc.list_element(pc.split_pattern(table["genres"], "|", max_splits=1), 0)
    return table.add_column(2, "category", first)


def _movies_later(path: Path | str) -> Found | None:
    file = find(path, "movies.dat") or find(path, "movies.csv")
    return read_delimited(file, _layout(file, MOVIES, ",")) if file else None


def _movies_100k(path: Path | str) -> Found | None:
    """`u.item` has a column of 0 and 1 per genre; they become names with bars between, as elsewhere."""
    file, genres = find(path, "u.item"), find(path, "u.genre")
    if file is None or genres is None:
        return None
    kinds = {"genre": "text", "number": "integer"}
    named = read_delimited(genres, Layout(tuple(kinds), kinds, "|")).table["genre"].to_pylist()
    flags = tuple(f"is {genre}" for genre in named)
    names = ("item", "title", "released", "video", "link", *flags)
    wanted = {"item": "integer", "title": "text", **dict.fromkeys(flags, "integer")}
    found = read_delimited(file, Layout(names, wanted, "|", encoding="latin-1"))
    joined = [_joined(row, named, flags) for row in found.table.select(list(flags)).to_pylist()]
    return replace(found, table=found.table.append_column("genres", pa.array(joined, pa.string())))


def _joined(row: dict[str, int], named: list[str], flags: tuple[str, ...]) -> str:
    return "|".join(genre for genre, flag in zip(named, flags, strict=True) if row[flag])


def _people(path: Path | str, raw: Raw) -> pa.Table | None:
    """User attributes: 1M writes `user::gender::age::...`, 100K writes `user|age|gender|...`."""
    if file := find(path, "users.dat"):
        kinds = {"user": "integer", "gender": "text", "age": "integer", "occupation": "text", "zip": "text"}
    elif file := find(path, "u.user"):
        kinds = {"user": "integer", "age": "integer", "gender": "text", "occupation": "text", "zip": "text"}
    else:
        return None
    found = read_delimited(file, _layout(file, kinds, "|"))
    return describe(found, "user", "user", _named(*PEOPLE), raw.users)


def _named(*names: str) -> dict[str, str]:
    return {name: name for name in names}
