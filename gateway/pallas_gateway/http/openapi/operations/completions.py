"""Operations of OpenAI's API. Pure."""

from __future__ import annotations

from pallas_gateway.http.openapi.operations.operation import EVENTS, JSON, Answer, Header, Operation
from pallas_gateway.http.openapi.operations.shapes import record, ref, several, text

PATH = "/v1/chat/completions"
MODELS_PATH = "/v1/models"

COMPLETIONS = (
    Operation(
        id="createChatCompletion",
        method="POST",
        path=PATH,
        tag="completions",
        summary="Ask an agent, with the whole conversation",
        grant="`run:agents:NAME`, else there is no such model",
        body={JSON: ref("CompletionBody")},
        answers=(
            Answer(
                200,
                "The answer, or with `stream` the chunks of it, which end with `data: [DONE]`",
                {JSON: ref("Completion"), EVENTS: text()},
                (Header("Pallas-Ignored", "Parameters that the model's provider does not have"),),
            ),
        ),
    ),
    Operation(
        id="listModels",
        method="GET",
        path=MODELS_PATH,
        tag="completions",
        summary="The agents that the token may run, as models",
        grant="some `run:agents`",
        answers=(
            Answer(
                200,
                "The models",
                {JSON: record({"object": {"const": "list"}, "data": several(ref("Model"))})},
            ),
        ),
    ),
    Operation(
        id="getModel",
        method="GET",
        path=f"{MODELS_PATH}/{{model}}",
        tag="completions",
        summary="One agent as a model",
        grant="`run:agents:NAME`, else there is no such model",
        answers=(Answer(200, "The model", {JSON: ref("Model")}),),
    ),
)
