"""Schedule of random actions: annealed while sampling, small and fixed in evaluation."""

from __future__ import annotations

import math
import multiprocessing as mp
from collections.abc import Sequence
from typing import Any, Union

import torch

from rlpyt.agents.base import BaseAgent
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import save__init__args

Epsilon = Union[float, torch.Tensor]

EPS_INIT, EPS_FINAL, EPS_EVAL = 1, 0.01, 0.001


class EpsilonGreedyAgentMixin(BaseAgent):
    """Mixin that anneals the probability of a random action; list it before the agent class.

        p       = clip((itr - eps_itr_min) / (eps_itr_max - eps_itr_min), 0, 1)
        epsilon = p * eps_final + (1 - p) * eps_init

    The algorithm sets the two iterations by :meth:`set_epsilon_itr_min_max`. They are in shared
    memory, so running workers see the change.

    Args:
        eps_init: probability before ``eps_itr_min``. For a network with noisy layers, the defaults
            of ``eps_init``, ``eps_final`` and ``eps_eval`` become 0.
        eps_final: probability after ``eps_itr_max``.
        eps_final_min: smallest final probability. If given, the final probabilities of the
            environments are evenly spaced on a logarithmic scale from ``eps_final_min`` to
            ``eps_final``.
        eps_itr_min: iteration of the sampler at which annealing begins.
        eps_itr_max: iteration of the sampler at which annealing ends.
        eps_eval: probability in evaluation; 1 before the first iteration.
        eps_with_noise: whether the defaults stay for a network with noisy layers too.
        *args: positional arguments of the agent class.
        **kwargs: keywords of the agent class.

    Raises:
        ValueError: if a probability is outside [0, 1], or 0 with ``eps_final_min``.

    Source: Mnih et al. 2015, doi:10.1038/nature14236; one epsilon per environment as in Horgan et
    al. 2018, arXiv:1803.00933.
    """

    eps_init: Epsilon = EPS_INIT
    eps_final: Epsilon = EPS_FINAL
    eps_final_min: float | None = None
    eps_itr_min: int = 50
    eps_itr_max: int = 1000
    eps_eval: float = EPS_EVAL
    eps_with_noise: bool = False

    def __init__(
        self,
        eps_init: float = EPS_INIT,
        eps_final: float = EPS_FINAL,
        eps_final_min: float | None = None,
        eps_itr_min: int = 50,
        eps_itr_max: int = 1000,
        eps_eval: float = EPS_EVAL,
        *args: Any,
        eps_with_noise: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        save__init__args(locals())
        self.eps_with_noise = eps_with_noise
        self._check_epsilons()
        self._eps_init_scalar = float(self.eps_init)
        self._eps_final_scalar = float(self.eps_final)
        self._eps_itr_min_max = mp.RawArray("l", [int(self.eps_itr_min), int(self.eps_itr_max)])
        self._eps_is_logged = True
        self._eps_logged_itr = -1

    def _check_epsilons(self) -> None:
        for name in ("eps_init", "eps_final", "eps_final_min", "eps_eval"):
            epsilon = getattr(self, name)
            if epsilon is not None and not 0 <= epsilon <= 1:
                raise ValueError(f"{name} is {epsilon}: choose a probability, in [0, 1]")
        if self.eps_final_min is None or self.eps_final_min == self.eps_final:
            return
        if 0 in (self.eps_final_min, self.eps_final):
            raise ValueError(
                f"eps_final_min is {self.eps_final_min} and eps_final is {self.eps_final}: between "
                "them epsilons are spaced by their logarithm, make both positive, or eps_final_min "
                "None"
            )

    def set_default_epsilons_to_zero(self) -> None:
        """Act greedily, with a network that explores by itself.

        Values of ``eps_init``, ``eps_final`` and ``eps_eval`` that differ from their defaults stay,
        and so does ``eps_final`` if ``eps_final_min`` is given; with ``eps_with_noise`` all stay.
        """
        if self.eps_with_noise:
            return
        if self._eps_init_scalar == EPS_INIT:
            self._eps_init_scalar = 0.0
        if self.eps_final_min is None and self._eps_final_scalar == EPS_FINAL:
            self._eps_final_scalar = 0.0
        if self.eps_eval == EPS_EVAL:
            self.eps_eval = 0.0
        self.eps_init, self.eps_final = self._eps_init_scalar, self._eps_final_scalar
        logger.log(
            f"The agent explores by the noise of its network: epsilon {self.eps_init} to "
            f"{self.eps_final}, in evaluation {self.eps_eval}."
        )

    def collector_initialize(
        self, global_B: int = 1, env_ranks: Sequence[int] | None = None
    ) -> None:
        """Make the vector of epsilons for the environments in this process."""
        super().collector_initialize(global_B, env_ranks)
        if env_ranks is not None:
            self.make_vec_eps(global_B, env_ranks)

    def make_vec_eps(self, global_B: int, env_ranks: Sequence[int]) -> None:
        """Give each environment its final epsilon, if ``eps_final_min`` is set.

        Args:
            global_B: number of environments over all processes.
            env_ranks: indexes of the environments that this agent acts for. In alternating
                sampling, environments at the same position in the two halves share an epsilon.

        Raises:
            ValueError: if ``global_B`` is odd in alternating sampling.
        """
        self._eps_is_logged = 0 in env_ranks
        if self.alternating:
            if global_B % 2:
                raise ValueError(
                    f"global_B is {global_B}: alternating sampling steps two halves of the "
                    "environments, so choose an even number"
                )
            global_B //= 2
            env_ranks = sorted({rank // 2 for rank in env_ranks})
        self.eps_init, self.eps_final = self._eps_init_scalar, self._eps_final_scalar
        if self.eps_final_min is not None and self.eps_final_min != self._eps_final_scalar:
            lowest, highest = math.log10(self.eps_final_min), math.log10(self._eps_final_scalar)
            self.eps_final = torch.logspace(lowest, highest, global_B)[list(env_ranks)]
            self.eps_init = self._eps_init_scalar * torch.ones_like(self.eps_final)
        self.eps_sample = self.eps_init

    def set_epsilon_itr_min_max(self, eps_itr_min: int, eps_itr_max: int) -> None:
        """Set the iterations of annealing, for every process that acts with this agent.

        Args:
            eps_itr_min: first iteration.
            eps_itr_max: last iteration; from then on epsilon is final, even if ``eps_itr_max`` is
                not greater than ``eps_itr_min``.
        """
        logger.log(f"Agent setting min/max epsilon itrs: {eps_itr_min}, {eps_itr_max}")
        self._eps_itr_min_max[:] = [int(eps_itr_min), int(eps_itr_max)]

    def set_sample_epsilon_greedy(self, epsilon: Epsilon) -> None:
        """Act with ``epsilon`` until the mode changes.

        Args:
            epsilon: probability, a scalar or one for each environment of a batch [B].
        """
        self.distribution.set_epsilon(epsilon)

    def sample_mode(self, itr: int) -> None:
        super().sample_mode(itr)
        progress = self._eps_progress(itr)
        self.eps_sample = progress * self.eps_final + (1 - progress) * self.eps_init
        self.distribution.set_epsilon(self.eps_sample)
        self._log_eps_sample(itr)

    def eval_mode(self, itr: int) -> None:
        is_entered = self._mode != "eval"  # Runner and collector both call this.
        super().eval_mode(itr)
        epsilon = self.eps_eval if itr > 0 else 1.0
        self.distribution.set_epsilon(epsilon)
        if is_entered:
            logger.log(f"Agent at itr {itr}, eval eps {epsilon}")

    def _eps_progress(self, itr: int) -> float:
        """Return the finished fraction of the annealing, in [0, 1]."""
        itr_min, itr_max = map(int, self._eps_itr_min_max)
        if itr >= itr_max:
            return 1.0
        return max(0, itr - itr_min) / max(1, itr_max - itr_min)

    def _log_eps_sample(self, itr: int) -> None:
        """Log epsilon ten times in a run, from the process that acts for the first environment."""
        itr_max = self._eps_itr_min_max[1]
        is_due = itr == itr_max or (itr < itr_max and itr % max(1, itr_max // 10) == 0)
        # Runner and collector both call this in every iteration.
        if not (is_due and self._eps_is_logged) or itr == self._eps_logged_itr:
            return
        self._eps_logged_itr = itr
        epsilons = torch.as_tensor(self.eps_sample)
        logger.log(f"Agent at itr {itr}, sample eps {epsilons.min():.6g} to {epsilons.max():.6g}")
