"""The report of a check as a JSON document, whose fields stay (docs/check.md). Pure."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pallas_common.problems import MOST_PROBLEMS

if TYPE_CHECKING:
    from pallas_check.check import Mode
    from pallas_check.findings import CheckedAgent, CheckReport, Finding


def document(report: CheckReport, mode: Mode) -> dict[str, Any]:
    """The whole report; of more than `MOST_PROBLEMS` findings, the first ones, and how many there are."""
    return {
        "file": str(report.path),
        "deployment": report.deployment,
        "gateway": report.gateway,
        "open_network": list(report.open_network),
        "mode": mode,
        "result": report.result,
        "errors": len(report.errors),
        "warnings": len(report.warnings),
        "not_tried": list(report.not_tried),
        "agents": [_agent(agent) for agent in report.agents],
        "findings": [_finding(finding) for finding in report.findings[:MOST_PROBLEMS]],
    }


def _agent(agent: CheckedAgent) -> dict[str, Any]:
    inspection = agent.inspection
    return {
        "name": agent.name,
        "result": agent.result,
        "alike": list(agent.alike),
        "seconds": round(agent.seconds, 3),
        "served": inspection.served if inspection is not None else None,
        "agents": list(inspection.agents) if inspection is not None else [],
        "model": inspection.model if inspection is not None else None,
        "models": list(inspection.models) if inspection is not None else [],
        "servers": [dataclasses.asdict(server) for server in inspection.servers]
        if inspection is not None
        else [],
        "providers": [dataclasses.asdict(each) for each in inspection.providers]
        if inspection is not None
        else [],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    problem = finding.problem
    return {
        "level": finding.level,
        "cause": finding.cause,
        "agent": finding.agent,
        "file": problem.file,
        "line": problem.line,
        "field": problem.field,
        "message": problem.message,
        "remedy": problem.remedy,
        "text": str(problem),
        "output": finding.output,
    }
