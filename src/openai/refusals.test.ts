import { expect, test } from "vitest";
import { saying, startDoor } from "./openai.fixture.ts";

const door = await startDoor();

/** What is asked (the whole body, or what of it is not `hi` to the helper), the fault's place, its code, its words. */
const cases = String.raw`
  body {"messages":[USER]} | model | missing_required_parameter | is required
  body {"model":"","messages":[USER]} | model | invalid_value | at least 1
  body {"model":3,"messages":[USER]} | model | invalid_type | a string
  body {"model":"helper"} | messages | missing_required_parameter | is required
  messages [] | messages | invalid_value | at least 1 items
  messages "hi" | messages | invalid_type | an array
  messages [USER,"hi"] | messages[1] | invalid_type | an object
  messages [{"content":"hi"}] | messages[0].role | missing_required_parameter | developer
  messages [{"role":"bot","content":"hi"}] | messages[0].role | invalid_value | developer
  messages [{"role":"user"}] | messages[0].content | missing_required_parameter | is required
  messages [{"role":"user","content":null}] | messages[0].content | invalid_type | string
  content "  " | messages[0].content | invalid_value | say something
  messages [SYSTEM] | messages | invalid_value | of the user
  messages [USER,{"role":"assistant","content":"yes"}] | messages[1].role | invalid_value | must be the user's
  messages [USER,{"role":"tool","content":"42"},SYSTEM] | messages[1].role | invalid_value | runs its tools
  content [{"text":"hi"}] | messages[0].content[0] | missing_required_parameter | needs a type
  content [{"type":"text"}] | messages[0].content[0].text | missing_required_parameter | is required
  content [{"type":"input_audio"}] | messages[0].content[0] | unsupported_content_type | input_audio is not supported
  content [{"type":"file","file":{"file_id":"f"}}] | messages[0].content[0] | unsupported_content_type | type file
  image https://example.com/a.png | messages[0].content[0] | unsupported_value | data URL
  image data:text/plain;base64,aGk= | messages[0].content[0] | invalid_value | of an image
  image data:image/png;base64,aGkgdGhlcmU= | messages[0].content[0] | invalid_value | PNG, JPEG
  image data:image/png;base64,iVBORw0KGgo* | messages[0].content[0] | invalid_value | base64
  messages [{"role":"assistant","content":[IMAGE]},USER] | messages[0].content[0] | unsupported_content_type | only text
  with {"stream":"yes"} | stream | invalid_type | true or false
  with {"stream_options":{"include_usage":1}} | stream_options.include_usage | invalid_type | true or false
  with {"timeout":0} | timeout | invalid_value | at least 1
  with {"timeout":604801} | timeout | invalid_value | at most 604800
  with {"timeout":1.5} | timeout | invalid_type | whole number
  with {"disable_mcp_servers":["a",1]} | disable_mcp_servers[1] | invalid_type | a string
  with {"metadata":"x"} | metadata | invalid_type | an object
  with {"metadata":{"conversation_id":4}} | metadata.conversation_id | invalid_type | a string
  with {"metadata":{"conversation_id":"a\nb"}} | metadata.conversation_id | invalid_value | 256 printable
  with {"metadata":{"conversation_id":"LONG"}} | metadata.conversation_id | invalid_value | 256 printable
  with {"metadata":{"live_text":"yes"}} | metadata.live_text | invalid_value | true or false
  with {"reasoning_effort":"huge"} | reasoning_effort | invalid_value | none, minimal, low
  with {"n":2} | n | unsupported_value | must be 1
  with {"n":0} | n | invalid_value | at least 1
  with {"tools":[{"type":"function"}]} | tools | unsupported_parameter | tools of its own
  with {"functions":[{"name":"f"}]} | functions | unsupported_parameter | tools of its own
  with {"tool_choice":"required"} | tool_choice | unsupported_value | none or auto
  with {"response_format":{"type":"json_schema"}} | response_format | unsupported_value | must be text
  with {"response_format":{"type":"json_object"}} | response_format | unsupported_value | must be text
  with {"logprobs":true} | logprobs | unsupported_value | must be false
  with {"modalities":["text","audio"]} | modalities | unsupported_value | nothing but text
  with {"timeout":"1.5"} | timeout | invalid_type | whole number
  with {"n":"2"} | n | unsupported_value | must be 1
  body [] | - | invalid_request | JSON object, not an array
  body { | - | invalid_request | not valid JSON: Expected property name
`;

const words = {
  USER: '{"role":"user","content":"hi"}',
  SYSTEM: '{"role":"system","content":"be"}',
  IMAGE: '{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}',
  LONG: "x".repeat(257),
};

const bodyOf = (asked: string): unknown => {
  const [, form, given = ""] = /^(\w+) (.*)$/.exec(asked) ?? [];
  const json = given.replaceAll(/USER|SYSTEM|IMAGE|LONG/g, (word) => words[word as keyof typeof words]);
  if (form === "body") return json;
  if (form === "image") return saying([{ type: "image_url", image_url: { url: given } }]);
  const value = JSON.parse(json) as object;
  if (form === "content") return saying(value);
  return form === "with" ? saying("hi", value) : { model: "helper", messages: value };
};

test.each(
  cases
    .trim()
    .split("\n")
    .map((row) => row.trim().split(" | ") as [string, string, string, string]),
)("%s: refused in the public shape, naming the place", async (asked, param, code, message) => {
  const answer = await door.post(bodyOf(asked));
  expect(answer.status).toBe(400);
  expect(await answer.json()).toEqual({
    error: {
      message: expect.stringContaining(message),
      type: "invalid_request_error",
      param: param === "-" ? null : param,
      code,
    },
  });
  expect(door.asked).toEqual([]);
});
