"""A real Prometheus server that scrapes one target, and its HTTP API.

Knows Prometheus; nothing of Pallas but a URL. Every wait has a bound.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE = 180.0
INTERVAL = "1s"


class Prometheus:
    """One server, asked through its API."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=PATIENCE)

    def is_ready(self) -> bool:
        """Whether it answers queries."""
        try:
            return self._client.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False

    def query(self, expression: str) -> dict[frozenset[tuple[str, str]], float]:
        """The values of an instant query, by their labels."""
        answer = self._client.get("/api/v1/query", params={"query": expression})
        document = answer.json()
        assert document["status"] == "success", (expression, document)
        return {
            frozenset(entry["metric"].items()): float(entry["value"][1])
            for entry in document["data"]["result"]
        }

    def one(self, expression: str) -> float | None:
        """The value of a query that has one result at most."""
        values = list(self.query(expression).values())
        assert len(values) <= 1, (expression, values)
        return values[0] if values else None

    def has(self, expression: str, value: float) -> bool:
        """Whether a query has this one result."""
        return self.one(expression) == value

    def until(self, reached: Callable[[], Any], what: str) -> None:
        """Return once it holds; the server samples by a clock of its own and tells nobody."""
        deadline = time.monotonic() + PATIENCE
        while not reached():
            assert time.monotonic() < deadline, what
            time.sleep(0.1)

    def scraped(self) -> None:
        """Return after two more scrapes, the second of which began after this call."""
        scrapes = "count_over_time(up[1h])"
        before = self.one(scrapes) or 0.0
        self.until(lambda: (self.one(scrapes) or 0.0) >= before + 2, "two more scrapes")

    def duplicates(self) -> float:
        """Samples so far that one page had twice, which the server drops."""
        name = "prometheus_target_scrapes_sample_duplicate_timestamp_total "
        lines = self._client.get("/metrics").text.splitlines()
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))

    def firing(self) -> set[tuple[str, str]]:
        """The alerts that fire: their names, and the agent, provider or nothing that they are about."""
        alerts = self._client.get("/api/v1/alerts").json()["data"]["alerts"]
        return {
            (
                alert["labels"]["alertname"],
                alert["labels"].get("agent") or alert["labels"].get("provider") or "",
            )
            for alert in alerts
            if alert["state"] == "firing"
        }


@contextmanager
def run_prometheus(directory: Path, target: str, rules: dict[str, Any]) -> Iterator[Prometheus]:
    """Run a server that scrapes `target` (host:port) once a second, until the block ends."""
    if shutil.which("prometheus") is None:
        message = "not run: needs prometheus (apt-get install prometheus)"
        if os.environ.get("PALLAS_REQUIRE_PEERS") == "1":
            pytest.fail(message)
        pytest.skip(message)
    port = free_ports(1)[0]
    (directory / "rules.yml").write_text(yaml.safe_dump(rules))
    configuration = {
        "global": {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "evaluation_interval": INTERVAL},
        "rule_files": ["rules.yml"],
        "scrape_configs": [
            {
                "job_name": "pallas",
                "static_configs": [{"targets": [target], "labels": {"deployment": "test-fleet"}}],
            }
        ],
    }
    (directory / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    command = ["prometheus", f"--config.file={directory / 'prometheus.yml'}"]
    command += [f"--storage.tsdb.path={directory / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
    command += ["--log.level=warn"]
    with (directory / "prometheus.log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        server = Prometheus(f"http://127.0.0.1:{port}")
        server.until(server.is_ready, (directory / "prometheus.log").read_text())
        yield server
    finally:
        process.terminate()
        process.wait(PATIENCE)
