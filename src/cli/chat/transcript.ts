import type { ChatChunk, ChatEventType } from "../../client/chat.ts";
import type { Paint } from "../text/paint.ts";
import { unfenced } from "./fenced.ts";
import type { Kind } from "./kinds.ts";
import { createLiveSanitiser } from "./live-sanitise.ts";
import { shownKinds } from "./shown-kinds.ts";
import { callLabel, callLine, resultLines } from "./tool-lines.ts";

/** Writes one answer as it comes: blocks of thinking, text and tools, a blank line between them. */
export type Transcript = {
  take: (chunk: ChatChunk) => void;
  /** Ends the line that is open. */
  end: () => void;
  /** Tool results of which only the beginning was shown, whole and harmless. */
  shortened: () => readonly string[];
};

export type TranscriptOptions = {
  write: (text: string) => void;
  paint: Paint;
  /** Of the terminal now; undefined: there is none. */
  columns: () => number | undefined;
  hide: ReadonlySet<Kind>;
  /** Tool results whole. */
  full: boolean;
};

type Choice = ChatChunk["choices"][number];
type Block = "thinking" | "text" | "tools";

export const createTranscript = ({ write, paint, columns, hide, full }: TranscriptOptions): Transcript => {
  const live = createLiveSanitiser();
  const calls = new Map<string, string>();
  const shortened: string[] = [];
  let open: Block | null = null;
  let lastCall: string | undefined;
  let began = false;
  /** Nothing of this block is written yet: line breaks at its beginning are left out. */
  let fresh = true;
  let atLineStart = true;
  /** Line breaks that are written only when something follows them in the block. */
  let breaks = "";

  const enter = (block: Block): void => {
    if (open === block) return;
    close();
    if (began) write("\n");
    open = block;
    began = true;
    fresh = true;
  };

  const close = (): void => {
    if (open === "thinking" || open === "text") writeProse(live.end(), open);
    if (!atLineStart) write("\n");
    atLineStart = true;
    breaks = "";
    open = null;
  };

  const writeProse = (text: string, block: "thinking" | "text"): void => {
    const all = fresh ? text.replace(/^\s*\n/, "") : breaks + text;
    const body = all.replace(/\n+$/, "");
    breaks = all.slice(body.length);
    if (body === "") return;
    fresh = false;
    for (const [index, line] of body.split("\n").entries()) {
      if (index > 0) write("\n");
      atLineStart = index > 0 || atLineStart;
      if (block === "text") write(line);
      else write(paint(["dim", "italic"], (atLineStart ? bar : "") + line));
      atLineStart = false;
    }
  };

  const writeLines = (lines: string[]): void => {
    write(lines.map((line) => `${line}\n`).join(""));
  };

  const prose = (text: string, block: "thinking" | "text", whole: boolean): void => {
    if (whole) close();
    enter(block);
    writeProse(live.push(text), block);
    if (whole) close();
  };

  const toolUse = (id: string, name: string, content: string): void => {
    const label = callLabel(name, unfenced(content));
    calls.set(id, label);
    lastCall = id;
    enter("tools");
    writeLines([callLine(label, { paint, columns: columns() })]);
  };

  const toolResult = (id: string, isError: boolean, content: string): void => {
    enter("tools");
    const label = id === lastCall ? null : (calls.get(id) ?? null);
    lastCall = undefined;
    const text = unfenced(content);
    const result = resultLines({ text, isError, label, full }, { paint, columns: columns() });
    writeLines(result.lines);
    if (result.whole !== null) shortened.push(result.whole);
  };

  const takeChoice = ({ delta, ...tags }: Choice): void => {
    const { reasoning_content: thinking, content } = delta;
    if (thinking && !hide.has("thinking")) prose(thinking, "thinking", false);
    const type = tags.x_service_event_type;
    if (!content || isHidden(type, hide)) return;
    const id = tags.x_service_tool_use_id ?? "";
    if (type === "tool_use") toolUse(id, tags.x_service_tool_name ?? "tool", content);
    else if (type === "tool_result") toolResult(id, tags.x_service_is_error === true, content);
    else if (type === "stream_config") prose(shownKinds(content), "text", true);
    else prose(content, "text", type !== undefined);
  };

  return {
    take: (chunk) => chunk.choices.forEach(takeChoice),
    end: close,
    shortened: () => shortened,
  };
};

const isHidden = (type: ChatEventType | undefined, hide: ReadonlySet<Kind>): boolean => {
  if (type === "tool_use" || type === "tool_result") return hide.has("tools");
  if (type === "narration" || type === "final" || type === "thinking") return hide.has(type);
  return type === undefined && hide.has("narration") && hide.has("final");
};

const bar = "│ ";
