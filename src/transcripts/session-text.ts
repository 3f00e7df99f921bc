import type { Session, SessionMeta } from "../contract/transcript.ts";
import type { Entry } from "../contract/transcript-entry.ts";
import { cutText, fitting } from "./answer-size.ts";
import { entriesBackFrom, entryCount } from "./entry-pages.ts";
import type { Library } from "./library.ts";

/** A session as a text that people and agents can read: what is known about it, and its last entries. */
export const sessionText = (
  library: Library,
  session: SessionMeta & Session,
  { last, room }: { last: number; room: number },
) => {
  const total = entryCount(library, session.session_id);
  const from = Math.max(0, total - last);
  const header = headerOf(session);
  const newest = entriesBackFrom(library, session.session_id, { from, to: total });
  const { items, cut } = fitting(newest.map(entryText), cutText, room - Buffer.byteLength(header) - 500);
  const first = total - items.length;
  const left = first > 0 ? `(${first} earlier entries are left out)\n\n` : "";
  return { text: `${header}\n\n${left}${items.toReversed().join("\n\n")}\n`, first, cut };
};

const headerOf = (session: SessionMeta & Session): string => {
  const { session_id, title, summary, project_path, git_branch, start_time, last_update } = session;
  const facts = {
    Session: session_id,
    Project: project_path,
    Branch: git_branch,
    Started: start_time ?? "",
    "Last active": last_update ?? "",
    Summary: summary,
  };
  const lines = Object.entries(facts).flatMap(([name, value]) => (value === "" ? [] : `- ${name}: ${value}`));
  return `# ${title || summary || session_id}\n\n${lines.join("\n")}`;
};

export const entryText = ({ entry_type, timestamp, content, tool_names }: Entry): string =>
  [
    `## ${entry_type}${timestamp === null ? "" : ` (${timestamp})`}`,
    ...(content === "" ? [] : [content]),
    ...(tool_names.length === 0 ? [] : [`[tools: ${tool_names.join(", ")}]`]),
  ].join("\n\n");
