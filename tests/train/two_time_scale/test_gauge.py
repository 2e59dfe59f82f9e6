import torch

from shortlist.train.two_time_scale.gauge import gauge_fix


def test_scores_do_not_change_with_the_gauge():
    """Spec test 16."""
    torch.manual_seed(0)
    users, items = torch.randn(500, 8) * 7, torch.randn(40, 8)
    fixed, scaled, factor = gauge_fix(users, items)
    torch.testing.assert_close(fixed @ scaled.T, users @ items.T, rtol=1e-5, atol=1e-4)
    assert factor > 1


def test_nearly_all_coordinates_of_users_are_within_the_bound_of_a_state():
    torch.manual_seed(0)
    fixed, _, _ = gauge_fix(torch.randn(5000, 4) * 30, torch.randn(3, 4))
    assert float((fixed.abs() <= 0.9).float().mean()) >= 0.9985
    assert float(fixed.abs().quantile(0.999)) <= 0.905


def test_vectors_that_are_all_zero_stay_as_they_are():
    users, items = torch.zeros(3, 2), torch.ones(4, 2)
    assert gauge_fix(users, items) == (users, items, 1.0)
    assert gauge_fix(torch.zeros(0, 2), items)[2] == 1.0
