import { once } from "node:events";
import { Agent, request, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { operations, type Operations } from "../../src/contract/operations.ts";
import { mcpDoors } from "../mcp-doors.ts";
import type { Service } from "../service-process.ts";
import { isRecord, type Question } from "./question.ts";
import { written } from "./spoilt.ts";

/** What came of a question; without a status the door has none, or we have left (`left`), or it is the door's `fault`. */
export type Answer = {
  door: string;
  status?: number | undefined;
  type?: string | undefined;
  body: string;
  fault?: string;
  left?: boolean;
};

/** Milliseconds after which we leave what never ends and what may take its time, and after which anything must be answered. */
const patience = { endless: 200, mayWait: 2000, mustNot: 30_000 };

/** Milliseconds after which we leave; null: it must be answered. */
const longestWait = (method: string, path: string): number | null => {
  if (path.startsWith("/jobs/changes")) return patience.endless;
  const mayWait = method === "POST" || method === "DELETE" || /wait|events|sse/.test(path);
  return mayWait ? patience.mayWait : null;
};

const ids = ["job_id", "worktree_id", "session_id", "uuid"];

/** Asks the service over the door that the question chooses. Ids in its answers are used in later questions. */
export const openDoors = (service: Service, repository: string) => {
  const agent = new Agent({ keepAlive: true });
  const { hostname, port } = new URL(service.url);
  const unknown = "00000000-0000-4000-8000-000000000000";
  const known = new Map([["repo", repository], ...ids.map((name) => [name, unknown] as const)]);

  const http = async (question: Question): Promise<Answer> => {
    const { method, path, headers, body } = onTheWire(question, known);
    const answer = { door: path.startsWith("/v1") ? "chat" : "REST", body: "" };
    const leaveAfter = longestWait(method, path);
    const signal = AbortSignal.timeout(leaveAfter ?? patience.mustNot);
    const outgoing = request({ hostname, port, agent, method, path, headers, signal });
    try {
      outgoing.end(body);
      const [incoming] = (await once(outgoing, "response")) as [IncomingMessage];
      const { statusCode: status, headers } = incoming;
      return { ...answer, status, type: headers["content-type"], body: await text(incoming) };
    } catch (error) {
      const { code } = error as { code?: string };
      const wasCut = code === "ECONNRESET" || code === "EPIPE";
      // What is too large is refused while it is still being sent, and the connection ends.
      if ((signal.aborted && leaveAfter !== null) || (wasCut && body.length > 1_000_000))
        return { ...answer, left: true };
      if (wasCut && outgoing.reusedSocket) return http(question);
      return { ...answer, fault: `no answer: ${String(error)}` };
    }
  };

  const broken = async (bytes: string): Promise<Answer> => {
    const socket = connect(Number(port), hostname);
    let received = "";
    socket.on("error", () => undefined).on("data", (data: Buffer) => (received += data.toString()));
    socket.write(bytes);
    await Promise.race([once(socket, "close"), delay(500)]);
    socket.destroy();
    const [, status, body] = /^HTTP\/1\.1 (\d+)[^]*?\r\n\r\n([^]*)$/.exec(received) ?? [];
    return status === undefined
      ? { door: "broken", body: "", left: true }
      : { door: "broken", status: Number(status), body: body ?? "" };
  };

  const mcp = async (question: Question, { name, ask }: (typeof mcpDoors)[number]): Promise<Answer> => {
    const { operationId, parameters, body } = question;
    const input = written(isRecord(body) ? { ...parameters, ...body } : parameters, known);
    const answer = { door: name.replace(/,.*/, ""), body: "" };
    try {
      const asked = ask(service, {
        operation: operationId as keyof Operations,
        input: JSON.parse(input) as Record<string, string>,
      });
      const answered = await Promise.race([asked, delay(patience.mayWait)]);
      // Whatever becomes of one that was left is not looked at.
      asked.catch(() => undefined);
      return answered === undefined
        ? { ...answer, left: true }
        : { ...answer, body: JSON.stringify(answered) };
    } catch (error) {
      const { message } = error as Error;
      // What is no message that is taken is refused by the transport: the client throws.
      return /"code":-32(700|600)\b/.test(message)
        ? { ...answer, body: message }
        : { ...answer, fault: message };
    }
  };

  const ask = (question: Question): Promise<Answer> => {
    if (question.broken !== null) return broken(question.broken);
    const door = mcpDoors[question.door % (2 * mcpDoors.length)];
    const isTool = question.operationId in operations && Object.keys(question.spoilt).length === 0;
    return door !== undefined && isTool ? mcp(question, door) : http(question);
  };

  return {
    ask: async (question: Question): Promise<Answer> => {
      const answer = await ask(question);
      for (const name of ids) {
        const id = new RegExp(`"${name === "job_id" ? "id" : name}":"([\\w-]{36})"`).exec(answer.body)?.[1];
        if (id !== undefined) known.set(name, id);
      }
      return answer;
    },
    close: () => agent.destroy(),
  };
};

const onTheWire = (question: Question, known: ReadonlyMap<string, string>) => {
  const { method, path, parameters, headers, body, spoilt } = question;
  const asText = (value: unknown): string =>
    encodeURIComponent(written(value, known).replaceAll(/^"|"$/g, "").slice(0, 3000).toWellFormed());
  const left = new Map(Object.entries(parameters));
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = asText(left.get(name));
    left.delete(name);
    // These would make another path of it.
    return /^\.{0,2}$/.test(value) ? "x" : value;
  });
  const query = [...left].map(([name, value]) => `${asText(name)}=${asText(value)}`);
  if (spoilt.query !== undefined) query.push(spoilt.query);
  const content = body === undefined ? "" : written(body, known);
  const bytes = Buffer.from(spoilt.body?.(content) ?? content);
  const texts = Object.entries(headers).map(([name, value]) => [
    name,
    String(value).replaceAll(/[^ -~]/g, "?"),
  ]);
  return {
    method: (spoilt.method ?? method).toUpperCase(),
    path: `${filled}${spoilt.path ?? ""}?${query.join("&")}`,
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...(bytes.length > 0 &&
        spoilt.headers?.["transfer-encoding"] === undefined && { "content-length": bytes.length }),
      ...(Object.fromEntries(texts) as Record<string, string>),
      ...spoilt.headers,
    },
    body: bytes,
  };
};
