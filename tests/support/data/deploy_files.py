"""`deploy/` as data: the alerting rules, and the dashboard's panels and queries."""

from __future__ import annotations

import json
from typing import Any

import yaml

from support.repository import ROOT

RULES = ROOT / "deploy/prometheus/pallas.rules.yml"
DASHBOARD = ROOT / "deploy/grafana/pallas.json"


def rules() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def queries() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel.get("targets", ())]
