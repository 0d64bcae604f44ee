"""What changed, for whom: the event log and who follows it."""
