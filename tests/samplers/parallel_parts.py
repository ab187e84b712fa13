"""An environment with everything that may happen, and agents whose every number is exact."""

import os
import signal
import time
from collections import namedtuple

import numpy as np
import torch

from rlpyt.agents.base import (
    AgentStep,
    AlternatingRecurrentAgentMixin,
    BaseAgent,
    RecurrentAgentMixin,
)
from rlpyt.core.records import EnvSpaces, EnvStep
from rlpyt.distributions.categorical import Categorical, DistInfo as ChoiceInfo
from rlpyt.distributions.epsilon_greedy import EpsilonGreedy
from rlpyt.distributions.gaussian import DistInfo, Gaussian
from rlpyt.envs.vector import VectorStep
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import (
    AlternatingSampler,
    NoOverlapAlternatingSampler,
)
from rlpyt.samplers.parallel.gpu.collectors import GpuResetCollector, GpuWaitResetCollector
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.ray.sampler import RaySampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.vector.sampler import VectorSampler
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.buffer import buffer_from_example, map_buffer
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.seed import generator_state, set_envs_seeds, set_generator_state

PARALLEL = [CpuSampler, GpuSampler, AlternatingSampler, NoOverlapAlternatingSampler]
COLLECTORS = {
    "reset": (CpuResetCollector, GpuResetCollector),
    "wait": (CpuWaitResetCollector, GpuWaitResetCollector),
}

Observation = namedarraytuple("Observation", ["count", "noise"])
Info = namedtuple("Info", ["traj_done", "draw"])


class DiceEnv:
    """Throws dice: about the reward, whether a life is lost (``done``), and whether all are.

    At times a trajectory ends without ``done``, as with a time limit that does not concern the
    learner.

    The observation says the steps since the reset, the last throw and the last action.
    """

    def __init__(self, offset=0):
        self.offset = offset
        self.action_space = IntBox(1, 5)  # The null action is 1, not 0.
        self.observation_space = IntBox(0, 1000, shape=(2,))
        self.spaces = EnvSpaces(self.observation_space, self.action_space)
        self.rng = np.random.default_rng(0)
        self.count = None
        self.n_envs_made = 1

    def seed(self, seed):
        self.rng = np.random.default_rng(seed)

    def _observe(self, action):
        noise = self.rng.integers(100, size=2).astype("float32")
        return Observation(np.float32(self.count + self.offset), noise + action / 8)

    def reset(self):
        self.count = 0
        return self._observe(0)

    def step(self, action):
        assert self.count is not None, "stepped before the reset"
        self.count += 1
        draw = int(self.rng.integers(12))
        over, life_lost = draw in (0, 11), draw < 3
        if over:
            observation, self.count = self._observe(action), None
        else:
            observation = self._observe(action)
        return EnvStep(observation, self._reward(action, draw), life_lost, Info(over, draw))

    def _reward(self, action, draw):
        return float(draw + 10 * action)

    def close(self):
        pass

    def state_dict(self):
        return {"count": self.count, "rng": generator_state(self.rng)}

    def load_state_dict(self, state):
        self.count = state["count"]
        set_generator_state(self.rng, state["rng"])


class WalkEnv(DiceEnv):
    """A walk in the plane, driven by actions and dice, which forgets half of its place in a step.

    The observation is a vector, for networks, and small differences stay small.
    """

    forces = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], dtype="float32")

    def __init__(self, is_continuous=False):
        super().__init__()
        self.observation_space = FloatBox(-9, 9, (3,))
        self.action_space = FloatBox(-1, 1, (2,)) if is_continuous else IntBox(0, 4)
        self.spaces = EnvSpaces(self.observation_space, self.action_space)
        self.place = np.zeros(2, dtype="float32")

    def _observe(self, action):
        force = self.forces[action] if np.ndim(action) == 0 else action
        noise = self.rng.random(2, dtype="float32")
        self.place = self.place / 2 + force + noise
        return np.array([*self.place, (self.count or 0) % 3], dtype="float32")

    def reset(self):
        self.place = np.zeros(2, dtype="float32")
        return super().reset()

    def _reward(self, action, draw):
        return float(self.place.sum())

    def state_dict(self):
        return {**super().state_dict(), "place": self.place}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.place = state["place"]


class VectorOf:
    """Environments as one, with the methods that the vector sampler needs.

    What of them is where is told as in the other samplers: by a list, or one mapping for all.
    """

    def __init__(self, num_envs, EnvCls=DiceEnv, each=None, **kwargs):
        self.num_envs = num_envs
        each = [kwargs] * num_envs if each is None else each
        self.envs = [EnvCls(**each[b % len(each)]) for b in range(num_envs)]
        self.action_space, self.spaces = self.envs[0].action_space, self.envs[0].spaces
        self.seeds = None

    def seed(self, seeds):
        self.seeds = seeds
        set_envs_seeds(self.envs, seeds)

    def _stack(self, parts):
        stacked = buffer_from_example(parts[0], self.num_envs)
        for b, part in enumerate(parts):
            stacked[b] = part
        return stacked

    def reset(self):
        return self._stack([env.reset() for env in self.envs])

    def reset_some(self, which, observation, seeded=False):
        observation = map_buffer(np.copy, observation)
        for b in np.flatnonzero(which):
            if seeded:
                # Only the ones that had begun drew actions.
                set_envs_seeds(self.envs[b : b + 1], self.seeds[b : b + 1])
            observation[b] = self.envs[b].reset()
        return observation

    def sample_actions(self, which=None):
        which = np.ones(self.num_envs, dtype=bool) if which is None else which
        spaces = [env.action_space for env in self.envs]
        return np.stack([s.sample() if w else s.null_value() for s, w in zip(spaces, which)])

    def step(self, action):
        steps = [env.step(a) for env, a in zip(self.envs, action)]
        observation, reward, done, info = map(list, zip(*steps))
        first = [
            env.reset() if getattr(step.env_info, "traj_done", step.done) else step.observation
            for env, step in zip(self.envs, steps)
        ]
        return VectorStep(
            self._stack(observation),
            np.array(reward, dtype="float32"),
            np.array(done),
            self._stack(info),
            self._stack(first),
        )

    def close(self):
        pass

    def state_dict(self):
        return {"envs": [env.state_dict() for env in self.envs]}

    def load_state_dict(self, state):
        for env, saved in zip(self.envs, state["envs"]):
            env.load_state_dict(saved)


AgentInfo = namedarraytuple("AgentInfo", ["prev_action", "prev_reward", "value"])
RnnInfo = namedarraytuple("RnnInfo", [*AgentInfo._fields, "prev_rnn_state"])


def act(observation, prev_action, prev_reward):
    """A rule that depends on everything; whole numbers (and eighths), so sums are exact."""
    if isinstance(observation, torch.Tensor):  # Of another environment.
        observation = Observation(observation[..., 0], observation)
    total = observation.count + observation.noise.sum(-1) + 3 * prev_action + prev_reward
    return 1 + total.long() % 4, total


class RuleAgent(BaseAgent):
    """Acts by a rule, and reports what it was given."""

    def initialize(self, env_spaces, share_memory=False, global_B=1, env_ranks=None):
        self.env_spaces = env_spaces
        self.model = torch.nn.Linear(1, 1)

    def step(self, observation, prev_action, prev_reward):
        action, total = act(observation, prev_action, prev_reward)
        return AgentStep(action, AgentInfo(prev_action, prev_reward, total))

    def value(self, observation, prev_action, prev_reward):
        return act(observation, prev_action, prev_reward)[1]


class RememberingRule(BaseAgent):
    """The same with a state [1,B,2], which sums up the past of an episode."""

    def initialize(self, env_spaces, share_memory=False, global_B=1, env_ranks=None):
        self.env_spaces = env_spaces
        self.model = torch.nn.Linear(1, 1)

    def _totals(self, observation, prev_action, prev_reward):
        total = act(observation, prev_action, prev_reward)[1]
        before = self.prev_rnn_state
        if before is None:
            before = torch.zeros(1, *(total.shape or (1,)), 2)
        return total + before[0, :, 0].reshape(total.shape), before

    def step(self, observation, prev_action, prev_reward):
        total, before = self._totals(observation, prev_action, prev_reward)
        after = before + torch.tensor([1.0, 2.0])
        self.advance_rnn_state(after)
        info = RnnInfo(prev_action, prev_reward, total, before.transpose(0, 1))
        return AgentStep(1 + total.long() % 4, info)

    def value(self, observation, prev_action, prev_reward):
        return self._totals(observation, prev_action, prev_reward)[0]


class RecurrentRule(RecurrentAgentMixin, RememberingRule):
    pass


class AlternatingRule(AlternatingRecurrentAgentMixin, RememberingRule):
    pass


class ChanceAgent(RuleAgent):
    """Draws from distributions of the library, whose parameters follow the rule.

    What it draws is also its information: all of it would show in a batch.
    """

    greedy = EpsilonGreedy(dim=4, epsilon=0.5)
    choice = Categorical(dim=4)
    normal = Gaussian(dim=1, std=1.0, noise_clip=1.5)

    def step(self, observation, prev_action, prev_reward):
        rule, total = act(observation, prev_action, prev_reward)
        q = torch.eye(4)[rule - 1]
        drawn = self.normal.sample(DistInfo(total[..., None].float() % 8)).squeeze(-1)
        action = self.greedy.sample(q) + self.choice.sample(ChoiceInfo(q + 1 / 4))
        return AgentStep(1 + action % 4, AgentInfo(prev_action, prev_reward, drawn))


class CoinAgent(RuleAgent):
    """Draws actions from torch's generator."""

    def step(self, observation, prev_action, prev_reward):
        action = torch.randint(1, 5, prev_reward.shape)
        return AgentStep(action, AgentInfo(prev_action, prev_reward, prev_reward))


class FaultyEnv(DiceEnv):
    """Fails in the method ``where`` (init, reset, step) in the way ``how``."""

    def __init__(self, how=None, where="step", after=0, **kwargs):
        super().__init__(**kwargs)
        self.how, self.where, self.left = how, where, after
        self._maybe_fail("init")

    def _maybe_fail(self, where):
        if self.how is None or where != self.where:
            return
        self.left -= 1
        if self.left >= 0:
            return
        if self.how == "raise":
            raise KeyError("the error of the environment")
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.how == "exit":
            os._exit(0)
        if self.how == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        hang_here()

    def reset(self):
        self._maybe_fail("reset")
        return super().reset()

    def step(self, action):
        self._maybe_fail("step")
        return super().step(action)


def hang_here():
    while True:
        time.sleep(100)


def as_dict(record, prefix=""):
    """Copies of the arrays of a record by the names of their fields."""
    if isinstance(record, torch.Tensor):
        return {prefix: record.numpy().copy()}
    fields = {}
    for name, part in zip(record._fields, record):
        fields |= as_dict(part, f"{prefix}.{name}")
    return fields


def assert_equal(actual, expected):
    """The same fields with the same numbers."""
    assert actual.keys() == expected.keys()
    for name, array in actual.items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name, strict=True)


def as_one_vector(kwargs):
    """The same settings for the sampler of a vector environment, which has one collector only."""
    kwargs = dict(kwargs)
    assert kwargs.pop("CollectorCls", "reset") == "reset"
    EnvCls = kwargs.pop("EnvCls")
    for name in ("env_kwargs", "eval_env_kwargs"):
        own = kwargs.get(name)
        if isinstance(own, list):
            own = {"each": own}
        if own is not None:
            kwargs[name] = {"EnvCls": EnvCls, **own}
    return {"EnvCls": VectorOf, **kwargs}


def start(SamplerCls, n_workers=2, agent=None, seed=3, bootstrap_value=True, **kwargs):
    """An initialized sampler, and its agent; the example step is made in this process."""
    kwargs = {
        "EnvCls": DiceEnv,
        "env_kwargs": {},
        "batch_T": 7,
        "batch_B": 4,
        "max_decorrelation_steps": 5,
        **kwargs,
    }
    collectors = COLLECTORS.get(kwargs.get("CollectorCls"))
    if SamplerCls is VectorSampler:
        kwargs = as_one_vector(kwargs)
    elif collectors is not None:
        kwargs["CollectorCls"] = collectors[hasattr(SamplerCls, "gpu")]
    in_subprocess = kwargs.pop("example_subprocess", False)
    if issubclass(SamplerCls, RaySampler):
        kwargs = {"cpus_per_actor": 0.5, **kwargs}
    sampler = SamplerCls(**kwargs)
    sampler.example_subprocess = in_subprocess
    agent = agent or RuleAgent()
    initialize = {"agent": agent, "seed": seed, "bootstrap_value": bootstrap_value}
    if SamplerCls not in (SerialSampler, VectorSampler):
        initialize["affinity"] = {"workers_cpus": n_workers}
    sampler.initialize(**initialize, traj_info_kwargs={"discount": 0.5})
    return sampler, agent
