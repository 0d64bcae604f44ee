"""An issuer of identities (OpenID Connect): its signed tokens, and logging in by its page."""
