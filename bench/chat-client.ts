import { request } from "node:http";

type Asked = {
  /** Of the service. */
  url: string;
  /** What the user says. */
  text: string;
  /** Absent: a conversation of its own. */
  conversation?: string;
  /** Called with each piece of text or thinking as it arrives. */
  onPiece: (text: string) => void;
};

/** Asks for an answer with live text and reads it to its end. Rejects unless it ends well. */
export const readAnswer = async ({ url, text, conversation, onPiece }: Asked): Promise<void> => {
  const body = JSON.stringify({
    model: "default",
    stream: true,
    metadata: { live_text: "true" },
    messages: [{ role: "user", content: text }],
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const asking = request(`${url}/v1/chat/completions`, {
    method: "POST",
    agent: false,
    headers: {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(body),
      ...(conversation !== undefined && { "x-conversation-id": conversation }),
    },
  });
  asking.once("error", reject);
  asking.once("response", (response) => {
    let rest = "";
    let last = "";
    response.setEncoding("utf8");
    response.on("data", (bytes: string) => {
      const events = (rest + bytes).split("\n\n");
      rest = events.pop() ?? "";
      for (const event of events) {
        last = event;
        if (!event.startsWith("data: {")) continue;
        const { choices, error } = JSON.parse(event.slice("data: ".length)) as Chunk;
        if (error !== undefined) return reject(new Error(`the answer failed: ${error.message}`));
        const { content, reasoning_content: thinking } = choices[0]?.delta ?? {};
        const piece = content ?? thinking;
        if (piece !== undefined) onPiece(piece);
      }
    });
    response.once("close", () => {
      if (response.statusCode === 200 && last === "data: [DONE]") return resolve();
      reject(new Error(`the answer ended with ${response.statusCode} ${last}${rest}`.slice(0, 500)));
    });
  });
  asking.end(body);
  return await promise;
};

type Chunk = {
  choices: { delta: { content?: string; reasoning_content?: string } }[];
  error?: { message: string };
};

/** Milliseconds of the clock that all processes of the machine share and that never jumps. */
export const machineTime = (): number => Number(process.hrtime.bigint()) / 1e6;
