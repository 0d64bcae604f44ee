"""OpenTelemetry: what the environment asks for, the provider, and what a span may say."""
