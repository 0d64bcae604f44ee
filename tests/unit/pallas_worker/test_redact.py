"""What callers are told holds no secret."""

from __future__ import annotations

import asyncio

from pallas_common.secrets.values import KnownSecrets, secrets_in
from pallas_worker.redact import LONGEST, CallSecrets, redact


def test_known_secrets_are_hidden() -> None:
    environment = {"OPENAI_API_KEY": "sk-0123456789", "HOME": "/home/nobody", "X_TOKEN": "short"}
    secrets = KnownSecrets(secrets_in(environment))
    text = "key sk-0123456789 of /home/nobody, short"
    assert redact(text, secrets) == "key [redacted] of /home/nobody, short"


def test_secrets_in_nested_settings_are_found() -> None:
    settings = {
        "openai": {"api_key": "key-of-openai", "base_url": "http://llm"},
        "mcp": {"servers": [{"headers": {"Authorization": "Bearer token-of-argos", "X": "y"}}]},
    }
    assert set(secrets_in(settings)) == {"key-of-openai", "Bearer token-of-argos", "token-of-argos"}


def test_the_token_of_the_call_is_hidden_too() -> None:
    secrets = CallSecrets()
    with secrets.during("hf_abcdefgh"):
        assert redact("invalid key hf_abcdefgh", secrets) == "invalid key [redacted]"
    with secrets.during(None):
        assert redact("nothing here", secrets) == "nothing here"


def test_a_longer_secret_goes_before_one_that_is_part_of_it() -> None:
    assert redact("a 1234567890 b", KnownSecrets(["12345678", "1234567890"])) == "a [redacted] b"


def test_a_call_knows_its_own_token_and_what_belongs_to_no_call_knows_all() -> None:
    secrets = CallSecrets(["key-of-the-process"])
    both = "token-of-one token-of-two key-of-the-process"

    async def run() -> None:
        inside, left = asyncio.Event(), asyncio.Event()
        later: list[asyncio.Task[str]] = []

        async def afterwards() -> str:
            await left.wait()
            return secrets.strike(both)

        async def call(token: str) -> str:
            with secrets.during(token):
                later.append(asyncio.create_task(afterwards()))
                await inside.wait()
                return secrets.strike(both)

        calls = [asyncio.create_task(call(f"token-of-{name}")) for name in ("one", "one", "two")]
        await asyncio.sleep(0)
        assert secrets.strike(both) == "[redacted] [redacted] [redacted]"
        inside.set()
        struck = ["[redacted] token-of-two [redacted]"] * 2 + ["token-of-one [redacted] [redacted]"]
        assert await asyncio.gather(*calls) == struck
        assert secrets.strike(both) == "token-of-one token-of-two [redacted]", "kept no longer than its calls"
        left.set()
        assert await asyncio.gather(*later) == struck, "what a call has left behind still knows"

    asyncio.run(run())


def test_a_long_error_is_cut_without_leaving_half_of_a_secret() -> None:
    process, call = "key-of-the-process-" + "x7" * 40, "token-of-the-call-" + "y7" * 40
    for shift in range(0, 200, 9):
        text = "." * (LONGEST // 2 - 150 + shift) + process + call + "." * 400_000
        secrets = CallSecrets([process])
        with secrets.during(call):
            clean = redact(text, secrets)
        assert len(clean) < LONGEST + 100
        assert not any(part in clean for part in ("x7x7x7x7", "y7y7y7y7"))
