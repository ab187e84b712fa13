"""Every algorithm trains on a dictionary of a vector, an image and a choice, and is used after."""

import csv
import itertools
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
import torch

import rlpyt
from rlpyt.utils.buffer import as_numpy, named_leaves
from tests.experiments.parts import MODULE, Everything, invoke, refused
from tests.selection import FULL

SMALL = ["batch_size=8", "min_steps_learn=16", "replay_size=200", "replay_ratio=1"]
SEQUENCES = [
    *SMALL[1:],
    *("algo.batch_T=4", "algo.batch_B=2", "warmup_T=2", "store_rnn_state_interval=2"),
    *("n_step_return=1", "sampler.batch_T=4", "sampler.batch_B=2", "lstm_size=8"),
]
VALUES = ["sampler.batch_T=4", "batch_B=2", "hidden_sizes=[8,8]"]
POLICY = ["batch_T=8", "batch_B=4", "hidden_sizes=8"]
ACTORS = ["batch_T=4", "agent.model_kwargs={'hidden_sizes':[8]}"]
ALGORITHMS = {
    "dqn": [*SMALL, *VALUES],
    "cat_dqn": [*SMALL, *VALUES],
    "rainbow": [*SMALL, *VALUES],
    "qr_dqn": [*SMALL, *VALUES],
    "iqn": [*SMALL, *VALUES],
    "munchausen_dqn": [*SMALL, *VALUES],
    "munchausen_iqn": [*SMALL, *VALUES],
    "r2d1": SEQUENCES,
    "pqn": [*VALUES, "minibatches=2", "epochs=1"],
    "pqn_lstm": [*VALUES, "minibatches=2", "epochs=1", "lstm_size=8"],
    "a2c": POLICY,
    "ppo": [*POLICY, "minibatches=2", "epochs=1"],
    "ppo_rnd": [*POLICY, "minibatches=2", "epochs=1"],
    "impala": POLICY,
    "a2c_lstm": [*POLICY, "lstm_size=8"],
    "ppo_lstm": [*POLICY, "minibatches=2", "epochs=1", "lstm_size=8"],
    "ddpg": [*SMALL, *ACTORS],
    "td3": [*SMALL, *ACTORS],
    "sac": [*SMALL, *ACTORS],
    "redq": [*SMALL[:-1], *ACTORS, "n_critics=3", "replay_ratio=48"],
    "droq": [*SMALL[:-1], *ACTORS[:1], "replay_ratio=48"],
    "tqc": [*SMALL, *ACTORS[:1]],
    "crossq": [*SMALL[:-1], *ACTORS[:1], "replay_ratio=8"],  # Of 3 updates, 1 is of the policy.
    "sac_v": [*SMALL, *ACTORS],
    "sac_lstm": [*SEQUENCES, "agent.q_model_kwargs={'hidden_sizes':[8],'lstm_size':8}"],
    "sac_discrete": [*SMALL, *VALUES[:1], "sampler.batch_B=2", VALUES[2]],
    "d4pg": [*SMALL, *ACTORS, "V_min=-10", "V_max=10"],
}

CONTINUOUS = ("ddpg", "td3", "sac", "redq", "droq", "tqc", "crossq", "sac_lstm", "sac_v", "d4pg")
# Writing files takes seconds: one with memory and continuous actions; with ``RLPYT_FULL=1`` one
# algorithm of each kind of agent, and ONNX, which docs/deploy.md has of a feed-forward network.
EXPORTED = ["iqn", "sac_lstm"]
if FULL:
    EXPORTED += ["dqn", "rainbow", "r2d1", "ppo", "ppo_lstm", "td3", "sac", "sac_discrete"]

# Their models and agents are those of others.
REPEATED = {
    *("cat_dqn", "munchausen_dqn", "munchausen_iqn", "pqn", "a2c_lstm", "ppo_rnd"),
    *("ddpg", "redq", "droq", "tqc", "qr_dqn", "crossq", "sac_v"),
}
LEFT_OUT = set() if FULL else REPEATED


@pytest.mark.slow  # Of export.
@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in LEFT_OUT])
def test_dictionary_of_everything(name, tmp_path):
    kind = "Continuous" if name in CONTINUOUS else "Discrete"
    words = [f"{MODULE}:{kind}-v0", *ALGORITHMS[name], "--steps", 32, "--seed", 1]
    invoke("train", name, *words, "threads=1", "--log-dir", tmp_path)
    with (tmp_path / "run_0" / "progress.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert int(last["Diagnostics/CumSteps"]) >= 32
    assert int(last["Diagnostics/CumUpdates"]) > 0
    loss = [float(value) for key, value in last.items() if key.lower().endswith("lossaverage")]
    assert loss
    assert all(abs(value) < float("inf") for value in loss)
    # The network can be made again, and acts.
    invoke("evaluate", tmp_path / "run_0", "--episodes", 2)
    acts_alone(tmp_path / "run_0", Everything(kind == "Continuous"), is_random="iqn" in name)
    if name in EXPORTED:
        is_exported(name, tmp_path)


def batch_of(space, B):
    """B observations of a dictionary, as a vector environment has them, and each alone."""
    singles = [space.sample() for _ in range(B)]
    return {key: np.stack([single[key] for single in singles]) for key in space}, singles


def acts_alone(run, env, is_random):
    agent = rlpyt.load(run)
    env.observation_space.seed(0)
    state, reward, done = None, 0.0, np.array([False, False])
    alone = [None, None]
    for t in range(4):
        batch, singles = batch_of(env.observation_space, 2)
        actions, state = agent.act(batch, state, reward, done, deterministic=True)
        for b, single in enumerate(singles):
            action, alone[b] = agent.act(single, alone[b], reward, done[b], deterministic=True)
            assert env.action_space.contains(action)
            if not is_random:
                np.testing.assert_allclose(actions[b], action, atol=1e-5)
        reward, done = 1.0, np.array([False, t == 1])  # The second begins a new episode.


def is_exported(name, directory):
    """The graph acts as the agent, in torch and ONNX Runtime; also with memory."""
    run, files = directory / "run_0", [directory / "policy.pt2", directory / "policy.onnx"]
    if name == "iqn":
        assert "random numbers" in refused("export", run, files[0])
        return
    agent, env = rlpyt.load(run), Everything(name in CONTINUOUS)
    exported = agent.export(files[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of torch 2.6.
        program = torch.export.load(files[0]).module()
    graphs = [lambda feeds: program(*map(torch.from_numpy, feeds))]
    if FULL and all(map(find_spec, ("onnx", "onnxscript", "onnxruntime"))):
        from onnxruntime import InferenceSession

        agent.export(files[1])
        session = InferenceSession(files[1])
        graphs.append(lambda feeds: session.run(None, dict(zip(exported.inputs, feeds))))
    for graph, B in itertools.product(graphs, (1, 3)):
        state, known = None, {name: zeros(name, x, B) for name, x in exported.inputs.items()}
        for _ in range(2):
            batch, _ = batch_of(env.observation_space, B)
            actions, state = agent.act(batch, state, np.ones(B), deterministic=True)
            known.update(named_leaves(agent.spaces.observation.convert(batch), "observation"))
            outputs = graph([known[name] for name in exported.inputs])
            outputs = dict(zip(exported.outputs, map(as_numpy, outputs)))
            np.testing.assert_allclose(outputs["action"], actions, atol=1e-5)
            known.update(prev_action=outputs["action"], prev_reward=np.ones(B, np.float32))
            known.update({name.removeprefix("next_"): x for name, x in outputs.items()})


def zeros(name, example, B):
    """Zeros [B,...], or [N,B,H] of a recurrent state, for an example of another B."""
    shape = list(example.shape)
    shape["rnn_state" in name] = B
    return np.zeros(shape, as_numpy(example).dtype)
