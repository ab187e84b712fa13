"""Networks: their parts, and the models of the library's agents.

A model is any torch module that takes inputs with the leading dimensions [], [B] or [T,B] (see
:func:`rlpyt.utils.tensor.fold_leading_dims`). Modules:

* Parts: ``mlp`` (perceptron, fast pass through layers), ``conv2d`` (convolutions, with the layers
  of the Atari models), ``rnn`` (recurrent networks with resets), ``noisy`` (linear layers with
  exploration noise), ``batch_renorm`` (features normalized over a batch), ``running_mean_std``
  (normalized observations), ``autocast`` (lower precision in training).
* Models made from spaces: ``space_kinds`` reads a space, ``encoders`` and ``policy_heads`` make the
  layers for it, ``pg.generic_model`` joins them.
* Models by algorithm: ``dqn`` (``dueling`` and ``heads``, then one module for each kind of values,
  for images and vectors), ``pg`` (actor-critics), ``qpg.mlp`` and ``qpg.lstm``
  (policies and critics).
* ``utils``: output sizes of convolutions, scaled gradients, target networks, names of states.
"""
