"""Asynchronous runs whose parts are replaced, as research code does: loop, control, processes."""

import multiprocessing as mp
import time

import pytest
import torch

from rlpyt.envs.toy import TMaze
from rlpyt.runners.async_rl import AsyncRl, memory_copier
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger
from rlpyt.utils.synchronize import drain_queue
from tests.runners.async_parts import make_runner, train, values

pytestmark = pytest.mark.timeout(60)


class SlowTMaze(TMaze):
    """Slow enough for the loop to begin before the sampler has come to its end."""

    def step(self, action):
        time.sleep(0.001)
        return super().step(action)


class OwnLoop(AsyncRl):
    """Knows nothing of what lets the sampler go on."""

    def train(self):
        throttle_itr, delta = self.startup()
        itr = 0
        while not self.ctrl.quit.value:
            if self.ctrl.sampler_itr.value < throttle_itr:
                time.sleep(0.01)
                continue
            throttle_itr += delta
            with logger.prefix(f"itr #{itr} "):
                opt_info = self.algo.optimize_agent(itr, sampler_itr=self.ctrl.sampler_itr.value)
                self.agent.send_shared_memory()
                infos = drain_queue(self.traj_infos_queue)
                self.store_diagnostics(itr, self.ctrl.sampler_itr.value, infos, opt_info)
            itr += 1
        self.log_diagnostics(itr, self.ctrl.sampler_itr.value, 0.0)
        self.shutdown()


class OwnControl(AsyncRl):
    """Makes what rlpyt 0.1.2 had."""

    def build_ctrl(self, world_size):
        return AttrDict(
            quit=mp.Value("b", 0),
            quit_opt=mp.RawValue("b", 0),
            sample_ready=[mp.Semaphore(0), mp.Semaphore(0)],
            sample_copied=[mp.Semaphore(1), mp.Semaphore(1)],
            sampler_itr=mp.Value("l", -1),
            opt_throttle=None,
            eval_time=mp.Value("d", 0),
        )


def own_copier(sample_buffer, samples_to_buffer, replay_buffer, ctrl):
    torch.set_num_threads(1)
    samples = torchify_buffer(sample_buffer)
    while True:
        ctrl.sample_ready.acquire()
        if ctrl.quit.value:
            break
        replay_buffer.append_samples(samples_to_buffer(samples))
        ctrl.sample_copied.release()


class OwnCopiers(AsyncRl):
    copier = staticmethod(own_copier)

    def launch_memcpy(self, sample_buffers, replay_buffer):
        self.memcpy_procs = []
        for i, sample_buffer in enumerate(sample_buffers):
            ctrl = AttrDict(
                quit=self.ctrl.quit,
                sample_ready=self.ctrl.sample_ready[i],
                sample_copied=self.ctrl.sample_copied[i],
            )
            args = (sample_buffer, self.algo.samples_to_buffer, replay_buffer, ctrl)
            self.memcpy_procs.append(mp.get_context("fork").Process(target=self.copier, args=args))
            self.memcpy_procs[-1].start()


class CopiersOfTheLibrary(OwnCopiers):
    copier = staticmethod(memory_copier)


def own_sampler_process(sampler, affinity, ctrl, traj_infos_queue, n_itr):
    sampler.initialize(affinity)
    for itr in range(n_itr):
        ctrl.sample_copied[itr % 2].acquire()
        traj_infos = sampler.obtain_samples(itr, itr % 2)
        ctrl.sample_ready[itr % 2].release()
        with ctrl.sampler_itr.get_lock():
            for info in traj_infos:
                traj_infos_queue.put(info)
            ctrl.sampler_itr.value = itr
    ctrl.quit.value = True
    sampler.shutdown()
    for semaphore in ctrl.sample_ready:
        semaphore.release()


class OwnSamplerProcess(AsyncRl):
    def launch_sampler(self, n_itr):
        args = (self.sampler, self.affinity["sampler"], self.ctrl, self.traj_infos_queue, n_itr)
        self.sampler_proc = mp.get_context("fork").Process(target=own_sampler_process, args=args)
        self.sampler_proc.start()


@pytest.mark.parametrize(
    "RunnerCls", [OwnLoop, OwnControl, OwnCopiers, CopiersOfTheLibrary, OwnSamplerProcess]
)
def test_parts_of_research_code(RunnerCls, tmp_path):
    # Processes waited for each other, or for what only the parts of the library make.
    n_steps = 200 * 16
    settings = {"n_steps": n_steps, "log_interval_steps": 100 * 16}
    runner = make_runner(RunnerCls=RunnerCls, sampler_kwargs={"EnvCls": SlowTMaze}, **settings)
    rows = train(runner, tmp_path)
    assert runner.algo.update_counter > 0
    assert values(rows, "CumUpdates")[-1] == runner.algo.update_counter
    assert n_steps - 2 * 16 <= values(rows, "CumSteps")[-1] <= n_steps
    own = [*getattr(runner, "memcpy_procs", ()), getattr(runner, "sampler_proc", None)]
    for process in filter(None, own):
        process.join(5)
        assert process.exitcode == 0


class FourTimesAsSlow(AsyncRl):
    def optim_startup(self):
        first, delta = super().optim_startup()
        return first, 4 * delta


class Later(AsyncRl):
    def startup(self):
        first, delta = super().startup()
        return first + 8, delta


@pytest.mark.parametrize(("RunnerCls", "n_batches"), [(FourTimesAsSlow, 16 / 4), (Later, 16 - 8)])
def test_a_throttle_of_ones_own_is_used(RunnerCls, n_batches, tmp_path):
    # It was made before, of numbers which nobody had changed.
    runner = make_runner(RunnerCls=RunnerCls)
    train(runner, tmp_path)
    updates_per_batch = 16 * runner.algo.replay_ratio / runner.algo.batch_size
    assert runner.algo.update_counter == pytest.approx(n_batches * updates_per_batch, abs=3)
