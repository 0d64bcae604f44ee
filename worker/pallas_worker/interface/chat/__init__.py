"""Chat completions as OpenAI defines them: requests checked, answers and errors put together; to and from turns."""
