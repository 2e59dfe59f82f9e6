"""The part of a page where a user can be looked up: embedded data and a small script, nothing from outside."""

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from importlib.resources import files
from typing import Any

from shortlist.artifact.as_json import as_json
from shortlist.evaluate.headline import part_name
from shortlist.evaluate.lookup import LookedUp, UserLookup
from shortlist.pipeline.recommender import Item
from shortlist.report.page import Html, Section

LEFT_OUT = (
    "The others are left out to keep this file small. For one of them type: shortlist explain BUNDLE --user ID --item "
    "ITEM (with the served model and all events of the user)."
)
SCRIPT = files("shortlist.report").joinpath("lookup.js").read_text("utf-8")


def lookup_section(found: UserLookup) -> Section:
    """An input field for the user id, and the place for the answer."""
    part, total = part_name(found.on), f"{found.total:,}"
    shown = (
        f"all {total}" if len(found.requests) == found.total else f"{len(found.requests):,} of the {total}"
    )
    cut = "" if len(found.requests) == found.total else f" {LEFT_OUT}"
    return Section(
        "Look up a user",
        [
            f"This page holds {shown} requests of {part}: history, relevant items, what each stage did with them, "
            f"and the slate.{cut}",
            Html(
                '<p><label for="lookup-user">User id</label> '
                '<input id="lookup-user" list="lookup-users" autocomplete="off" spellcheck="false"> '
                '<button id="lookup-next" type="button">Next user</button></p>\n'
                '<datalist id="lookup-users"></datalist>\n<div id="lookup-answer" aria-live="polite"></div>\n'
                f'<script type="application/json" id="lookup-data">{embedded(compact(found))}</script>'
            ),
        ],
    )


def compact(found: UserLookup) -> dict[str, Any]:
    """The requests and items as rows, with the names of the columns once."""
    names: dict[str, Any] = as_json(replace(found, items=(), requests=()))
    return {**names, "items": _rows(Item, found.items), "requests": _rows(LookedUp, found.requests)}


def _rows(kind: type[Item | LookedUp], records: Sequence[Item | LookedUp]) -> dict[str, Any]:
    names = [field.name for field in fields(kind)]
    return {"columns": names, "rows": [[getattr(one, name) for name in names] for one in records]}


def embedded(value: object) -> str:
    """JSON that is safe inside of a script element: no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
