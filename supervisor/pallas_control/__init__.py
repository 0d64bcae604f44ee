"""A client of the supervisor's control API, for command lines and for programs that manage agents.

`locate` finds the socket, `client` asks, `documents` has the shapes of the answers; what fails raises a `ControlError`.
Prints nothing and ends no process.
"""
