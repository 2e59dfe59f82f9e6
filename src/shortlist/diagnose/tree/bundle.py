"""Diagnosis of all trees of a bundle."""

from collections.abc import Mapping
from dataclasses import replace

from shortlist.data import Dataset, HeldOut
from shortlist.diagnose.findings.tree import tree_findings
from shortlist.diagnose.tree.diagnosis import TreeDiagnosis, diagnose_tree
from shortlist.grammar import leaves
from shortlist.nominate import TreeNominator
from shortlist.pipeline import Recommender
from shortlist.progress import Progress, silent

SCORES = 20_000_000  # nodes scored at most, unless a number of users is given
USERS = 200


def trees_of(bundle: Recommender) -> Mapping[str, TreeNominator]:
    """The trees of a pipeline by name."""
    return {stage.title: stage for stage in leaves(bundle.pipeline) if isinstance(stage, TreeNominator)}


def diagnose_trees(
    bundle: Recommender,
    data: Dataset,
    held_out: HeldOut,
    *,
    seed: int = 0,
    users: int | None = None,
    k: int | None = None,
    beam: int | None = None,
    progress: Progress = silent,
) -> Mapping[str, TreeDiagnosis]:
    """Diagnose every tree of a pipeline by name; `k` and `beam` replace those of the tree."""
    return {
        name: _diagnosed(tree, data, held_out, seed, users, k or tree.limit, beam, progress)
        for name, tree in trees_of(bundle).items()
    }


def _diagnosed(
    tree: TreeNominator,
    data: Dataset,
    held_out: HeldOut,
    seed: int,
    users: int | None,
    k: int,
    beam: int | None,
    progress: Progress,
) -> TreeDiagnosis:
    """The diagnosis with its findings and the id of the traced user."""
    shape = tree.index.tree.shape
    found = diagnose_tree(
        tree.index,
        held_out,
        data.catalog,
        beam=beam or max(tree.beam, -(-k // shape.branch)),
        k=k,
        users=users or default_users(shape.n_nodes),
        seed=seed,
        product=tree.product,
        exclude_seen=tree.exclude_seen,
        progress=progress,
    )
    user = data.users.id(int(held_out.users[found.traced_row]))
    return replace(found, findings=tree_findings(found), trace=replace(found.trace, user=user))


def default_users(nodes: int) -> int:
    """A number of users, at least 10, whose nodes are all scored within about a minute."""
    return max(10, min(USERS, SCORES // max(nodes, 1)))
