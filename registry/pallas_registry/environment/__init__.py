"""What the environment says: `.env`, credentials, `PALLAS_*` variables, the runtime directory."""
