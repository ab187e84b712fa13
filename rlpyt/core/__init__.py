"""Data and interfaces shared by the roles: ``records``, ``protocols`` and ``masks``.

``rows`` is the border at which values of environments become rows of buffers.
"""
