"""The API of OpenAI: chat completions and responses, answered by the agents of the server."""
