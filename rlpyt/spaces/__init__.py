"""Spaces: the sets of all observations and all actions of an environment.

* ``base``: the interface, :class:`~rlpyt.spaces.base.Space`.
* ``int_box``, ``float_box``: arrays of integers and of real numbers within bounds.
* ``composite``: records of elements of other spaces.
* ``gym_wrapper``: gymnasium and gym spaces; ``gym_wrapper_schema`` is its variant with the
  record classes in a dictionary.
"""
