"""The verb `start`."""

from __future__ import annotations

from pallasctl.verbs.agents.goals import goal_verb

start = goal_verb("start", "ready", "Start agents, and what they depend on.\n\nWaits until they are ready.")
