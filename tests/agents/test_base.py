import copy
import multiprocessing as mp
import threading

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from rlpyt.agents.base import BaseAgent, without_ddp
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.core.records import EnvSpaces
from rlpyt.spaces.float_box import FloatBox
from rlpyt.utils.quick_args import save__init__args
from tests.agents.parts import SPACES, VectorDqnAgent, made

BOX = FloatBox(-1, 1, (2,))


class LinearAgent(BaseAgent):
    """One linear layer."""

    def __init__(self, **kwargs):
        super().__init__(ModelCls=torch.nn.Linear, **kwargs)

    def make_env_to_model_kwargs(self, env_spaces):
        return {"in_features": env_spaces.observation.shape[0]}


def linear(**kwargs):
    agent = LinearAgent(model_kwargs={"out_features": 2})
    agent.initialize(SPACES, **kwargs)
    return agent


def weights(agent):
    return torch.cat([p.detach().flatten() for p in without_ddp(agent.model).parameters()]).tolist()


def test_arguments_saved_by_a_subclass_before_the_base_win():
    class Mine(BaseAgent):
        def __init__(self, ModelCls=torch.nn.Linear, extra=3, **kwargs):
            save__init__args(locals())
            super().__init__(**kwargs)

    agent = Mine()
    assert agent.ModelCls is torch.nn.Linear
    assert (agent.extra, agent.model_kwargs) == (3, {})


def test_keywords_of_other_agents_pass_through():
    # Only those of our own agents were taken.
    class Mine(BaseAgent):
        def initialize(self, env_spaces, share_memory=False, **kwargs):
            super().initialize(env_spaces, share_memory, **kwargs)
            self.mine = kwargs["mine"]

    agent = Mine(ModelCls=torch.nn.Identity)
    agent.initialize(SPACES, False, global_B=2, env_ranks=[0], mine=3)
    assert agent.mine == 3


def test_initial_state_is_loaded():
    first = linear()
    second = LinearAgent(
        model_kwargs={"out_features": 2}, initial_model_state_dict=first.state_dict()
    )
    second.initialize(SPACES)
    assert weights(second) == weights(first)


def test_staying_on_the_cpu_keeps_the_shared_model():
    agent = linear(share_memory=True)
    agent.to_device(None)
    assert agent.model is agent.shared_model
    assert all(p.is_shared() for p in agent.parameters())


def test_an_agent_of_a_run_on_a_gpu_begins_anew():
    # It kept the device, and the shared model, from which the next run would have started.
    agent = linear(share_memory=True)
    agent.to_device("meta")
    agent.initialize(SPACES)
    assert agent.device == agent.model.weight.device == torch.device("cpu")
    before = weights(agent)
    assert agent.shared_model is None
    agent.to_device(None)
    assert weights(agent) == before


def test_helper_modules_are_moved_by_overridden_to_device():
    class Mine(LinearAgent):
        moved_to = "nowhere"

        def to_device(self, cuda_idx=None):
            super().to_device(cuda_idx)
            self.moved_to = self.device

    agent = Mine(model_kwargs={"out_features": 2})
    agent.initialize(SPACES)
    agent.to_device(None)
    assert agent.moved_to == torch.device("cpu")


# --- Sharing between processes ------------------------------------------------------------------


def add_one(agent):
    with torch.no_grad():
        for p in agent.parameters():
            p += 1


def sampler_of(agent):
    """The agent as the sampler's process has it: its own model, the rest common."""
    sampler = copy.copy(agent)
    sampler.async_cpu(share_memory=False)
    return sampler


def test_asynchronous_sampler_on_the_cpu_gets_new_parameters():
    # The trained model is the shared one; the count never rose then, and nothing was ever received.
    agent = linear(share_memory=True)
    sampler = sampler_of(agent)
    before = weights(sampler)
    add_one(agent)
    sampler.recv_shared_memory()
    assert weights(sampler) == before, "nothing was published yet"
    agent.send_shared_memory()
    sampler.recv_shared_memory()
    assert weights(sampler) == weights(agent) != before


def test_asynchronous_sampler_copies_once_per_publication():
    agent = linear(share_memory=True)
    sampler = sampler_of(agent)
    agent.send_shared_memory()
    sampler.recv_shared_memory()
    received = weights(sampler)
    add_one(agent)
    sampler.recv_shared_memory()
    assert weights(sampler) == received


def hold(side, entered, leave):
    with side:
        entered.set()
        leave.wait(60)


def holder_of(side):
    """A process in the midst of reading or writing shared parameters, and what ends it."""
    context = mp.get_context("fork")
    entered, leave = context.Event(), context.Event()
    process = context.Process(target=hold, args=(side, entered, leave))
    process.start()
    assert entered.wait(60)
    return process, leave


def test_publication_waits_for_readers():
    agent = linear(share_memory=True)
    reader, leave = holder_of(agent._rw_lock)
    begun = threading.Event()
    publication = threading.Thread(target=lambda: (begun.set(), agent.send_shared_memory()))
    publication.start()
    assert begun.wait(60)
    publication.join(0.2)
    assert publication.is_alive()
    assert agent._send_count.value == 0
    leave.set()
    publication.join(60)
    assert agent._send_count.value == 1
    reader.join()


def test_publication_does_not_wait_for_a_reader_that_was_killed():
    """A sampler that was killed while it read kept the optimizer waiting for ever."""
    agent = linear(share_memory=True)
    reader, _ = holder_of(agent._rw_lock)
    reader.kill()
    reader.join()
    agent.send_shared_memory()
    assert agent._send_count.value == 1


def test_half_published_parameters_are_refused():
    """An optimizer that was killed while it wrote kept the samplers waiting for ever."""
    agent = linear(share_memory=True)
    sampler = sampler_of(agent)
    writer, _ = holder_of(agent._rw_lock.write_lock)
    writer.kill()
    writer.join()
    with pytest.raises(RuntimeError, match=f"process {writer.pid} ended or failed while it wrote"):
        sampler.recv_shared_memory()


def test_sync_copies_the_trained_model_to_the_shared_one():
    agent = linear(share_memory=True)
    agent.model = copy.deepcopy(agent.model)  # As on a GPU.
    add_one(agent)
    agent.sync_shared_memory()
    shared = torch.cat([p.detach().flatten() for p in agent.shared_model.parameters()])
    assert shared.tolist() == weights(agent)


def report(agent, published, results):
    """In another process: what is seen of the agent there."""
    published.wait(60)
    agent.recv_shared_memory()
    agent.sample_mode(100)
    results.put((float(agent.distribution.epsilon), agent._recv_count, weights(agent)))


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.full)])
def test_process_gets_an_agent_and_sees_later_changes(method):
    context = mp.get_context(method)
    agent = made(VectorDqnAgent(eps_itr_min=1000, eps_itr_max=2000), share_memory=True)
    sampler = sampler_of(agent)
    published, results = context.Event(), context.Queue()
    process = context.Process(target=report, args=(sampler, published, results))
    process.start()
    add_one(agent)
    agent.set_epsilon_itr_min_max(0, 100)
    agent.send_shared_memory()
    published.set()
    epsilon, recv_count, received = results.get(timeout=60)
    process.join()
    assert epsilon == pytest.approx(0.01)
    assert recv_count == 1
    assert received == weights(agent)


# --- Several optimizers -------------------------------------------------------------------------


@pytest.mark.usefixtures("process_group")
class TestDataParallel:
    def agent(self):
        agent = made(VectorDqnAgent())
        assert agent.data_parallel() is None
        assert isinstance(agent.model, DistributedDataParallel)
        return agent

    def test_old_snapshots_of_many_processes_load(self):
        agent = made(VectorDqnAgent())
        state = agent.state_dict()
        old = {f"module.{name}": value for name, value in state["model"].items()}
        agent.load_state_dict({"model": old, "target": state["target"]})

    def test_target_and_shared_model_follow(self):
        agent = made(VectorDqnAgent(), share_memory=True)
        agent.model = copy.deepcopy(agent.model)
        agent.data_parallel()
        add_one(agent)
        agent.update_target()
        agent.sync_shared_memory()
        for model in (agent.target_model, agent.shared_model):
            own = torch.cat([p.detach().flatten() for p in model.parameters()])
            assert own.tolist() == weights(agent)


@pytest.mark.parametrize("AgentCls", [VectorDqnAgent, SacAgent])
def test_modes_reach_every_module(AgentCls):
    # If the model itself was in the right mode, parts in another mode used to stay in it.
    agent = AgentCls()
    agent.initialize(SPACES if AgentCls is VectorDqnAgent else EnvSpaces(BOX, BOX))
    networks = [getattr(agent, name) for name in getattr(agent, "network_names", ["model"])]
    modules = [module for network in networks for module in network.modules()]
    for was_training in (True, False):
        for mode in ("sample", "eval", "train"):
            for part in modules[1:]:
                part.train(was_training)
            getattr(agent, f"{mode}_mode")(0)
            assert {module.training for module in modules} == {mode == "train"}
    agent.model.eval()  # By a program, which may not know modes.
    agent.train_mode(0)
    assert all(module.training for module in modules)


@pytest.mark.parametrize("AgentCls", [VectorDqnAgent, SacAgent])
def test_every_copy_of_a_network_is_built_by_one_method(AgentCls):
    # The policy of an actor-critic used to be built elsewhere, but not its target copy.
    class Built(AgentCls):
        def build_network(self, name):
            network = super().build_network(name)
            network.is_built = True
            return network

    agent = Built()
    agent.initialize(SPACES if AgentCls is VectorDqnAgent else EnvSpaces(BOX, BOX), True)
    shared = agent.shared_model
    agent.async_cpu()
    assert agent.model is not shared
    networks = [part for part in vars(agent).values() if isinstance(part, torch.nn.Module)]
    assert len(networks) >= 3
    assert all(network.is_built for network in networks)
