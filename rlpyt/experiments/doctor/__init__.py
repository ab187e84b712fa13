"""Advice on how to sample: measures a task on this machine, and finds its fastest settings.

Where to look for what:

* ``trials``: short measurements in processes of their own: environment, agent, sampler, whole run.
* ``candidates``: settings of a sampler, and the work of environment and agent in one of its steps.
* ``search``: the settings that are comparable, measured in turn; the slower ones drop out.
* ``diagnosis``: limits and advice, as text.
"""
