"""A test that looks at the scores of two settings after every seed, and stops once they differ.

The statistic after n seeds is the share of the n^2 pairs of runs in which the first setting scores
more (ties count half). If both settings have one distribution, every order of the scores is equally
probable, so the joint distribution of all looks is known whatever that distribution is. Simulated
orders give the critical values: at each look the same nominal level, chosen such that all looks
together decide falsely with at most the stated probability. Ties only lower it.

Source: Mann and Whitney 1947, doi:10.1214/aoms/1177730491 (statistic); Pocock 1977,
doi:10.1093/biomet/64.2.191 (one nominal level for all looks).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from rlpyt.experiments.results.statistics import probability_of_improvement
from rlpyt.utils.types import NDArray


class SequentialTest:
    """Test of two settings, after each seed, for a difference.

    Args:
        confidence: 1 minus the probability to decide, at any look, if there is no difference.
        max_seeds: largest number of seeds of each setting.

    Attributes:
        critical: [max_seeds] least distances of the share from 1/2 that decide; inf where none can.
    """

    def __init__(self, confidence: float = 0.95, max_seeds: int = 20) -> None:
        if not 0 < confidence < 1:
            raise ValueError(f"confidence={confidence} must lie between 0 and 1, such as 0.95")
        self.critical = critical_distances(1 - confidence, max_seeds)
        if np.isinf(self.critical).all():
            raise ValueError(
                f"max_seeds={max_seeds} never decide with the confidence {confidence}: allow more, "
                "or a lower confidence"
            )

    def verdict(self, scores: NDArray, others: NDArray) -> str | None:
        """Return "better", "worse" or "undecided"; None if further seeds can decide.

        Scores [n] of both settings are in the order of their seeds.
        """
        n, share = len(scores), float(probability_of_improvement([scores], [others]))
        distance, n_wins = share - 0.5, share * n**2
        if abs(distance) >= self.critical[n - 1]:
            return "better" if distance > 0 else "worse"
        later = np.arange(n + 1, len(self.critical) + 1)
        # If the first setting wins, or loses, against all others from now on.
        most, least = (n_wins + later**2 - n**2) / later**2, n_wins / later**2
        reached = np.maximum(most - 0.5, 0.5 - least) >= self.critical[n:]
        return None if reached.any() else "undecided"


@lru_cache
def critical_distances(error: float, max_seeds: int, n_draws: int = 100_000) -> NDArray:
    """Return the critical values [max_seeds] of :class:`SequentialTest`.

    Args:
        error: probability of a false decision; two standard errors of the simulation are kept
            below it.
        max_seeds: number of looks.
        n_draws: number of simulated pairs of settings.
    """
    distances = np.abs(simulated_shares(max_seeds, n_draws) - 0.5)
    levels = np.empty_like(distances)  # The share of draws at least as far, at the same look.
    for look, column in enumerate(distances.T):
        n_nearer = np.searchsorted(np.sort(column), column - 1e-9)
        levels[:, look] = 1 - n_nearer / n_draws
    least = np.sort(levels.min(axis=1))
    margin = 2 * np.sqrt(error * (1 - error) / n_draws)
    level = least[int((error - margin) * n_draws)]  # Draws strictly below it decide.
    critical = np.full(max_seeds, np.inf)
    for look in range(max_seeds):
        decides = distances[levels[:, look] < level, look]
        critical[look] = decides.min(initial=np.inf) - 1e-9
    return critical


def simulated_shares(max_seeds: int, n_draws: int, shift: float = 0.0, seed: int = 0) -> NDArray:
    """Return simulated shares of wins [n_draws, max_seeds] of normal scores.

    Args:
        max_seeds: number of looks.
        n_draws: number of simulated pairs of settings.
        shift: difference of the means, in standard deviations; with 0, scores of any other
            continuous distribution have the same shares.
        seed: seed of the drawing.
    """
    generator = np.random.default_rng(seed)
    x, y = generator.standard_normal((2, n_draws, max_seeds), dtype=np.float32)
    x += np.float32(shift)
    n_wins, shares = np.zeros(n_draws), np.empty((n_draws, max_seeds))
    for n in range(max_seeds):
        n_wins += (x[:, n, None] > y[:, : n + 1]).sum(axis=1)
        n_wins += (x[:, :n] > y[:, n, None]).sum(axis=1)
        shares[:, n] = n_wins / (n + 1) ** 2
    return shares
