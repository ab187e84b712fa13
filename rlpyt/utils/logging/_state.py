"""Assignments to the names under which programs knew the state of the logger module."""

from __future__ import annotations

import types
from typing import Any

# State name: the function which sets it.
SETTERS = {
    "_snapshot_dir": "set_snapshot_dir",
    "_snapshot_mode": "set_snapshot_mode",
    "_snapshot_gap": "set_snapshot_gap",
    "_log_tabular_only": "set_log_tabular_only",
    "_disable_prefix": "set_disable_prefix",
    "_tf_summary_dir": "set_tf_summary_dir",
    "_tf_summary_writer": "set_tf_summary_writer",
    "_iteration": "set_iteration",
}

# State name: the functions which set it to False and to True.
SWITCHES = {
    "_disabled": ("enable", "disable"),
    "_tabular_disabled": ("enable_tabular", "disable_tabular"),
}

# State name which is only read: what changes it.
READ_ONLY = {
    "_prefixes": "push_prefix and pop_prefix",
    "_prefix_str": "push_prefix and pop_prefix",
    "_tabular_prefixes": "push_tabular_prefix and pop_tabular_prefix",
    "_tabular_prefix_str": "push_tabular_prefix and pop_tabular_prefix",
    "_tabular": "record_tabular and dump_tabular",
    "_text_outputs": "add_text_output and remove_text_output",
    "_text_fds": "add_text_output and remove_text_output",
    "_tabular_outputs": "add_tabular_output and remove_tabular_output",
    "_tabular_fds": "add_tabular_output and remove_tabular_output",
    "_tabular_fds_hold": "hold_tabular_output and add_tabular_output",
    "_tabular_headers": "record_tabular and dump_tabular",
    "_tabular_header_written": "dump_tabular",
    "_header_printed": "dump_tabular",
}


class StateModule(types.ModuleType):
    """A module whose state names, when assigned to, reach the current logger.

    As ordinary variables they would hide the state, which lives elsewhere, for the rest of the
    program. All other names, functions to be replaced among them, are ordinary.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name in READ_ONLY:
            raise AttributeError(f"{self.__name__}.{name} cannot be set: use {READ_ONLY[name]}")
        if name in SETTERS:
            getattr(self, SETTERS[name])(value)
        elif name in SWITCHES:
            getattr(self, SWITCHES[name][bool(value)])()
        else:
            super().__setattr__(name, value)
