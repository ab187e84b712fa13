"""Names that users type, such as settings, columns and choices, and those of extra packages."""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

# Names of Stable-Baselines3 and CleanRL that look like others here, or like none.
ELSEWHERE = {
    "action_noise": ("action_std",),
    "batch_size": ("minibatches",),
    "buffer_size": ("replay_size",),
    "clip_coef": ("ratio_clip",),
    "clip_range": ("ratio_clip",),
    "clip_range_vf": ("value_clip",),
    "device": ("gpus",),
    "ent_coef": ("entropy_loss_coeff", "fixed_alpha"),
    "env_id": ("env",),
    "ep_rew_mean": ("ReturnAverage",),
    "exploration_final_eps": ("eps_final",),
    "exploration_fraction": ("eps_steps",),
    "exploration_initial_eps": ("eps_init",),
    "gamma": ("discount",),
    "gradient_steps": ("replay_ratio",),
    "learning_starts": ("min_steps_learn",),
    "lr": ("learning_rate",),
    "maskable_ppo": ("ppo",),
    "max_grad_norm": ("clip_grad_norm",),
    "n_envs": ("batch_B",),
    "net_arch": ("hidden_sizes",),
    "num_envs": ("batch_B",),
    "num_steps": ("batch_T",),
    "policy": ("agent",),
    "policy_delay": ("policy_update_interval",),
    "recurrent_ppo": ("ppo_lstm",),
    "tau": ("target_update_tau",),
    "total_timesteps": ("steps",),
    "train_freq": ("replay_ratio",),
    "vf_coef": ("value_loss_coeff",),
}


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the known names closest to ``name``, or an empty string.

    Case does not matter, and the last part of a dotted name is enough: "cumsteps" means
    "Diagnostics/CumSteps". What another library calls so comes first.

    Returns:
        Text such as `` (did you mean 'a2c' or 'sac'?)``, which follows the name in a message.
    """
    by_lower_case = {other.lower(): other for other in known}
    by_last_part = {re.split(r"[./]", lower)[-1]: other for lower, other in by_lower_case.items()}
    candidates = {**by_last_part, **by_lower_case}
    name = name.lower()
    theirs = ELSEWHERE.get(re.split(r"[./]", name)[-1], ())
    close = [other.lower() for other in theirs if other.lower() in candidates]
    close = close or difflib.get_close_matches(name, candidates, n=3, cutoff=0.5)
    close = close or [lower for lower in by_lower_case if name in lower][:3]
    names = dict.fromkeys(candidates[lower] for lower in close)
    return f" (did you mean {' or '.join(map(repr, names))}?)" if names else ""


def first_duplicate(values: Iterable[str]) -> str | None:
    """Return the first value that equals an earlier one; None if all differ."""
    seen: set[str] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def flat(params: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings with their dotted names, such as ``algo.discount``."""
    for key, value in params.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def import_extra(module: str, user: str, extra: str) -> Any:
    """Import a module of a package that an extra of this library installs.

    Args:
        module: name of the module.
        user: name of what needs it, for the error.
        extra: name of the extra.

    Raises:
        ImportError: if the package is missing; the message has the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{user} needs {package}: pip install 'rlpyt[{extra}]'") from error
