"""Callbacks that change what is trained: resets of the last layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rlpyt.agents.dqn.mlp_agent import MlpCatDqnAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.envs.toy import Counter
from rlpyt.models.encoders import EncodedModel
from rlpyt.runners.callbacks import Callback, ResetLayers
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.int_box import IntBox
from tests.contracts.test_compile import Graphs


class Watch(Callback):
    """Keeps copies of networks and optimizer of every iteration; listed after the resets."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def on_itr(self, runner: Any, itr: int, traj_infos: Any, opt_info: Any) -> None:
        agent, algo = runner.agent, runner.algo
        model = dict(agent.model.named_parameters())
        moments = {
            name: [x.clone() for x in algo.optimizer.state.get(p, {}).values()]
            for name, p in model.items()
        }
        self.found.append(
            {
                "updates": algo.update_counter,
                "model": {name: p.detach().clone() for name, p in model.items()},
                "target": {k: p.clone() for k, p in agent.target_model.state_dict().items()},
                "moments": moments,
            }
        )


def run(*callbacks: Callback, EnvCls: Any = Counter, **kwargs: Any) -> Any:
    """40 updates of a small noisy Rainbow, two in an iteration."""
    runner = MinibatchRl(
        algo=CategoricalDQN(
            V_min=-1,
            V_max=1,
            batch_size=8,
            replay_size=80,
            min_steps_learn=8,
            replay_ratio=2,
            target_update_interval=7,
        ),
        agent=MlpCatDqnAgent(
            n_atoms=3, model_kwargs={"hidden_sizes": [8, 8], "dueling": True, "noisy": True}
        ),
        sampler=SerialSampler(EnvCls, {}, batch_T=4, batch_B=2, max_decorrelation_steps=0),
        n_steps=168,
        log_interval_steps=168,
        seed=0,
        callbacks=callbacks,
        affinity={"master_torch_threads": 1},
        **kwargs,
    )
    runner.train()
    return runner


@pytest.mark.parametrize("compiles", [False, True])
def test_the_head_is_new_and_the_optimizer_has_forgotten_it(compiles: bool) -> None:
    watch = Watch()
    run(ResetLayers(interval_updates=16), watch, compile=Graphs().settings if compiles else False)
    reset = [
        i
        for i, x in enumerate(watch.found)
        if x["updates"]
        and not any(
            y.any() for name, ys in x["moments"].items() if name.startswith("head.") for y in ys
        )
    ]
    assert [watch.found[i]["updates"] for i in reset] == [16, 32]
    heads = []
    for i in reset:
        found, before = watch.found[i], watch.found[i - 1]
        names = [name for name in found["model"] if name.startswith("head.")]
        assert all(torch.equal(found["model"][x], found["target"][x]) for x in names)
        others = found["model"].keys() - names
        assert others
        assert all(x.any() for name in others for x in found["moments"][name])
        step = max((found["model"][x] - before["model"][x]).abs().max() for x in others)
        moved = max((found["model"][x] - before["model"][x]).abs().max() for x in names)
        assert step < 0.01 < moved
        sigmas = [found["model"][x] for x in names if x.endswith("weight_sigma")]
        assert sigmas
        assert all(len(sigma.unique()) == 1 for sigma in sigmas)  # As at the start.
        heads.append(torch.cat([found["model"][x].flatten() for x in names]))
    assert not torch.equal(*heads)


class WholeCounter(Counter):
    """Its count is an integer between bounds, for which models have an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self._observation_space = IntBox(0, 5, (1,), dtype="int64")


def test_the_head_behind_an_encoder() -> None:
    # Such models have no layer of this name, and the run ended at the first reset.
    watch = Watch()
    runner = run(ResetLayers(interval_updates=16), watch, EnvCls=WholeCounter)
    assert isinstance(runner.agent.model, EncodedModel)
    heads = {
        found["updates"]: torch.cat(
            [x.flatten() for name, x in found["model"].items() if ".head." in name]
        )
        for found in watch.found
    }
    assert (heads[14] - heads[12]).abs().max() < 0.01 < (heads[16] - heads[14]).abs().max()


def test_resets_are_counted_in_the_state() -> None:
    callback = ResetLayers(interval_updates=16)
    run(callback)
    assert callback.state_dict() == {"n_resets": 2}
    other = ResetLayers(interval_updates=16)
    other.load_state_dict(callback.state_dict())
    assert other.state_dict() == callback.state_dict()
