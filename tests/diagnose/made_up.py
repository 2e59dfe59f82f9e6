"""The diagnosis of a funnel that nobody has: every number made up, every sum right."""

from copy import deepcopy
from typing import Any

STAGES = (  # name, kind, survived of 1,000 wanted, removed, no room, candidates
    ("pool", "nominator", 700, 0, 0, 240.0),
    ("seen", "filter", 690, 10, 0, 230.0),
    ("rank", "scorer", 400, 0, 0, 60.0),
    ("diverse", "selector", 150, 0, 100, 10.0),
)


def between(mean: float, wide: float = 0.01) -> dict[str, Any]:
    return {"mean": mean, "low": mean - wide, "high": mean + wide}


def knob(
    stage: str, label: str, setting: str, gain: float | None, wide: float = 0.01, candidates: float = 300.0
):
    return {
        "stage": stage,
        "label": label,
        "setting": setting,
        "gain": None if gain is None else between(gain, wide),
        "candidates": candidates,
        "needs_training": gain is None,
    }


def made_up(**changes: Any) -> dict[str, Any]:
    """All parts of a diagnosis; `changes` replace whole parts."""
    stages, entered = [], 1000
    for name, kind, survived, removed, no_room, candidates in STAGES:
        lost = entered - survived
        stages.append(
            {
                "name": name,
                "kind": kind,
                "entered": entered,
                "survived": survived,
                "lost": lost,
                "removed": removed,
                "no_room": no_room,
                "share": between(lost / 1000),
                "conditional": lost / entered,
                "candidates": candidates,
                "short": 0,
                "ordered_by": "rank" if kind in ("scorer", "selector") else None,
                "what_if": {
                    "ceiling": lost / 1000,
                    "same_rates": lost / 1000 * 150 / survived,
                    "oracle": between(lost / 4000),
                    "order": between(0.12) if kind == "scorer" else None,
                },
            }
        )
        entered = survived
    told = {
        "users": 400,
        "wanted": 1000,
        "returned": 150,
        "k": 10,
        "seed": 0,
        "recall": between(0.15),
        "precision_at_1": between(0.2),
        "stages": stages,
        "identity": {"wanted": 1000, "lost": 850, "returned": 150, "exact": True, "product_error": 0.0},
        "verdict": {
            "answer": "undecided",
            "stage": "rank",
            "users": 400,
            "accuracy": 0.2,
            "accuracy_flat": 0.198,
            "gain": between(0.03),
            "loss": between(0.028),
            "difference": between(0.002),
            "threshold": 0.4,
            "error_retrieved": 0.7,
            "missed": 0.1,
            "pointwise": True,
        },
        "nominators": {
            "popular": {"named": 300, "alone": 10, "without": between(-0.001, 0.003)},
            "covisit": {"named": 600, "alone": 350, "without": between(-0.06)},
        },
        "knobs": [
            knob("rank", "cut", "120", 0.021, candidates=120.0),
            knob("rank", "cut", "30", -0.03, candidates=30.0),
            knob("covisit", "limit", "400", 0.002),
        ],
        "rules": [knob("seen", "rule", "left out", -0.04, candidates=240.0)],
        "sample": {"stages": 400, "knobs": 300, "verdict": 400},
        "shift": {"rank": {"why": "the bundle keeps no record of what 'rank' learned from"}},
        "calibration": {},
        "segments": [],
        "findings": [],
        "warnings": [],
    }
    return deepcopy({**told, **changes})


BINS = [{"confidence": 0.05 * place, "accuracy": 0.03 * place, "count": 20} for place in range(10)]


def whole(**changes: Any) -> dict[str, Any]:
    """A diagnosis with all that the command line adds, none of its parts empty."""
    told = made_up(
        calibration={
            "rank": {
                "users": 200,
                "users_fitted": 200,
                "probabilities": False,
                "ece": 0.11,
                "by_chance": 0.04,
                "nll": 3.0,
                "temperature": 1.6,
                "bins": BINS,
                "after": {"ece": 0.03, "by_chance": 0.04, "nll": 2.9, "bins": BINS},
            }
        },
        shift={
            "rank": {
                "requests": 400,
                "requests_training": 900,
                "recall_training": 0.65,
                "recall_serving": 0.7,
                "popularity_js": 0.04,
                "score_ks": 0.1,
                "auc": 0.7,
                "tv_lower_bound": 0.3,
                "items_never_trained": 40,
                "level": "noticeable",
                "few": False,
            }
        },
        segments=[
            segment("users", "new", 100, 0.1),
            segment("items", "tail", 20, 0.02, few=True),
            segment("items", "head", 390, 0.2),
        ],
        coverage={
            "requests": 400,
            "items": 900,
            "distinct": 500,
            "share": 5 / 9,
            "gini": 0.6,
            "entropy": 0.8,
            "first_item": 3,
            "first_share": 0.1,
            "collapse": False,
            "never_nominated": 90,
            "never_share": 0.1,
        },
        about={
            "name": "fir",
            "data": "world",
            "model": "abc",
            "fingerprint": "f00",
            "seed": 0,
            "pipeline": "a % 5",
        },
        trees={},
        seconds=1.25,
    )
    return {**told, **changes}


def segment(kind: str, name: str, users: int, recall: float, few: bool = False) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": name,
        "users": users,
        "wanted": 3 * users,
        "recall": {"mean": recall, "low": None, "high": None} if few else between(recall, 0.02),
        "lost": [0.3, 0.0, 0.4, 0.3 - recall],
        "few": few,
    }
