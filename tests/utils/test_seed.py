"""Seeds, and generators that continue where they were."""

from __future__ import annotations

import copy
import io
import itertools
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from rlpyt.utils import seed as seed_module
from rlpyt.utils.seed import (
    EnvStreams,
    Purpose,
    derived_seed,
    env_seeds,
    generator_state,
    get_seed,
    make_generator,
    make_seed,
    rng_state,
    set_envs_seeds,
    set_generator_state,
    set_rng_state,
    set_seed,
)


def draw() -> tuple[float, ...]:
    return (
        random.gauss(0, 1),
        float(np.random.normal()),
        float(torch.randn(())),
        float(make_generator().normal()),
    )


@pytest.fixture(autouse=True)
def _keep_seed() -> Any:
    yield
    seed_module.seed_ = None


def test_a_seed_fixes_every_global_stream(capsys: pytest.CaptureFixture[str]) -> None:
    assert get_seed() is None
    set_seed(7)
    first = draw()
    assert draw() != first
    set_seed(7)
    assert draw() == first
    assert get_seed() == 7
    set_seed(8)
    assert draw() != first
    assert capsys.readouterr().out.splitlines()[0] == "using seed 7"


@pytest.mark.parametrize(("seed", "used"), [(4294967294 + 5, 5), (-1, 4294967293), (3.0, 3)])
def test_seeds_are_taken_modulo(seed: Any, used: int) -> None:
    set_seed(seed)
    assert get_seed() == used


def test_made_seeds_are_in_range_and_do_not_depend_on_the_streams() -> None:
    seeds = set()
    for _ in range(20):
        np.random.seed(0)
        random.seed(0)
        seeds.add(make_seed())
    assert all(isinstance(seed, int) and 0 <= seed <= 9999 for seed in seeds)
    assert len(seeds) > 10


class Recorder:
    """Notes the seeds it is given."""

    def __init__(self) -> None:
        self.seeds: list[int] = []

    def seed(self, seed: int) -> None:
        self.seeds.append(seed)


class SeededEnv(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.action_space, self.observation_space = Recorder(), Recorder()


class ResetEnv:
    action_space = None

    def __init__(self) -> None:
        self.seeds: list[int | None] = []

    def reset(self, seed: int | None = None) -> None:
        self.seeds.append(seed)


class PlainEnv:
    action_space = "without seed"

    def reset(self) -> None:
        raise AssertionError("must not be reset")


class Wrapper:
    """Hands on whatever it is given."""

    def __init__(self, env: Any) -> None:
        self.unwrapped = env

    def reset(self, **kwargs: Any) -> None:
        self.unwrapped.reset(**kwargs)


def test_the_ith_environment_gets_the_ith_seed() -> None:
    """Environments that are seeded by their reset used to stay unseeded."""
    inner = ResetEnv()
    envs: list[Any] = [SeededEnv(), PlainEnv(), ResetEnv(), SeededEnv(), Wrapper(inner)]
    envs.append(Wrapper(PlainEnv()))
    set_envs_seeds(envs, None)
    assert envs[0].seeds == envs[2].seeds == []
    set_envs_seeds(envs, 100)
    seeds = env_seeds(100, range(6)) or []
    assert [envs[0].seeds, envs[2].seeds, inner.seeds] == [[seeds[0]], [seeds[2]], [seeds[4]]]
    spaces = [
        space.seeds[0] for env in envs[::3] for space in (env.action_space, env.observation_space)
    ]
    assert len({*seeds, *spaces}) == 10
    set_envs_seeds(envs[:3], [7, 8, 9])
    assert (envs[0].seeds[1], envs[2].seeds[1]) == (7, 9)


def test_derived_seeds_do_not_overlap() -> None:
    keys = itertools.product((0, 1, 2, 2**32), Purpose, ((), (0,), (0, 0), (1,)))
    seeds = [derived_seed(seed, purpose, *indexes) for seed, purpose, indexes in keys]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert derived_seed(3, Purpose.ENVIRONMENT, 5) == 849801105, "the same on every machine"


def test_an_attribute_seed_is_no_method() -> None:
    """An environment that keeps its seed as a number used to be called."""

    class NumberEnv(ResetEnv):
        seed = 4
        action_space: Any = SimpleNamespace(seed=5)

    env = NumberEnv()
    set_envs_seeds([env], 100)
    assert env.seeds == env_seeds(100, [0])
    assert (env.seed, env.action_space.seed) == (4, 5)


def test_a_generator_continues_where_its_state_was_taken() -> None:
    gen = make_generator()
    gen.random(5)
    gen.integers(10, dtype=np.int32)  # Keeps half of a drawn number back.
    state = generator_state(gen)
    kept = copy.deepcopy(state)
    expected = gen.integers(1000, size=20, dtype=np.int32)
    assert state == kept
    other = make_generator()
    set_generator_state(other, state)
    assert (other.integers(1000, size=20, dtype=np.int32) == expected).all()


def test_global_streams_continue_also_after_a_file() -> None:
    draw()  # Leaves half of a pair of gaussians in the Python and numpy streams.
    state = rng_state()
    expected = draw()
    assert draw() != expected
    set_rng_state(state)
    assert draw() == expected
    file = io.BytesIO()
    torch.save({"rng": state, "generator": generator_state(make_generator())}, file)
    file.seek(0)
    set_rng_state(torch.load(file, weights_only=True)["rng"])
    assert draw() == expected


def test_environments_have_streams_of_their_own() -> None:
    streams = EnvStreams()
    with streams:
        first = draw()
    streams.settle()
    state = rng_state()
    expected = draw()
    set_rng_state(state)
    with streams:
        assert draw() != first
    assert draw() == expected


@pytest.mark.parametrize("n_gpus", [0, 1])
def test_streams_continue_with_fewer_gpus(n_gpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    restored: dict[int, str] = {}
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    monkeypatch.setattr(torch.cuda.random, "set_rng_state", lambda s, i: restored.update({i: s}))
    set_rng_state({**rng_state(), "cuda": ["first", "second"]})
    assert restored == dict(enumerate(["first", "second"][:n_gpus]))
