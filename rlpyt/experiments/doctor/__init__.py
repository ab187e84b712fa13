"""Advice on how to sample: measures a task on this machine, and finds its fastest settings.

Where to look for what:

* ``trials``: short measurements in processes of their own: environment, agent, sampler, whole run.
* ``prediction``: settings of a sampler, and its speed as composed of that of the parts.
* ``search``: the settings that are comparable; the most promising ones measured in turn.
* ``diagnosis``: limits and advice, as text.
"""
