"""A stub of the emulator, since it takes long to load a game, where that is not the subject."""

from typing import Any

LENGTH = 200  # Frames of a game.


class StubEmulator:
    """What :class:`~rlpyt.envs.atari.atari_env.AtariEnv` needs of ``ale_py.ALEInterface``.

    A game shows the number of its frame, and scores a point in every tenth.
    """

    setLoggerMode = setFloat = setInt = loadROM = staticmethod(lambda *_: None)  # noqa: N815

    def __init__(self) -> None:
        self.n_frames = 0

    def getMinimalActionSet(self) -> list[int]:  # noqa: N802
        return [0, 1, 3, 4, 11, 12]

    def getScreenDims(self) -> tuple[int, int]:  # noqa: N802
        return 210, 160

    def getScreen(self, out: Any) -> None:  # noqa: N802
        out[...] = self.n_frames % 256

    getScreenGrayscale = getScreen  # noqa: N815

    def reset_game(self) -> None:
        self.n_frames = 0

    def act(self, code: int) -> int:
        self.n_frames += 1
        return int(self.n_frames % 10 == 0)

    def lives(self) -> int:
        return 0

    def game_over(self) -> bool:
        return self.n_frames >= LENGTH


def use_stub(monkeypatch: Any) -> None:
    """Let games be played by the stub."""
    from rlpyt.envs.atari import atari_env

    monkeypatch.setattr(atari_env, "ALEInterface", StubEmulator)
