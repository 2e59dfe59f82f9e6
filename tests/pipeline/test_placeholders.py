"""A placeholder has the kind of the stage it stands for, and changes no candidate."""

from dataclasses import dataclass

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import GrammarError
from shortlist.grammar import Nominator, Stage
from shortlist.pipeline.placeholders import placeholder
from shortlist.pipeline.registry import TYPES
from shortlist.settings import setting


@pytest.mark.parametrize("name", TYPES)
def test_placeholder_has_the_kind_and_size_of_its_type(name):
    pending = placeholder(TYPES[name], "it")
    assert (pending.kind, pending.size_field, pending.title) == (
        TYPES[name].kind,
        TYPES[name].size_field,
        "it",
    )


@pytest.mark.parametrize("name", ["seen", "feature-ranker", "diverse"])
def test_placeholder_keeps_all_candidates(name):
    found = Candidates.of(torch.tensor([[4, 2, 7]]), torch.tensor([[3.0, 2.0, 1.0]]))
    passed = placeholder(TYPES[name], "it")(Query.of([[2]]), found)
    assert passed.items.tolist() == [[4, 2, 7]]


def test_placeholder_has_the_default_size_of_a_class_of_your_own():
    @dataclass(frozen=True, eq=False, repr=False)
    class Wide(Nominator):
        """Nominates many."""

        limit: int = setting(500, "Largest number of candidates.", least=1)

        def nominate(self, query):
            return Candidates.none(len(query))

    assert placeholder(Wide, "it").limit == 500
    assert (placeholder(Wide, "it") % 7).limit == 7
    assert placeholder(TYPES["popular"], "it").limit == Nominator.limit


def test_class_without_a_kind_is_refused():
    with pytest.raises(GrammarError, match="Stage has no kind: derive it from Nominator"):
        placeholder(Stage, "it")
