"""Examples are checked where they enter."""

from dataclasses import replace

import pytest
import torch

from shortlist.errors import DataError
from shortlist.train.pools import Triples, fit_sgd
from tests.train.pools.worlds import mixture, outcomes


def test_a_split_keeps_every_example_once() -> None:
    triples = outcomes(5)
    rest, held_out = triples.split(0.25, seed=1)
    assert len(held_out) == 15
    rows = torch.cat([rest.rows, held_out.rows])
    assert torch.equal(rows.sort().values, triples.rows)


def test_rewards_and_features_that_are_no_numbers_are_refused_with_their_row() -> None:
    contexts, items, rewards = torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64), torch.zeros(3)
    with pytest.raises(DataError, match="rewards must be finite numbers, got 1 others, the first in row 2"):
        Triples.of(contexts, items, torch.tensor([0.0, 1.0, torch.nan]))
    contexts[1, 0] = torch.inf
    with pytest.raises(DataError, match="contexts must be finite numbers, got 1 others, the first in row 1"):
        Triples.of(contexts, items, rewards)


def test_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(DataError, match=r"expected rewards \[3\], got \[2\]"):
        Triples.of(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64), torch.zeros(2))
    with pytest.raises(DataError, match=r"expected contexts \[M, d\], got \[3\]"):
        Triples.of(torch.zeros(3), torch.zeros(3, dtype=torch.int64), torch.zeros(3))


def test_examples_that_do_not_fit_a_model_are_refused() -> None:
    triples = Triples.of(torch.zeros(2, 3), torch.tensor([0, 9]), torch.zeros(2))
    with pytest.raises(DataError, match="the model reads 4 features, the contexts have 3"):
        triples.check(4, 10)
    with pytest.raises(DataError, match="expected items 0 to 4, got 0 to 9"):
        triples.check(3, 5)


def test_weights_below_0_and_weights_of_nothing_are_refused() -> None:
    triples = outcomes(3)
    with pytest.raises(DataError, match="expected weights from 0, got -1"):
        replace(triples, weights=-torch.ones(len(triples)))
    with pytest.raises(DataError, match="expected an example with a weight above 0"):
        fit_sgd(mixture(), replace(triples, weights=torch.zeros(len(triples))))


def test_rows_and_items_that_are_no_places_are_refused() -> None:
    triples = outcomes(3)
    with pytest.raises(DataError, match="expected items as whole numbers, got"):
        replace(triples, items=triples.items.float())
    with pytest.raises(DataError, match="expected rows 0 to 35 of the contexts, got 1 to 36"):
        replace(triples, rows=triples.rows + 1)
