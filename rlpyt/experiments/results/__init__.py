"""Results of finished runs: read, summarized, compared and drawn.

* ``runs``: the runs below a directory, with their labels and tasks, and their learning curves.
* ``statistics``: interquartile mean, performance profile and probability of improvement, with
  stratified bootstrap intervals; functions of arrays, which know nothing of files.
* ``comparison``: all numbers of a comparison of runs, as tables and csv files.
* ``pictures``: pictures of a comparison; ``plot_results`` makes all of them.
"""
