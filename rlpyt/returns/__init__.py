"""Returns and advantages: pure functions of arrays or tensors [T,B].

* ``advantages``: discounted returns, generalized advantages, Q(lambda) returns and V-trace targets
  of rollouts.
* ``n_step``: n-step returns for replay buffers, and masks of the steps that a time limit ended.
* ``valid``: the mask of the steps in the first episode of a batch.
"""
