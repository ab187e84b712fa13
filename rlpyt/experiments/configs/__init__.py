"""Configuration tables: settings of known runs, by name.

Each module has a table ``configs``. An entry has sections, such as ``algo`` and ``sampler``, of
keyword arguments, and ``roles``, which names the classes that take them.

* ``generic``: every algorithm on any environment, with settings for small tasks; ``minatar``.
* ``atari.dqn``, ``atari.pg``, ``mujoco.pg`` and ``mujoco.qpg``: the original's tables under their
  names, with additions.
"""
