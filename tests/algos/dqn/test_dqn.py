import copy

import numpy as np
import pytest
import torch

from rlpyt.algos.dqn.dqn import DQN, OptInfo, SamplesToBuffer
from rlpyt.core.records import BatchSpec
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.uniform import AsyncUniformReplayBuffer, UniformReplayBuffer
from rlpyt.utils.collections import record_class
from tests.agents.parts import VectorDqnAgent, made
from tests.algos.parts import SETTINGS, SPEC, batch, examples, initialized, make_algo, run


def parameters(algo):
    return torch.cat([p.detach().flatten() for p in algo.agent.parameters()]).tolist()


# --- Set-up -------------------------------------------------------------------------------------


@pytest.mark.parametrize("world_size", [1, 2])
def test_counts_of_updates_and_iterations(world_size):
    # Schedules counted the steps of one process: with more processes everything came later.
    settings = {"eps_steps": 1e3, "prioritized_replay": True, "pri_beta_steps": 800}
    algo = initialized(DQN(**SETTINGS, **settings), world_size=world_size)
    assert algo.updates_per_optimize == 4 * 8 / 8, "batches are those of one process"
    assert algo.min_itr_learn == 16 // 8 // world_size
    assert list(algo.agent._eps_itr_min_max) == [algo.min_itr_learn, 125 // world_size]
    assert algo.pri_beta_itr == 100 // world_size


def test_training_starts_with_the_first_whole_transition():
    # Two rows are behind it and one row ahead of it.
    settings = {**SETTINGS, "min_steps_learn": 0, "n_step_return": 2}
    spec = BatchSpec(T=1, B=2)
    algo = initialized(DQN(**settings), batch_spec=spec)
    assert algo.min_itr_learn == 3
    infos = run(algo, 0, 4, lambda rng: batch(rng, spec))
    assert [len(info.loss) for info in infos] == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("replay_ratio", "expected"),
    [
        (4, [4, 4, 4, 4, 4, 4]),
        (1.5, [1, 2, 1, 2, 1, 2]),
        (0.4, [0, 0, 1, 0, 1, 0]),
        (7 / 3, [2, 2, 3, 2, 2, 3]),
    ],
)
def test_replay_ratio_is_exact(replay_ratio, expected):
    # The number of updates was rounded in each iteration, and at least one.
    algo = make_algo(replay_ratio=replay_ratio)
    assert algo.updates_per_optimize == max(1, round(replay_ratio)), "for a loop of one's own"
    found = []
    for itr in range(8):
        (info,) = run(algo, itr, itr + 1)
        if itr >= algo.min_itr_learn:
            assert len(info.loss) == algo.updates_per_optimize
            found.append(len(info.loss))
    assert found == expected
    assert algo.update_counter == sum(expected)


def test_replay_ratio_of_tenths_does_not_drift():
    algo = make_algo(replay_ratio=0.1)
    numbers = []
    for _ in range(1000):
        algo._set_updates_due()
        numbers.append(algo.updates_per_optimize)
    assert numbers == [*[0] * 9, 1] * 100


def test_fractions_of_updates_are_resumed():
    algo = make_algo(replay_ratio=1.5)
    run(algo, 0, 3)
    other = make_algo(replay_ratio=1.5)
    other.load_state_dict(algo.state_dict())
    state = algo.state_dict()
    del state["updates_owed"]  # As in checkpoints of earlier versions.
    third = make_algo(replay_ratio=1.5)
    third.load_state_dict(state)
    counts = [[len(info.loss) for info in run(x, 3, 6)] for x in (algo, other, third)]
    assert counts == [[2, 1, 2], [2, 1, 2], [1, 2, 1]]


def test_numbers_may_be_floats():
    algo = make_algo(
        batch_size=8.0,
        replay_size=1e3,
        min_steps_learn=1e1,
        target_update_interval=1e0,
        eps_steps=1e2,
    )
    run(algo, 0, 3)
    assert isinstance(algo.batch_size, int)


def test_optimizer_settings_of_the_user():
    # An empty dict, as configurations hold it, dropped the default of eps.
    optim_kwargs = {}
    algo = make_algo(optim_kwargs=optim_kwargs)
    assert algo.optimizer.defaults["eps"] == 0.01 / 8
    assert optim_kwargs == {}
    assert make_algo(optim_kwargs={"eps": 1e-3}).optimizer.defaults["eps"] == 1e-3
    algo = make_algo(optim_kwargs={"betas": (0.5, 0.9), "foreach": False})
    assert algo.optimizer.defaults["eps"] == 0.01 / 8
    assert not algo.optimizer.defaults.get("fused")


@pytest.mark.parametrize("prioritized", [True, False])
@pytest.mark.parametrize("image", [True, False])
@pytest.mark.parametrize("time_limit", [True, False])
def test_replay_fits_the_observation(prioritized, image, time_limit):
    # Frame buffers were taken for every observation, and failed on vectors.
    settings = {"prioritized_replay": prioritized, "bootstrap_timelimit": time_limit}
    env_info = record_class("EnvInfo", ("timeout",))(False)
    algo = initialized(
        DQN(**SETTINGS, **settings, n_step_return=2),
        examples={**examples(image), "env_info": env_info},
    )
    buffer = algo.replay_buffer
    kind = "Prioritized" if prioritized else "Uniform"
    assert type(buffer).__name__ == f"{'Tl' * time_limit}{kind}Replay{'Frame' * image}Buffer"
    assert (buffer.size, buffer.B, buffer.discount, buffer.n_step_return) == (128, 2, 0.99, 2)


def test_replay_class_of_the_user_gets_the_same_keywords():
    given = {}

    def make(**kwargs):
        given.update(kwargs)
        return PrioritizedReplayBuffer(**kwargs)

    make_algo(ReplayBufferCls=make, prioritized_replay=True, pri_alpha=0.5, pri_beta_init=0.3)
    example = given.pop("example")
    assert isinstance(example, SamplesToBuffer)
    assert given == {
        "size": 128,
        "B": 2,
        "discount": 0.99,
        "n_step_return": 1,
        "alpha": 0.5,
        "beta": 0.3,
        "default_priority": 1.0,
    }


@pytest.mark.parametrize(
    ("delta_clip", "default_priority", "expected"),
    [(1.0, None, 1.0), (0.5, None, 0.5), (None, None, 1.0), (None, 3.0, 3.0), (0.5, 2.0, 2.0)],
)
def test_priority_of_new_samples(delta_clip, default_priority, expected):
    # Without delta_clip it stayed None, and the first append failed.
    algo = make_algo(
        delta_clip=delta_clip, default_priority=default_priority, prioritized_replay=True
    )
    assert algo.default_priority == algo.replay_buffer.default_priority == expected
    run(algo, 0, 3)


def test_first_steps_may_be_overwritten(logged):
    # This was refused, although it works.
    algo = make_algo(replay_size=16, min_steps_learn=40)
    assert any("WARNING: replay_size is 16, less than min_steps_learn" in line for line in logged)
    assert [len(info.loss) for info in run(algo, 3, 7)] == [0, 0, 4, 4]
    logged.clear()
    make_algo(replay_size=40, min_steps_learn=40)
    assert not any("WARNING" in line for line in logged)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"replay_size": 1e4, "min_steps_learn": 1e4}, "steps: it trains nothing."),
        ({"replay_ratio": 0.4}, "0.4 updates per iteration"),
    ],
)
def test_how_much_is_trained_is_logged(settings, text, logged):
    make_algo(**settings)
    assert any(text in line for line in logged)


def test_replay_is_logged(logged):
    make_algo()  # 128 times 3 floats, an integer of 8 bytes, a float and a flag.
    assert "Replay buffer: UniformReplayBuffer, 3,200 bytes" in logged
    # A stack of floats is not known to be one of frames: it was stored whole without a word.
    floats = {**examples(), "observation": np.zeros((2, 5, 5), np.float32)}
    algo = initialized(DQN(**SETTINGS), examples=floats)
    assert type(algo.replay_buffer) is UniformReplayBuffer
    assert "successive frames, ReplayBufferCls=UniformReplayFrameBuffer" in logged[-1]
    initialized(DQN(**SETTINGS), examples=examples(image=True))
    assert "Replay buffer: UniformReplayFrameBuffer" in logged[-1]
    assert "successive frames" not in logged[-1]


def test_replay_class_without_priorities():
    with pytest.raises(TypeError, match="ReplayBufferCls=.*Uniform.*'alpha'.*PrioritizedReplay"):
        make_algo(prioritized_replay=True, ReplayBufferCls=UniformReplayBuffer)


def test_replay_class_of_one_process_in_asynchronous_mode():
    # Others wrote to copies of it, and training never began.
    algo = DQN(**SETTINGS, ReplayBufferCls=UniformReplayBuffer)
    with pytest.raises(ValueError, match="one process.*AsyncUniformReplayBuffer"):
        algo.async_initialize(made(VectorDqnAgent()), 50, SPEC, True, examples())


def test_asynchronous_set_up():
    algo = DQN(**SETTINGS, ReplayBufferCls=AsyncUniformReplayBuffer, updates_per_sync=3)
    buffer = algo.async_initialize(made(VectorDqnAgent()), 50, SPEC, True, examples(), world_size=2)
    assert buffer is algo.replay_buffer
    assert (algo.updates_per_optimize, algo.min_itr_learn, algo.n_itr) == (3, 2, 50)
    with pytest.raises(ValueError, match="updates_per_sync is 0"):
        DQN(**SETTINGS, updates_per_sync=0).async_initialize(
            made(VectorDqnAgent()), 50, SPEC, True, examples()
        )
    algo.optim_initialize(rank=1)
    assert algo.rank == 1
    for itr in range(3):
        buffer.append_samples(algo.samples_to_buffer(batch_of(itr)))
    assert algo.optimize_agent(0, sampler_itr=1).loss == []
    assert len(algo.optimize_agent(1, sampler_itr=2).loss) == 3


def batch_of(itr):
    return batch(np.random.default_rng(itr))


# --- Training -----------------------------------------------------------------------------------


def test_one_iteration():
    algo = make_algo()
    infos = run(algo, 0, 3)
    assert OptInfo._fields == ("loss", "gradNorm", "tdAbsErr"), "as programs build it"
    assert infos[0]._fields == (*OptInfo._fields, "qMean") == algo.opt_info_fields
    assert infos[1] == ([], [], [], []), "iterations 0 and 1 only fill the buffer"
    assert algo.update_counter == 4
    assert [len(field) for field in infos[2]] == [4, 4, 4, 4], "every 8th of 8 differences, 4 times"
    assert all(type(value) is float for field in infos[2] for value in field)


def test_target_follows_every_interval():
    algo = make_algo(target_update_interval=3)
    taus = []
    algo.agent.update_target = taus.append
    run(algo, 0, 4)
    assert algo.update_counter == 8
    assert taus == [1, 1]


def test_target_of_an_agent_that_follows_gradients():
    class Agent(VectorDqnAgent):
        def target(self, *inputs):
            return super().target.__wrapped__(self, *inputs)  # Without no_grad.

    algo = make_algo(agent=made(Agent()))
    run(algo, 0, 2)
    loss, _ = algo.loss(algo.sample_from_replay())
    loss.backward()
    assert all(p.grad is None for p in algo.agent.target_model.parameters())


def test_gradients_of_all_that_the_agent_trains_are_clipped():
    class Agent(VectorDqnAgent):
        def parameters(self):
            yield self.extra
            yield from self.model.parameters()

    class Mine(DQN):
        def clip_gradients(self, parameters):
            assert list(map(id, parameters)) == list(map(id, self.agent.parameters()))
            return super().clip_gradients(parameters)

    agent = made(Agent())
    agent.extra = torch.nn.Parameter(torch.zeros(2))
    assert len(run(make_algo(Mine, agent=agent), 0, 3)[-1].gradNorm) == 4


@pytest.mark.parametrize("prioritized_replay", [False, True])
def test_not_finite_loss_is_an_error_at_once(prioritized_replay):
    # If prioritized, the error was of the sum tree: "priorities must be finite".
    algo = make_algo(prioritized_replay=prioritized_replay)
    run(algo, 0, 2)
    before = parameters(algo)
    samples = batch_of(2)
    samples.env.reward[:] = float("nan")
    algo.optimize_agent(1, samples)  # Not learning yet.
    told = f"loss of DQN is nan in iteration 7, by update {1 if prioritized_replay else 4}: "
    with pytest.raises(FloatingPointError, match=f"{told}.*learning_rate"):
        algo.optimize_agent(7, samples)
    assert parameters(algo) == before, "no step is taken"


def test_priorities_that_are_refused_are_an_error_of_their_own():
    class Mine(DQN):
        def loss(self, samples):
            loss, td_abs_errors = super().loss(samples)
            return loss, -td_abs_errors

    with pytest.raises(ValueError, match="priorities must be finite and not negative"):
        run(make_algo(Mine, prioritized_replay=True), 0, 3)


@pytest.mark.parametrize("double_dqn", [False, True])
def test_mean_q_of_the_actions_taken_is_logged(double_dqn):
    algo = make_algo(double_dqn=double_dqn, learning_rate=0.0, batch_size=16)
    drawn = []
    sample = algo.sample_from_replay
    algo.sample_from_replay = lambda: drawn.append(sample()) or drawn[-1]
    info = run(algo, 0, 3)[-1]
    q = algo.agent(*drawn[0].agent_inputs)[torch.arange(16), drawn[0].action]
    assert info.qMean[0] == pytest.approx(q.mean().item())


# --- Priorities ---------------------------------------------------------------------------------


def test_priorities_are_the_differences():
    algo = make_algo(prioritized_replay=True)
    given = []
    update = algo.replay_buffer.update_batch_priorities

    def spy(priorities):
        given.append(priorities)
        update(priorities)

    algo.replay_buffer.update_batch_priorities = spy
    (info,) = run(algo, 0, 3)[2:]
    assert len(given) == 4
    assert [p[0].item() for p in given] == info.tdAbsErr


# min_itr_learn is 2
BETAS = [
    (80, 0, 0.4),
    (80, 2, 0.4),
    (80, 6, 0.7),
    (80, 10, 1.0),
    (80, 1000, 1.0),
    (16, 1, 0.4),  # As long as the time before learning: this divided by zero.
    (16, 2, 1.0),
    (0, 0, 0.4),  # Shorter: this gave values outside of the two.
    (0, 1, 1.0),
]


@pytest.mark.parametrize(("pri_beta_steps", "itr", "expected"), BETAS)
def test_beta_schedule(pri_beta_steps, itr, expected):
    algo = make_algo(prioritized_replay=True, pri_beta_steps=pri_beta_steps)
    algo.update_itr_hyperparams(itr)
    assert algo.replay_buffer.beta == pytest.approx(expected)


# --- State --------------------------------------------------------------------------------------


def test_refused_state_changes_nothing():
    # Counter and optimizer were loaded before the replay buffer refused.
    algo, other = make_algo(), make_algo(replay_size=64)
    run(algo, 0, 4)
    with pytest.raises(ValueError, match="T=64 rows"):
        other.load_state_dict(algo.state_dict())
    assert other.update_counter == 0
    assert not other.optimizer.state_dict()["state"]


def test_replay_class_without_state():
    class Mine:
        def __init__(self, **kwargs):
            pass

    algo = make_algo(ReplayBufferCls=Mine)
    for call in (algo.state_dict, lambda: algo.load_state_dict({"replay_buffer": {}})):
        with pytest.raises(TypeError, match=r"Mine.*state_dict\(\).*ReplayBufferCls"):
            call()


def test_optimizer_starts_from_a_snapshot():
    algo = make_algo()
    run(algo, 0, 4)
    state = copy.deepcopy(algo.optim_state_dict())
    other = make_algo(initial_optim_state_dict=state)
    moments = other.optimizer.state_dict()["state"][0]
    assert torch.equal(moments["exp_avg"], state["state"][0]["exp_avg"])
    assert moments["step"] == 8
    # They came with the state.
    options = {"learning_rate": 0.3, "optim_kwargs": {"eps": 0.2}}
    (group,) = make_algo(**options, initial_optim_state_dict=state).optimizer.param_groups
    assert (group["lr"], group["eps"]) == (0.3, 0.2)


def test_fused_snapshot_loads_into_an_optimizer_of_another_kernel():
    fused, plain = make_algo(), make_algo(optim_kwargs={"foreach": False})
    run(fused, 0, 4)
    state = copy.deepcopy(fused.optim_state_dict())
    plain.load_optim_state_dict(state)
    assert not plain.optimizer.param_groups[0].get("fused")
    run(plain, 0, 4)
    fused.load_optim_state_dict(plain.optim_state_dict())
    assert fused.optimizer.param_groups[0].get("fused") == state["param_groups"][0].get("fused")
