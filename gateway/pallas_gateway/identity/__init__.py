"""Who asks: principals, tokens, and how a bearer becomes a principal."""
