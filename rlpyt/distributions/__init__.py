"""Action distributions: sampling, likelihoods, entropy and divergence.

Modules:

* ``base``: the interface, :class:`~rlpyt.distributions.base.Distribution`.
* Discrete actions: ``discrete`` (one-hot vectors), ``categorical`` (by probabilities),
  ``multi_categorical`` (arrays of choices), ``epsilon_greedy`` (by values).
* Continuous actions: ``gaussian`` (with clipping, squashing and bounded noise), ``box_gaussian``
  (in the bounds of a box, with the likelihood of clipped actions).
* ``composite``: records of actions of several kinds.
* ``noise``: random numbers for acting, the same in every sampler.
"""
