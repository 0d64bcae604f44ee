"""The program that holds a conversation with an agent by a package for OpenAI's chat completions.

It runs in the package's own environment, behind the page's example for it, and prints one line of JSON at its end. The
packages take the same fields and give the same objects; they differ in how they are called.
"""

from __future__ import annotations

COMPLETE = {
    "openai": """
def complete(at=agent.base_url, model="research", retries=agent.max_retries, **fields):
    client = agent.with_options(base_url=at, max_retries=retries)
    return client.chat.completions.create(model=model, **fields)
""",
    "litellm": """
def complete(at=agent["api_base"], model="research", retries=None, **fields):
    place = {"api_base": at, "model": f"openai/{model}", "api_key": "unused"}
    if retries is not None:
        place["max_retries"] = retries
    return litellm.completion(**place, **fields)
""",
}
"""Package → its way to ask for an answer, with the retries that it makes by itself unless told otherwise."""

CONVERSATION = r"""
import json
import sys

add, image, fail, stop, leave, busy = sys.argv[1:]


def user(content):
    return {"role": "user", "content": content}


def pieces(chunks):
    for chunk in chunks:
        for choice in chunk.choices:
            yield choice.delta.content or ""


def failure(message, **fields):
    said = ""
    try:
        answer = complete(messages=[user(message)], **fields)
        for piece in pieces(answer) if fields.get("stream") else [answer.choices[0].message.content]:
            said += piece
    except Exception as error:
        response = getattr(error, "response", None)
        headers = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", {})
        return {
            "kind": type(error).__name__,
            "status": getattr(error, "status_code", None),
            "text": str(error),
            "said": said,
            "retry_after": headers.get("retry-after"),
        }
    raise AssertionError(f"no error, but: {said}")


told = {}

# The answer's own object goes into the history, as programs for these packages do it.
history = [{"role": "system", "content": "Be brief."}, user(add)]
whole = complete(messages=history)
told["whole"] = [whole.choices[0].message.content, whole.usage.total_tokens]
url = {"url": f"data:image/png;base64,{image}"}
picture = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": url}]
history += [whole.choices[0].message, user(picture)]
told["image"] = "".join(pieces(complete(messages=history, stream=True)))

# The rows of a turn, with its tool call, and those of a stream after them.
history = [*whole.pallas["messages"], user(add)]
chunks = list(complete(messages=history, stream=True, stream_options={"include_usage": True}))
told["stream"] = ["".join(pieces(chunks)), chunks[-1].usage.total_tokens]
ends = [chunk.pallas for chunk in chunks if getattr(chunk, "pallas", None)]
history = [*history[:-1], *ends[-1]["messages"], user("And now?")]
told["rows"] = complete(messages=history).choices[0].message.content

told["errors"] = {
    "model": failure("x", model="nobody"),
    "parameter": failure("x", temperature=9),
    "provider": failure(fail),
    "provider, in the middle": failure(stop, stream=True),
    "busy": failure("x", at=busy, model="busy", retries=0),
    "busy, streamed": failure("x", at=busy, model="busy", retries=0, stream=True),
    "too late": failure(leave, retries=0, timeout=1),
}
print()
print(json.dumps(told))

# The program ends while the agent speaks.
next(filter(None, pieces(complete(messages=[user(leave)], stream=True))))
"""
