"""The step that shows what buffers hold, made in a process of its own."""

import gc
import os

from rlpyt.samplers.buffer import get_example_outputs
from tests.processes.test_supervisor import OfTheParent
from tests.samplers.parts import CountEnv, EchoAgent


class TidyEnv(CountEnv):
    def reset(self):
        gc.collect()
        return super().reset()


def test_garbage_of_the_parent_is_left_to_it(tmp_path):
    # The step used to wait for ever for threads of a process group of torch in such garbage, which
    # an earlier run of SyncRl had left.
    path = tmp_path / "pid"
    agent, env, examples = EchoAgent(), TidyEnv(), {}
    agent.initialize(env.spaces)
    OfTheParent(path)
    get_example_outputs(agent, env, examples, subprocess=True)
    assert examples["reward"] == 1
    assert not path.exists() or path.read_text() == str(os.getpid())
    gc.collect()
    assert path.read_text() == str(os.getpid())
