import { unfenced, type ChatChunk, type ChatEventType } from "../../client/chat.ts";
import type { Visibility } from "../../contract/visibility.ts";
import type { Kind } from "../options.ts";
import type { Paint } from "../../view/paint.ts";
import { createLiveWrap, cut, counted } from "../../view/columns.ts";
import { bar, call, thought } from "../../view/rows.ts";
import { createLiveSanitiser, sanitise } from "../../view/sanitise.ts";
import { toolCall } from "../../view/narration.ts";

/** Writes one answer live: blocks of thinking, text and tools, separated by blank lines. */
export type Transcript = {
  take: (chunk: ChatChunk) => void;
  /** Ends an unfinished line. */
  end: () => void;
  /** Tool results that were shown in part only, whole and sanitised. */
  shortened: () => readonly string[];
};

export type TranscriptOptions = {
  write: (text: string) => void;
  paint: Paint;
  /** Columns of the terminal now; undefined: there is no terminal. */
  columns: () => number | undefined;
  hide: ReadonlySet<Kind>;
  /** Whether to show tool results whole. */
  full: boolean;
};

type Choice = ChatChunk["choices"][number];
type Block = "thinking" | "text" | "tools";

export const createTranscript = ({ write, paint, columns, hide, full }: TranscriptOptions): Transcript => {
  const live = createLiveSanitiser();
  const wrapping = createLiveWrap();
  const calls = new Map<string, string>();
  const shortened: string[] = [];
  let open: Block | null = null;
  let lastCall: string | undefined;
  let began = false;
  /** Nothing of this block is written yet: leading line breaks are dropped. */
  let isEmpty = true;
  let atLineStart = true;
  /** Line breaks that are written only when more of the block follows. */
  let breaks = "";

  const enter = (block: Block): void => {
    if (open === block) return;
    close();
    if (began) write("\n");
    open = block;
    began = true;
    isEmpty = true;
  };

  const close = (): void => {
    if (open === "thinking" || open === "text")
      writeProse(wrapping.push(live.end(), room(open)) + wrapping.end(room(open)), open);
    if (!atLineStart) write("\n");
    atLineStart = true;
    breaks = "";
    open = null;
  };

  const writeProse = (text: string, block: "thinking" | "text"): void => {
    const all = isEmpty ? text.replace(/^\s*\n/, "") : breaks + text;
    const body = all.replace(/\n+$/, "");
    breaks = all.slice(body.length);
    if (body === "") return;
    isEmpty = false;
    for (const [index, line] of body.split("\n").entries()) {
      if (index > 0) write("\n");
      atLineStart = index > 0 || atLineStart;
      if (block === "text") write(line);
      else write(paint(thought, (atLineStart ? bar : "") + line));
      atLineStart = false;
    }
  };

  const writeLines = (lines: string[]): void => {
    write(lines.map((line) => `${line}\n`).join(""));
  };

  const prose = (text: string, block: "thinking" | "text", whole: boolean): void => {
    if (whole) close();
    enter(block);
    writeProse(wrapping.push(live.push(text), room(block)), block);
    if (whole) close();
  };

  const toolUse = (id: string, name: string, content: string): void => {
    const label = toolCall(name, parsed(unfenced(content)), null);
    calls.set(id, label);
    lastCall = id;
    enter("tools");
    writeLines([paint("cyan", fit(`${call} ${label}`))]);
  };

  const toolResult = (id: string, isError: boolean, content: string): void => {
    enter("tools");
    const harmless = sanitise(unfenced(content)).trimEnd();
    const all = (harmless === "" ? "(nothing)" : harmless).split("\n");
    const shown = full
      ? all
      : all.slice(0, maxLines).map((line) => fit(line.slice(0, maxLineLength), indent.length));
    const left = all.length - shown.length;
    const label = id === lastCall ? undefined : calls.get(id);
    lastCall = undefined;
    const rows = [
      ...(label === undefined ? [] : [fit(`of ${label}`, indent.length)]),
      ...shown,
      ...(left === 0 ? [] : [`… ${counted(left, "more line")}`]),
    ];
    writeLines(rows.map((row, index) => paint(isError ? "red" : "dim", (index === 0 ? mark : indent) + row)));
    if (shown.join("\n") !== all.join("\n")) shortened.push(harmless);
  };

  const room = (block: Block): number => (columns() ?? Infinity) - (block === "thinking" ? bar.length : 0);

  /** The line, cut to the terminal below this many columns of margin. */
  const fit = (line: string, margin = 0): string => cut(line, Math.max(20, columns() ?? Infinity) - margin);

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

const mark = "  ⎿ ";
const indent = "    ";

/** Lines of a result that are shown. */
const maxLines = 6;

/** Characters of a line that are shown: results may be one line of megabytes. */
const maxLineLength = 2000;

/** The service's visibility, the answer to `/stream-status`, in words; another text unchanged. */
const shownKinds = (content: string): string => {
  const value = parsed(content);
  if (typeof value !== "object" || value === null || !("show_thinking" in value)) return content;
  const visibility = value as Visibility;
  const shows: Record<Kind, boolean> = {
    thinking: visibility.show_thinking,
    tools: visibility.show_tools,
    narration: visibility.show_text && visibility.show_narration,
    final: visibility.show_text && visibility.show_final,
  };
  const list = (shown: boolean): string =>
    Object.entries(shows)
      .filter(([, isShown]) => isShown === shown)
      .map(([kind]) => kind)
      .join(", ") || "nothing";
  return `The agent shows: ${list(true)}\nIt hides: ${list(false)}\nThis holds for everyone who talks to it.`;
};

/** The value of a JSON text; another text unchanged. */
const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};
