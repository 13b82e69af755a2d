"""The openai package against a server with an engine that has no model.

    python3 openai_client.py BUILD/tests/unit/serve/serve-fake

Completes, chats, streams, calls functions, thinks, lists models, counts, asks
as of vLLM's server, and is refused.  Needs the package `openai`; run by hand.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
from typing import Literal, Optional

import openai
import pydantic


class Stop(pydantic.BaseModel):
    name: Literal["inn", "bridge"]
    nights: int = pydantic.Field(ge=0, le=9)


class Trip(pydantic.BaseModel):
    stops: list[Stop] = pydantic.Field(max_length=2)
    day: Optional[Literal["Monday", "Sunday"]]


def start(program, *options):
    env = dict(os.environ, LLMC_API_KEY="sesame")
    p = subprocess.Popen([program, *options], env=env, text=True,
                         stdout=subprocess.PIPE)
    url = re.search(r"http\S+/v1", p.stdout.readline()).group()
    return p, openai.OpenAI(base_url=url, api_key="sesame", max_retries=0)


def refused(kind, call):
    try:
        call()
    except kind as e:
        return str(e)
    raise AssertionError(f"no {kind.__name__}")


def complete(client):
    ask = dict(model="fake", prompt="Once upon", max_tokens=30, seed=3)
    whole = client.completions.create(**ask, logprobs=2)
    c = whole.choices[0]
    assert c.finish_reason == "length" and whole.usage.completion_tokens == 30
    assert len(c.logprobs.tokens) == 30
    for t, top in zip(c.logprobs.tokens, c.logprobs.top_logprobs):
        assert t in top and 2 <= len(top) <= 3
    parts = list(client.completions.create(
        **ask, stream=True, stream_options={"include_usage": True}))
    text = "".join(p.choices[0].text for p in parts if p.choices)
    assert text == c.text, (text, c.text)
    assert parts[-1].usage.completion_tokens == 30
    two = client.completions.create(**ask, n=2)
    assert [x.index for x in two.choices] == [0, 1]
    assert two.choices[0].text == c.text != two.choices[1].text
    stop = c.text[8:10]
    cut = client.completions.create(**ask, stop=[stop]).choices[0]
    assert cut.finish_reason == "stop" and stop not in cut.text
    assert c.text.startswith(cut.text)


def chat(client):
    ask = dict(model="fake", seed=3, max_completion_tokens=20, messages=[
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]}])
    whole = client.chat.completions.create(**ask, logprobs=True,
                                           top_logprobs=3)
    c = whole.choices[0]
    assert c.message.role == "assistant" and c.finish_reason == "length"
    assert len(c.logprobs.content) == 20
    assert len(c.logprobs.content[0].top_logprobs) == 3
    parts = list(client.chat.completions.create(**ask, stream=True))
    assert parts[0].choices[0].delta.role == "assistant"
    assert "".join(p.choices[0].delta.content or "" for p in parts) == \
        c.message.content
    assert parts[-1].choices[0].finish_reason == "length"


def structured(client):
    """Answers follow a schema: a dictionary, or a class of pydantic's."""
    schema = {"type": "object", "properties": {
        "city": {"enum": ["Ulm", "Bonn"]}, "year": {"type": "integer"}},
        "required": ["city", "year"], "additionalProperties": False}
    ask = dict(model="fake", max_tokens=500,
               messages=[{"role": "user", "content": "Hi"}])
    for seed in range(20):
        c = client.chat.completions.create(
            **ask, seed=seed, response_format={
                "type": "json_schema", "json_schema": {
                    "name": "place", "schema": schema, "strict": True}},
        ).choices[0]
        value = json.loads(c.message.content)
        assert c.finish_reason == "stop" and list(value) == ["city", "year"]
        assert value["city"] in ("Ulm", "Bonn")
        c = client.chat.completions.parse(
            **ask, seed=seed, response_format=Trip).choices[0]
        assert isinstance(c.message.parsed, Trip)
    why = refused(openai.BadRequestError, lambda:
                  client.chat.completions.create(**ask, response_format={
                      "type": "json_schema", "json_schema": {
                          "name": "x", "schema": {"contains": {}}}}))
    assert "#/contains in the schema is no keyword" in why


def like_vllm(client):
    """Fields that vLLM's server has beside OpenAI's."""
    ask = dict(model="fake", max_tokens=40,
               messages=[{"role": "user", "content": "Hi"}])

    def answer(seed, **fields):
        return client.chat.completions.create(
            **ask, seed=seed, extra_body=fields).choices[0].message.content

    for seed in range(10):
        assert answer(seed, guided_choice=["yes", "no"]) in ("yes", "no")
        assert re.fullmatch("[a-c]{3}", answer(seed, guided_regex="[a-c]{3}"))
        assert answer(seed, structured_outputs={"choice": ["a b", "c"]}) in (
            "a b", "c")
        assert json.loads(answer(seed, structured_outputs={
            "json": {"enum": [1, None]}})) in (1, None)
    c = client.chat.completions.create(
        model="fake", seed=1, max_tokens=5, messages=[
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "So"}],
        extra_body={"continue_final_message": True,
                    "add_generation_prompt": False})
    assert c.usage.completion_tokens == 5
    tokens = client.post("../tokenize", cast_to=object,
                         body={"prompt": "Hi"})["tokens"]
    assert client.post("../detokenize", cast_to=object,
                       body={"tokens": tokens})["prompt"] == "Hi"


def calls(client, several):
    """Functions are called, one and several; a stream has the same calls."""
    tools = [{"type": "function", "function": {
        "name": name, "description": "Tells of a city.", "parameters": {
            "type": "object", "properties": {
                "city": {"enum": ["Ulm", "Bonn"]}},
            "required": ["city"], "additionalProperties": False}}}
        for name in ("weather", "time")]
    hi = [{"role": "user", "content": "Hi"}]
    ask = dict(model="fake", max_tokens=1500, messages=hi, tools=tools)
    for seed in range(10):
        for choice in ("required", {"type": "function",
                                    "function": {"name": "time"}}):
            c = client.chat.completions.create(
                **ask, seed=seed, tool_choice=choice,
                parallel_tool_calls=several(seed)).choices[0]
            made = c.message.tool_calls
            assert c.finish_reason == "tool_calls"
            assert c.message.content is None
            assert len(made) == 1 or choice == "required" and several(seed)
            for one in made:
                assert one.function.name in ("weather", "time")
                assert json.loads(one.function.arguments)["city"] in (
                    "Ulm", "Bonn")
            parts = {}
            for p in client.chat.completions.create(
                    **ask, seed=seed, tool_choice=choice, stream=True,
                    parallel_tool_calls=several(seed)):
                for d in p.choices[0].delta.tool_calls or []:
                    if d.id:
                        assert d.index == len(parts) and d.type == "function"
                        parts[d.index] = [d.function.name, ""]
                    parts[d.index][1] += d.function.arguments
            assert p.choices[0].finish_reason == "tool_calls"
            assert [tuple(x) for x in parts.values()] == [
                (x.function.name, x.function.arguments) for x in made]
    back = hi + [c.message] + [{"role": "tool", "tool_call_id": x.id,
                                "content": "9:15"} for x in made]
    client.chat.completions.create(**dict(ask, messages=back, max_tokens=3))
    with client.chat.completions.stream(
            **ask, seed=1, tool_choice="required",
            parallel_tool_calls=False) as s:
        m = s.get_final_completion().choices[0].message
    assert m.tool_calls[0].function.name in ("weather", "time")
    said = client.chat.completions.create(
        **dict(ask, max_tokens=9), seed=1).choices[0]
    assert said.message.content and not said.message.tool_calls


def thinks(program):
    """What a model thinks is apart from what it says; it may follow a schema,
    and is sent back."""
    hi = [{"role": "user", "content": "Hi"}]
    ask = dict(model="fake", temperature=0, messages=hi)
    options = ["chat=chatml", "reasoning=qwen3"]
    for schema in (None, {"type": "json_object"}):
        words = ("" if schema else "<think>\n") + "A colour?\n</think>\n\nRed."
        more = {"response_format": schema} if schema else {}
        p, client = start(program, *options)
        tokens = client.post("/../tokenize", body=dict(messages=hi, **more),
                             cast_to=object)
        p.terminate()
        p.wait(60)
        p, client = start(program, *options, "script=" + words,
                          f"script_at={tokens['count']}")
        try:
            most = len(words) if not schema else 300
            whole = client.chat.completions.create(**ask, **more,
                                                   max_tokens=most)
            m = whole.choices[0].message
            assert m.reasoning_content == m.reasoning == "A colour?"
            details = whole.usage.completion_tokens_details
            assert 0 < details.reasoning_tokens < most
            parts = [p.choices[0].delta for p in client.chat.completions.create(
                **ask, **more, max_tokens=most, stream=True)]
            assert "".join(d.content or "" for d in parts) == m.content
            assert "".join(getattr(d, "reasoning_content", None) or ""
                           for d in parts) == m.reasoning_content
            if schema:
                assert m.content.lstrip().startswith("{")
            else:
                assert m.content == "Red."
                client.chat.completions.create(
                    **dict(ask, messages=hi + [m] + hi), max_tokens=2,
                    reasoning_effort="low")
                no = client.chat.completions.create(
                    **ask, max_tokens=2, reasoning_effort="none")
                assert no.usage.prompt_tokens > whole.usage.prompt_tokens
        finally:
            p.terminate()
        assert p.wait(60) == 0


def again(client):
    """An answer is sent back as it came, and as a dictionary with nulls."""
    hi = [{"role": "user", "content": "Hi"}]
    ask = dict(model="fake", max_tokens=3, seed=2**63 - 1)
    m = client.chat.completions.create(**ask, messages=hi).choices[0].message
    texts = [client.chat.completions.create(**ask, messages=hi + [x] + hi)
             .choices[0].message.content for x in (m, m.model_dump())]
    assert texts[0] == texts[1]


def errors(client):
    """Errors have the code that clients of OpenAI look for."""
    ask = dict(model="fake", prompt="a")
    for fields, kind, code in (
            ({"max_tokens": 10**6}, openai.BadRequestError,
             "context_length_exceeded"),
            ({"model": "other"}, openai.NotFoundError, "model_not_found")):
        try:
            client.completions.create(**dict(ask, **fields))
        except kind as e:
            assert e.code == code, e.code
        else:
            raise AssertionError(code)
    why = refused(openai.NotFoundError, lambda: client.embeddings.create(
        model="fake", input="a"))
    assert "there is nothing at '/v1/embeddings'" in why
    c = client.completions.create(**ask)
    assert c._request_id == c.id


def offsets(client):
    """Characters of an echoed text, as Python counts them."""
    prompt = "a b\u00e9\U0001f600!"
    c = client.completions.create(model="fake", prompt=prompt, echo=True,
                                  logprobs=2, max_tokens=5, seed=1).choices[0]
    at = c.logprobs.text_offset
    for token, here in zip(c.logprobs.tokens[:3] + ["!"], at[:3] + [at[9]]):
        assert c.text[here] == token
    assert c.text.startswith(prompt) and at[10] == len(prompt)
    assert c.logprobs.tokens[3:5] == ["bytes:\\xc3", "bytes:\\xa9"]
    assert all(2 <= len(t) <= 3 for t in c.logprobs.top_logprobs[1:])


def many(client):
    def one(i):
        return client.completions.create(
            model="fake", prompt=f"text {i % 5}", max_tokens=50, seed=1,
            temperature=0.7).choices[0].text

    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        texts = list(pool.map(one, range(256)))
    for i, t in enumerate(texts):
        assert t == texts[i % 5]


def main():
    for chat_template in ("chatml", "llama-3", "mistral", "mistral-v7",
                          "mistral-v11", "mistral-v13", "phi-4-mini",
                          "deepseek", "deepseek-v3.1"):
        p, client = start(sys.argv[1], "chat=" + chat_template,
                          "context=8192")
        # bytes have no token that ends an answer, as several calls of these do
        endless = chat_template in ("chatml", "mistral-v11", "mistral-v13")
        several = (lambda seed: False) if endless else (
            lambda seed: seed % 2 == 0)
        try:
            calls(client, several)
        finally:
            p.terminate()
        assert p.wait(60) == 0
    thinks(sys.argv[1])
    p, client = start(sys.argv[1], "blocks=100", "rows=24")
    try:
        assert [m.id for m in client.models.list()] == ["fake"]
        complete(client)
        chat(client)
        again(client)
        structured(client)
        like_vllm(client)
        errors(client)
        offsets(client)
        assert client.models.retrieve("fake").id == "fake"
        refused(openai.NotFoundError, lambda: client.models.retrieve("x"))
        many(client)
        why = refused(openai.BadRequestError, lambda: client.completions.create(
            model="fake", prompt="a", temperature=-1))
        assert "'temperature' is a number from 0 to 100" in why
        refused(openai.NotFoundError, lambda: client.completions.create(
            model="other", prompt="a"))
        other = client.with_options(api_key="other")
        refused(openai.AuthenticationError, other.models.list)
        with client.completions.create(model="fake", prompt="a", stream=True,
                                       max_tokens=1500) as s:
            next(iter(s))
    finally:
        p.terminate()
    assert p.wait(60) == 0
    print("openai", openai.__version__, "completes, chats, streams,",
          "calls functions, and its answers follow schemas")


main()
