"""`gateway:` of `agents.yaml`, strictly read as `GatewaySettings`: its keys, and which defaults follow from others.

Pure: whether a store can be reached, or an issuer answers, the gateway finds out.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from typing import TYPE_CHECKING, Any

from pallas_common.problems import quoted
from pallas_common.protocol.agent.settings import Choice, Seconds, Size, Truth, WholeNumber
from pallas_common.protocol.gateway import (
    DEFAULT_GROUPS_CLAIM,
    DEFAULT_PORT,
    DEFAULT_SCOPES,
    FOREVER,
    GATEWAY_RULES,
    LIMIT_RULES,
    GatewaySettings,
    Limits,
    Oidc,
    Threads,
)
from pallas_registry.reading import rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.protocol.agent.settings import Rule
    from pallas_registry.reading.fields import Fields
    from pallas_registry.reading.fields import Rule as TextRule

KEYS = tuple(field.name for field in dataclasses.fields(GatewaySettings))
LIMIT_KEYS = tuple(LIMIT_RULES)
OIDC_KEYS = tuple(field.name for field in dataclasses.fields(Oidc))
THREADS_KEYS = tuple(field.name for field in dataclasses.fields(Threads))
SHARED = "shared"
"""Reserved, for several gateways on one store."""

SHORTEST_KEEP = 3600.0
"""Seconds: what is forgotten sooner was no conversation, but a unit mistaken."""

GRANT = (
    r"\*|(view|create|edit|delete|run|approve|\*)"
    r":(agents|projects|threads|resources|policy|knowledge|code|network|\*)(:[A-Za-z0-9_.*/-]+)?"
)
"""What the gateway takes for a grant."""
LONGEST_GRANT = 300
MOST_TEXTS = 20
SCOPE = r"[!#-\[\]-~]{1,255}"
MOST_GROUPS = 1000
MOST_GRANTS = 1000

_GRANT = re.compile(GRANT)
_SCOPE = re.compile(SCOPE)


def read_gateway(section: Fields, *, host: str, bind: str) -> GatewaySettings:
    """The settings as far as they could be read; worth something only if no problem was noted.

    Args:
        host: by which clients reach the deployment.
        bind: address on which all ports listen that say nothing else.
    """
    if SHARED in section:
        section.refuse(
            SHARED,
            "is not possible yet: a store belongs to one deployment, and that has one gateway",
            "remove it, and give each deployment a store of its own",
        )
    section.only((*KEYS, SHARED) if SHARED in section else KEYS)
    port = section.whole_number("port", 1, 65535) or DEFAULT_PORT
    own_bind = section.text("bind", rules.bind) or bind
    given = section.text("public_url", rules.public_url)
    found = own_bind if _is_missed(host, own_bind) else host
    named = f"[{found}]" if ":" in found else found
    public_url = f"http://{named}:{port}" if given is None else given.removesuffix("/")
    said = _said(section, GATEWAY_RULES)
    if said.get("auth") == "none" and not rules.is_loopback(own_bind):
        section.refuse(
            "auth",
            f"`none` lets in whoever reaches {own_bind}",
            "set `bind: 127.0.0.1` here as well, or remove `auth: none`",
        )
    return GatewaySettings(
        **said,
        port=port,
        bind=own_bind,
        public_url=public_url,
        store=section.text("store", rules.store),
        oidc=_oidc(section),
        limits=_limits(section),
        threads=_threads(section),
    )


def _is_missed(host: str, bind: str) -> bool:
    """Whether a name of loopback does not lead to what listens at this address."""
    usual = rules.default_bind(host)
    return rules.is_loopback(usual) and bind != usual and not ipaddress.ip_address(bind).is_unspecified


def _limits(section: Fields) -> Limits:
    limits = section.section("limits")
    if limits is None:
        return Limits()
    limits.only(LIMIT_KEYS)
    return Limits(**_said(limits, LIMIT_RULES))


def _threads(section: Fields) -> Threads:
    threads = section.section("threads")
    if threads is None:
        return Threads()
    threads.only(THREADS_KEYS)
    return Threads(keep=threads.duration("keep", SHORTEST_KEEP, never=FOREVER) or FOREVER)


def _oidc(section: Fields) -> Oidc | None:
    oidc = section.section("oidc")
    if oidc is None:
        return None
    oidc.only(OIDC_KEYS)
    oidc.require(
        "issuer", "name the issuer of the tokens, as in `issuer: https://login.example.com/realms/team`"
    )
    oidc.require("audience", "say for whom the issuer makes the tokens, as in `audience: pallas`")
    client_id = oidc.text("client_id", rules.client_text)
    client_secret = _client_secret(oidc)
    if client_secret is not None and "client_id" not in oidc:
        oidc.refuse(
            "client_secret",
            "is the secret of no client",
            "add `client_id:`, the name of the gateway at the issuer, or remove it",
        )
    return Oidc(
        issuer=oidc.text("issuer", rules.issuer) or "",
        audience=_texts(oidc, "audience", lambda text: rules.one_line(text, rules.LONGEST_URL), "pallas"),
        scopes=_scopes(oidc),
        groups_claim=oidc.text("groups_claim", lambda text: rules.one_line(text, 255))
        or DEFAULT_GROUPS_CLAIM,
        groups=_groups(oidc),
        client_id=client_id,
        client_secret=client_secret,
    )


def _texts(oidc: Fields, key: str, rule: TextRule, example: str) -> tuple[str, ...]:
    """One text, or a list of them."""
    if key not in oidc or not oidc.is_list(key):
        return tuple(text for text in (oidc.text(key, rule),) if text is not None)
    found = oidc.texts(key)
    if not found:
        oidc.refuse(key, "is empty", f"write at least one, as in `{key}: {example}`")
    if len(found) > MOST_TEXTS:
        oidc.refuse(key, f"has {len(found)} entries", f"use at most {MOST_TEXTS}")
    for index, (text, line) in enumerate(found):
        if complaint := rule(text):
            oidc.add(line, f"{key}[{index}]", *complaint)
    return tuple(dict.fromkeys(text for text, _ in found))


def _scopes(oidc: Fields) -> tuple[str, ...]:
    if "scopes" not in oidc:
        return DEFAULT_SCOPES
    return tuple(
        dict.fromkeys(("openid", *_texts(oidc, "scopes", _scope, "[openid, profile, email, groups]")))
    )


def _scope(text: str) -> rules.Complaint | None:
    """A scope is one word (RFC 6749, section 3.3)."""
    if _SCOPE.fullmatch(text):
        return None
    remedy = "write one word for each, as in `[openid, profile, email, groups]`"
    return rules.Complaint(f"{quoted(text)} is no scope", remedy)


def _client_secret(oidc: Fields) -> str | None:
    """As it is written, also if it looks like a number. No problem has the value."""
    said = oidc.scalar("client_secret") if "client_secret" in oidc else None
    if said is not None and (complaint := rules.client_secret(said)):
        oidc.refuse("client_secret", *complaint)
        return None
    return said


def _groups(oidc: Fields) -> dict[str, tuple[str, ...]]:
    """Group → its grants."""
    section = oidc.section("groups")
    if section is None:
        return {}
    groups = {}
    for number, name in enumerate(section):
        if number >= MOST_GROUPS:
            oidc.refuse("groups", f"has more than {MOST_GROUPS} groups", "name those that work with agents")
            break
        grants = section.items(name, MOST_GRANTS)
        for grant in grants:
            text = grant.text
            if text is None or len(text) > LONGEST_GRANT or not _GRANT.fullmatch(text):
                section.add(
                    grant.line,
                    grant.key,
                    f"{quoted(text)} is no grant" if text else "is no grant",
                    'write `verb:kind` or `verb:kind:name`, as in `run:agents:jarvis`, or "*"',
                )
        groups[name] = tuple(grant.text or "" for grant in grants)
    return groups


def _said(fields: Fields, known: Mapping[str, Rule]) -> dict[str, Any]:
    """Those of the `known` settings that the mapping says."""
    found = {key: _value(fields, key, rule) for key, rule in known.items() if key in fields}
    return {
        key: value
        for key, value in found.items()
        if value is not None or (isinstance(known[key], Size) and fields.says_none(key))
    }


def _value(fields: Fields, key: str, rule: Rule) -> object:
    match rule:
        case WholeNumber(minimum):
            return fields.whole_number(key, minimum)
        case Seconds(minimum):
            return fields.seconds(key, minimum)
        case Choice(words):
            return fields.choice(key, words)
        case Truth():
            return fields.truth(key)
        case Size(minimum):
            return None if fields.says_none(key) else fields.size(key, minimum)
