import type { Answer } from "../contract/operation.ts";
import type { Entry } from "../contract/transcript-entry.ts";
import type { Session, TranscriptOperations } from "../contract/transcript.ts";
import { aligned, factLines, list, quiet, wrap, type Column } from "./columns.ts";
import type { Layout } from "./paint.ts";
import { age, bytes, cost, counted, duration } from "./quantities.ts";
import { oneLine, sanitise } from "./sanitise.ts";

type Of<Name extends keyof TranscriptOperations> = Answer<TranscriptOperations[Name]>;

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

const more = (shown: number, all: number, how: string): string[] =>
  shown < all ? [`${shown.toLocaleString("en")} of ${all.toLocaleString("en")}; ${how}`] : [];

const right = { right: true } as const;

const sessions = (
  { sessions: found, total, count, offset, hint }: Of<"list_sessions">,
  layout: Layout,
): string => {
  const costs: Column<Session>[] = [
    ["COST", ({ cost_usd: usd }) => (usd === null ? "–" : cost(usd)), { right: true, leaves: 1 }],
  ];
  return list(
    found,
    [
      ["SESSION", ({ session_id }) => shortId(session_id)],
      ["AGE", ({ last_update }) => lastSeen(last_update), right],
      ["TURNS", (each) => String(each.num_user_turns), right],
      ...(found.some(({ cost_usd }) => cost_usd !== null) ? costs : []),
      ["PROJECT", ({ project_path }) => shortProject(project_path)],
      ["SUMMARY", ({ title, summary }) => oneLine(title || summary)],
    ],
    {
      empty: "No sessions: bridge status shows where they are looked for",
      below:
        found.length === 0 && hint !== undefined
          ? [oneLine(hint)]
          : more(count, total, `the next: --offset ${offset + count}`),
      ...layout,
    },
  );
};

const session = ({ meta, entries, hint }: Of<"get_session">, layout: Layout): string => {
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
    ...(hint === undefined ? [] : ["", ...quiet([hint], layout)]),
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

const matches = (
  { matches: found, total, count, next_cursor: next }: Of<"search_sessions">,
  layout: Layout,
): string => {
  const { paint, columns = Infinity } = layout;
  if (found.length === 0) return "Nothing found";
  return [
    ...found.flatMap((match) => [
      headOf(match, layout),
      ...wrap(oneLine(match.content_preview), columns).map((line) =>
        line.replaceAll(/»(.*?)«/g, (_, hit: string) => paint("yellow", `»${hit}«`)),
      ),
      "",
    ]),
    ...quiet(next === null ? [] : more(count, total, `the next: --cursor ${next}`), layout),
  ]
    .join("\n")
    .trimEnd();
};

const headOf = (match: Of<"search_sessions">["matches"][number], { paint, columns }: Layout): string => {
  const id = shortId(match.session_id);
  const facts = `${lastSeen(match.timestamp)}  ${shortProject(match.project_path)}  ${counted(match.num_hits, "hit")}, the best in ${foundIn[match.entry_type]}`;
  const [line = ""] = aligned([[id, facts]], { columns });
  return paint("bold", id) + paint("dim", line.slice(id.length));
};

const foundIn: Record<Entry["entry_type"], string> = {
  user: "a prompt",
  assistant: "what the agent said or did",
  summary: "a title or summary",
  system: "a tool's output",
};

const file: Column<{ file_size_bytes: number; last_modified: string }>[] = [
  ["AGE", ({ last_modified }) => lastSeen(last_modified), right],
  ["SIZE", ({ file_size_bytes }) => bytes(file_size_bytes), right],
];

const collected = (body: Of<"collect_now">): string =>
  `${counted(body.files_scanned, "file")} looked at in ${duration(body.duration_ms)}: ${[
    `${counted(body.sessions_updated, "session")} updated`,
    `${body.entries_added.toLocaleString("en")} entries`,
    `${body.history_entries_added.toLocaleString("en")} prompts`,
    `${counted(body.plans_indexed, "plan")}`,
    `${counted(body.memory_files_indexed, "memory file")}`,
  ].join(", ")}`;

const content = ({ content: text }: { content: string }): string => sanitise(text).trimEnd();

/** How `bridge` shows the answer of each operation that is a command. */
export const transcriptViews = {
  list_sessions: sessions,
  get_session: session,
  search_sessions: matches,
  list_plans: ({ plans, total, count }, layout) =>
    list(
      plans,
      [
        ["PLAN", ({ codename }) => oneLine(codename)],
        ...file,
        ["PROJECT", ({ project_path }) => oneLine(project_path) || "–"],
      ],
      { empty: "No plans", below: more(count, total, "more with --limit"), ...layout },
    ),
  get_plan: content,
  list_memory_files: ({ files }, layout) =>
    list(
      files,
      [
        ["FILE", ({ filename }) => oneLine(filename)],
        ...file,
        ["PROJECT", ({ project_encoded }) => oneLine(project_encoded)],
      ],
      { empty: "No memory files", ...layout },
    ),
  get_memory_file: content,
  search_history: ({ entries, total, count }, layout) =>
    list(
      entries,
      [
        ["AGE", ({ timestamp }) => lastSeen(timestamp), right],
        ["PROJECT", ({ project }) => oneLine(project).split("/").at(-1) || "–"],
        ["PROMPT", ({ display }) => oneLine(display)],
      ],
      { empty: "No prompts", below: more(count, total, "more with --limit"), ...layout },
    ),
  collect_now: collected,
} satisfies { [Name in keyof TranscriptOperations]?: (answer: Of<Name>, layout: Layout) => string };
