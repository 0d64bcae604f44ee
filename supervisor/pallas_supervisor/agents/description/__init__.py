"""An agent, and the configuration in effect, as documents for people who look closely."""
