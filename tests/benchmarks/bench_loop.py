"""DQN on Pong: the whole training loop against its floor, measured in turn within one run.

    python tests/benchmarks/bench_loop.py [--rounds 8] [--bfloat16] [--json FILE]

The floor of one iteration is what no arrangement of code can avoid: the emulator's frames, the
network's forward passes for acting, and one gradient update, each run alone on the same machine in
the same minutes. The loop is ``examples/example_1.py``: serial sampler, 4 steps of one environment,
then one update of batch 32. Everything above the floor is the library's overhead.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform

import numpy as np
import torch
from bare import IMAGE, Alternate, BarePong, seconds_per_call, trained

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.models.autocast import Autocast
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler

BATCH_T, BATCH_B, BATCH_SIZE = 4, 1, 32


class Floor:
    """The unavoidable pieces of one iteration, with networks and an emulator of their own."""

    def __init__(self, agent: AtariDqnAgent) -> None:
        self.acting_model = copy.deepcopy(agent.model).eval()
        self.model = copy.deepcopy(agent.model).train()
        self.target_model = copy.deepcopy(agent.target_model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=True)
        self.rng = np.random.default_rng(0)
        self.env = BarePong(self.rng)
        self.n_actions = n_actions = agent.env_spaces.action.n
        self.one = self._inputs(1)
        self.batch = self._inputs(BATCH_SIZE)
        self.next_batch = self._inputs(BATCH_SIZE)
        self.action = torch.from_numpy(self.rng.integers(0, n_actions, BATCH_SIZE))

    def _inputs(self, B: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        images = torch.from_numpy(self.rng.integers(0, 256, (B, *IMAGE), dtype=np.uint8))
        return images, torch.zeros(B, self.n_actions), torch.zeros(B)

    @torch.no_grad()
    def forward(self) -> None:
        """One forward pass, batch 1, as for acting."""
        self.acting_model(*self.one)

    def update(self) -> None:
        """One DQN update: target forward, forward, backward, clip, Adam."""
        with torch.no_grad():
            target_q = self.target_model(*self.next_batch).max(dim=-1).values
        self.optimizer.zero_grad(set_to_none=True)
        q = self.model(*self.batch).gather(1, self.action[:, None])[:, 0]
        torch.nn.functional.smooth_l1_loss(q, target_q).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 10.0)
        self.optimizer.step()

    def measure(self) -> dict[str, float]:
        """Seconds of each piece, and of one iteration made of nothing else."""
        pieces = {
            "env_step": seconds_per_call(self.env.step, 100),
            "forward": seconds_per_call(self.forward, 40),
            "update": seconds_per_call(self.update, 10),
        }
        acting = BATCH_T * (BATCH_B * pieces["env_step"] + pieces["forward"])
        return {**pieces, "floor": acting + pieces["update"]}


def run(rounds: int, itrs_per_round: int, threads: int, bfloat16: bool) -> dict[str, object]:
    runner = MinibatchRl(
        algo=DQN(min_steps_learn=1e3),
        agent=AtariDqnAgent(ModelCls=Autocast(AtariDqnModel) if bfloat16 else AtariDqnModel),
        sampler=SerialSampler(
            EnvCls=AtariEnv,
            TrajInfoCls=AtariTrajInfo,
            env_kwargs={"game": "pong"},
            batch_T=BATCH_T,
            batch_B=BATCH_B,
            max_decorrelation_steps=0,
        ),
        n_steps=1e9,
        log_interval_steps=1e9,
        seed=0,
        affinity={"master_torch_threads": threads},
        callbacks=[Alternate(Floor, rounds, itrs_per_round, warm_up_itrs=30)],
    )
    result = trained(runner)
    return {
        **result,
        "updates_per_second": 1 / result["seconds"]["iteration"],
        "steps_per_second": BATCH_T * BATCH_B / result["seconds"]["iteration"],
        "threads": threads,
        "precision": "bfloat16" if bfloat16 else "float32",
        "machine": f"{platform.processor() or platform.machine()}, torch {torch.__version__}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8, help="of loop and floor, in turn")
    parser.add_argument("--itrs", type=int, default=60, help="iterations per round")
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    parser.add_argument("--bfloat16", action="store_true", help="models in lower precision")
    parser.add_argument("--json", help="also write the result to this file")
    args = parser.parse_args()
    result = run(args.rounds, args.itrs, args.threads, args.bfloat16)
    print(f"\nDQN on Pong, {result['machine']}, medians of rounds")
    print(f"{args.threads} torch thread(s), {result['precision']}")
    for name, seconds in result["seconds"].items():
        print(f"  {name:<12} {1e3 * seconds:9.3f} ms")
    low, high = result["floor_share_min_max"]
    share = result["floor_share"]
    print(f"  floor / loop {100 * share:8.1f} %   ({100 * low:.1f} to {100 * high:.1f})")
    print(f"  loop         {result['updates_per_second']:8.1f} updates/s")
    print(f"               {result['steps_per_second']:8.1f} steps/s")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(result, file, indent=2)


if __name__ == "__main__":
    main()
