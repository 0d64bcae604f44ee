"""What goes wrong at LLM providers: each exception of their libraries, and what each kind of failure means (pure)."""
