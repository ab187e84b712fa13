"""Runs from the command line: the command ``rlpyt``, and the tables of settings behind it.

A run is made in five steps:

1. A ``Config`` has a section of keyword arguments for each role, such as ``algo`` and ``sampler``
   (``configs``, ``sweeps.variant``).
2. Its section ``roles`` names the classes; an ``Algorithm`` lists the agents that fit it
   (``catalog``).
3. A ``Setting`` is a parameter of one of these constructors. Words ``section.name=value`` change
   settings, and are checked against their types (``settings``).
4. A ``Name`` stands for an argument that is a class (``settings``).
5. A ``Call`` of the runner, with the calls of its parts, is made, or printed as a program
   (``program``).

Where to look for what:

* ``command``: the command; ``finished``: its part on finished runs; ``cli``: what both share.
* ``train``: the configuration that a run starts from, and one run of a sweep, which ``launched``
  starts as a script. ``start``: the calls, the directory and the start of every run.
* ``catalog``, ``configs``, ``settings``, ``program``: the steps above.
* ``sweeps``: many runs, with shares of the machine.
* ``results``: finished runs as curves, tables and pictures.
* ``gate``: a test of whether runs learn worse than a baseline. ``until``: the same with as many
  seeds as it takes.
* ``health``: rules that name what is wrong with a run, by its log (``health_log``).
* ``doctor``: measurements of a task on this machine, and the fastest settings.
* ``evaluation``: statistics and videos of a snapshot.
* ``runs``: a run as an object, and its training by name from a program.
* ``trained``, ``export``: a run's agent in your own loop; its policy as a file. ``acting``: steps
  of both.
"""
