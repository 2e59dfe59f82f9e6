"""The page of a tree: what it loses, where, and what to do about it, for people who read no papers."""

from collections.abc import Mapping
from html import escape
from typing import Any

from shortlist.report.page import Html, Section, facts, figure, page, table
from shortlist.report.tree.drawing import beam, sketch
from shortlist.report.tree.plots import panels, reach, widths

Told = Mapping[str, Any]


def tree_page(told: Told) -> str:
    """One HTML document from what `diagnose` found."""
    sections: list[Section] = []
    for name, one in told["trees"].items():
        of = f" ({name})" if len(told["trees"]) > 1 else ""
        sections += [Section(section.title + of, section.parts) for section in tree_sections(one)]
    about = told["about"]
    made = Section("How it was made", [facts({key: about[key] for key in about if key != "name"})])
    return page(f"Diagnosis of {about['name']} on {about['data']}", [*sections, made])


def tree_sections(told: Told) -> list[Section]:
    """All that is told of one tree."""
    return [part(told) for part in (_short, _top, _walk, _losses, _wider, _levels, _same)]


def tree_section(name: str, told: Told) -> Section:
    """The heart of the page, for the report of a run."""
    top, walked, lost = _top(told), _walk(told), _losses(told)
    more = "`shortlist diagnose` shows all of this tree: order, labels, sampling, categories and wider beams."
    return Section(f"The tree {name!r}", [*_short(told).parts, *top.parts, *walked.parts, *lost.parts, more])


def _short(told: Told) -> Section:
    account = told["account"]
    return Section(
        "In short",
        [
            *(_finding(one) for one in told["findings"]),
            facts(
                {
                    "items": told["items"],
                    "branches of a node": told["branch"],
                    "levels": told["height"],
                    "beam": told["beam"],
                    "asked for": told["k"],
                    "users looked at": told["users"],
                    "held-out items": account["wanted"],
                    "of them found": account["found"],
                }
            ),
        ],
    )


def _top(told: Told) -> Section:
    return Section(
        "The top of the tree",
        [
            "The items lie at the leaves of a tree. Every node above them stands for all items below it, so a search "
            "can leave out thousands of items by a look at one node. A box names the category that most items below "
            "it have, and its share; the stronger its colour, the more the node is about one thing.",
            figure(sketch(told), _sketch_caption(told)),
        ],
    )


def _walk(told: Told) -> Section:
    walked = told["walk"]
    of = f"user {walked['user']}"
    return Section(
        f"One search, level by level: {of}",
        [
            f"A search goes down level by level. It scores the children of the nodes it kept, and keeps the best "
            f"{told['beam']:,} of them: this set is the beam. The picture shows all nodes of each level from left to "
            "right, with the items below a node always underneath it. A held-out item, one that the user really met "
            "later, can be found only while the node above it is in the beam.",
            figure(
                beam(told),
                f"The beam for {of}. Coloured nodes were kept; grey ones were left out or never looked at.",
            ),
            *(_sentence(trail, told) for trail in walked["trails"]),
        ],
    )


def _losses(told: Told) -> Section:
    one, k = told["account"], told["k"]
    plain = one["model"] - one["absent"] - one["seen"] - one["crowded"]
    rows = [
        ("held-out items", one["wanted"]),
        (f"– not among the scorer's best {k} of all leaves (the scorer's fault)", plain),
        ("– without a leaf in the tree", one["absent"]),
        ("– met before, and left out for it", one["seen"]),
        (f"– of users who want more than {k} items", one["crowded"]),
        ("– among the best of all leaves, but lost by the beam (the search's fault)", one["search"]),
        ("+ not among the best of all leaves, found all the same (luck)", one["lucky"]),
        ("= found", one["found"]),
    ]
    kept = [row for row in rows if row[1] or row[0][0] not in "–+"]
    return Section(
        "Where held-out items are lost",
        [
            "Scoring every leaf is slow, but shows what the scorer itself thinks. What the beam fails to return of "
            f"it is the price of the shortcut: {told['regret']:.1%} of the best {k}. An item lost at a level stays "
            "lost, so the losses of the levels add up.",
            table(["", "items"], [(label, count) for label, count in kept]),
            figure(
                reach(told["levels"], k),
                f"Left: the share of the best {k} of all leaves whose node is still in the beam after each level. "
                "Right: the level at which search lost held-out items that scoring every leaf would have returned.",
            ),
        ],
    )


def _wider(told: Told) -> Section:
    rows = [
        [one["beam"], round(one["scored"], 1), f"{one['regret']:.1%}", one["found"], _here(one, told)]
        for one in told["widths"]
    ]
    heads = ["beam", "nodes scored", f"of the best {told['k']} left out", "held-out items found", ""]
    return Section(
        "Would a wider beam help?",
        [
            "A wider beam loses less and costs more. Where the curve is flat, a wider beam is money for nothing.",
            figure(
                widths(told["widths"], told["beam"], told["k"]),
                "What is left out, against the work for one user.",
            ),
            table(heads, rows),
        ],
    )


def _levels(told: Told) -> Section:
    heads = [
        "level",
        "nodes",
        "wrong order",
        "still in reach",
        "lost",
        "label",
        "KL tree",
        "KL uniform",
        "purity",
        "chance",
    ]
    rows = [
        [
            one["level"],
            one["nodes"],
            _percent(one["violations"]) + ("" if one["decides"] else " *"),
            _percent(one["top_kept"]),
            one["search_lost"],
            _percent(one["label"]),
            _nats(one["kl_tree"]),
            _nats(one["kl_uniform"]),
            _percent(one["purity"]),
            _percent(one["purity_chance"]),
        ]
        for one in told["levels"]
    ]
    return Section(
        "Level by level",
        [
            *_terms(told),
            figure(
                panels(told["levels"], told["categories"] > 1),
                "Grey bars and * mark levels with no more nodes than the beam holds: whatever their order, nothing "
                "is lost there. The dotted line is the order of a coin.",
            ),
            table(heads, rows),
        ],
    )


def _terms(told: Told) -> list[str]:
    """Every term of the plots once, in plain words."""
    return [
        "Wrong order: a beam works when a node scores higher the better its best item is. This is the share of pairs "
        "of nodes, one of them among those the beam should keep, that are ordered the other way round. 0 % is "
        "perfect, 50 % is a coin.",
        "Label: training may tell a node 'yes' only when the item a user met next is the best item below it; then "
        "nodes learn to speak for their best item. The mean label says how many examples remain at a level. Here the "
        f"best item is judged by {told['labels_by']}. 'Best child' is the softer rule that looks one step down only.",
        "KL: training compares the right node with some wrong ones, best those that the scorer itself finds hard. KL "
        "says in nats how far the nodes drawn are from the scorer's own choice: 0 is the same, smaller is better. "
        "Levels small enough to be taken whole have none.",
        "Purity: how much of what lies below a node is of one category, against a random order of the same items. "
        "Small nodes are pure by chance.",
    ]


def _same(told: Told) -> Section:
    one = told["collapse"]
    said = f"Alarm: {one['reason']}." if one["alarm"] else "No alarm: users get lists of their own."
    return Section(
        "Does everybody get the same?",
        [
            said,
            facts(
                {
                    "different items in all lists": f"{one['distinct']:,} of {one['possible']:,} possible",
                    "evenness (1: all items alike)": f"{one['entropy']:.2f}",
                    "two users share of their lists": _percent(one["overlap"]),
                    "same first item for": _percent(one["first_share"]),
                    "of score differences personal": _percent(one["personal"]),
                }
            ),
        ],
    )


def _finding(one: Told) -> Html:
    """What it is, and below it what to do."""
    return Html(f"<p><strong>{escape(one['what'])}</strong><br>{escape(one['knob'])}</p>")


def _sentence(trail: Told, told: Told) -> str:
    title, last = trail["title"], trail["passings"][-1]
    place = f"For the scorer it is number {last['rank']:,} of all leaves."
    if trail["found"]:
        return f"“{title}” was found: its nodes stayed in the beam to the end. {place}"
    lost = next(one for one in trail["passings"] if one["level"] == trail["lost_at"])
    if trail["lost_at"] == told["height"]:
        return f"“{title}” came as far as the leaves, but was not among the best {told['k']} there. {place}"
    return (
        f"“{title}” was lost at level {lost['level']}: its node scored {lost['score']:.2f}, place {lost['rank']:,} "
        f"of the level, and the last node kept had {lost['needed']:.2f}. {place} "
        + ("Search lost it." if trail["among_best"] else f"So it was not among the best {told['k']} anyway.")
    )


def _sketch_caption(told: Told) -> str:
    return f"{told['items']:,} items under {told['height']} levels of nodes with up to {told['branch']} children each."


def _here(one: Told, told: Told) -> str:
    return "in use" if one["beam"] == told["beam"] else ""


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _nats(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
