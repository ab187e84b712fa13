"""Every algorithm trains on a dictionary of a vector, an image and a choice."""

import csv

import pytest

from tests.experiments.parts import MODULE, invoke

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
    "r2d1": SEQUENCES,
    "a2c": POLICY,
    "ppo": [*POLICY, "minibatches=2", "epochs=1"],
    "a2c_lstm": [*POLICY, "lstm_size=8"],
    "ppo_lstm": [*POLICY, "minibatches=2", "epochs=1", "lstm_size=8"],
    "ddpg": [*SMALL, *ACTORS],
    "td3": [*SMALL, *ACTORS],
    "sac": [*SMALL, *ACTORS],
    "sac_v": [*SMALL, *ACTORS],
    "d4pg": [*SMALL, *ACTORS, "V_min=-10", "V_max=10"],
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_dictionary_of_everything(name, tmp_path):
    kind = "Continuous" if name in ("ddpg", "td3", "sac", "sac_v", "d4pg") else "Discrete"
    words = [f"{MODULE}:{kind}-v0", *ALGORITHMS[name], "--steps", 64, "--seed", 1]
    invoke("train", name, *words, "threads=1", "--log-dir", tmp_path)
    with (tmp_path / "run_0" / "progress.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert int(last["Diagnostics/CumSteps"]) >= 64
    assert int(last["Diagnostics/CumUpdates"]) > 0
    loss = [float(value) for key, value in last.items() if key.lower().endswith("lossaverage")]
    assert loss
    assert all(abs(value) < float("inf") for value in loss)
    # The network can be made again, and acts.
    invoke("evaluate", tmp_path / "run_0", "--episodes", 2)
