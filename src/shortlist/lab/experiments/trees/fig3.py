"""Figure 3 of the DTR paper: quality after every update of the tree.

The trainings are those of table 2, under the same names in the cache, and one more whose tree is never updated: without
it, updates could not be distinguished from longer training.
"""

from collections.abc import Mapping, Sequence

from shortlist.lab.experiments.claims import pooled
from shortlist.lab.experiments.sweeps import VARIANTS, Drawn, Runs, figure, name_of
from shortlist.lab.experiments.trees.trial import Trial, rows_of
from shortlist.lab.experiments.trends import compare_pairs, over_seeds, steps_up
from shortlist.lab.result import Claim, Row, row

SOURCE = "DTR paper, figure 3"
METHODS = ("jtm", *VARIANTS)
CONTROL = "dtr-u, tree as it was"
Course = Sequence[float]  # validation F1@20 after 0, 1, 2, ... updates


@figure("dtr-fig3", "updates of the tree", seeds=(0, 1, 2))
def dtr_fig3(trials: Sequence[Trial]) -> Drawn:
    """Validation users after every update, test users at the end."""
    cached = {method: method for method in METHODS} | {
        CONTROL: name_of(trials[0], "dtr-u", {"update": "none"})
    }
    found: dict[str, Runs] = {method: [one.scores(method, method) for one in trials] for method in METHODS}
    found[CONTROL] = [one.scores(cached[CONTROL], "dtr-u", update="none") for one in trials]
    courses = {method: [_course(one, key) for one in trials] for method, key in cached.items()}
    dataset = trials[0].data_setup.name
    return [*_rows(courses, dataset), *rows_of(found, dataset)], _claims(courses, found, dataset)


def _course(trial: Trial, key: str) -> Course:
    """F1@20 of validation users at the end of every round."""
    steps = trial.plan("dtr-u").steps
    log = [entry for entry in trial.facts(key)["log"] if "f1" in entry]
    rounds = sorted({-(-entry["step"] // steps) for entry in log})
    return [[entry["f1"] for entry in log if -(-entry["step"] // steps) == this][-1] for this in rounds]


def _rows(courses: Mapping[str, Sequence[Course]], dataset: str) -> list[Row]:
    return [
        row(f"{method} on {dataset}", "f1@20 of validation users", values, x=updates)
        for method, runs in courses.items()
        for updates, values in enumerate(zip(*runs, strict=True))
    ]


def _claims(courses: Mapping[str, Sequence[Course]], found: Mapping[str, Runs], dataset: str) -> list[Claim]:
    claims = []
    for method in VARIANTS:
        note = (
            f"last less first f1@20 of validation users, {steps_up(courses[method][0])} with the first seed"
        )
        rise = [one[-1] - one[0] for one in courses[method]]
        claims.append(over_seeds(f"{method} rises with updates on {dataset}", SOURCE, rise, note))
    name = f"dtr-u > {CONTROL} on {dataset}"
    claims.append(pooled(name, f"{SOURCE}, control", found["dtr-u"], found[CONTROL], True))
    pairs = [*((method, "jtm") for method in VARIANTS), ("dtr-t", "dtr-u"), ("dtr-t-rl", "dtr-t")]
    return claims + compare_pairs(SOURCE, dataset, found, pairs)
