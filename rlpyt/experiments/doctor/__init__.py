"""Advice on how to sample: measures a task on this machine, and finds its fastest settings.

Where to look for what:

* ``trials``: candidates, which are settings of a sampler, and short measurements in separate
  processes: of a sampler, or of a whole run.
* ``search``: comparable settings, measured in turn until the slower ones drop out.
* ``diagnosis``: advice, as text.
"""
