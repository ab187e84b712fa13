"""Advice on how to sample: measures a task on this machine, and finds its fastest settings.

Where to look for what:

* ``trials``: short measurements in separate processes: environment, agent, sampler, whole run.
* ``candidates``: settings of a sampler, and the work of environment and agent in one of its steps.
* ``search``: comparable settings, measured in turn until the slower ones drop out.
* ``diagnosis``: limits and advice, as text.
"""
