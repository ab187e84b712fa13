"""Configuration tables: settings of known runs, by name.

One module for each family of ``rlpyt.experiments.train``, with its table ``configs``:
``atari.dqn``, ``atari.pg``, ``mujoco.pg`` and ``mujoco.qpg``. An entry has sections, such as
``algo`` and ``sampler``, of keyword arguments; ``tables.changed`` writes it as a change of another.
"""
