"""The text of deploy/grafana/pallas.json, the Grafana dashboard, from the panels that are listed here.

A dashboard's JSON is long and repeats itself; here a panel is one line that says what it shows. Knows Grafana's format
(schema 39, Grafana 10 and newer) and the names of docs/metrics.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

SOURCE = {"type": "prometheus", "uid": "${source}"}
ALL = 'deployment=~"$deployment"'
ONE = ALL + ', agent=~"$agent"'
WIDTH = 24
"""Columns of Grafana's grid."""

Kind = Literal["stat", "timeseries", "state-timeline", "table", "bargauge"]


@dataclass(frozen=True)
class Panel:
    """One panel: what it shows, how wide (of 24 columns) and in which unit (Grafana's names)."""

    title: str
    kind: Kind
    queries: tuple[tuple[str, str], ...]
    """PromQL and the legend of its series."""
    width: int
    unit: str = "short"
    help: str = ""
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Row:
    """Panels below one heading, repeated for each value of a variable if it names one."""

    title: str
    panels: tuple[Panel, ...]
    height: int = 8
    repeat: str | None = None


def rate(series: str, labels: str, by: str) -> str:
    """What a counter grows by, a second."""
    return f"sum by ({by}) (rate({series}{{{labels}}}[$__rate_interval]))"


def quantile(fraction: float, histogram: str, labels: str, by: str) -> str:
    """A quantile of a histogram in the interval that the panel shows."""
    inner = f"sum by ({by}, le) (rate({histogram}_bucket{{{labels}}}[$__rate_interval]))"
    return f"histogram_quantile({fraction}, {inner})"


def cost(kind: str) -> str:
    """What the tokens of this kind cost in the time that is shown, for each agent."""
    used = f'sum by (agent) (increase({TOKENS}{{{ONE}, kind="{kind}"}}[$__range]))'
    return f"{used} * $price_{kind} / 1e6"


CALLS = "pallas_send_message_total"
TOKENS = "pallas_llm_tokens_total"
AUDIT = "pallas_gateway_audit_lines_total"
DOWN_IS_RED = (
    (
        "thresholds",
        [{"color": "red", "value": None}, {"color": "orange", "value": 0.5}, {"color": "green", "value": 1}],
    ),
)
SOME_IS_RED = (("thresholds", [{"color": "green", "value": None}, {"color": "red", "value": 1}]),)
A_TENTH_IS_RED = (
    (
        "thresholds",
        [
            {"color": "green", "value": None},
            {"color": "orange", "value": 0.01},
            {"color": "red", "value": 0.1},
        ],
    ),
)

ROWS = (
    Row(
        "Fleet",
        (
            Panel(
                "Ready",
                "stat",
                (
                    (f'sum(pallas_worker_state{{{ALL}, state="ready"}}) or vector(0)', "ready"),
                    (f'sum(pallas_worker_state{{{ALL}, state="idle"}}) or vector(0)', "idle"),
                ),
                4,
            ),
            Panel(
                "Failed",
                "stat",
                ((f'sum(pallas_worker_state{{{ALL}, state="failed"}}) or vector(0)', "failed"),),
                4,
                options=SOME_IS_RED,
                help="Agents that are not started again: mend them, then `pallasctl start`.",
            ),
            Panel("Calls a minute", "stat", ((f"sum(rate({CALLS}{{{ALL}}}[5m])) * 60", ""),), 4),
            Panel(
                "Errors",
                "stat",
                (
                    (
                        f'sum(rate({CALLS}{{{ALL}, outcome="error"}}[5m])) / sum(rate({CALLS}{{{ALL}}}[5m]))',
                        "",
                    ),
                ),
                4,
                "percentunit",
                options=A_TENTH_IS_RED,
            ),
            Panel(
                "Output tokens a minute",
                "stat",
                ((f'sum(rate({TOKENS}{{{ALL}, kind="output"}}[5m])) * 60', ""),),
                4,
            ),
            Panel(
                "Memory of all workers",
                "stat",
                ((f"sum(pallas_worker_resident_memory_bytes{{{ALL}}})", ""),),
                4,
                "bytes",
                help="Resident: pages that forked workers share are counted in each of them.",
            ),
        ),
        height=4,
    ),
    Row(
        "Agents",
        (
            Panel(
                "Health",
                "state-timeline",
                ((f"pallas_agent_health_status{{{ALL}}}", "{{agent}}"),),
                14,
                options=DOWN_IS_RED,
                help="1 ok, 0.5 degraded, 0 error.",
            ),
            Panel(
                "Restarts in the last hour, by reason",
                "bargauge",
                (
                    (
                        f"sum by (agent, reason) (increase(pallas_worker_restarts_total{{{ALL}}}[1h])) > 0",
                        "{{agent}}: {{reason}}",
                    ),
                ),
                10,
            ),
        ),
    ),
    Row(
        "Agent: $agent",
        (
            Panel("Calls a second", "timeseries", ((rate(CALLS, ONE, "outcome"), "{{outcome}}"),), 8),
            Panel(
                "Duration of a call",
                "timeseries",
                tuple(
                    (
                        quantile(part, "pallas_send_message_duration_seconds", ONE, "agent"),
                        f"p{part * 100:.0f}",
                    )
                    for part in (0.5, 0.95, 0.99)
                ),
                8,
                "s",
            ),
            Panel(
                "Calls now",
                "timeseries",
                (
                    (f"pallas_calls_running{{{ONE}}}", "running"),
                    (f"pallas_calls_max_running{{{ONE}}}", "may run"),
                    (f"pallas_calls_waiting{{{ONE}}}", "waiting"),
                    (f"pallas_calls_max_waiting{{{ONE}}}", "may wait"),
                ),
                8,
            ),
            Panel(
                "Memory",
                "timeseries",
                (
                    (f"pallas_worker_resident_memory_bytes{{{ONE}}}", "resident"),
                    (f"pallas_worker_memory_used_bytes{{{ONE}}}", "counts against the limit"),
                    (f"pallas_worker_memory_limit_bytes{{{ONE}}}", "memory_limit"),
                ),
                8,
                "bytes",
            ),
            Panel(
                "CPU", "timeseries", ((rate("pallas_worker_cpu_seconds_total", ONE, "agent"), "cores"),), 8
            ),
            Panel(
                "State",
                "state-timeline",
                ((f"pallas_worker_state{{{ONE}}} == 1", "{{state}}"),),
                8,
            ),
        ),
        height=7,
        repeat="agent",
    ),
    Row(
        "Tokens and cost",
        (
            Panel(
                "Tokens a second",
                "timeseries",
                ((rate(TOKENS, ONE, "model, kind"), "{{model}} {{kind}}"),),
                8,
            ),
            Panel(
                "LLM turns a second",
                "timeseries",
                ((rate("pallas_llm_turns_total", ONE, "agent, model"), "{{agent}} {{model}}"),),
                8,
            ),
            Panel(
                "Cost in the time shown",
                "bargauge",
                ((" + ".join(cost(kind) for kind in ("input", "output")), "{{agent}}"),),
                8,
                "currencyUSD",
                help="Prices of a million tokens are the variables above; one price for all models.",
            ),
        ),
    ),
    Row(
        "Downstream servers and providers",
        (
            Panel(
                "Servers",
                "state-timeline",
                ((f"pallas_downstream_up{{{ONE}}}", "{{agent}} → {{server}}"),),
                12,
                options=DOWN_IS_RED,
            ),
            Panel(
                "Providers",
                "state-timeline",
                ((f"pallas_llm_provider_up{{{ALL}}}", "{{provider}}"),),
                6,
                options=DOWN_IS_RED,
            ),
            Panel(
                "Seconds since the newest probe",
                "timeseries",
                ((f"time() - pallas_health_checked_timestamp_seconds{{{ONE}}}", "{{agent}}"),),
                6,
                "s",
            ),
            Panel(
                "Operations a second",
                "timeseries",
                (
                    (
                        rate("pallas_tool_calls_total", ONE, "server, operation, outcome"),
                        "{{server}} {{operation}} {{outcome}}",
                    ),
                ),
                12,
            ),
            Panel(
                "p95 of an operation",
                "timeseries",
                (
                    (
                        quantile(0.95, "pallas_tool_call_duration_seconds", ONE, "server, operation"),
                        "{{server}} {{operation}}",
                    ),
                ),
                12,
                "s",
            ),
        ),
    ),
    Row(
        "Gateway",
        (
            Panel(
                "Up",
                "state-timeline",
                ((f"pallas_gateway_up{{{ALL}}}", "gateway"),),
                6,
                options=DOWN_IS_RED,
                help="`pallasctl gateway status` says why it is not. Nothing where there is no gateway.",
            ),
            Panel(
                "Requests a second",
                "timeseries",
                (
                    (
                        rate("pallas_gateway_requests_total", ALL, "surface, outcome"),
                        "{{surface}} {{outcome}}",
                    ),
                ),
                6,
            ),
            Panel(
                "Not let in, a second",
                "timeseries",
                ((rate("pallas_gateway_access_denied_total", ALL, "reason"), "{{reason}}"),),
                6,
                help="No, a wrong or a damaged token; too little scope; a limit.",
            ),
            Panel(
                "Store and audit that failed",
                "timeseries",
                (
                    (
                        f"sum(increase(pallas_gateway_store_errors_total{{{ALL}}}[$__rate_interval]))",
                        "store",
                    ),
                    (
                        f"sum(increase({AUDIT}{{{ALL}, outcome='failed'}}[$__rate_interval]))",
                        "audit",
                    ),
                ),
                6,
            ),
            Panel(
                "p95 of a relayed call",
                "timeseries",
                ((quantile(0.95, "pallas_gateway_relay_duration_seconds", ALL, "server"), "{{server}}"),),
                8,
                "s",
            ),
            Panel(
                "Relayed calls that failed, a second",
                "timeseries",
                (
                    (
                        rate(
                            "pallas_gateway_relay_duration_seconds_count", f'{ALL}, outcome="error"', "server"
                        ),
                        "{{server}}",
                    ),
                ),
                8,
            ),
            Panel(
                "Open",
                "timeseries",
                (
                    (f"pallas_gateway_requests_in_flight{{{ALL}}}", "requests"),
                    (f"pallas_gateway_subscribers{{{ALL}}}", "subscribers"),
                    (f"pallas_gateway_streams{{{ALL}}}", "streams"),
                    (f"pallas_gateway_turns{{{ALL}}}", "turns of conversations"),
                    (f"pallas_gateway_upstream_connections{{{ALL}}}", "connections to servers and workers"),
                ),
                8,
            ),
        ),
    ),
    Row(
        "Supervisor",
        (
            Panel(
                "Memory",
                "timeseries",
                (
                    (f"process_resident_memory_bytes{{{ALL}}}", "supervisor"),
                    (f"pallas_zygote_resident_memory_bytes{{{ALL}}}", "zygote"),
                ),
                6,
                "bytes",
            ),
            Panel(
                "CPU",
                "timeseries",
                ((f"rate(process_cpu_seconds_total{{{ALL}}}[$__rate_interval])", "cores"),),
                6,
            ),
            Panel(
                "p99 of the loop's lag",
                "timeseries",
                ((quantile(0.99, "pallas_supervisor_loop_lag_seconds", ALL, "deployment"), "lag"),),
                6,
                "s",
            ),
            Panel(
                "Log lines lost",
                "timeseries",
                (
                    (
                        f"sum by (agent, reason) (increase(pallas_log_lines_lost_total{{{ALL}}}[$__rate_interval]))",
                        "{{agent}} {{reason}}",
                    ),
                ),
                6,
            ),
        ),
    ),
)


def variables() -> list[dict[str, Any]]:
    """What is chosen at the top of the dashboard."""

    def query(name: str, label: str, text: str, **more: Any) -> dict[str, Any]:
        return {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": SOURCE,
            "query": {"query": text, "refId": name},
            "definition": text,
            "refresh": 2,
            "sort": 1,
            **more,
        }

    def number(name: str, label: str, value: str) -> dict[str, Any]:
        return {
            "name": name,
            "label": label,
            "type": "textbox",
            "query": value,
            "current": {"text": value, "value": value},
        }

    several = {"multi": True, "includeAll": True, "current": {"text": "All", "value": "$__all"}}
    return [
        {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
        query("deployment", "Deployment", "label_values(pallas_up, deployment)"),
        query("agent", "Agent", f"label_values(pallas_agent_info{{{ALL}}}, agent)", **several),
        number("price_input", "Price of 1M input tokens", "3"),
        number("price_output", "Price of 1M output tokens", "15"),
    ]


def dashboard() -> dict[str, Any]:
    """The whole document."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row in ROWS:
        heading = {"type": "row", "title": row.title, "collapsed": False, "panels": []}
        if row.repeat is not None:
            heading["repeat"] = row.repeat
        panels.append({"id": len(panels) + 1, "gridPos": _place(0, top, WIDTH, 1), **heading})
        left, top = 0, top + 1
        for panel in row.panels:
            if left + panel.width > WIDTH:
                left, top = 0, top + row.height
            panels.append(
                {
                    "id": len(panels) + 1,
                    "gridPos": _place(left, top, panel.width, row.height),
                    **_panel(panel),
                }
            )
            left += panel.width
        top += row.height
    return {
        "title": "Pallas",
        "uid": "pallas",
        "description": "LLM agents under Pallas: the fleet, each agent, tokens and cost, what the agents depend on.",
        "tags": ["pallas", "llm", "mcp"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": variables()},
        "links": [{"type": "link", "title": "Alerts", "url": "/alerting/list?search=Pallas", "icon": "bell"}],
        "panels": panels,
    }


def page() -> str:
    """The whole file."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


def _place(x: int, y: int, w: int, h: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": w, "h": h}


def _panel(panel: Panel) -> dict[str, Any]:
    options = dict(panel.options)
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.kind == "timeseries":
        defaults["custom"] = {"lineWidth": 1, "fillOpacity": 8, "showPoints": "never", "spanNulls": False}
    if (thresholds := options.pop("thresholds", None)) is not None:
        defaults["thresholds"] = {"mode": "absolute", "steps": thresholds}
        defaults["color"] = {"mode": "thresholds"}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.help,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _look(panel.kind),
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": SOURCE,
                "expr": query,
                "legendFormat": legend or "__auto",
            }
            for number, (query, legend) in enumerate(panel.queries)
        ],
    }


def _look(kind: Kind) -> dict[str, Any]:
    newest = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    match kind:
        case "stat":
            return {"reduceOptions": newest, "graphMode": "area", "colorMode": "value"}
        case "bargauge":
            return {"reduceOptions": newest, "orientation": "horizontal", "displayMode": "basic"}
        case "state-timeline":
            return {"showValue": "never", "mergeValues": True, "rowHeight": 0.8}
        case _:
            return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}
