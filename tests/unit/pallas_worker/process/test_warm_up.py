"""What a worker does first can be done before: it works, and leaves nothing behind that the worker would see."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

from pallas_worker.process.zygote import warm_up

LOOK = """
import asyncio, gc, json, logging, os, signal, sys, threading, warnings
from fast_agent import config, context
from pallas_worker.downstreams import tls
from pallas_worker.process import run, serve
from pallas_worker.process.zygote import warm_up  # which the zygote has imported
from pallas_worker.telemetry import metrics
from pallas_worker.fastagent import application

def process():
    return {
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "descriptors": sorted(os.listdir("/proc/self/fd"))[:-1],
        "threads": threading.active_count(),
        "signals": [str(signal.getsignal(number)) for number in range(1, 32)],
        "wakeup": signal.set_wakeup_fd(-1),
        "disabled": logging.root.manager.disable,
        "warnings": [str(entry) for entry in warnings.filters],
        "settings": str(config._settings),
        "context": str(context._global_context),
        "arguments": sys.argv,
        "tls": tls.shared_context.cache_info().currsize,
        "policy": type(asyncio.get_event_loop_policy()).__name__,
        "metrics": str(metrics._series),
    }

def libraries():
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    return {
        "logging": [
            [each.level, each.disabled, len(each.filters), len(each.handlers)]
            for each in loggers if isinstance(each, logging.Logger)
        ],
        "modules": sorted(name for name in sys.modules if name.startswith(("agents", "fast_agent", "pallas"))),
    }

gc.disable()  # as in a zygote and what it forks
run.loop_factory()().close()  # libuv has a pipe that lasts as long as the process
before = process()
warm_up.warm_up()
after = process()
made = libraries()  # the first time, libraries make loggers and load what they load late
warm_up.warm_up()
print(json.dumps([[before, made], [after, libraries()]]))
assert application.check_names.cache_info().currsize == 1, "fast-agent's names would be looked for at each start"
"""


def test_the_request_is_answered() -> None:
    assert asyncio.run(warm_up.answered()) is None


def test_nothing_of_it_stays() -> None:
    told = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, check=True, env=os.environ
    )
    before, after = json.loads(told.stdout)
    assert after == before
    assert (before[0]["threads"], before[0]["settings"], before[0]["metrics"]) == (1, "None", "None")
    assert told.stderr == ""
