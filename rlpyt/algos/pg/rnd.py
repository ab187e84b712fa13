"""Random network distillation: a reward for observations that are new."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.algos.checks import check_positive
from rlpyt.algos.pg.base import PolicyGradientAlgo
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.rollouts import indexes_of
from rlpyt.algos.statistics import RunningStd
from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import BatchSpec, with_fields
from rlpyt.models.mlp import MlpModel
from rlpyt.models.running_mean_std import RunningMeanStdModel
from rlpyt.returns.valid import valid_from_done
from rlpyt.utils.buffer import leaves
from rlpyt.utils.quick_args import whole_number
from rlpyt.utils.tensor import valid_mean
from rlpyt.utils.types import Nested


class RandomNetworkDistillation(PolicyGradientAlgo):
    """Mixin that adds a bonus for new observations to the reward; list it first among the bases.

        reward = reward + bonus_coeff * |f(o) - g(o)|^2 / sigma

    g is a network with fixed random weights, and f learns to predict it, so the error is large
    where few observations were made. Observations are normalized by their running mean and
    deviation, and clipped at 5; sigma is the running deviation of discounted sums of the bonus.

    For a step, o is the next observation if the sampler records it
    (``record_next_observation=True``), and otherwise the one that the agent acted on. One value
    function learns both rewards; the paper has one for each. Evaluations count only the task's
    reward.

    Args:
        *args: arguments of the algorithm.
        bonus_coeff: weight of the bonus.
        bonus_learning_rate: learning rate of the predictor f.
        bonus_updates: number of updates of the predictor f in one iteration.
        bonus_hidden_sizes: sizes of the hidden layers of f and g, whose input is the whole
            observation as one vector.
        bonus_features: number of outputs of f and g.
        **kwargs: keywords of the algorithm.

    Raises:
        ValueError: if several processes train.

    Source: Burda et al. 2018, arXiv:1810.12894, sections 2.2 and 2.4.
    """

    def __init__(
        self,
        *args: Any,
        bonus_coeff: float = 0.5,
        bonus_learning_rate: float = 1e-3,
        bonus_updates: int = 1,
        bonus_hidden_sizes: tuple[int, ...] = (64,),
        bonus_features: int = 32,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.bonus_coeff = bonus_coeff
        self.bonus_learning_rate = bonus_learning_rate
        self.bonus_updates = whole_number("bonus_updates", bonus_updates, at_least=0)
        self.bonus_hidden_sizes = bonus_hidden_sizes
        self.bonus_features = bonus_features
        self.opt_info_fields = (*self.opt_info_fields, "bonus", "bonusLoss")

    def initialize(
        self,
        agent: AgentLike,
        n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool = False,
        examples: Nested = None,
        world_size: int = 1,
        rank: int = 0,
    ) -> None:
        """Set up the algorithm, and the networks of the bonus."""
        check_positive(self, "bonus_learning_rate", "make it positive")
        if world_size > 1:
            raise ValueError(
                f"world_size is {world_size}, but the networks of the bonus train in one process: "
                "use a runner of one process"
            )
        super().initialize(agent, n_itr, batch_spec, mid_batch_reset, examples, world_size, rank)
        observation = self._as_vectors(examples["observation"], 0)
        sizes = (observation.shape[-1], list(self.bonus_hidden_sizes), self.bonus_features)
        device = self.training_device
        self._bonus_nets = torch.nn.ModuleList([MlpModel(*sizes), MlpModel(*sizes)]).to(device)
        self._bonus_optimizer = torch.optim.Adam(
            self._bonus_nets[0].parameters(), lr=self.bonus_learning_rate
        )
        self._seen = RunningMeanStdModel(observation.shape[-1:]).to(device)
        self._bonus_sum = torch.zeros(batch_spec.B, device=device)
        self._bonus_std = RunningStd(device)

    def async_initialize(self, *args: Any, **kwargs: Any) -> Any:
        raise ValueError(
            f"{type(self).__name__} has a bonus, whose networks train in the process that samples: "
            "use a synchronous runner, with A2C or PPO"
        )

    def to_training_device(self, samples: Nested) -> Nested:
        """Move a batch [T,B], train the predicting network on it, and add ``env.bonus`` [T,B]."""
        samples = super().to_training_device(samples)
        env = samples.env
        is_recorded = "next_observation" in env._fields
        x = self._as_vectors(env.next_observation if is_recorded else env.observation, 2)
        # Rows in which an environment waits for its reset are blank.
        valid = None if self.mid_batch_reset else valid_from_done(env.done)
        self._seen.update(x if valid is None else x[indexes_of(valid)])
        x = ((x - self._seen.mean) / (self._seen.var.sqrt() + 1e-8)).clamp(-5, 5)
        with torch.no_grad():
            bonus = self._errors(x)
        self.next_diagnostics.update(
            bonus=valid_mean(bonus, valid), bonusLoss=self._train_bonus(x, valid)
        )
        scaled = self.bonus_coeff * self._scaled(bonus, valid)
        return samples._replace(env=with_fields(env, bonus=scaled))

    def _estimate(
        self, samples: Nested, reward: torch.Tensor, *args: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # Only here, since inputs of the agent have the reward of the task.
        return super()._estimate(samples, reward + samples.env.bonus, *args)

    @staticmethod
    def _as_vectors(observation: Nested, n_lead: int) -> torch.Tensor:
        """Return all leaves of ``observation`` [*lead,...] as float vectors [*lead,N]."""
        parts = [torch.as_tensor(x) for x in leaves(observation)]
        return torch.cat([x.reshape(*x.shape[:n_lead], -1).float() for x in parts], dim=-1)

    def _errors(self, x: torch.Tensor) -> torch.Tensor:
        predicted, target = (net(x) for net in self._bonus_nets)
        errors: torch.Tensor = (predicted - target.detach()).pow(2).mean(dim=-1)
        return errors

    def _train_bonus(self, x: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        loss = torch.zeros(())
        for _ in range(self.bonus_updates):
            loss = valid_mean(self._errors(x), valid)
            self._bonus_optimizer.zero_grad()
            loss.backward()
            self._bonus_optimizer.step()
        return loss.detach()

    def _scaled(self, bonus: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        """Return ``bonus`` [T,B] in units of the deviation of its discounted sums."""
        sums = []
        for t, row in enumerate(bonus):
            total = self.discount * self._bonus_sum + row
            if valid is not None:
                total = torch.where(valid[t] > 0, total, self._bonus_sum)
            self._bonus_sum = total
            sums.append(total)
        self._bonus_std.update(torch.stack(sums), valid, self.agent.device)
        return bonus / self._bonus_std.std.to(bonus)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the algorithm, including the scale of the bonus."""
        scale = {"std": self._bonus_std.state_dict(), "sum": self._bonus_sum}
        return {**super().state_dict(), "bonus": scale}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self._bonus_std.load_state_dict(state["bonus"]["std"])
        self._bonus_sum = torch.as_tensor(state["bonus"]["sum"]).to(self.training_device)


class RndPPO(RandomNetworkDistillation, PPO):
    """PPO with a bonus for new observations."""
