"""A turn with each API of LLMs can be rehearsed: without a network, and nothing of it stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from pallas_worker.process.zygote import rehearsal

LOOK = """
import asyncio, functools, gc, json, logging, os, signal, socket, sys, threading, warnings
from fast_agent import config
from pallas_worker.downstreams import tls
from pallas_worker.fastagent import shortcuts
from pallas_worker.process.zygote import imports, rehearsal
from pallas_worker.process.zygote.double_fork import has_one_task
from pallas_worker.telemetry import metrics

def process():
    return {
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "descriptors": sorted(os.listdir("/proc/self/fd"))[:-1],
        "one task": has_one_task(),
        "signals": [str(signal.getsignal(number)) for number in range(1, 32)],
        "wakeup": signal.set_wakeup_fd(-1),
        "disabled": logging.root.manager.disable,
        "warnings": [str(entry) for entry in warnings.filters],
        "settings": str(config._settings),
        "arguments": sys.argv,
        "tls": tls.shared_context.cache_info().currsize,
        "metrics": str(metrics._series),
        "clients": [str(attribute) for _, name, attribute in shortcuts._PROVIDERS_CLIENTS
                    if isinstance(getattr(sys.modules.get(name), attribute, None), functools.partial)],
    }

def none(*_):
    raise AssertionError("a rehearsal has used the network")

gc.disable()  # as in a zygote
imports.preload()
for model in rehearsal.APIS.values():
    imports.import_provider(model)
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = none
before = process()
well = [rehearsal.rehearse(provider) for provider in rehearsal.APIS]
after = process()
rehearsal.ANSWERS = {}
print(json.dumps([before, after, well, rehearsal.rehearse("openai"), process()]))
"""


def test_they_answer_and_nothing_of_it_stays() -> None:
    told = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, check=True, env=os.environ
    )
    before, after, well, well_without_answers, at_the_end = json.loads(told.stdout)
    assert all(well)
    assert after == before
    assert (before["one task"], before["clients"], before["settings"]) == (True, [], "None")
    assert not well_without_answers
    assert at_the_end == before
    assert told.stderr == ""


def test_which_models_are_rehearsed() -> None:
    found = [
        rehearsal.provider_to_rehearse(model) for model in ("openai.gpt-5", "sonnet", "google.gemini-x", "")
    ]
    assert found[0] in rehearsal.APIS
    assert found[1:] == ["anthropic", None, None]
