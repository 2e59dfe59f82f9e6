"""The trees of a bundle, looked at through held-out cases, as plain values for pages and terminals."""

from dataclasses import asdict
from typing import Any

from shortlist.artifact.as_json import as_json
from shortlist.data import Dataset, HeldOut
from shortlist.diagnose.findings.tree import tree_findings
from shortlist.diagnose.tree.diagnosis import TreeDiagnosis, diagnose_tree
from shortlist.nominate import TreeNominator
from shortlist.pipeline import Recommender
from shortlist.pipeline.recipe import leaves
from shortlist.progress import Progress

SCORES = 20_000_000  # nodes scored at most, unless a number of users is asked for
USERS = 200


def trees_of(recommender: Recommender) -> dict[str, TreeNominator]:
    """The trees of a pipeline by name."""
    return {stage.title: stage for stage in leaves(recommender.pipeline) if isinstance(stage, TreeNominator)}


def look_at_trees(
    recommender: Recommender,
    dataset: Dataset,
    cases: HeldOut,
    seed: int,
    tell: Progress,
    users: int | None = None,
    k: int | None = None,
    beam: int | None = None,
) -> dict[str, Any]:
    """Every tree of the pipeline as it stands there; `k` and `beam` in place of its own, for a what-if."""
    found = {}
    for name, tree in trees_of(recommender).items():
        told = diagnose_tree(
            tree.index,
            cases,
            dataset.catalog,
            beam=beam or max(tree.beam, -(-(k or tree.limit) // tree.index.tree.shape.branch)),
            k=k or tree.limit,
            users=users or affordable(tree.index.tree.shape.n_nodes),
            seed=seed,
            product=tree.product,
            exclude_seen=tree.exclude_seen,
            progress=tell,
        )
        found[name] = in_words(told, dataset, cases)
    return found


def affordable(nodes: int) -> int:
    """So many users that looking at all their nodes takes a minute or so, at least a few."""
    return max(10, min(USERS, SCORES // max(nodes, 1)))


def in_words(told: TreeDiagnosis, dataset: Dataset, cases: HeldOut) -> dict[str, Any]:
    """A diagnosis with findings, ids and titles, in the words of JSON."""
    answer: dict[str, Any] = as_json(told.as_dict())
    answer["findings"] = [asdict(one) for one in tree_findings(told)]
    answer["walk"]["user"] = dataset.users.id(int(cases.users[told.walker]))
    for trail in answer["walk"]["trails"]:
        trail["title"] = dataset.catalog.title(trail["item"])
        trail["item_id"] = dataset.items.id(trail["item"])
    return answer
