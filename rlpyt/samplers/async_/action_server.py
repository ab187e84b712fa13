"""Action servers by the names that they have in asynchronous sampling."""

from rlpyt.samplers.parallel.gpu.action_server import (
    ActionServer,
    AlternatingActionServer,
    NoOverlapAlternatingActionServer,
)

AsyncActionServer = ActionServer
AsyncAlternatingActionServer = AlternatingActionServer
AsyncNoOverlapAlternatingActionServer = NoOverlapAlternatingActionServer
