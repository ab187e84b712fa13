"""Atari games.

* ``atari_env``: one game, with the settings from the papers.
* ``_emulator``: the ROM of a game, the emulator, and the screen as an image.
* ``vector``: many games, stepped by one call in threads; their images differ from those of
  ``atari_env``.
"""
