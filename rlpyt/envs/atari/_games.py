"""Which Atari games there are, and where their ROMs lie."""

from __future__ import annotations

import difflib
import re

from ale_py import ALEInterface, roms


class UnknownGameError(OSError, ValueError):
    """No ROM of this name; an ``IOError``, as for a missing file, and a ``ValueError``."""


def rom_path(game: str) -> str:
    """Return the path of the ROM of ``game``.

    Args:
        game: name in snake case, as ``space_invaders``; ``SpaceInvaders`` is understood as well.

    Raises:
        UnknownGameError: if no such game is installed; names the closest ones.
    """
    games = list(roms.get_all_rom_ids())
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(game)).lower()
    if name not in games:
        close = difflib.get_close_matches(name, games, n=3, cutoff=0.5) or sorted(games)[:3]
        raise UnknownGameError(f"game={game!r} is unknown; the closest are {', '.join(close)}")
    path = roms.get_rom_path(name)
    # The emulator ends the whole process when it loads a ROM which it does not support.
    if path is None or not ALEInterface.isSupportedROM(path):
        raise UnknownGameError(f"game={game!r}: the emulator cannot play this ROM alone: {path}")
    return str(path)
