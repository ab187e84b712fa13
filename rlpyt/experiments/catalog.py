"""Names of a run's parts: algorithms, agents, samplers, runners, environments, entries.

The section ``roles`` of a configuration has one of these names, or the full name of your class,
for each of ``algo``, ``agent``, ``sampler``, ``runner`` and ``env``.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from rlpyt.experiments.sweeps.variant import Config
from rlpyt.utils.names import did_you_mean

FEW = 25  # names that fit in the line of an error

_DQN, _PG, _QPG = "rlpyt.agents.dqn", "rlpyt.agents.pg", "rlpyt.agents.qpg"


class Algorithm(NamedTuple):
    """Algorithm, and the agents that fit it.

    The first agent is the default, for observations of any kind; "atari" is the one for Atari
    games.
    """

    name: str  # full name of the class
    agents: dict[str, str]  # full names of classes


def _value_agents(kind: str) -> dict[str, str]:
    module = f"{_DQN}.atari.atari_{kind.lower()}_agent"
    return {"mlp": f"{_DQN}.mlp_agent.Mlp{kind}Agent", "atari": f"{module}.Atari{kind}Agent"}


_POLICY_AGENTS = {
    "generic": f"{_PG}.generic.GenericFfAgent",
    "generic_lstm": f"{_PG}.generic.GenericLstmAgent",
    "atari": f"{_PG}.atari.AtariFfAgent",
    "atari_lstm": f"{_PG}.atari.AtariLstmAgent",
    "mujoco": f"{_PG}.mujoco.MujocoFfAgent",
    "mujoco_lstm": f"{_PG}.mujoco.MujocoLstmAgent",
}
_SAC_AGENTS = {"mlp": f"{_QPG}.sac_agent.SacAgent"}

ALGORITHMS = {
    "dqn": Algorithm("rlpyt.algos.dqn.dqn.DQN", _value_agents("Dqn")),
    "cat_dqn": Algorithm("rlpyt.algos.dqn.cat_dqn.CategoricalDQN", _value_agents("CatDqn")),
    "qr_dqn": Algorithm("rlpyt.algos.dqn.qr_dqn.QRDQN", _value_agents("QrDqn")),
    "iqn": Algorithm("rlpyt.algos.dqn.iqn.IQN", _value_agents("Iqn")),
    "munchausen_dqn": Algorithm("rlpyt.algos.dqn.munchausen.MunchausenDQN", _value_agents("Dqn")),
    "munchausen_iqn": Algorithm("rlpyt.algos.dqn.munchausen.MunchausenIQN", _value_agents("Iqn")),
    "r2d1": Algorithm("rlpyt.algos.dqn.r2d1.R2D1", _value_agents("R2d1")),
    "pqn": Algorithm(
        "rlpyt.algos.dqn.pqn.PQN",
        {
            **_value_agents("Pqn"),
            "mlp_lstm": f"{_DQN}.mlp_agent.MlpPqnLstmAgent",
            "atari_lstm": f"{_DQN}.atari.atari_pqn_agent.AtariPqnLstmAgent",
        },
    ),
    "a2c": Algorithm("rlpyt.algos.pg.a2c.A2C", _POLICY_AGENTS),
    "ppo": Algorithm("rlpyt.algos.pg.ppo.PPO", _POLICY_AGENTS),
    "ppo_rnd": Algorithm("rlpyt.algos.pg.rnd.RndPPO", _POLICY_AGENTS),
    "impala": Algorithm("rlpyt.algos.pg.impala.IMPALA", _POLICY_AGENTS),
    "ddpg": Algorithm("rlpyt.algos.qpg.ddpg.DDPG", {"mlp": f"{_QPG}.ddpg_agent.DdpgAgent"}),
    "td3": Algorithm("rlpyt.algos.qpg.td3.TD3", {"mlp": f"{_QPG}.td3_agent.Td3Agent"}),
    "sac": Algorithm("rlpyt.algos.qpg.sac.SAC", _SAC_AGENTS),
    "redq": Algorithm("rlpyt.algos.qpg.sac_ensembles.REDQ", _SAC_AGENTS),
    "tqc": Algorithm("rlpyt.algos.qpg.sac_ensembles.TQC", _SAC_AGENTS),
    "crossq": Algorithm("rlpyt.algos.qpg.sac_ensembles.CrossQ", _SAC_AGENTS),
    "sac_discrete": Algorithm(
        "rlpyt.algos.qpg.sac_discrete.DiscreteSAC",
        {
            "mlp": f"{_QPG}.sac_discrete_agent.DiscreteSacAgent",
            "atari": f"{_QPG}.sac_discrete_agent.AtariDiscreteSacAgent",
        },
    ),
    "sac_lstm": Algorithm(
        "rlpyt.algos.qpg.sac_lstm.RecurrentSAC", {"mlp": f"{_QPG}.sac_lstm_agent.SacLstmAgent"}
    ),
    "sac_v": Algorithm("rlpyt.algos.qpg.sac_v.SAC_V", {"mlp": f"{_QPG}.sac_v_agent.SacAgent"}),
    "d4pg": Algorithm("rlpyt.algos.qpg.d4pg.D4PG", {"mlp": f"{_QPG}.d4pg_agent.D4pgAgent"}),
}

# Agents that keep one recurrent state for each half of the environments.
ALTERNATING = {
    f"{_PG}.generic.GenericLstmAgent": f"{_PG}.generic.AlternatingGenericLstmAgent",
    f"{_PG}.atari.AtariLstmAgent": f"{_PG}.atari.AlternatingAtariLstmAgent",
    f"{_PG}.mujoco.MujocoLstmAgent": f"{_PG}.mujoco.AlternatingMujocoLstmAgent",
    f"{_DQN}.mlp_agent.MlpPqnLstmAgent": f"{_DQN}.mlp_agent.AlternatingMlpPqnLstmAgent",
    f"{_DQN}.atari.atari_pqn_agent.AtariPqnLstmAgent": (
        f"{_DQN}.atari.atari_pqn_agent.AlternatingAtariPqnLstmAgent"
    ),
    f"{_DQN}.mlp_agent.MlpR2d1Agent": f"{_DQN}.mlp_agent.MlpR2d1AlternatingAgent",
    f"{_DQN}.atari.atari_r2d1_agent.AtariR2d1Agent": (
        f"{_DQN}.atari.atari_r2d1_agent.AtariR2d1AlternatingAgent"
    ),
    f"{_QPG}.sac_lstm_agent.SacLstmAgent": f"{_QPG}.sac_lstm_agent.AlternatingSacLstmAgent",
}

_S = "rlpyt.samplers"
_ASYNC = f"{_S}.async_"
_VECTOR = f"{_S}.vector.sampler.VectorSampler"
_DEVICE = f"{_S}.vector.device.DeviceSampler"

# The class in the runner's process, and the asynchronous class.
SAMPLERS = {
    "serial": (
        f"{_S}.serial.sampler.SerialSampler",
        f"{_ASYNC}.serial_sampler.AsyncSerialSampler",
    ),
    "cpu": (
        f"{_S}.parallel.cpu.sampler.CpuSampler",
        f"{_ASYNC}.cpu_sampler.AsyncCpuSampler",
    ),
    "gpu": (
        f"{_S}.parallel.gpu.sampler.GpuSampler",
        f"{_ASYNC}.gpu_sampler.AsyncGpuSampler",
    ),
    "alternating": (
        f"{_S}.parallel.gpu.alternating_sampler.AlternatingSampler",
        f"{_ASYNC}.alternating_sampler.AsyncAlternatingSampler",
    ),
    "vector": (_VECTOR, None),
    "device": (_DEVICE, None),
    "ray": (
        f"{_S}.ray.sampler.RaySampler",
        f"{_S}.ray.async_sampler.AsyncRaySampler",
    ),
}

# The class without evaluation, and the class with it.
RUNNERS = {
    name: (f"rlpyt.runners.{name}_rl.{cls}", f"rlpyt.runners.{name}_rl.{cls}Eval")
    for name, cls in (("minibatch", "MinibatchRl"), ("sync", "SyncRl"), ("async", "AsyncRl"))
}

# Makers of one environment, of a vector, and of a vector on a device; None if there is none.
ENVIRONMENTS = {
    "gym": ("rlpyt.envs.gym.make", "rlpyt.envs.vector.make", "rlpyt.envs.control.make"),
    "atari": ("rlpyt.envs.atari.atari_env.AtariEnv", None, None),
    "atari_vector": (None, "rlpyt.envs.atari.vector.AtariVector", None),
    "envpool": (None, "rlpyt.envs.envpool.make", None),
    "brax": (None, None, "rlpyt.envs.jax.make_brax"),
    "playground": (None, None, "rlpyt.envs.jax.make_playground"),
    "gymnax": (None, None, "rlpyt.envs.jax.make_gymnax"),
    "isaac": (None, None, "rlpyt.envs.isaac.make"),
    "maniskill": (None, None, "rlpyt.envs.maniskill.make"),
}

# Package that a simulator needs, and the words after "pip install" that install it.
SIMULATORS = {
    "brax": ("brax", "'rlpyt[brax]'"),
    "playground": ("mujoco_playground", "'rlpyt[playground]'"),
    "gymnax": ("gymnax", "'rlpyt[gymnax]'"),
    "isaac": ("isaaclab", "'isaaclab[isaacsim,all]' --extra-index-url https://pypi.nvidia.com"),
    "maniskill": ("mani_skill", "mani_skill"),
}

# Module of each table, by the name of its file; the general ones come first.
_CONFIGS = Path(__file__).with_name("configs")
TABLES = {
    file.stem: ".".join((__package__, "configs", *file.relative_to(_CONFIGS).with_suffix("").parts))
    for file in sorted(_CONFIGS.rglob("[!_]*.py"), key=lambda file: (len(file.parts), file))
}

# Entries for runs on Atari games, if only an algorithm is named.
ATARI_ENTRIES = {
    **{
        name: f"atari_dqn/{name}"
        for name in ("dqn", "rainbow", "qr_dqn", "iqn", "munchausen_dqn", "munchausen_iqn")
        + ("pqn", "sac_discrete")
    },
    "cat_dqn": "atari_dqn/catdqn",
    "r2d1": "atari_r2d1/r2d1",
    "a2c": "atari_ff_a2c/0",
    "ppo": "atari_ff_ppo/0",
}

KINDS = ("algorithms", "agents", "entries", "environments", "runners", "samplers", "zoo")

ZOO = Path(__file__).parents[1] / "zoo"  # Directories of runs; the path of each is its name.


# --- Look-up -------------------------------------------------------------------------------------


def unknown(kind: str, name: str, known: Iterable[str]) -> ValueError:
    """Return the error for an unknown name: one line, with the closest known names, or a few."""
    known = sorted(known)
    choice = did_you_mean(name, known)
    if not choice and len(known) <= FEW:
        choice = f": choose one of {', '.join(known)}"
    elif not choice:
        closest = difflib.get_close_matches(name, known, n=3, cutoff=0)
        choice = f": of {len(known)} names the closest are {', '.join(closest)}"
    return ValueError(f"unknown {kind} {name!r}{choice}")


def load(name: str) -> Any:
    """Return the class or function of this full name, such as ``torch.optim.Adam``.

    Raises:
        ValueError: if there is none.
    """
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        reason = error if module else "it has no module"
        raise ValueError(
            f"{name!r} cannot be imported ({reason}): give a full name (torch.optim.Adam)"
        ) from error


@cache
def entries() -> dict[str, Config]:
    """Return all entries of all tables, as ``"table/entry"``."""
    return {
        f"{table}/{key}": entry
        for table, module in TABLES.items()
        for key, entry in import_module(module).configs.items()
    }


def names(kind: str) -> list[str]:
    """Return all names of a kind, one of ``KINDS``; agents come with their algorithms."""
    if kind == "environments":
        return [*atari_games(), *environment_ids()]
    if kind == "agents":
        return [f"{algo} agent={name}" for algo, each in ALGORITHMS.items() for name in each.agents]
    tables: dict[str, Iterable[str]] = {
        "algorithms": ALGORITHMS,
        "entries": entries(),
        "runners": RUNNERS,
        "samplers": SAMPLERS,
        "zoo": sorted(file.parent.relative_to(ZOO).as_posix() for file in ZOO.rglob("params.pkl")),
    }
    return list(tables[kind])


def located(path: str | Path) -> Path:
    """Return the directory of a trained agent, named ``zoo:NAME``, or any other path as it is."""
    if not str(path).startswith("zoo:"):
        return Path(path)
    name = str(path).removeprefix("zoo:")
    known = names("zoo")
    if name not in known:
        raise unknown("agent of the zoo", name, known)
    find_environment(name.partition("/")[2])
    return ZOO / name


def targets(config: Config) -> dict[str, str]:
    """Return the full name of the class or function whose arguments are in each section."""
    roles = {"sampler": "serial", "runner": "minibatch", "env": "gym", **config["roles"]}
    algorithm = _choose("algorithm", roles["algo"], ALGORITHMS)
    runners = _choose("runner", roles["runner"], RUNNERS)
    samplers = _choose("sampler", roles["sampler"], SAMPLERS)
    environments = _choose("environment", roles["env"], ENVIRONMENTS)
    is_async = roles["runner"] == "async"
    if is_async and isinstance(samplers, tuple) and samplers[1] is None:
        raise ValueError(
            f"sampler={roles['sampler']} samples in the process of the runner: choose another "
            "sampler for runner=async, or runner=minibatch"
        )
    used = _pick(samplers, is_async), config["sampler"].get("SamplerCls")
    kind = 2 if _DEVICE in used else int(_VECTOR in used)
    _check_fit(roles, kind)
    agent = _agent(algorithm, roles)
    return {
        "algo": algorithm.name if isinstance(algorithm, Algorithm) else algorithm,
        "agent": ALTERNATING.get(agent, agent) if roles["sampler"] == "alternating" else agent,
        "env": _pick(environments, kind),
        "sampler": _pick(samplers, is_async),
        "runner": _pick(runners, bool(config.get("sampler", {}).get("eval_n_envs"))),
        "affinity": "rlpyt.experiments.program.make_affinity",
    }


def _check_fit(roles: dict[str, str], kind: int) -> None:
    """Refuse a sampler that steps another kind of environment than there is of this role."""
    role, sampler = roles["env"], roles["sampler"]
    if role not in ENVIRONMENTS or ENVIRONMENTS[role][kind] is not None:
        return
    own = vector_sampler(role)
    if role == "atari" and kind == 1:
        raise ValueError(
            "sampler=vector: no vector environment has AtariEnv's images; use another sampler, or "
            "the environment atari_vector:GAME, whose images differ"
        )
    made, use = {
        None: ("single environments", "sampler=serial"),
        "vector": ("vector environments", f"sampler=vector, or sampler=ray SamplerCls={_VECTOR}"),
        "device": ("environments of tensors", "sampler=device"),
    }[own]
    raise ValueError(f"sampler={sampler}: env={role} makes {made}; use {use}")


def vector_sampler(role: str) -> str | None:
    """Return the sampler that this role's environments need; None if they exist one by one."""
    if role not in ENVIRONMENTS or ENVIRONMENTS[role][0] is not None:
        return None
    return "device" if ENVIRONMENTS[role][1] is None else "vector"


def _choose(kind: str, name: str, known: dict[str, Any]) -> Any:
    """Return the entry of ``known``, or a full name from the user, which must exist."""
    if name in known:
        return known[name]
    if "." not in name:
        raise unknown(kind, name, known)
    load(name)
    return name


def _pick(choice: Any, index: int) -> str:
    name: str = choice if isinstance(choice, str) else choice[index]
    return name


def _agent(algorithm: Any, roles: dict[str, Any]) -> str:
    """Return the agent; a user's algorithm has those of the class that it derives from."""
    agents, name = {}, roles.get("agent")
    if isinstance(algorithm, Algorithm):
        agents = algorithm.agents
    else:
        known = {each.name: each.agents for each in ALGORITHMS.values()}
        for base in reversed(getattr(load(algorithm), "__mro__", ())):
            agents = known.get(f"{base.__module__}.{base.__name__}", agents)
    if name is None and not agents:
        raise ValueError(f"algo={roles['algo']} needs agent=NAME, the full name of its agent")
    if name is None:
        is_game = roles["env"] in ("atari", "atari_vector")
        name = "atari" if is_game and "atari" in agents else next(iter(agents))
    chosen: str = _choose("agent", name, agents)
    return chosen


# --- Environments --------------------------------------------------------------------------------


def extra_for(package: str, extra: str, what: str) -> None:
    """Raise ``ValueError`` with the pip command if a package of an extra is missing."""
    if find_spec(package) is None:
        raise ValueError(f"{what} needs {package}: pip install 'rlpyt[{extra}]'")


def environment_ids() -> list[str]:
    """Return the ids that gymnasium can make here, with the ids of installed packages."""
    import gymnasium

    from rlpyt.envs.gym import register_ids

    register_ids("ALE/")
    register_ids("MinAtar/")
    return sorted(gymnasium.registry)


def atari_games() -> list[str]:
    """Return the names of the Atari games; none if ale-py is not installed."""
    if find_spec("ale_py") is None:
        return []
    games: list[str] = sorted(import_module("ale_py.roms").get_all_rom_ids())
    return games


def find_environment(name: str) -> tuple[str, dict[str, str]]:
    """Return the role ``env`` and the keyword arguments that make an environment.

    Args:
        name: gymnasium id, name of an Atari game (after ``atari_vector:`` for many games at once),
            EnvPool id after ``envpool:``, name in a simulator after a prefix of ``SIMULATORS``,
            or full name of a class or function.
    """
    prefix, colon, id = name.partition(":")
    if colon and prefix in SIMULATORS:
        package, words = SIMULATORS[prefix]
        if find_spec(package) is None:
            raise ValueError(f"the environment {name!r} needs {package}: pip install {words}")
        return prefix, {"id": id}
    for start, package, extra in (
        ("envpool:", "envpool", "envpool"),
        ("atari_vector:", "ale_py", "atari"),
        ("ale/", "ale_py", "atari"),
        ("minatar/", "minatar", "minatar"),
    ):
        if name.lower().startswith(start):
            extra_for(package, extra, f"the environment {name!r}")
    if colon and prefix == "envpool":
        known = import_module("envpool").list_all_envs()
        if id not in known:
            raise unknown("environment of EnvPool", id, known)
        return "envpool", {"id": id}
    in_vectors = bool(colon) and prefix == "atari_vector"
    game = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removeprefix("atari_vector:")).lower()
    if game in atari_games():
        extra_for("cv2", "atari", f"the Atari game {game!r}")
        return "atari_vector" if in_vectors else "atari", {"game": game}
    if in_vectors:
        raise unknown("Atari game", game, atari_games())
    ids = environment_ids()
    if name in ids or ":" in name:
        # gymnasium registers tasks of MuJoCo without it.
        entry_point = getattr(import_module("gymnasium").registry.get(name), "entry_point", None)
        if isinstance(entry_point, str) and ".mujoco" in entry_point:
            extra_for("mujoco", "mujoco", f"the environment {name!r}")
        return "gym", {"id": name}
    package = name.partition(".")[0]
    if "." in name and "/" not in name and (package in sys.modules or find_spec(package)):
        cls = load(name)
        is_of_gymnasium = isinstance(cls, type) and issubclass(cls, import_module("gymnasium").Env)
        if is_of_gymnasium and not hasattr(cls, "spaces"):  # Which environments of rlpyt have.
            raise ValueError(
                f"{name} is a class of gymnasium: name it after its module with a colon, "
                f"{cls.__module__}:{cls.__qualname__}"
            )
        return name, {}
    if re.fullmatch(r"([A-Za-z_]\w*\.)+[A-Za-z_]\w*", name):
        raise ValueError(
            f"unknown environment {name!r}: Python finds no module {package!r}; start where it is, "
            "or install its package"
        )
    if find_spec("ale_py") is None and re.fullmatch(r"[a-z0-9_]+", name):
        raise ValueError(
            f"unknown environment {name!r}; if it is an Atari game: pip install 'rlpyt[atari]'"
        )
    raise unknown("environment", name, [*ids, *atari_games()])
