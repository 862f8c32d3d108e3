import numpy as np
import pytest
from scipy import special, stats

from service.domain import LOOKS
from service.stats.spending import crossing_alpha, levels, sequential_p, spent

# From a simulation of Brownian motion, before there was code: .0059 is .0057 and its noise.
PUBLISHED = {
    0.025: (0.0059, 0.0050, 0.0063, 0.0078, 0.0112),
    0.05: (0.0115, 0.0101, 0.0131, 0.0166, 0.0239),
}


@pytest.fixture(scope="module")
def t_p_values():
    """p-values of sequential t tests without any effect, replications × looks."""
    x = np.random.default_rng(1).standard_normal((200_000, LOOKS[-1]))
    columns = []
    for n in LOOKS:
        t = x[:, :n].mean(axis=1) / x[:, :n].std(axis=1, ddof=1) * np.sqrt(n)
        columns.append(special.stdtr(n - 1, -t))
    return np.stack(columns, axis=1)


@pytest.fixture(scope="module")
def brownian_p_values():
    """The same for a Brownian motion with drift 0, seen at the looks."""
    steps = np.diff(LOOKS, prepend=0)
    rng = np.random.default_rng(2)
    path = np.cumsum(rng.standard_normal((200_000, len(LOOKS))) * np.sqrt(steps), axis=1)
    return special.ndtr(-path / np.sqrt(LOOKS))


def crossed(p_values, bounds):
    """Share of replications that crossed by each look."""
    return np.logical_or.accumulate(p_values <= np.array(bounds), axis=1).mean(axis=0)


def margin(share, replications=200_000):
    return 4 * np.sqrt(share * (1 - share) / replications)


def test_spending_starts_at_nothing_and_ends_at_alpha():
    assert spent(0.0, 0.05) == 0
    assert spent(1.0, 0.05) == pytest.approx(0.05)
    assert spent(0.5, 0.05) == pytest.approx(0.05 * np.log((1 + np.e) / 2))


def test_the_first_look_spends_its_share_exactly():
    assert levels(LOOKS, 0.025)[0] == pytest.approx(0.025 * np.log(1 + (np.e - 1) * 0.15), rel=1e-3)


def test_a_single_look_is_an_ordinary_test():
    assert levels((3,), 0.025) == pytest.approx((0.025,))
    assert sequential_p((3,), [0.013]) == pytest.approx(0.013, rel=1e-3)


@pytest.mark.parametrize("alpha", [0.05, 0.025, 0.025 / 3])
def test_levels_spend_what_they_should_on_t_statistics(t_p_values, alpha):
    share = spent(np.array(LOOKS) / LOOKS[-1], alpha)
    found = crossed(t_p_values, levels(LOOKS, alpha))
    assert np.all(np.abs(found - share) < margin(share) + 0.01 * share)


def test_a_policy_of_twelve_pairs_spends_alpha_by_then(t_p_values):
    found = crossed(t_p_values[:, :4], levels((3, 5, 8, 12), 0.025))
    assert found[-1] == pytest.approx(0.025, abs=margin(0.025) + 0.00025)


def test_uncorrected_looks_would_err_far_more_often(t_p_values):
    assert crossed(t_p_values, [0.025] * len(LOOKS))[-1] > 0.06


@pytest.mark.parametrize("alpha", PUBLISHED)
def test_with_many_pairs_the_levels_are_those_of_a_brownian_motion(brownian_p_values, alpha):
    normal_limit = levels(tuple(100 * n for n in LOOKS), alpha)
    assert normal_limit == pytest.approx(PUBLISHED[alpha], rel=0.04)
    share = spent(np.array(LOOKS) / LOOKS[-1], alpha)
    found = crossed(brownian_p_values, normal_limit)
    assert np.all(np.abs(found - share) < margin(share) + 0.02 * share)


def test_normal_levels_would_be_too_generous_for_few_pairs(t_p_values):
    assert crossed(t_p_values, PUBLISHED[0.025])[-1] > 0.0275


def test_one_pair_at_a_time_spends_alpha_too():
    x = np.random.default_rng(3).standard_normal((200_000, 6))
    looks = (3, 4, 5, 6)
    p_values = np.stack(
        [stats.ttest_1samp(x[:, :n], 0, axis=1, alternative="greater").pvalue for n in looks],
        axis=1,
    )
    share = spent(np.array(looks) / 6, 0.05)
    found = crossed(p_values, levels(looks, 0.05))
    assert np.all(np.abs(found - share) < margin(share, 200_000) + 0.01 * share)


def test_levels_grow_with_alpha():
    grid = np.array([levels(LOOKS, alpha) for alpha in np.geomspace(1e-5, 0.4, 30)])
    assert np.all(np.diff(grid, axis=0) > 0)


@pytest.mark.parametrize("looks", [(), (1, 2), (5, 3), (3, 3)])
def test_looks_must_rise(looks):
    with pytest.raises(ValueError, match="looks must rise"):
        levels(looks, 0.05)


@pytest.mark.parametrize("alpha", [0.05, 0.025, 0.0125, 0.025 / 7])
def test_crossing_alpha_inverts_the_levels(alpha):
    for k, level in enumerate(levels(LOOKS, alpha)):
        assert crossing_alpha(LOOKS, k, level) == pytest.approx(alpha, rel=2e-3)


def test_sequential_p_is_the_best_look_so_far():
    third = levels(LOOKS, 0.01)[2]
    assert sequential_p(LOOKS, [0.9, 0.6]) == 1.0
    assert sequential_p(LOOKS, [0.9, 0.6, third]) == pytest.approx(0.01, rel=2e-3)
    assert sequential_p(LOOKS, [0.9, 0.6, third, 0.9]) == pytest.approx(0.01, rel=2e-3)


def test_sequential_p_has_a_floor_and_no_nan():
    assert sequential_p(LOOKS, [0.0]) == pytest.approx(1e-6)
    assert sequential_p(LOOKS, [1.0]) == 1.0
    assert sequential_p(LOOKS, []) == 1.0


def test_sequential_p_is_valid_at_any_look(t_p_values):
    by_look = [crossing_alpha(LOOKS, k, t_p_values[:, k]) for k in range(len(LOOKS))]
    best = np.minimum.reduce(by_look)
    for alpha in (0.1, 0.05, 0.025, 0.005):
        assert (best <= alpha).mean() == pytest.approx(alpha, abs=margin(alpha) + 0.01 * alpha)
