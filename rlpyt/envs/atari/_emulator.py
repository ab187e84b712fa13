"""The emulator: ROMs of games, sticky actions, and small gray images of its screen.

The emulator returns color indexes in 1 us, but needs 13 us to turn them into gray levels. A screen
is mostly runs of one color. So it is several times faster to look up eight pixels at a time, and
only where they differ from the pixels to the left and above. The gray level of a color is read from
the emulator when the color first appears.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from ale_py import ALEInterface, roms

from rlpyt.utils.jit import jit
from rlpyt.utils.names import did_you_mean
from rlpyt.utils.types import NDArray


class UnknownGameError(OSError, ValueError):
    """Error for an unknown game: an ``IOError``, as for a missing file, and a ``ValueError``."""


def rom_path(game: str) -> str:
    """Return the path of the ROM of ``game``.

    Args:
        game: name in snake case, such as ``space_invaders``; ``SpaceInvaders`` works too.

    Raises:
        UnknownGameError: if no such game is installed; names the closest ones.
    """
    games = list(roms.get_all_rom_ids())
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(game)).lower()
    if name not in games:
        raise UnknownGameError(f"game={game!r} is unknown{did_you_mean(name, games)}")
    path = roms.get_rom_path(name)
    # Loading an unsupported ROM would end the whole process.
    if path is None or not ALEInterface.isSupportedROM(path):
        raise UnknownGameError(
            f"game={game!r} has a ROM that the emulator cannot play alone ({path}): choose another"
        )
    return str(path)


class StickyEmulator:
    """An emulator with sticky actions: a frame may repeat the action of the previous frame.

    The emulator has sticky actions too, but its state lacks the action that it holds, so a game
    could not continue exactly. All other methods are the emulator's.

    Args:
        ale: emulator without sticky actions.
        probability: probability that a frame repeats the action of the previous frame.

    Source: Machado et al. 2018, arXiv:1709.06009, section 5.2.
    """

    def __init__(self, ale: Any, probability: float) -> None:
        self._ale = ale
        self._probability = probability
        self.held_code = 0
        self.rng: np.random.Generator

    def act(self, code: int) -> float:
        """Run one frame, with ``code`` or with the action of the previous frame."""
        if self.rng.random() >= self._probability:
            self.held_code = code
        return float(self._ale.act(self.held_code))

    def reset_game(self) -> None:
        """Start a game, which holds no action."""
        self.held_code = 0
        self._ale.reset_game()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ale, name)


class ScreenReader:
    """Reader of an emulator's gray screen, with the same result as ``getScreenGrayscale``.

    Args:
        ale: the emulator, with its game loaded.
    """

    def __init__(self, ale: Any) -> None:
        self._ale = ale
        self._colors: NDArray = np.zeros(ale.getScreenDims(), dtype=np.uint8)
        self._color_words = self._colors.view(np.uint64)
        self._grays = np.full(256, -1, dtype=np.int64)  # -1: this color was not seen yet.

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the screen."""
        height, width = self._colors.shape
        return height, width

    def read(self, frame: NDArray) -> None:
        """Write the gray levels of the screen into ``frame``, [h,w] or [h,w,1], uint8."""
        frame = frame.reshape(self._colors.shape)
        self._ale.getScreen(self._colors)
        if not _look_up(self._color_words, self._grays, frame.view(np.uint64)):
            self._ale.getScreenGrayscale(frame)
            self._grays[self._colors] = frame


class Shrinker:
    """Reduction of the maximum of two frames to a small image, by the mean of each pixel's area.

    At 104 x 80, the first and the last row of the screen are left out; then, on a screen of
    210 x 160, each pixel is (sum of 2 x 2 pixels + 2) // 4.

    Args:
        screen_shape: height and width of the frames.
        img_shape: height and width of the image, no larger.
    """

    def __init__(self, screen_shape: tuple[int, int], img_shape: tuple[int, int]) -> None:
        self._margin = 1 if img_shape == (104, 80) else 0
        height = screen_shape[0] - 2 * self._margin
        self._is_half = (height, screen_shape[1]) == (2 * img_shape[0], 2 * img_shape[1])
        self._rows = _area_weights(height, img_shape[0])
        self._cols = _area_weights(screen_shape[1], img_shape[1])

    def push(self, frame_1: NDArray, frame_2: NDArray, stack: NDArray, max_frame: NDArray) -> None:
        """Move the images of ``stack`` one place to the front, and append the new one.

        Args:
            frame_1: earlier frame [height,width], or [height,width,1], uint8.
            frame_2: later frame of the same shape, uint8.
            stack: images [C,h,w], uint8, oldest first.
            max_frame: buffer of the same shape, uint8, for the maximum of the frames.
        """
        max_frame = np.maximum(frame_1, frame_2, out=max_frame).reshape(max_frame.shape[:2])
        if self._is_half:
            _push_half(max_frame, self._margin, stack)
        else:
            _push_area(max_frame, self._margin, *self._rows, *self._cols, stack)


@jit
def _look_up(color_words: NDArray, grays: NDArray, gray_words: NDArray) -> bool:
    """Write all gray levels, eight pixels at a time; return False if a color is still unknown."""
    previous = ~color_words[0, 0]
    shade = np.uint64(0)
    for y in range(color_words.shape[0]):
        for x in range(color_words.shape[1]):
            word = color_words[y, x]
            if word == previous:
                gray_words[y, x] = shade
                continue
            previous = word
            if y > 0 and color_words[y - 1, x] == word:
                shade = gray_words[y - 1, x]
            else:
                shade = np.uint64(0)
                signs = np.int64(0)
                for byte in range(8):
                    shift = np.uint64(8 * byte)
                    gray = grays[(word >> shift) & np.uint64(255)]
                    signs |= gray
                    shade |= np.uint64(gray & 255) << shift
                if signs < 0:
                    return False
            gray_words[y, x] = shade
    return True


@jit
def _push_half(frame: NDArray, margin: int, stack: NDArray) -> None:
    """Append the 2 x 2 means of ``frame``, rounded half up."""
    for i in range(stack.shape[0] - 1):
        stack[i] = stack[i + 1]
    image = stack[-1]
    for y in range(image.shape[0]):
        top, bottom = 2 * y + margin, 2 * y + margin + 1
        for x in range(image.shape[1]):
            left, right = 2 * x, 2 * x + 1
            total = np.uint16(frame[top, left]) + np.uint16(frame[top, right])
            total += np.uint16(frame[bottom, left]) + np.uint16(frame[bottom, right])
            image[y, x] = (total + np.uint16(2)) >> np.uint16(2)


@jit
def _push_area(
    frame: NDArray,
    margin: int,
    row_starts: NDArray,
    row_weights: NDArray,
    col_starts: NDArray,
    col_weights: NDArray,
    stack: NDArray,
) -> None:
    """Append the area means of ``frame``: first over rows, then over columns."""
    for i in range(stack.shape[0] - 1):
        stack[i] = stack[i + 1]
    image = stack[-1]
    wide = np.empty(frame.shape[1], dtype=np.float32)
    narrow = np.empty(image.shape[1], dtype=np.float32)
    for y in range(image.shape[0]):
        wide[:] = np.float32(0)
        for k in range(row_weights.shape[0]):
            row, weight = row_starts[y] + margin + k, row_weights[k, y]
            if weight == 0:
                continue
            for x in range(wide.size):
                wide[x] += weight * np.float32(frame[row, x])
        narrow[:] = np.float32(0.5)  # Rounds half up when the sum is cut to an integer.
        for k in range(col_weights.shape[0]):
            for x in range(narrow.size):
                narrow[x] += col_weights[k, x] * wide[col_starts[x] + k]
        for x in range(narrow.size):
            image[y, x] = np.uint8(narrow[x])


def _area_weights(n_in: int, n_out: int) -> tuple[NDArray, NDArray]:
    """Return the first input pixel of every output pixel, and the weights of its input pixels.

    Returns:
        starts [n_out] int64, weights [K,n_out] float32, whose columns have the sum 1.
    """
    edges = np.arange(n_out + 1) * (n_in / n_out)
    n_taps = int(np.ceil(n_in / n_out)) + 1
    starts = np.minimum(np.floor(edges[:-1] + 1e-9).astype(np.int64), n_in - n_taps)
    pixels = starts + np.arange(n_taps)[:, None]
    ends = np.minimum(pixels + 1, edges[1:])
    shares = np.clip(ends - np.maximum(pixels, edges[:-1]), 0, None)
    return starts, (shares / shares.sum(axis=0)).astype(np.float32)
