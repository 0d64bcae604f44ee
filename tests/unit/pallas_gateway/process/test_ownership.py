"""A store that becomes another deployment's: who had it ends, and whoever takes it says so and is written down."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from fakes.control_server import FakeControl, serve, status
from pallas.server import pallas
from pallas_gateway.process.errors import GatewayError
from pallas_gateway.process.ownership import keep_ownership
from pallas_gateway.process.serve import _first_reason
from pallas_gateway.store.database import open_store
from pallas_gateway.store.deployment.instance import Claimant, claim

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result


def claimant(folder: Path, name: str) -> Claimant:
    (folder / name).mkdir(mode=0o700, exist_ok=True)
    return Claimant(deployment=name, directory=folder / name)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeControl]:
    with serve(tmp_path / "control.sock") as running:
        yield running


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'gateway.db'}"


def adopt(fake: FakeControl, who: Claimant, url: str, *arguments: str, said: str = "") -> Result:
    document = status(deployment=who.deployment)
    document["supervisor"]["state_directory"] = str(who.directory)
    fake.answer("/v1/status", document)
    line = ["store", "adopt", "--socket", str(fake.socket), "--store", url, *arguments]
    return CliRunner().invoke(pallas, line, input=said, prog_name="pallas")


def test_a_gateway_ends_when_another_deployment_has_its_store(
    fake: FakeControl, tmp_path: Path, url: str
) -> None:
    shop, copy = claimant(tmp_path, "shop"), claimant(tmp_path, "copy")

    async def live() -> None:
        store = open_store(url, partial(claim, claimant=shop))
        with _first_reason():
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(keep_ownership(store, shop, interval=0.01))
                done = await asyncio.to_thread(adopt, fake, copy, url, "--yes")
                assert done.exit_code == 0, done.output
        await store.close()

    with pytest.raises(GatewayError, match=r"taken over by .*'copy'") as caught:
        asyncio.run(live())
    assert caught.value.permanent
    (line,) = map(json.loads, (copy.directory / "audit.jsonl").read_text().splitlines())
    assert (line["action"], line["outcome"]) == ("store.adopt", "ok")
    assert "deployment/shop" in line["target"]


def test_it_is_told_what_there_is_and_asked(fake: FakeControl, tmp_path: Path, url: str) -> None:
    shop, copy = claimant(tmp_path, "shop"), claimant(tmp_path, "copy")
    assert adopt(fake, copy, url).exit_code == 0, "nobody's"
    asyncio.run(open_store(url, partial(claim, claimant=shop)).close())
    assert "already" in adopt(fake, shop, url).output
    refused = adopt(fake, copy, url, said="n\n")
    assert refused.exit_code == 1
    assert f"'shop' on '{shop.host}', whose gateway was last seen at" in refused.output
    assert "may still run: stop it first" in refused.output
    assert copy.id is None
    assert adopt(fake, copy, url, said="y\n").exit_code == 0
    asyncio.run(open_store(url, partial(claim, claimant=copy)).close())
