"""Chat clients and SDKs whose requests are recorded: what is installed, and the program that asks with each.

A program gets `BASE_URL`, `API_KEY` and `MODEL` in its environment, and as argument which of `ASKS` it makes; it prints
the text of the answer. The questions are those of `TEXTS`.
"""
# ruff: noqa: E501 - programs

from __future__ import annotations

from typing import Literal, NamedTuple

TEXTS = ("Be brief.", "How high is Mont Blanc?", "About 4,810 metres.", "And Mount Everest?")
"""Instruction, question, answer, and the next question, which is the one that is answered."""

SYSTEM, FIRST, SAID, ASKED = map(repr, TEXTS)

type Ask = Literal["whole", "stream"]
ASKS: tuple[Ask, ...] = ("whole", "stream")


class Client(NamedTuple):
    """One of them."""

    title: str
    packages: tuple[str, ...]
    """The first is the one whose version counts."""
    program: str
    kind: Literal["python", "older python", "node", "command"] = "python"
    """What runs the program; `command`: a shell, with the environment's commands."""
    asks: tuple[Ask, ...] = ASKS


_OPENAI = f"""
import os, sys
from openai import OpenAI
client = OpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"])
messages = [
    {{"role": "system", "content": {SYSTEM}}},
    {{"role": "user", "content": {FIRST}}},
    {{"role": "assistant", "content": {SAID}}},
    {{"role": "user", "content": [{{"type": "text", "text": {ASKED}}}]}},
]
model = os.environ["MODEL"]
assert model in [each.id for each in client.models.list()]
common = dict(model=model, messages=messages, temperature=0.5, max_completion_tokens=200, user="ada")
if sys.argv[1] == "whole":
    print(client.chat.completions.create(**common, safety_identifier="ada", prompt_cache_key="k", verbosity="low").choices[0].message.content)
else:
    stream = client.chat.completions.create(**common, stream=True, stream_options={{"include_usage": True}})
    print("".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices))
"""

_OPENAI_NODE = f"""
import OpenAI from "openai";
const client = new OpenAI({{ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY }});
const messages = [
  {{ role: "developer", content: {SYSTEM} }},
  {{ role: "user", content: {FIRST} }},
  {{ role: "assistant", content: {SAID} }},
  {{ role: "user", content: {ASKED} }},
];
const model = process.env.MODEL;
await client.models.retrieve(model);
if (process.argv[2] === "whole") {{
  const answer = await client.chat.completions.create({{ model, messages, store: false, metadata: {{ topic: "peaks" }} }});
  console.log(answer.choices[0].message.content);
}} else {{
  const stream = client.chat.completions.stream({{ model, messages, modalities: ["text"], prediction: null }});
  console.log(await stream.finalContent());
}}
"""

_LANGCHAIN = f"""
import os, sys
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
model = ChatOpenAI(model=os.environ["MODEL"], base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"], temperature=0, stop=["END"])
messages = [SystemMessage({SYSTEM}), HumanMessage({FIRST}, name="ada", id="m1"), AIMessage({SAID}, id="m2"), HumanMessage({ASKED})]
if sys.argv[1] == "whole":
    print(model.invoke(messages).content)
else:
    print("".join(chunk.content for chunk in model.stream(messages)))
"""

_LANGCHAIN_NODE = f"""
import {{ ChatOpenAI }} from "@langchain/openai";
import {{ AIMessage, HumanMessage, SystemMessage }} from "@langchain/core/messages";
const model = new ChatOpenAI({{ model: process.env.MODEL, apiKey: process.env.API_KEY, configuration: {{ baseURL: process.env.BASE_URL }} }});
const messages = [new SystemMessage({SYSTEM}), new HumanMessage({FIRST}), new AIMessage({SAID}), new HumanMessage({ASKED})];
if (process.argv[2] === "whole") {{
  console.log((await model.invoke(messages)).content);
}} else {{
  let text = "";
  for await (const chunk of await model.stream(messages)) text += chunk.content;
  console.log(text);
}}
"""

_LLAMAINDEX = f"""
import os, sys
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike
model = OpenAILike(model=os.environ["MODEL"], api_base=os.environ["BASE_URL"], api_key=os.environ["API_KEY"], is_chat_model=True, max_tokens=200)
messages = [ChatMessage(role=role, content=text) for role, text in zip(("system", "user", "assistant", "user"), ({SYSTEM}, {FIRST}, {SAID}, {ASKED}))]
if sys.argv[1] == "whole":
    print(model.chat(messages).message.content)
else:
    print("".join(chunk.delta or "" for chunk in model.stream_chat(messages)))
"""

_VERCEL = f"""
import {{ generateText, streamText }} from "ai";
import {{ createOpenAICompatible }} from "@ai-sdk/openai-compatible";
const provider = createOpenAICompatible({{ name: "pallas", baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY }});
const asked = {{
  model: provider.chatModel(process.env.MODEL),
  instructions: {SYSTEM}, maxOutputTokens: 200, topK: 40, seed: 7,
  messages: [{{ role: "user", content: {FIRST} }}, {{ role: "assistant", content: {SAID} }}, {{ role: "user", content: [{{ type: "text", text: {ASKED} }}] }}],
}};
if (process.argv[2] === "whole") console.log((await generateText(asked)).text);
else console.log(await streamText(asked).text);
"""

_LITELLM = f"""
import os, sys
import litellm
common = dict(model="openai/" + os.environ["MODEL"], api_base=os.environ["BASE_URL"], api_key=os.environ["API_KEY"])
cached = {{"type": "text", "text": {SYSTEM}, "cache_control": {{"type": "ephemeral"}}}}
messages = [
    {{"role": "system", "content": [cached]}},
    {{"role": "user", "content": {FIRST}}},
    {{"role": "assistant", "content": {SAID}}},
    {{"role": "user", "content": {ASKED}}},
]
if sys.argv[1] == "whole":
    print(litellm.completion(**common, messages=messages, top_k=-1, logprobs=False, extra_body={{"keep_alive": "5m", "cache_prompt": True}}).choices[0].message.content)
else:
    stream = litellm.completion(**common, messages=messages, stream=True, metadata={{"trace": "t"}})
    print("".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices))
"""

_PYDANTIC_AI = f"""
import asyncio, os, sys
from pydantic_ai import Agent, ModelRequest, ModelResponse, SystemPromptPart, TextPart, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
model = OpenAIChatModel(os.environ["MODEL"], provider=OpenAIProvider(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"]))
agent = Agent(model)
history = [ModelRequest(parts=[SystemPromptPart({SYSTEM}), UserPromptPart({FIRST})]), ModelResponse(parts=[TextPart({SAID})])]
async def streamed():
    async with agent.run_stream({ASKED}, message_history=history) as result:
        print(await result.get_output())
if sys.argv[1] == "whole":
    print(agent.run_sync({ASKED}, message_history=history).output)
else:
    asyncio.run(streamed())
"""

_HAYSTACK = f"""
import os, sys
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret
pieces = []
streamed = sys.argv[1] == "stream"
model = OpenAIChatGenerator(model=os.environ["MODEL"], api_base_url=os.environ["BASE_URL"], api_key=Secret.from_token(os.environ["API_KEY"]),
    streaming_callback=(lambda chunk: pieces.append(chunk.content)) if streamed else None, generation_kwargs={{"max_tokens": 200}})
messages = [ChatMessage.from_system({SYSTEM}), ChatMessage.from_user({FIRST}), ChatMessage.from_assistant({SAID}), ChatMessage.from_user({ASKED})]
answer = model.run(messages)["replies"][0].text
print("".join(pieces) if streamed else answer)
"""

_SEMANTIC_KERNEL = f"""
import asyncio, os, sys
from openai import AsyncOpenAI
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings
from semantic_kernel.contents import ChatHistory
service = OpenAIChatCompletion(ai_model_id=os.environ["MODEL"], async_client=AsyncOpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"]))
history = ChatHistory(system_message={SYSTEM})
history.add_user_message({FIRST})
history.add_assistant_message({SAID})
history.add_user_message({ASKED})
settings = OpenAIChatPromptExecutionSettings(max_tokens=200, temperature=0.2)
async def main():
    if sys.argv[1] == "whole":
        print((await service.get_chat_message_content(history, settings)).content)
    else:
        print("".join([str(chunk) async for chunk in service.get_streaming_chat_message_content(history, settings)]))
asyncio.run(main())
"""

_LLM = f"""
export LLM_USER_PATH=$PWD/llm
mkdir -p "$LLM_USER_PATH"
printf -- '- model_id: agent\\n  model_name: %s\\n  api_base: %s\\n  api_key_name: pallas\\n' "$MODEL" "$BASE_URL" >"$LLM_USER_PATH/extra-openai-models.yaml"
[ "$1" = whole ] && whole=--no-stream || whole=
llm keys set pallas --value "$API_KEY"
llm prompt -m agent $whole -o max_tokens 200 -s {SYSTEM} {ASKED}
"""

_AIDER = f"""
[ "$1" = whole ] && how=--no-stream || how=--stream
mkdir aider && cd aider
export LITELLM_LOCAL_MODEL_COST_MAP=True
aider --model "openai/$MODEL" --openai-api-base "$BASE_URL" --openai-api-key "$API_KEY" $how --message {ASKED} --no-git --yes-always \\
    --no-show-model-warnings --no-check-update --analytics-disable --no-pretty --no-gitignore --map-tokens 0 --no-suggest-shell-commands | sed '1,/release-notes/d'
"""

_CURL = """
[ "$1" = whole ] && stream=false || stream=true
curl --fail --silent --show-error --no-buffer "$BASE_URL/chat/completions" --header "Authorization: Bearer $API_KEY" \\
    --json '{"model": "'"$MODEL"'", "stream": '"$stream"', "messages": [{"role": "user", "content": "And Mount Everest?"}]}'
"""

CLIENTS: dict[str, Client] = {
    "openai-python": Client("`openai` for Python", ("openai",), _OPENAI),
    "openai-node": Client("`openai` for Node", ("openai",), _OPENAI_NODE, "node"),
    "langchain-python": Client("LangChain", ("langchain-openai",), _LANGCHAIN),
    "langchain-node": Client(
        "LangChain.js", ("@langchain/openai", "@langchain/core"), _LANGCHAIN_NODE, "node"
    ),
    "llamaindex": Client("LlamaIndex", ("llama-index-llms-openai-like",), _LLAMAINDEX),
    "vercel-ai": Client("Vercel's AI SDK", ("@ai-sdk/openai-compatible", "ai"), _VERCEL, "node"),
    "litellm": Client("LiteLLM", ("litellm",), _LITELLM),
    "pydantic-ai": Client("Pydantic AI", ("pydantic-ai-slim", "openai"), _PYDANTIC_AI),
    "haystack": Client("Haystack", ("haystack-ai",), _HAYSTACK),
    "semantic-kernel": Client("Semantic Kernel", ("semantic-kernel",), _SEMANTIC_KERNEL),
    "llm": Client("LLM", ("llm",), _LLM, "command"),
    "aider": Client("aider", ("aider-chat",), _AIDER, "older python"),
    "curl": Client("curl", (), _CURL, "command"),
}
