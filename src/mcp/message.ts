/**
 * A JSON-RPC message, or a batch of them, without the params that are null: clients write null for what they do not give.
 * Arguments of a tool keep theirs, because the tool's schema says which of them may be null.
 */
export const lenientMessage = (message: unknown): unknown => {
  if (Array.isArray(message)) return message.map(lenientMessage);
  if (!isObject(message) || !("params" in message)) return message;
  const { params, ...rest } = message;
  return params === null ? rest : { ...rest, params: withoutNulls(params) };
};

const withoutNulls = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (!isObject(value)) return value;
  const fields = Object.entries(value).filter(([, field]) => field !== null);
  return Object.fromEntries(
    fields.map(([name, field]) => [name, name === "arguments" ? field : withoutNulls(field)]),
  );
};

/** Does the same to a line with a message. Other lines stay as they are. */
export const lenientLine = (line: string): string => {
  if (!line.includes("null")) return line;
  try {
    return JSON.stringify(lenientMessage(JSON.parse(line)));
  } catch {
    return line;
  }
};

/** How a client takes an answer: in JSON, as a stream, either of them. */
export type AnswerForm = "auto" | "json" | "sse";

/** The form for an `Accept` header, in which wildcards count; none is as good as any. Null: neither form will do. */
export const answerForm = (accept: string | null): AnswerForm | null => {
  const ranges = (accept || "*/*").split(",").map((range) => range.split(";", 1).join().trim().toLowerCase());
  const takes = (type: string): boolean =>
    [type, type.replace(/\/.*/, "/*"), "*/*"].some((range) => ranges.includes(range));
  const [json, sse] = [takes("application/json"), takes("text/event-stream")];
  return json && sse ? "auto" : json ? "json" : sse ? "sse" : null;
};

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
