"""Chat completions as OpenAI speaks them, to and from turns."""
