"""Runs from the command line: the command ``rlpyt``, and the tables of settings behind it.

A configuration has a section of keyword arguments for each role of a run. Where to look for what:

* ``command``: the command and its options.
* ``catalog``: names of algorithms, agents, samplers, runners, environments and entries.
* ``configs``: the tables of configurations.
* ``settings``: overrides as ``section.name=value``, checked against the constructors.
* ``program``: a configuration as calls of constructors, made or written as a program; affinities.
* ``train``: the configuration that a run starts from, its log, and one run of a sweep,
  which ``launched`` starts as a script.
* ``sweeps``: many runs, with shares of the machine.
* ``results``: finished runs as curves, tables and pictures.
* ``doctor``: measurements of a task on this machine, and the fastest settings.
* ``evaluation``: statistics and videos of a snapshot.
"""
