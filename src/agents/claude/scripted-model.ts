import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** A model for one turn, at a port of 127.0.0.1: it has the agent run the command, then report. */
export const serveScriptedModel = async (command: string): Promise<AsyncDisposable & { url: string }> => {
  const server = createServer((request, response) => {
    text(request).then(
      (question) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        for (const event of eventsFor(question, command))
          response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
        response.end();
      },
      () => response.destroy(),
    );
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await once(server.close(), "close");
    },
  };
};

/** A question has the result of the command, or offers the tool for it, or is one that the CLI asks beside the turn. */
const eventsFor = (question: string, command: string) => {
  if (question.includes('"tool_result"'))
    return toolUse("StructuredOutput", { outcome: "changed", summary: "It works" });
  if (question.includes('"name":"Bash"')) return toolUse("Bash", { command, description: "Writes a file" });
  return events({ type: "text", text: "" }, { type: "text_delta", text: "Yes" }, "end_turn");
};

const toolUse = (name: string, input: object) =>
  events(
    { type: "tool_use", id: `toolu_${name}`, name, input: {} },
    { type: "input_json_delta", partial_json: JSON.stringify(input) },
    "tool_use",
  );

const events = (content_block: object, delta: object, stop_reason: string) => {
  const usage = { input_tokens: 1, output_tokens: 1 };
  const message = { id: "msg_1", type: "message", role: "assistant", model: "scripted", content: [], usage };
  return [
    { type: "message_start", message },
    { type: "content_block_start", index: 0, content_block },
    { type: "content_block_delta", index: 0, delta },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason }, usage },
    { type: "message_stop" },
  ];
};
