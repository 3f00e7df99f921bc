import type { Collected, Session, SessionMeta } from "../../contract/transcript.ts";
import type { Entry } from "../../contract/transcript-entry.ts";
import type { Layout } from "../../view/paint.ts";
import {
  age,
  aligned,
  bytes,
  cost,
  counted,
  duration,
  factLines,
  table,
  wrap,
  type Column,
} from "../../view/columns.ts";
import { oneLine, sanitise } from "../../view/sanitise.ts";

/** What the commands of bridge print on a terminal. */

const lastSeen = (time: string | null): string => (time === null ? "–" : age(Date.now() - Date.parse(time)));

/** As in svc: eight characters name a session; of Codex's ids those of the UUID. */
const shortId = (id: string): string =>
  oneLine(id.replace(/^rollout-.*-(?=[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$)/, "")).slice(0, 8);

/** The last two parts of a path or a repository's URL, of which the end is shown. */
const shortProject = (path: string): string => {
  const name = oneLine(path)
    .replace(/\/+$|\.git$/g, "")
    .split(/[/:]/)
    .slice(-2)
    .join("/");
  return name.length > 24 ? `…${name.slice(-23)}` : name || "–";
};

const more = (shown: number, all: number, how: string, { paint }: Layout): string[] =>
  shown < all ? [paint("dim", `${shown.toLocaleString("en")} of ${all.toLocaleString("en")}; ${how}`)] : [];

const costColumn: Column<Session> = [
  "COST",
  ({ cost_usd }) => (cost_usd === null ? "–" : cost(cost_usd)),
  "right",
];

type Sessions = { sessions: Session[]; total: number; count: number; offset: number };

export const sessions = ({ sessions: list, total, count, offset }: Sessions, layout: Layout): string =>
  list.length === 0
    ? "No sessions: bridge status shows where they are looked for"
    : [
        ...table(
          list,
          [
            ["SESSION", ({ session_id }) => shortId(session_id)],
            ["AGE", ({ last_update }) => lastSeen(last_update), "right"],
            ["TURNS", (each) => String(each.num_user_turns), "right"],
            ...(list.some(({ cost_usd }) => cost_usd !== null) ? [costColumn] : []),
            ["PROJECT", ({ project_path }) => shortProject(project_path)],
            ["SUMMARY", ({ title, summary }) => oneLine(title || summary)],
          ],
          layout,
        ),
        ...more(count, total, `the next: --offset ${offset + count}`, layout),
      ].join("\n");

type Shown = { meta?: SessionMeta | undefined; entries: Entry[]; hint?: string | undefined };

export const session = ({ meta, entries, hint }: Shown, layout: Layout): string => {
  const facts =
    meta === undefined
      ? []
      : factLines(
          [
            ["Session", oneLine(meta.session_id)],
            ["Project", oneLine(meta.project_path)],
            ["Branch", oneLine(meta.git_branch)],
            ["Started", meta.start_time],
            ["Updated", meta.last_update],
            [
              "Turns",
              `${meta.num_user_turns} of the user, ${meta.num_assistant_turns} of the agent, ${counted(meta.num_tool_calls, "tool call")}`,
            ],
            ["Summary", oneLine(meta.summary), "prose"],
            ["File", oneLine(meta.transcript_path)],
          ],
          layout,
        );
  return [
    ...facts,
    ...entries.flatMap((entry) => ["", ...entryLines(entry, layout)]),
    ...hintLines(hint, layout),
  ].join("\n");
};

const entryLines = (
  { entry_type, timestamp, content, tool_names }: Entry,
  { paint, columns = Infinity }: Layout,
): string[] => {
  const tools = tool_names.length === 0 ? "" : `  ${oneLine(tool_names.join(", "))}`;
  return [
    paint("bold", entry_type) + paint("dim", `  ${timestamp ?? ""}${tools}`),
    ...sanitise(content)
      .split("\n")
      .flatMap((line) => wrap(line, columns)),
  ];
};

const hintLines = (hint: string | undefined, { paint, columns = Infinity }: Layout): string[] =>
  hint === undefined ? [] : ["", ...wrap(hint, columns).map((line) => paint("dim", line))];

type Found = {
  total: number;
  count: number;
  next_cursor: string | null;
  matches: {
    session_id: string;
    project_path: string;
    entry_type: string;
    content_preview: string;
    timestamp: string | null;
    num_hits: number;
  }[];
};

export const matches = (
  { matches: list, total, count, next_cursor: next }: Found,
  layout: Layout,
): string => {
  const { paint, columns = Infinity } = layout;
  if (list.length === 0) return "Nothing found";
  return [
    ...list.flatMap((match) => [
      headOf(match, layout),
      ...wrap(oneLine(match.content_preview), columns).map((line) =>
        line.replaceAll(/»(.*?)«/g, (_, hit: string) => paint("yellow", `»${hit}«`)),
      ),
      "",
    ]),
    ...(next === null ? [] : more(count, total, `the next: --cursor ${next}`, layout)),
  ]
    .join("\n")
    .trimEnd();
};

const headOf = (match: Found["matches"][number], { paint, columns }: Layout): string => {
  const id = shortId(match.session_id);
  const where = foundIn[match.entry_type] ?? match.entry_type;
  const facts = `${lastSeen(match.timestamp)}  ${shortProject(match.project_path)}  ${counted(match.num_hits, "hit")}, the best in ${where}`;
  const [line = ""] = aligned([[id, facts]], { columns });
  return paint("bold", id) + paint("dim", line.slice(id.length));
};

const foundIn: Record<string, string> = {
  user: "a prompt",
  assistant: "what the agent said or did",
  summary: "a title or summary",
  system: "a tool's output",
};

type File = { file_size_bytes: number; last_modified: string };

type Plans = {
  plans: (File & { codename: string; project_path: string; session_ids: string[] })[];
  total: number;
  count: number;
};

export const plans = ({ plans: list, total, count }: Plans, layout: Layout): string =>
  list.length === 0
    ? "No plans"
    : [
        ...table(
          list,
          [
            ["PLAN", ({ codename }) => oneLine(codename)],
            ["AGE", ({ last_modified }) => lastSeen(last_modified), "right"],
            ["SIZE", ({ file_size_bytes }) => bytes(file_size_bytes), "right"],
            ["PROJECT", ({ project_path }) => oneLine(project_path) || "–"],
          ],
          layout,
        ),
        ...more(count, total, "more with --limit", layout),
      ].join("\n");

type Memory = { files: (File & { project_encoded: string; filename: string })[] };

export const memoryFiles = ({ files }: Memory, layout: Layout): string =>
  files.length === 0
    ? "No memory files"
    : table(
        files,
        [
          ["FILE", ({ filename }) => oneLine(filename)],
          ["AGE", ({ last_modified }) => lastSeen(last_modified), "right"],
          ["SIZE", ({ file_size_bytes }) => bytes(file_size_bytes), "right"],
          ["PROJECT", ({ project_encoded }) => oneLine(project_encoded)],
        ],
        layout,
      ).join("\n");

type Prompts = {
  entries: { display: string; timestamp: string | null; project: string; session_id: string }[];
  total: number;
  count: number;
};

export const history = ({ entries, total, count }: Prompts, layout: Layout): string =>
  entries.length === 0
    ? "No prompts"
    : [
        ...table(
          entries,
          [
            ["AGE", ({ timestamp }) => lastSeen(timestamp), "right"],
            ["PROJECT", ({ project }) => oneLine(project).split("/").at(-1) || "–"],
            ["PROMPT", ({ display }) => oneLine(display)],
          ],
          layout,
        ),
        ...more(count, total, "more with --limit", layout),
      ].join("\n");

export const collected = (body: Collected): string =>
  `${counted(body.files_scanned, "file")} looked at in ${duration(body.duration_ms)}: ${[
    `${counted(body.sessions_updated, "session")} updated`,
    `${body.entries_added.toLocaleString("en")} entries`,
    `${body.history_entries_added.toLocaleString("en")} prompts`,
    `${counted(body.plans_indexed, "plan")}`,
    `${counted(body.memory_files_indexed, "memory file")}`,
  ].join(", ")}`;

type Places = {
  sessions: number;
  store: string;
  index: string;
  homes: readonly string[];
  orchestrator: string;
};

export const status = (
  { sessions: count, store, index, homes, orchestrator }: Places,
  layout: Layout,
): string =>
  factLines(
    [
      ["Sessions", count.toLocaleString("en")],
      ["Read from", homes.map(oneLine).join("\n")],
      ["Store", oneLine(store)],
      ["Index", oneLine(index)],
      ["Orchestrator", oneLine(orchestrator)],
    ],
    layout,
  ).join("\n");

export const text = (content: string): string => sanitise(content).trimEnd();
