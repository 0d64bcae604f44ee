"""Writes one metrics slot from process after process, each killed with SIGKILL at a random point.

`python -m support.faults.slot_killer DIRECTORY SLOT ROUNDS SEED` prints one JSON object: what the writers said they
had counted, and on the way reads the slot as a scrape does, which has to be whole and never go backwards.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys

from pallas_common.metrics.writing.slot_files import slot_files
from pallas_worker.telemetry import metrics
from support.data.exposition import merge

COUNTED = "pallas_llm_tokens_total"
OBSERVED = "pallas_send_message_duration_seconds_count"


def write_until_killed(directory: str, slot: str, generation: int, acknowledge: int) -> None:
    """Count for ever: one byte into the pipe after each step; now and then a new series."""
    metrics.open_metrics(directory, slot)
    step = 0
    while True:
        metrics.count_llm_tokens("agent", "model", "input", 1)
        metrics.observe_send_message("agent", "ok", (step % 700) / 1.0)
        metrics.count_llm_turn("agent", f"model-{generation}-{step // 50}")
        os.write(acknowledge, b".")
        step += 1


def totals(directory: str, slot: str) -> dict[str, float]:
    """The slot's sums of the two series that each step adds one to."""
    sums = {COUNTED: 0.0, OBSERVED: 0.0}
    for metric in merge(slot_files(directory, slot)):
        for sample in metric.samples:
            if sample.name in sums:
                sums[sample.name] += sample.value
    return sums


def one_round(directory: str, slot: str, generation: int, chance: random.Random) -> int:
    """Let one writer run and kill it; returns the number of steps that it said were done."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        write_until_killed(directory, slot, generation, write_end)
    os.close(write_end)
    acknowledged = 0
    target = chance.randrange(0, 400)
    while acknowledged < target:
        acknowledged += len(os.read(read_end, min(64, target - acknowledged)))
    for _ in range(chance.randrange(0, 3000)):
        pass
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if os.WTERMSIG(status) != signal.SIGKILL:
        raise SystemExit(f"the writer ended by itself: {status}")
    while rest := os.read(read_end, 65536):
        acknowledged += len(rest)
    os.close(read_end)
    return acknowledged


def main(directory: str, slot: str, rounds: int, seed: int) -> None:
    """Run the rounds and print what came of them."""
    chance = random.Random(seed)
    acknowledged = 0
    last = {COUNTED: 0.0, OBSERVED: 0.0}
    for generation in range(rounds):
        acknowledged += one_round(directory, slot, generation, chance)
        now = totals(directory, slot)
        if any(now[name] < last[name] for name in now):
            raise SystemExit(f"went backwards: {last} → {now}")
        last = now
    print(json.dumps({"acknowledged": acknowledged, "counted": last[COUNTED], "observed": last[OBSERVED]}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
