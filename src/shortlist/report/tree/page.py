"""Report sections of a tree: what it loses, at which level, and which knob to change."""

from collections.abc import Mapping

from shortlist.diagnose.tree.beam_trace import ItemPath
from shortlist.diagnose.tree.diagnosis import TreeDiagnosis, TreeFinding
from shortlist.report.page import Html, Section, escaped, facts, figure, table
from shortlist.report.tree.drawing import draw_beam, draw_top
from shortlist.report.tree.plots import level_plots, survival_plot, width_plot


def trees_sections(trees: Mapping[str, TreeDiagnosis]) -> list[Section]:
    """All sections of all trees, with the tree's name in their titles."""
    return [
        Section(f"Tree {name!r}: {section.title[0].lower()}{section.title[1:]}", section.parts)
        for name, tree in trees.items()
        for section in tree_sections(tree)
    ]


def tree_sections(tree: TreeDiagnosis) -> list[Section]:
    """All sections of one tree."""
    return [part(tree) for part in (_summary, _top, _search, _losses, _widths, _levels, _collapse)]


def tree_section(name: str, tree: TreeDiagnosis) -> Section:
    """A short section for the report of an evaluation."""
    parts = [part for section in (_summary, _top, _search, _losses) for part in section(tree).parts]
    more = (
        "`shortlist diagnose` shows the rest: max-heap order, labels, negatives, categories and wider beams."
    )
    return Section(f"Tree {name!r}", [*parts, more])


def _summary(tree: TreeDiagnosis) -> Section:
    return Section(
        "Summary",
        [
            *(_finding(one) for one in tree.findings),
            facts(
                {
                    "items": tree.items,
                    "children per node": tree.branch,
                    "levels": tree.height,
                    "beam": tree.beam,
                    "items requested": tree.k,
                    "sampled users": tree.users,
                    "relevant items": tree.losses.relevant,
                    "of them returned": tree.losses.returned,
                }
            ),
        ],
    )


def _top(tree: TreeDiagnosis) -> Section:
    return Section(
        "Top of the tree",
        [
            "Items are the leaves of a tree. A node represents all items below it, so a search can skip thousands of "
            "items by scoring one node. A box shows the most common category of the items below a node and its "
            "share; a darker box is purer.",
            figure(draw_top(tree), _top_caption(tree)),
        ],
    )


def _search(tree: TreeDiagnosis) -> Section:
    of = f"user {tree.trace.user}"
    return Section(
        f"One beam search: {of}",
        [
            "Beam search goes down level by level. It scores the children of the nodes it kept, and keeps the best "
            f"{tree.beam:,} of them: this set is the beam. The picture shows all nodes of each level from left to "
            "right; the items below a node are always underneath it. A relevant item, one that the user interacted "
            "with next, can be returned only while its ancestor is in the beam.",
            figure(
                draw_beam(tree),
                f"The beam for {of}. Coloured nodes were kept; grey nodes were dropped or never scored.",
            ),
            *(_path_text(path, tree) for path in tree.trace.paths),
        ],
    )


def _losses(tree: TreeDiagnosis) -> Section:
    losses, k = tree.losses, tree.k
    rows = [
        ("relevant items", losses.relevant),
        (f"– not among the top {k} of all leaves (lost by the scorer)", losses.ranked_too_low),
        ("– without a leaf in the tree", losses.absent),
        ("– in the history, and excluded", losses.seen),
        (f"– of users with more than {k} relevant items", losses.beyond_k),
        ("– among the top of all leaves, but not returned (lost by the beam)", losses.beam),
        (
            "+ not among them, returned only because the beam dropped better leaves",
            losses.only_by_beam,
        ),
        ("= returned", losses.returned),
    ]
    shown = [row for row in rows if row[1] or row[0][0] not in "–+"]
    return Section(
        "Where relevant items are lost",
        [
            "Exhaustive search scores every leaf. It is slow, but shows the ranking of the scorer itself. The beam "
            f"leaves out {tree.regret:.1%} of its top {k}. An item lost at a level stays lost, so the losses of the "
            "levels add up.",
            table(["", "items"], shown),
            figure(
                survival_plot(tree.levels, k),
                f"Left: the share of the top {k} of all leaves whose ancestor is still in the beam after each level. "
                "Right: the level at which the beam lost relevant items that exhaustive search returns.",
            ),
        ],
    )


def _widths(tree: TreeDiagnosis) -> Section:
    rows = [
        [
            one.beam,
            round(one.scored, 1),
            f"{one.regret:.1%}",
            one.returned,
            "current" if one.beam == tree.beam else "",
        ]
        for one in tree.widths
    ]
    heads = ["beam", "nodes scored", f"top {tree.k} left out", "relevant items returned", ""]
    return Section(
        "Would a wider beam help?",
        [
            "A wider beam loses less and costs more. Where the curve is flat, a wider beam brings nothing.",
            figure(
                width_plot(tree.widths, tree.beam, tree.k),
                "Items left out, against the nodes scored per user.",
            ),
            table(heads, rows),
        ],
    )


def _levels(tree: TreeDiagnosis) -> Section:
    heads = [
        "level",
        "nodes",
        "violations",
        "top in beam",
        "lost",
        "label",
        "KL tree",
        "KL uniform",
        "purity",
        "random",
    ]
    rows = [
        [
            one.level,
            one.nodes,
            _percent(one.violations) + ("" if one.decides else " *"),
            _percent(one.top_kept),
            one.beam_lost,
            _percent(one.label),
            _nats(one.kl_tree),
            _nats(one.kl_uniform),
            _percent(one.purity),
            _percent(one.purity_random),
        ]
        for one in tree.levels
    ]
    return Section(
        "Level by level",
        [
            *_terms(tree),
            figure(
                level_plots(tree.levels, tree.categories > 1),
                "Grey bars and * mark levels with no more nodes than the beam: nothing can be lost there. The dotted "
                "line is a random order.",
            ),
            table(heads, rows),
        ],
    )


def _terms(tree: TreeDiagnosis) -> list[str]:
    """Every term of the plots, explained once."""
    return [
        "Violations: beam search is exact if a node scores higher the better its best leaf is (max-heap order). This "
        "is the share of pairs of nodes, one of them among those the beam should keep, that are ordered the other "
        "way round. 0 % is perfect, 50 % is random.",
        "Label: with strict rectified labels a node on the path to the next item is positive only if that item is "
        "the best item below it. The mean label is the share of positives left at a level. Here the best item is "
        f"chosen by {tree.labels_by}. 'One step' only requires the best child at each node.",
        "KL: training compares the positive node with sampled negatives; the best negatives follow the scorer's own "
        "distribution. KL is the distance of the sampler from it in nats: 0 is the same, smaller is better. Levels "
        "small enough to use all nodes have none.",
        "Purity: the mean share of the most common category below a node, beside that of a random order of the same "
        "items. Small nodes are pure in any order.",
    ]


def _collapse(tree: TreeDiagnosis) -> Section:
    one = tree.collapse
    verdict = f"Alarm: {one.reason}." if one.alarm else "No alarm: lists differ between users."
    return Section(
        "Do all users get the same items?",
        [
            verdict,
            facts(
                {
                    "distinct items in all lists": f"{one.distinct:,} of {one.possible:,} possible",
                    "normalised entropy (1: uniform)": f"{one.entropy:.2f}",
                    "overlap of two users' lists": _percent(one.overlap),
                    "users with the same first item": _percent(one.first_share),
                    "score variance that is personal": _percent(one.personal),
                }
            ),
        ],
    )


def _finding(one: TreeFinding) -> Html:
    """The finding, and below it the knob."""
    return Html(f"<p><strong>{escaped(one.what)}</strong><br>{escaped(one.knob)}</p>")


def _path_text(path: ItemPath, tree: TreeDiagnosis) -> str:
    rank = f"The scorer ranks it {path.nodes[-1].rank:,} of all leaves."
    if path.returned:
        return f"“{path.title}” was returned: its ancestors stayed in the beam. {rank}"
    if path.lost_at == tree.height:
        return f"“{path.title}” was reached at the leaves, but was not among the top {tree.k} there. {rank}"
    lost = next(node for node in path.nodes if node.level == path.lost_at)
    return (
        f"“{path.title}” was lost at level {lost.level}: its ancestor scored {lost.score:.2f}, rank {lost.rank:,} "
        f"of the level; the last node in the beam scored {lost.threshold:.2f}. {rank} "
        + ("The beam lost it." if path.in_top_k else "Exhaustive search does not return it either.")
    )


def _top_caption(tree: TreeDiagnosis) -> str:
    return f"{tree.items:,} items under {tree.height} levels of nodes with up to {tree.branch} children each."


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _nats(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
