import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { randomUUID } from "node:crypto";
import { basename, join } from "node:path";
import { writeLine } from "./write.mjs";

/** The session's transcript where the real CLI keeps it; a resumed one is appended to. */
export const openTranscript = ({ sessionId, resume }) => {
  if (resume !== undefined) return resumed(resume);
  const session = sessionId ?? randomUUID();
  const file = fileOf(session);
  if (existsSync(file)) {
    process.stderr.write(`Error: Session ID ${session} is already in use.\n`);
    process.exit(1);
  }
  return {
    session,
    earlierPrompts: 0,
    deferred: null,
    interject: interjecter(file),
    interrupted: null,
    add: appender(file, session),
    note: noter(file),
    noteInterrupted: () => appendFileSync(file, interruption),
  };
};

const resumed = (resume) => {
  const file = resume.endsWith(".jsonl") ? resume : fileOf(resume);
  const session = basename(file, ".jsonl");
  if (!existsSync(file)) {
    const message = `No conversation found with session ID: ${session}`;
    writeLine({
      type: "result",
      subtype: "error_during_execution",
      is_error: true,
      num_turns: 0,
      duration_ms: 0,
      session_id: randomUUID(),
      total_cost_usd: 0,
      errors: [message],
      uuid: randomUUID(),
    });
    process.stderr.write(`${message}\n`);
    process.exit(1);
  }
  const lines = readFileSync(file, "utf8").split("\n");
  const earlierPrompts = lines.filter((line) => line.startsWith('{"type":"user"')).length;
  return {
    session,
    earlierPrompts,
    deferred: deferredOf(lines),
    interrupted: interruptedOf(lines),
    add: appender(file, session),
    note: noter(file),
    interject: interjecter(file),
    noteInterrupted: () => appendFileSync(file, interruption),
  };
};

/** Noted when a request of the model was refused. */
const interruption = '{"note":"refused","type":"assistant","isApiErrorMessage":true}\n';

/** The prompt of the last turn, and how often it was interrupted; null: it was not. */
const interruptedOf = (lines) => {
  const at = lines.findLastIndex((line) => line.startsWith('{"type":"user"'));
  const times = lines.slice(at).filter((line) => `${line}\n` === interruption).length;
  return times === 0 ? null : { times, prompt: JSON.parse(lines[at]).message.content[0].text };
};

/** What was said in the middle of a turn is no line of the user's own. */
const interjecter = (file) => (source_uuid, prompt) => {
  const attachment = { type: "queued_command", prompt, source_uuid, commandMode: "prompt" };
  appendFileSync(file, `${JSON.stringify({ interjected: true, type: "attachment", attachment })}\n`);
};

/** As in the original, without a note nothing is left of a question: who was killed while it asked has lost it. */
const deferredOf = (lines) => {
  const last = lines.findLast((line) => line.startsWith('{"note":true'));
  const { attachment } = last === undefined ? {} : JSON.parse(last);
  if (attachment === undefined) return null;
  const { toolUseID: id, toolName: name, toolInput: input, prompt } = attachment;
  return { id, name, input, prompt };
};

/** Notes that a call is deferred, or, with its result, that it is settled. */
const noter =
  (file) =>
  ({ id, name, input, prompt }, content) => {
    const attachment = {
      type: "hook_deferred_tool",
      toolUseID: id,
      toolName: name,
      toolInput: input,
      prompt,
    };
    const result = { role: "user", content: [{ type: "tool_result", tool_use_id: id, content }] };
    const line =
      content === undefined ? { type: "attachment", attachment } : { type: "user", message: result };
    appendFileSync(file, `${JSON.stringify({ note: true, ...line })}\n`);
  };

const appender =
  (file, session) =>
  (type, text, uuid = randomUUID()) => {
    const entry = {
      type,
      uuid,
      sessionId: session,
      cwd: process.cwd(),
      timestamp: new Date().toISOString(),
    };
    try {
      mkdirSync(join(file, ".."), { recursive: true });
      appendFileSync(
        file,
        `${JSON.stringify({ ...entry, message: { role: type, content: [{ type: "text", text }] } })}\n`,
      );
    } catch {
      // As the real one: an unwritable configuration directory costs the transcript, not the run.
    }
  };

const fileOf = (session) => {
  const config = process.env.CLAUDE_CONFIG_DIR ?? join(process.env.HOME ?? "/nonexistent", ".claude");
  return join(config, "projects", process.cwd().replace(/[^a-zA-Z0-9]/g, "-"), `${session}.jsonl`);
};
