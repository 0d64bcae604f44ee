"""Secrets that are known by value, taken out of texts in whatever form they got there.

Pure but for the set it keeps; knows neither where a secret comes from nor where a text goes. What is not known by value
is left to `patterns`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from pallas_common.secrets.patterns import REDACTED, is_secret_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHORTEST = 8
"""A shorter value is not taken for a secret: hiding every `true` would make texts useless."""

LIKELY = 16
"""Characters from which on a header's value is taken for a secret, whatever the header is called."""

_PASSWORD = re.compile(r"://[^\s/@:]{0,256}:([^\s/@]{1,1024})@")

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_FEW = 100
"""Forms up to which looking for one after the other is the quickest way."""

_GRAM = 4
_STEP = SHORTEST - _GRAM + 1
"""Every so many characters of a text, `_GRAM` of them are looked at: any `SHORTEST` in a row have some among them."""


class Forms:
    """Texts of at least `SHORTEST` characters, to be found in others: in a time that hardly depends on their number."""

    def __init__(self, forms: Iterable[str] = ()) -> None:
        self.all = longest_first(forms)
        self._by_gram: defaultdict[str, list[str]] = defaultdict(list)
        if len(self.all) > _FEW:
            for form in self.all:
                for gram in {form[at : at + _GRAM] for at in range(_STEP)}:
                    self._by_gram[gram].append(form)

    def found_in(self, text: str) -> Iterator[str]:
        """Those that are in the text, in no order."""
        near: Iterable[str] = self.all
        if self._by_gram:
            grams = {text[at : at + _GRAM] for at in range(0, len(text), _STEP)}
            near = {form for gram in grams & self._by_gram.keys() for form in self._by_gram[gram]}
        return (form for form in near if form in text)


class KnownSecrets:
    """A set of secrets; threads may read it and add to it at the same time."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms = Forms()
        self._adding = threading.Lock()
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Know these, too; those shorter than `SHORTEST` are passed over."""
        forms = {form for secret in secrets for form in forms_of(secret)}
        with self._adding:
            if not forms.issubset(self._forms.all):
                self._forms = Forms(forms.union(self._forms.all))

    def forms(self) -> tuple[Forms, ...]:
        """All that must not be met in a text."""
        return (self._forms,)

    @property
    def longest(self) -> int:
        """Characters of the longest of them."""
        return max((len(forms.all[0]) for forms in self.forms() if forms.all), default=0)

    def found_in(self, text: str) -> tuple[str, ...]:
        """Those that are in the text, the longest first."""
        found = {form for forms in self.forms() for form in forms.found_in(text)}
        return longest_first(found) if found else ()

    def may_be_in(self, text: str) -> bool:
        """A quick look: False only if `strike` would change nothing, in `text` or in what a JSON `text` says."""
        return any(True for forms in self.forms() for _ in forms.found_in(text))

    def strike(self, text: str) -> str:
        """The text without any of them; idempotent."""
        for form in self.found_in(text):
            text = text.replace(form, REDACTED)
        return text


def forms_of(secret: str) -> Iterator[str]:
    """How a secret may be written: as it is, escaped, in a URL, and in base64 at each of the three offsets."""
    if len(secret) < SHORTEST:
        return
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield _CONTROL.sub(lambda character: repr(character[0])[1:-1], secret)  # on a line for people
    yield quote(secret)
    yield quote(secret, safe="")
    data = secret.encode("utf-8", "surrogatepass")
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + data).decode()
        # The first and the last character hold bits of what stands around the secret, and are left out.
        inner = encoded[(offset * 8 + 5) // 6 : (offset + len(data)) * 8 // 6]
        yield inner
        yield inner.replace("+", "-").replace("/", "_")


def longest_first(forms: Iterable[str]) -> tuple[str, ...]:
    """So that a secret goes before one that is part of it."""
    return tuple(sorted(set(forms), key=lambda form: (-len(form), form)))


def secrets_in(settings: object) -> Iterator[str]:
    """The strings of a nested mapping that are secret by their name, and passwords in URLs.

    For settings of whatever kind, and for an environment.
    """
    waiting, seen = [settings], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield from _PASSWORD.findall(value)
        elif isinstance(value, Mapping | list | tuple) and id(value) not in seen:
            seen.add(id(value))  # YAML's aliases may lead in circles
            if not isinstance(value, Mapping):
                waiting.extend(value)
                continue
            for name, item in value.items():
                if isinstance(item, str) and is_secret_name(str(name)):
                    yield item
                    yield from _credentials(item)
                elif isinstance(item, str) and str(name).upper().endswith("_HEADERS"):
                    yield from _of_header_list(item)
                else:
                    waiting.append(item)


def _of_header_list(text: str) -> Iterator[str]:
    """What is secret in `name=value,name=value`, as OTEL_EXPORTER_OTLP_HEADERS has it: its names are arbitrary."""
    for entry in text.split(","):
        name, _, value = entry.partition("=")
        value = unquote(value.strip())
        if is_secret_name(name.strip()) or len(value) >= LIKELY:
            yield value
            yield from _credentials(value)


def _credentials(header: str) -> Iterator[str]:
    """What an `Authorization` header's value holds besides its scheme."""
    scheme, _, token = header.partition(" ")
    if scheme.lower() in ("bearer", "basic"):
        yield token
    if scheme.lower() == "basic":
        try:
            yield base64.b64decode(token, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return
