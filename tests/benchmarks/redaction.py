"""What it costs to take secrets out of hostile texts, as these double in length."""

from __future__ import annotations

import argparse
import secrets

from pallas_common.logs.records import record_line
from pallas_common.secrets.patterns import RULES, redact
from pallas_common.secrets.values import KnownSecrets
from support.faults.hostile_texts import cost, worst_texts


def main() -> None:
    """Print a table: one line for each kind of text, one column for each length; milliseconds of CPU time."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--from", dest="shortest", type=int, default=64, help="KiB of the shortest text")
    arguments.add_argument("--to", dest="longest", type=int, default=1024, help="KiB of the longest text")
    arguments.add_argument("--texts", type=int, default=2, help="texts for each rule")
    given = arguments.parse_args()
    lengths, length = [], given.shortest * 1024
    while length <= given.longest * 1024:
        lengths.append(length)
        length *= 2
    print(f"{'ms of CPU time':60}", *(f"{length // 1024:>7}K" for length in lengths))
    for name, rule in RULES.items():
        for what, text in worst_texts(rule.pattern, rule.findall, given.texts):
            _row(f"{name}: {what}", [cost(redact, text(length)) for length in lengths])
    for count in (10, 100, 1_000):
        known = KnownSecrets(secrets.token_urlsafe(40) for _ in range(count))
        texts = [secrets.token_urlsafe(length)[:length] for length in lengths]
        _row(f"{count} known secrets: random letters", [cost(known.strike, text) for text in texts])
    records = [{"message": "-eyjaaaaaaaa" * (length // 12), "level": "INFO"} for length in lengths]
    costs = {len(record["message"]): cost(lambda _, r=record: record_line(r), "") for record in records}  # type: ignore[misc]  # mypy infers no type of a default
    _row("a whole record, which is cut to what a line may hold", list(costs.values()))


def _row(what: str, costs: list[float]) -> None:
    print(f"{what[:60]:60}", *(f"{seconds * 1000:8.2f}" for seconds in costs), flush=True)


if __name__ == "__main__":
    main()
