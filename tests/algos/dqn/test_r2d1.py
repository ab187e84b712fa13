"""Settings, set-up, what is stored and what is logged; the loss is in ``test_r2d1_loss.py``."""

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.atari.atari_r2d1_agent import AtariR2d1Agent
from rlpyt.agents.dqn.mlp_agent import MlpR2d1Agent
from rlpyt.algos.dqn.r2d1 import (
    R2D1,
    OptInfo,
    PrioritiesSamplesToBuffer,
    SamplesToBuffer,
    SamplesToBufferRnn,
)
from rlpyt.core.records import BatchSpec
from rlpyt.envs.toy import Catch
from rlpyt.models.dqn.mlp_r2d1_model import RnnState
from rlpyt.replays.sequence.frame import PrioritizedSequenceReplayFrameBuffer
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplayBuffer
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.collections import record_class
from tests.agents.parts import made
from tests.algos.dqn.r2d1_parts import SETTINGS, SPEC, Run
from tests.algos.parts import examples as vector_examples
from tests.selection import each_once

STATE = RnnState(np.zeros((1, 64), np.float32), np.zeros((1, 64), np.float32))
AgentInfo = record_class("AgentInfo", ("q", "prev_rnn_state"))
EXAMPLES = {**vector_examples(), "agent_info": AgentInfo(np.zeros(4, np.float32), STATE)}


def initialized(AlgoCls=R2D1, agent=None, **settings):
    algo = AlgoCls(**{**SETTINGS, **settings.pop("algo", {})})
    kwargs = {
        "agent": made(MlpR2d1Agent()) if agent is None else agent,
        "n_itr": 100,
        "batch_spec": SPEC,
        "mid_batch_reset": True,
        "examples": EXAMPLES,
        **settings,
    }
    algo.initialize(**kwargs)
    return algo


# --- Set-up -------------------------------------------------------------------------------------


def test_defaults():
    algo = R2D1()
    assert algo.batch_size == (80 + 40) * 64
    assert algo.optim_kwargs == {"eps": 1e-3}
    assert algo.default_priority == 1.0
    assert algo.input_priority_shift == 1
    # It was no attribute, and update_target() of a subclass failed.
    assert algo.target_update_tau == 1
    assert OptInfo._fields == ("loss", "gradNorm", "tdAbsErr", "priority")
    assert algo.opt_info_fields == (*OptInfo._fields, "qMean")


def test_counts():
    algo = initialized(algo={"replay_ratio": 10})
    assert algo.updates_per_optimize == round(10 * 18 / ((5 + 3) * 7))
    assert algo.min_itr_learn == 90 // 18
    assert list(algo.agent._eps_itr_min_max) == [5, 27]


@pytest.mark.parametrize(
    ("warmup_T", "interval", "expected"),
    [(40, 40, 1), (40, 20, 2), (9, 4, 2), (3, 4, 0), (5, 1, 5)],
)
def test_shift_of_input_priorities_is_the_warm_up(warmup_T, interval, expected):
    algo = R2D1(warmup_T=warmup_T, store_rnn_state_interval=interval)
    assert algo.input_priority_shift == expected


def test_no_stored_states():
    # The default of input_priority_shift divided by zero.
    assert R2D1(store_rnn_state_interval=0).input_priority_shift == 40
    run = Run(store_rnn_state_interval=0)
    assert run.train(9)[-1].loss
    assert run.algo.sample_from_replay().init_rnn_state is None


def test_numbers_may_be_floats():
    settings = {name: float(value) for name, value in SETTINGS.items()}
    assert Run(**settings).train(7)[-1].loss


@pytest.mark.parametrize(
    ("prioritized", "image", "time_limit", "async_"),
    each_once(*[(True, False)] * 4) + [(True, False, True, False), (False, True, True, False)],
)
def test_replay_fits_the_observation(prioritized, image, time_limit, async_):
    env_info = record_class("EnvInfo", ("timeout",))(False)
    examples = {**EXAMPLES, "env_info": env_info}
    examples["observation"] = vector_examples(image)["observation"]
    settings = {"prioritized_replay": prioritized, "bootstrap_timelimit": time_limit}
    algo = R2D1(**{**SETTINGS, **settings})
    make = algo.async_initialize if async_ else algo.initialize
    make(made(MlpR2d1Agent()), 100, SPEC, True, examples)
    buffer = algo.replay_buffer
    name = "Async" * async_ + "Tl" * time_limit + ("Prioritized" if prioritized else "Uniform")
    assert type(buffer).__name__ == f"{name}SequenceReplay{'Frame' * image}Buffer"
    assert (buffer.B, buffer.n_step_return) == (3, 2)
    assert (buffer.rnn_state_interval, buffer.batch_T) == (4, 8)


@pytest.mark.parametrize(
    ("prioritized_replay", "interval", "batch_T"), each_once((True, False), (0, 1, 4, 7), (1, 4, 6))
)
def test_training_starts_with_the_first_sequence(prioritized_replay, interval, batch_T):
    """The first iteration that may train has a sequence, the one before has none."""
    settings = {
        "prioritized_replay": prioritized_replay,
        "store_rnn_state_interval": interval,
        "batch_T": batch_T,
        "spec": BatchSpec(1, 2),
    }
    run = Run(min_steps_learn=0, **settings)
    run.store(run.algo.min_itr_learn)
    with pytest.raises(ValueError, match="sample"):
        run.algo.sample_from_replay()
    run.store(1)
    run.algo.sample_from_replay()


@pytest.mark.parametrize(("interval", "warns"), [(5, False), (6, True)])
def test_steps_that_are_never_trained_on_are_logged(logged, interval, warns):
    initialized(algo={"store_rnn_state_interval": interval})
    assert any("never trained on. Make the interval" in line for line in logged) == warns


def test_agent_info_must_have_what_is_stored():
    q_only = record_class("AgentInfo", ("q",))(np.zeros(4, np.float32))
    with pytest.raises(ValueError, match=r"agent_info of MlpR2d1Agent has no \['prev_rnn_state'\]"):
        initialized(examples={**EXAMPLES, "agent_info": q_only})
    initialized(examples={**EXAMPLES, "agent_info": q_only}, algo={"store_rnn_state_interval": 0})
    state_only = record_class("AgentInfo", ("prev_rnn_state",))(STATE)
    with pytest.raises(ValueError, match=r"has no \['q'\].*input_priorities=False"):
        initialized(examples={**EXAMPLES, "agent_info": state_only})
    initialized(examples={**EXAMPLES, "agent_info": state_only}, algo={"input_priorities": False})


# --- What is stored -----------------------------------------------------------------------------


def test_what_is_stored():
    run = Run()
    samples = run.collect()
    record = run.algo.samples_to_buffer(samples)
    assert isinstance(record, PrioritiesSamplesToBuffer)
    assert record.priorities.tolist() == run.algo.compute_input_priorities(samples).tolist()
    assert isinstance(record.samples, SamplesToBufferRnn)
    assert SamplesToBufferRnn._fields == (*SamplesToBuffer._fields, "prev_rnn_state")
    assert record.samples.prev_rnn_state is samples.agent.agent_info.prev_rnn_state


@pytest.mark.parametrize(
    "settings", [{"input_priorities": False}, {"prioritized_replay": False}], ids=str
)
def test_samples_come_without_priorities_where_none_are_used(settings):
    run = Run(**settings)
    assert isinstance(run.algo.samples_to_buffer(run.collect()), SamplesToBufferRnn)
    assert run.train(9)[-1].loss


@pytest.mark.parametrize("input_priorities", [True, False])
def test_where_environments_wait_is_stored(input_priorities):
    run = Run(mid_batch_reset=False, input_priorities=input_priorities)
    stored = run.algo.replay_entries(run.collect())
    stored = stored.samples if input_priorities else stored
    assert stored._fields == (*SamplesToBufferRnn._fields, "valid")
    waits = [[run.rows[b][t].waits for b in range(3)] for t in range(6)]
    assert (~stored.valid).tolist() == waits


def sequence_entry(array, prev_rnn_state):
    """What the original stores, of examples or samples."""
    return SamplesToBufferRnn(
        observation=array("observation"),
        action=array("action"),
        reward=array("reward"),
        done=array("done"),
        prev_rnn_state=prev_rnn_state,
    )


class OwnBuffer(R2D1):
    def initialize_replay_buffer(self, examples, batch_spec, async_=False):
        example = sequence_entry(examples.get, examples["agent_info"].prev_rnn_state)
        kwargs = self._replay_kwargs(example, batch_spec)
        self.replay_buffer = PrioritizedSequenceReplayBuffer(**kwargs)


class OwnEntries(R2D1):
    def samples_to_buffer(self, samples):
        agent, env = samples.agent, samples.env
        arrays = {**dict(env.items()), "action": agent.action}
        entry = sequence_entry(arrays.get, agent.agent_info.prev_rnn_state)
        priorities = self.compute_input_priorities(samples)
        return PrioritiesSamplesToBuffer(priorities=priorities, samples=entry)


Bonus = record_class("Bonus", (*SamplesToBufferRnn._fields, "bonus"))


class OneMoreField(R2D1):
    def examples_to_buffer(self, examples):
        return Bonus(*super().examples_to_buffer(examples), bonus=np.float32(0))

    def samples_to_buffer(self, samples):
        entry = super().samples_to_buffer(samples)
        return entry._replace(samples=Bonus(*entry.samples, bonus=samples.env.reward))


class OwnLoop(R2D1):
    """Stores by itself what the hook returns, as programs do that copied the loop."""

    def add_samples_to_buffer(self, itr, samples):
        self.replay_buffer.append_samples(self.samples_to_buffer(samples))


@pytest.mark.parametrize("mid_batch_reset", [True, False])
@pytest.mark.parametrize("AlgoCls", [OwnBuffer, OwnEntries, OneMoreField, OwnLoop])
def test_blank_steps_are_known_whoever_decides_on_the_fields(AlgoCls, mid_batch_reset):
    # With environments that wait, one half of such a pair knew of ``valid``, the other did not.
    run = Run(AlgoCls, mid_batch_reset=mid_batch_reset)
    assert run.train(12)[-1].loss
    samples = run.algo.sample_from_replay()
    valid = run.algo.valid_steps(samples)
    if AlgoCls is OwnLoop or mid_batch_reset:
        assert "valid" not in samples._fields
        expected = torch.ones_like(samples.done, dtype=torch.bool)
        if not mid_batch_reset:  # As in the original: up to the first end.
            expected[1:] = samples.done[:-1].cumsum(0) == 0
        assert torch.equal(valid, expected)
    else:
        assert torch.equal(valid, samples.valid.bool())
    assert bool(valid.all()) == mid_batch_reset


# --- Training -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("mid_batch_reset", "prioritized_replay"), [(True, False), (False, True)])
def test_iterations(mid_batch_reset, prioritized_replay):
    run = Run(mid_batch_reset=mid_batch_reset, prioritized_replay=prioritized_replay)
    infos = run.train(25)  # The buffer wraps.
    assert infos[0]._fields == (*OptInfo._fields, "qMean")
    assert infos[4].loss == [], "iterations 0 to 4 only fill the buffer"
    assert [len(field) for field in infos[-1]] == [1, 1, 5, 1, 1], "every 8th of 5 * 7, of 7"
    assert all(type(value) is float for field in infos[-1] for value in field)
    assert run.algo.update_counter == 20


def test_images_of_waiting_environments():
    sampler = SerialSampler(
        Catch,
        {"grid_shape": (5, 3), "img_shape": (20, 12), "num_img_obs": 3},
        batch_T=6,
        batch_B=3,
        max_decorrelation_steps=0,
        CollectorCls=CpuWaitResetCollector,
    )
    conv = {"channels": [4], "kernel_sizes": [4], "strides": [4], "paddings": [0]}
    agent = AtariR2d1Agent(model_kwargs={**conv, "fc_size": 8, "lstm_size": 6, "head_size": 8})
    examples = sampler.initialize(agent, seed=0)
    algo = R2D1(**SETTINGS)
    algo.initialize(agent, 50, SPEC, sampler.mid_batch_reset, examples)
    assert type(algo.replay_buffer) is PrioritizedSequenceReplayFrameBuffer
    for itr in range(25):
        samples, _ = sampler.obtain_samples(itr)
        agent.train_mode(itr)
        info = algo.optimize_agent(itr, samples)
    assert info.loss
