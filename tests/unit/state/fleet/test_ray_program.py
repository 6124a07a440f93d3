"""The program that speaks with Ray separates what Ray does not accept from a cluster that is away."""

import json

from support.required import require_module

ORDER = {"store": "memory:", "tenant": "", "cwd": "/", "agents": ["a:b"], "concurrency": 1, "labels": ["GPU"]}
"""An order that `sandbur fleet up` does not let through."""


def test_a_request_that_ray_does_not_accept_is_refused_and_no_loss_of_the_cluster() -> None:
    require_module("ray")
    from sandbur.agent.fleet.cluster.ray_program import answer_requests

    answers: list[str] = []
    request = json.dumps({"do": "start", "name": "worker-1", "order": ORDER})
    answer_requests(iter([request, request]), answers.append)
    assert [list(json.loads(answer)) for answer in answers] == [["refused"], ["refused"]]
    assert "GPU" in answers[0]
