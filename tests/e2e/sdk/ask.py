"""One chat completion by the official openai SDK for Python, as any user would write it; what came of it as JSON on stdout.

usage: ask.py BASE_URL plain|stream OPTIONS(JSON: model, key, timeout, maxRetries, http2: by prior knowledge or ALPN, whatever the certificate)
"""

import json
import sys
import time

import openai


def main(base_url, mode, text="{}"):
    options = json.loads(text)
    more = {"timeout": options["timeout"]} if "timeout" in options else {}
    result = {"text": "", "chunks": 0, "usage": None, "error": None, "status": None, "protocol": None}
    if options.get("http2"):
        hooks = {"response": [lambda response: result.update(protocol=response.http_version)]}
        more["http_client"] = openai.DefaultHttpxClient(http1=False, http2=True, verify=False, event_hooks=hooks)
    client = openai.OpenAI(
        base_url=base_url, api_key=options.get("key", "none"), max_retries=options.get("maxRetries", 0), **more
    )
    request = {
        "model": options.get("model", "m"),
        "messages": [{"role": "user", "content": options.get("text", "hello")}],
    }
    began = time.monotonic()
    try:
        if mode == "stream":
            stream = client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True})
            for chunk in stream:
                result["chunks"] += 1
                result["text"] += (chunk.choices[0].delta.content or "") if chunk.choices else ""
                result["usage"] = chunk.usage.model_dump() if chunk.usage else result["usage"]
        else:
            answer = client.chat.completions.create(**request)
            result["text"] = answer.choices[0].message.content
            result["usage"] = answer.usage.model_dump()
    except openai.APIError as error:
        result["error"] = f"{type(error).__name__}: {error}"
        result["status"] = getattr(error, "status_code", None)
        result["code"] = error.code
    result["seconds"] = time.monotonic() - began
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
