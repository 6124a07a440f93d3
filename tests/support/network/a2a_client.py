"""A client of A2A by its own SDK: a2a_client.py URL TOKEN. Prints what it gets as lines of JSON.

It runs with a Python of its own, because the SDK needs other versions of packages than Sandbur.
"""

import asyncio
import json
import sys

import httpx
from a2a.client import A2ACardResolver, ClientConfig, create_client
from a2a.types import a2a_pb2 as types
from google.protobuf.json_format import MessageToDict, ParseDict


def put(kind: str, message: object) -> None:
    print(json.dumps({"kind": kind, "found": MessageToDict(message)}), flush=True)


def make_request(task: str, *parts: dict[str, object]) -> types.SendMessageRequest:
    message = {"messageId": "m", "taskId": task, "role": "ROLE_USER", "parts": list(parts)}
    return ParseDict({"message": message}, types.SendMessageRequest())


async def main(url: str, token: str) -> None:
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        put("card", card)
        task = ""
        for streaming in (True, False):
            client = await create_client(card, ClientConfig(httpx_client=http, streaming=streaming))
            text = "run echo x >> a2a.txt && cat a2a.txt" if streaming else "hi"
            async for event in client.send_message(make_request("", {"text": text})):
                put("streamed" if streaming else "sent", event)
                task = event.status_update.task_id if streaming and event.HasField("status_update") else task
            if streaming:
                found = await client.get_task(types.GetTaskRequest(id=task))
                put("got", found)
                data = next(part.data for part in found.status.message.parts if part.HasField("data"))
                answer = {"call_id": data.struct_value["call_id"], "approved": True}
                async for event in client.send_message(make_request(task, {"data": answer})):
                    put("answered", event)
                put("over", await client.get_task(types.GetTaskRequest(id=task)))


asyncio.run(main(*sys.argv[1:]))
