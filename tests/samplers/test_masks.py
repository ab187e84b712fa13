"""In every sampler the mask reaches the agent, from the first step of all."""

import gymnasium
import pytest
import torch

from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent, MlpR2d1Agent, MlpR2d1AlternatingAgent
from rlpyt.envs.masks import ActionMaskWrapper
from rlpyt.envs.vector import VectorEnvWrapper
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.vector.sampler import VectorSampler
from tests.envs.doors import Doors, make_doors
from tests.samplers.parallel_parts import PARALLEL

B = 4


def make_vector(num_envs):
    envs = [lambda: ActionMaskWrapper(Doors()) for _ in range(num_envs)]
    return VectorEnvWrapper(gymnasium.vector.SyncVectorEnv(envs))


@pytest.mark.parametrize("SamplerCls", [SerialSampler, VectorSampler, *PARALLEL])
def test_forbidden_actions_are_not_taken(SamplerCls):
    """Doors end the run if one is, also in the random steps at the start and in evaluation."""
    agent = MlpDqnAgent(model_kwargs={"hidden_sizes": [8]})
    if SamplerCls is not VectorSampler:
        AgentCls = MlpR2d1AlternatingAgent if SamplerCls.alternating else MlpR2d1Agent
        agent = AgentCls(model_kwargs={"hidden_sizes": [8], "lstm_size": 4})
    sampler = SamplerCls(
        make_vector if SamplerCls is VectorSampler else make_doors,
        {},
        batch_T=25,
        batch_B=B,
        max_decorrelation_steps=20,
        eval_n_envs=2,
        eval_max_steps=40,
    )
    sampler.example_subprocess = False
    affinity = {} if SamplerCls in (SerialSampler, VectorSampler) else {"workers_cpus": 2}
    sampler.initialize(agent, seed=1, **({"affinity": affinity} if affinity else {}))
    try:
        for itr in range(2):
            agent.sample_mode(itr)
            samples, _ = sampler.obtain_samples(itr)
            mask = samples.env.observation.action_mask
            assert mask.gather(-1, samples.agent.action[..., None].long()).all()
            assert torch.equal(mask.sum(-1), torch.full((25, B), 3))
        agent.eval_mode(1)
        assert sampler.evaluate_agent(1)
    finally:
        sampler.shutdown()
