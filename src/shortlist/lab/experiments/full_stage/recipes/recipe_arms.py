"""The arms: what a recipe is trained from, and the objective of each of its stages."""

from dataclasses import dataclass
from typing import Any

from shortlist.lab.experiments.full_stage.recipes.sizes import RecipeSize
from shortlist.pipeline import Recipe
from shortlist.pipeline.recipe import recipe_of

SOFTMAX, RANKNET, LCRON = "softmax", "ranknet", "lcron"
EVENTS, LIKES, LOG = "events", "events and likes", "log"  # what an arm is trained from
OWN_SHARE = 0.7  # of the retrieved items; the rest are popular
NOT_TRAINED = "logging funnel"
EVENTS_ONLY = "events only"


@dataclass(frozen=True)
class RecipeArm:
    """What a recipe is trained from; a second round is trained from the log of the first one."""

    name: str
    objectives: tuple[str, ...] = (SOFTMAX,) * 4  # of retrieval, pre-rank, rank and re-rank
    retrieval: str = "mf"
    reads: str = LOG
    rounds: int = 1
    all_logs: bool = False  # the second round reads both logs; else its own one only
    trained: bool = True


def _same(objective: str, rounds: int = 1) -> RecipeArm:
    return RecipeArm(objective, (objective,) * 4, rounds=rounds)


def _with_next(objective: str, rounds: int = 1) -> RecipeArm:
    """An objective of a stage and the one after it: the last stage has none."""
    return RecipeArm(objective, (*(objective,) * 3, SOFTMAX), rounds=rounds)


def _tree(objective: str) -> RecipeArm:
    return RecipeArm(f"tree {objective}", (objective, *(SOFTMAX,) * 3), "tree")


_ALL = (
    RecipeArm(NOT_TRAINED, trained=False),
    RecipeArm(EVENTS_ONLY, reads=EVENTS, rounds=2),
    RecipeArm(LIKES, reads=LIKES),
    _same(SOFTMAX, rounds=2),
    RecipeArm("softmax, all logs", rounds=2, all_logs=True),
    _same(RANKNET, rounds=2),
    _same("lambdarank"),
    _same("bce"),
    _with_next(LCRON, rounds=2),
    _with_next("rankflow"),
    _with_next("arf"),
    _with_next("icc"),
    RecipeArm("mf softmax, rankers ranknet", (SOFTMAX, *(RANKNET,) * 3)),
    _tree("none"),
    _tree(SOFTMAX),
    _tree(RANKNET),
)
ARMS = {one.name: one for one in _ALL}


def recipe(arm: RecipeArm, size: RecipeSize, capacities: tuple[int, ...], device: str = "auto") -> Recipe:
    """The recipe of an arm: retrieval and popular items, then three rankers."""
    first, second, third, last = capacities
    own = round(OWN_SHARE * first)
    pool = f"retrieval % {own} + popular % {first - own}"
    found, prerank, rank, rerank = arm.objectives
    rankers = {"epochs": size.ranker_epochs}
    stages = {
        "retrieval": _stage(arm.retrieval, found, device=device, **_retrieval(arm.retrieval, size)),
        "popular": {"type": "popular"},
        "prerank": _stage("feature-ranker", prerank, **rankers),
        "rank": _stage("mlp-ranker", rank, width=size.ranker_width, **rankers),
        "rerank": _stage("feature-ranker", rerank, **rankers),
    }
    expression = f"{pool} >> prerank % {second} >> rank % {third} >> rerank % {last}"
    requests = {
        "requests": size.requests * (arm.rounds if arm.all_logs else 1)
    }  # as many from events as from a log
    values = {"name": arm.name, "train": requests, "pipeline": expression, "stages": stages}
    return recipe_of(values, arm.name)


def _stage(kind: str, objective: str, **settings: Any) -> dict[str, Any]:
    return {"type": kind, "train": {"objective": objective, **settings}}


def _retrieval(kind: str, size: RecipeSize) -> dict[str, Any]:
    if kind == "mf":
        return {"epochs": size.epochs, "width": size.width, "learning_rate": 0.01}
    tree = {"method": "dtr-u", "scorer": "linear", "min_history": 2, "negatives": 20, "rounds": 1}
    return {**tree, "epochs": size.tree_epochs, "width": size.tree_width}
