import {
  actionTypes,
  type Action,
  type ActionType,
  type Session,
  type SessionMeta,
  type TranscriptOperations,
} from "../contract/transcript.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Handlers } from "../contract/operation.ts";
import type { Skipped } from "./collector.ts";
import { abridged, cutText, fitting, jsonBytes } from "./answer-size.ts";
import {
  boundedEntry,
  entriesBackFrom,
  entriesFrom,
  entryCount,
  knownSession,
  shortenedEntry,
} from "./entry-pages.ts";
import { instantOf } from "./json.ts";
import type { Library } from "./library.ts";
import { sessionText } from "./session-text.ts";

const success = true as const;

type Options = {
  answerBytes: number;
  now: () => number;
  skipped?: (() => Promise<readonly Skipped[]>) | undefined;
};

export const sessionHandlers = (
  library: Library,
  { answerBytes, now, skipped = async () => [] }: Options,
): Pick<
  Handlers<TranscriptOperations>,
  "list_sessions" | "get_session" | "get_session_segment" | "get_session_actions" | "restore_session"
> => ({
  list_sessions: async ({ project, limit, offset, since_hours }) => {
    const updatedSince = since_hours === 0 ? 0 : now() - since_hours * 3_600_000;
    const { total, items } = library.listSessions({ project, limit, offset, updatedSince });
    const { items: sessions, cut } = fitting(items, (session) => session, answerBytes);
    const count = sessions.length;
    const rest = cut ? readOn(offset + count) : total === 0 && skippedHint(await skipped());
    return { success, count, offset, total, sessions, ...rest };
  },

  get_session: async ({ session_id, last_n, include_meta, max_chars }) => {
    const meta = knownSession(library, session_id);
    const total = entryCount(library, session_id);
    const from = last_n === 0 ? 0 : Math.max(0, total - last_n);
    const newest = entriesBackFrom(library, session_id, { from, to: total }).map((entry) => ({
      ...entry,
      content: abridged(entry.content, max_chars),
    }));
    const room = answerBytes - (include_meta ? jsonBytes(meta) : 0);
    const { items, cut } = fitting(newest, shortenedEntry, room);
    const first = total - items.length;
    return {
      success,
      ...(include_meta && { meta }),
      entries: items.toReversed(),
      entry_count: items.length,
      truncated: cut,
      ...(cut && {
        hint:
          first > from
            ? `Only the last ${items.length} entries are here. Read the ones before with get_session_segment, offset ${from} to ${first - 1}, or ask again with max_chars`
            : longEntry,
      }),
    };
  },

  get_session_segment: async ({ session_id, offset, limit, since, until, details }) => {
    knownSession(library, session_id);
    const times = { since: instantOf(since), until: instantOf(until, "end of day") };
    const total_count = entryCount(library, session_id, times);
    const range = { from: offset, to: Math.min(offset + limit, total_count), ...times, details };
    const { items: entries, cut } = fitting(
      entriesFrom(library, session_id, range).map(boundedEntry),
      shortenedEntry,
      answerBytes,
    );
    const count = entries.length;
    const next = offset + count;
    return {
      success,
      session_id,
      total_count,
      offset,
      count,
      truncated: cut,
      entries,
      ...(cut &&
        (next < range.to
          ? readOn(next, "get_session_segment with the same arguments and")
          : { hint: longEntry })),
    };
  },

  get_session_actions: async ({ session_id, action_types, offset }) => {
    knownSession(library, session_id);
    const { calls, actions } = await library.actions(session_id, typesOf(action_types));
    const tools = [...calls].map(([name, count]) => ({ name, count })).toSorted((a, b) => b.count - a.count);
    const known = fitting(tools, (tool) => tool, answerBytes / 4).items;
    const shown = fitting(actions.slice(offset), shortenedAction, (answerBytes * 3) / 4);
    const next = offset + shown.items.length;
    return {
      success,
      session_id,
      total_tool_calls: tools.reduce((sum, { count }) => sum + count, 0),
      unique_tools: tools.length,
      tools: known,
      truncated: shown.cut,
      actions: shown.items,
      ...(shown.cut &&
        readOn(next, `these are ${shown.items.length} of ${actions.length} actions: ask again with`)),
    };
  },

  restore_session: async ({ session_id, last_n }) => {
    const session = knownSession(library, session_id);
    const { text: context, first, cut } = sessionText(library, session, { last: last_n, room: answerBytes });
    return {
      success,
      session_id,
      context,
      char_count: context.length,
      resume_command: resumeCommand(session),
      ...(cut && {
        truncated: true,
        hint: `Read the entries before position ${first} with get_session_segment`,
      }),
    };
  },
});

/** An empty list names what was not read. */
const skippedHint = (skipped: readonly Skipped[]): { hint?: string } => {
  const paths = skipped.map(({ path, reason }) => `${path} (${reason})`);
  return paths.length === 0 ? {} : { hint: abridged(`Not read: ${paths.join(", ")}`, 1000) };
};

export const readOn = (offset: number, how = "ask again with") => ({
  truncated: true,
  hint: `To read on, ${how} offset ${offset}`,
});

const longEntry = "The entry is longer than an answer may be; its end is left out";

const typesOf = (text: string): ActionType[] => {
  const names = text.split(",").flatMap((name) => name.trim() || []);
  const types = actionTypes.filter((type) => names.includes(type));
  const unknown = names.filter((name) => !types.some((type) => type === name));
  if (types.length > 0 && unknown.length === 0) return types;
  const wrong = unknown.length > 0 ? `${JSON.stringify(unknown.join(", "))} is not one` : "there is none";
  throw new ServiceError(
    "invalid_request",
    `action_types: ${wrong}; the types are ${actionTypes.join(", ")}`,
  );
};

const shortenedAction = (action: Action, room: number): Action => ({
  ...action,
  target: cutText(action.target, room - jsonBytes({ ...action, target: "" })),
});

/** A rollout of Codex is named `rollout-TIME-UUID`. */
const resumeCommand = ({ session_id, project_path, cwd, job_id }: SessionMeta & Session): string => {
  const rollout = /^rollout-.*-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/.exec(session_id)?.[1];
  const resume = rollout === undefined ? `claude --resume ${quoted(session_id)}` : `codex resume ${rollout}`;
  // The project of a job is its repository, which may be elsewhere.
  const directory = job_id === null ? project_path : cwd;
  return directory === "" ? resume : `cd ${quoted(directory)} && ${resume}`;
};

const quoted = (word: string): string =>
  /^[\w./@-]+$/.test(word) && !word.startsWith("-") ? word : `'${word.replaceAll("'", "'\\''")}'`;
