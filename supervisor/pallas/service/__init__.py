"""The systemd unit that Pallas ships, and what a deployment makes of it.

`pallas-supervisor.service` is a link to the one in `systemd/` of the repository; in a wheel it is that file.
"""
