import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link, useLocation, useParams, useSearchParams } from "wouter";
import { oneLine } from "../../../src/view/sanitise.ts";
import type { Session, SessionMeta } from "../../../src/contract/transcript.ts";
import type { Detail, Entry as Said } from "../../../src/contract/transcript-entry.ts";
import { clock, counted } from "../../../src/view/quantities.ts";
import type { Entry, Part } from "../conversation/entry.ts";
import { ConversationPane } from "../conversation/pane.tsx";
import { Empty, FurtherFailed, Title } from "../parts/states.tsx";
import { useRead } from "../parts/read.ts";
import { Ago } from "../parts/values.tsx";
import { addressOf, askBridge, BridgeAnswer } from "../transcripts/bridge.tsx";
import { Button } from "../shell/shortcuts.tsx";

/** Its fields are more than its schema names. */
type Known = SessionMeta & Partial<Session>;

export default function SessionPage() {
  const { id } = useParams<{ id: string }>();
  const meta = useQuery({
    queryKey: ["bridge", "session", id],
    queryFn: async ({ signal }): Promise<Known> => {
      const input = { session_id: id, last_n: 1, max_chars: 1 };
      const { meta: found } = await askBridge("get_session", input, signal);
      if (found === undefined) throw new Error("The transcript service tells nothing about this session");
      return found;
    },
    retry: false,
  });
  return (
    <>
      {meta.data === undefined && <Title hidden>Session</Title>}
      <BridgeAnswer query={meta}>
        {(found) => (
          <div className="column">
            <Header meta={found} />
            <Conversation key={id} meta={found} />
          </div>
        )}
      </BridgeAnswer>
    </>
  );
}

const Header = ({ meta }: { meta: Known }) => {
  const { session_id: id, title, summary, project_path: path, git_branch: branch, model, last_update } = meta;
  const job = useRead("list_jobs", { session_id: id, limit: 1 }).data?.jobs[0]?.id;
  return (
    <header className="strip stack">
      <Title>{oneLine((title || summary || id).slice(0, 500))}</Title>
      <p className="facts small">
        {path !== "" && <span className="mono">{oneLine(path)}</span>}
        {branch !== "" && <span className="mono">{oneLine(branch)}</span>}
        {model !== undefined && model !== "" && <span>{oneLine(model)}</span>}
        <span>{counted(meta.num_user_turns, "prompt")}</span>
        <span>{counted(meta.num_tool_calls, "call")}</span>
        {last_update !== null && <Ago at={last_update} />}
        {job !== undefined && <Link href={`/jobs/${job}`}>The job</Link>}
      </p>
    </header>
  );
};

/** The session's entries around the position of the address, `?at=12`. More is read where it is scrolled to. */
const Conversation = ({ meta: { session_id: id, start_time, project_path } }: { meta: Known }) => {
  const [, navigate] = useLocation();
  const [params] = useSearchParams();
  const asked = /^\d{1,9}$/.exec(params.get("at") ?? "")?.[0];
  // What is chosen later is among what is read.
  const [opened] = useState(Number(asked ?? 0));
  const { query, first, entries, total } = useEntries(id, opened);
  const { isFetching, error, hasPreviousPage, isFetchPreviousPageError, isFetchNextPageError } = query;
  const end = first + entries.length;
  const shown = asked === undefined ? -1 : Math.min(Number(asked), total - 1) - first;
  const earlier = (): void => void query.fetchPreviousPage();
  const later = (): void => void query.fetchNextPage();
  const readFurther = (top: number, bottom: number, isBackward: boolean): void => {
    if (isFetching) return;
    const isAtTop = entries.length === 0 || (top < 3 && isBackward);
    if (bottom >= entries.length - 5 && end < total && !isFetchNextPageError) later();
    else if (isAtTop && hasPreviousPage && !isFetchPreviousPageError) earlier();
  };
  const mark = (index: number) => {
    const { type = "", at = null } = entries[index] ?? {};
    const place = first + index;
    const ms = at === null ? 0 : Date.parse(at) - Date.parse(start_time ?? at);
    return (
      <>
        <Link
          className="at number"
          href={addressOf(id, place)}
          replace
          title={`Entry ${place}, ${at ?? "time unknown"}`}
        >
          {at === null ? place : clock(Math.max(0, ms))}
        </Link>
        <span className="visually-hidden">{type}</span>
      </>
    );
  };
  const edge = (hasFailed: boolean, isThere: boolean, text: string, run: () => void) =>
    hasFailed ? (
      <FurtherFailed error={error} retry={run} />
    ) : (
      isThere && <Button text={text} className="edge" disabled={isFetching} run={run} />
    );
  return (
    <BridgeAnswer query={query}>
      {() =>
        total === 0 ? (
          <Empty title="Nothing is said in this session" />
        ) : (
          <ConversationPane
            count={entries.length}
            entry={(index) => entries[index]}
            at={shown < entries.length ? shown : -1}
            select={(index) => navigate(addressOf(id, first + index), { replace: true })}
            mark={mark}
            worktree={project_path || null}
            growsUp
            onView={readFurther}
            head={edge(isFetchPreviousPageError, hasPreviousPage, `Show earlier (${first})`, earlier)}
            foot={edge(isFetchNextPageError, end >= total, "Look for new entries", later)}
          />
        )
      }
    </BridgeAnswer>
  );
};

type Read = { from: number; entries: Said[]; total: number };
type Range = { from: number; size: number };

const partSize = 25;

/** How many entries are read before the one that is asked for. */
const before = 8;

/** The entries around position `at`, which grow both ways. */
const useEntries = (id: string, at: number) => {
  const query = useInfiniteQuery({
    queryKey: ["bridge", "entries", id, at],
    queryFn: ({ pageParam, signal }) => readPart(id, pageParam, signal),
    initialPageParam: { from: Math.max(0, at - before), size: partSize },
    getPreviousPageParam: ({ from }: Read): Range | null =>
      from === 0 ? null : { from: Math.max(0, from - partSize), size: Math.min(partSize, from) },
    // Also at its end: a session may go on.
    getNextPageParam: ({ from, entries }: Read): Range => ({ from: from + entries.length, size: partSize }),
    staleTime: Infinity,
    structuralSharing: false,
    retry: false,
  });
  const pages = query.data?.pages;
  const read = useMemo(() => {
    const all = (pages ?? []).flatMap(({ entries }) => entries);
    const first = pages?.[0]?.from ?? 0;
    const results = new Map<string, Result>();
    for (const detail of all.flatMap(({ details = [] }) => details))
      if (detail.kind === "result") results.set(detail.call_id, detail);
    const entries = all.map((said, index) => ({
      at: said.timestamp,
      ...entryOf(said, first + index, results),
    }));
    return { first, entries, total: pages?.at(-1)?.total ?? 0 };
  }, [pages]);
  return { query, ...read };
};

/** As many entries as asked for, or up to the end: one answer has as many as fit into it. */
const readPart = async (id: string, { from, size }: Range, signal: AbortSignal): Promise<Read> => {
  const entries: Said[] = [];
  for (;;) {
    const offset = from + entries.length;
    const range = { session_id: id, offset, limit: size - entries.length, details: true };
    const part = await askBridge("get_session_segment", range, signal);
    entries.push(...part.entries);
    if (part.count === 0 || entries.length >= size)
      // The address may name an entry that there is not.
      return { from: Math.min(from, part.total_count), entries, total: part.total_count };
  }
};

type Result = Extract<Detail, { kind: "result" }>;

const entryOf = (said: Said, seq: number, results: ReadonlyMap<string, Result>): Entry => {
  const { entry_type: type, content, details = [] } = said;
  const isWords = type === "user" || type === "assistant";
  const title = type === "summary" ? "Summary" : "System";
  const words: Part = isWords ? { type: "text", text: content } : { type: "folded", title, text: content };
  const parts = details.flatMap((detail): Part[] => {
    if (detail.kind === "thinking") return [{ type: "thinking", text: detail.text }];
    // A result stands with its call.
    if (detail.kind === "result") return [];
    const { text, is_error: isError } = results.get(detail.call_id) ?? {};
    const result = text === undefined ? null : { text, isError: isError === true };
    return [{ type: "tool", name: detail.name, input: detail.input, result }];
  });
  return { seq, type, isLive: false, parts: content === "" ? parts : [words, ...parts] };
};
