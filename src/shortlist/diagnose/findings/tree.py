"""Findings about a tree by fixed rules, the largest loss first, each with the knob that addresses it."""

from shortlist.diagnose.tree.diagnosis import BeamWidth, Level, TreeDiagnosis, TreeFinding

SMALL = 0.01  # a smaller share of the relevant items is not reported as actionable
FEW_POSITIVES = 0.1  # a level with a lower mean label has too few positives


def tree_findings(tree: TreeDiagnosis) -> tuple[TreeFinding, ...]:
    """A collapse first, then losses by size, then advice on training."""
    alarm = [_collapse(tree)] if tree.collapse.alarm else []
    losses = [found for found in (_scorer(tree), _beam(tree), _absent(tree), _beyond_k(tree)) if found]
    losses.sort(key=lambda found: -(found.share or 0.0))
    rest = [found for found in (_narrow(tree), _sampling(tree), _labels(tree), _categories(tree)) if found]
    return (*alarm, *losses, *rest)


def _collapse(tree: TreeDiagnosis) -> TreeFinding:
    return TreeFinding(
        f"Alarm: recommendations are nearly the same for all users: {tree.collapse.reason}.",
        "Train longer, or with a lower learning rate; check that histories reach the scorer.",
    )


def _scorer(tree: TreeDiagnosis) -> TreeFinding | None:
    lost = tree.losses.ranked_too_low
    if not lost:
        return None
    return TreeFinding(
        f"The scorer misses {_part(lost, tree)}: exhaustive search does not rank them among the top {tree.k} either.",
        "Training: more rounds or epochs, more negatives, a wider scorer. A wider beam cannot find them.",
        lost / tree.losses.relevant,
    )


def _beam(tree: TreeDiagnosis) -> TreeFinding | None:
    losses = tree.losses
    if not losses.beam:
        return None
    worst = max(tree.levels, key=lambda level: level.beam_lost)
    text = (
        f"The beam loses {_part(losses.beam, tree)} that exhaustive search returns, most of them "
        f"({worst.beam_lost:,}) at level {worst.level} of {tree.height}. {losses.only_by_beam:,} others are "
        "returned only because the beam dropped better leaves."
    )
    return TreeFinding(text, _beam_knob(tree, worst), losses.beam / losses.relevant)


def _beam_knob(tree: TreeDiagnosis, worst: Level) -> str:
    if tree.losses.beam < SMALL * tree.losses.relevant:
        return "That is less than 1 % of the relevant items: a wider beam will hardly help."
    current = _current(tree)
    wider = [width for width in tree.widths if width.beam > tree.beam]
    knobs = []
    if wider:
        cost = wider[0].scored / max(current.scored, 1.0)
        knobs.append(
            f"beam = {wider[0].beam} scores {cost:.1f} times as many nodes and leaves out {wider[0].regret:.0%} of the "
            f"top {tree.k} instead of {current.regret:.0%}; it returns {wider[0].returned:,} relevant items, the "
            f"current beam {current.returned:,}."
        )
        if wider[0].returned <= current.returned:
            knobs.append("So it does not help here: improve the scorer first.")
    if worst.violations is not None and worst.violations > 0.2:
        knobs.append(
            "Inner nodes violate the max-heap order: train longer, with rectified labels (method dtr-t-rl)."
        )
    if tree.branch == 2:
        knobs.append("branch = 4 halves the number of levels on which items can be lost.")
    return " ".join(knobs)


def _absent(tree: TreeDiagnosis) -> TreeFinding | None:
    lost = tree.losses.absent
    if not lost:
        return None
    return TreeFinding(
        f"{_part(lost, tree)} have no leaf in the tree.",
        "Insert new items into the tree (index.tree.insert), or train again.",
        lost / tree.losses.relevant,
    )


def _beyond_k(tree: TreeDiagnosis) -> TreeFinding | None:
    lost = tree.losses.beyond_k
    if not lost:
        return None
    return TreeFinding(
        f"{_part(lost, tree)} cannot be returned: their users have more than {tree.k} relevant items.",
        "Return more items from the tree (tree % k), or count these losses as unavoidable.",
        lost / tree.losses.relevant,
    )


def _narrow(tree: TreeDiagnosis) -> TreeFinding | None:
    """A narrower beam that returns almost the same."""
    current = _current(tree)
    close = [
        width
        for width in tree.widths
        if width.beam < tree.beam and width.regret <= current.regret + SMALL and width.scored < current.scored
    ]
    if not close:
        return None
    return TreeFinding(
        f"A beam of {close[0].beam} returns almost the same as {tree.beam}.",
        f"beam = {close[0].beam} scores {current.scored / max(close[0].scored, 1.0):.1f} times fewer nodes.",
    )


def _sampling(tree: TreeDiagnosis) -> TreeFinding | None:
    last = tree.levels[-1] if tree.levels else None
    if last is None or last.kl_tree is None or last.kl_tree <= last.kl_uniform:
        return None
    return TreeFinding(
        "Negatives of tree-based sampling are further from the scorer's distribution than uniform negatives "
        f"(KL {last.kl_tree:.2f} against {last.kl_uniform:.2f} at the leaves).",
        "Training: inner nodes are not trained well enough to sample by; use method dtr-u first, or a larger mix.",
    )


def _labels(tree: TreeDiagnosis) -> TreeFinding | None:
    few = [
        level
        for level in tree.levels
        if level.decides and level.label is not None and level.label < FEW_POSITIVES
    ]
    if not few:
        return None
    return TreeFinding(
        f"Strict rectified labels leave level {few[0].level} with {few[0].label:.0%} of its positives.",
        'Training with rectified labels: prefer rectify = "one_step" or "normalised".',
    )


def _categories(tree: TreeDiagnosis) -> TreeFinding | None:
    middle = [level for level in tree.levels if level.nodes * 4 <= tree.items and level.level > 1]
    if tree.categories < 2 or not middle or max(level.purity - level.purity_random for level in middle) > 0.1:
        return None
    return TreeFinding(
        "Nodes are no purer in categories than those of a random tree.",
        'Ignore this if categories do not predict interactions; otherwise start with order = "category", or let '
        "updates move items.",
    )


def _current(tree: TreeDiagnosis) -> BeamWidth:
    return next(width for width in tree.widths if width.beam == tree.beam)


def _part(count: int, tree: TreeDiagnosis) -> str:
    return f"{count:,} of {tree.losses.relevant:,} relevant items ({count / tree.losses.relevant:.1%})"
