import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useState, type ReactNode } from "react";
import { Link, useLocation } from "wouter";
import type { Match, Session } from "../../../src/contract/transcript.ts";
import { bytes, counted } from "../../../src/view/quantities.ts";
import { oneLine } from "../../../src/view/sanitise.ts";
import { useAddress } from "../parts/address.ts";
import { Filters } from "../parts/filters.tsx";
import { Empty, Title } from "../parts/states.tsx";
import { Ago, Money } from "../parts/values.tsx";
import { VirtualList } from "../parts/virtual-list.tsx";
import { addressOf, askBridge, BridgeAnswer, type BridgeInput, type BridgeOutput } from "./bridge.tsx";
import { Button, useShortcut } from "../shell/shortcuts.tsx";

/** What is searched for, as the address has it. Empty: not narrowed; without words the newest sessions are listed. */
type Asked = Record<"q" | "project" | "role" | "since", string>;

const everything: Asked = { q: "", project: "", role: "", since: "" };

/** A session, or the best hit in one. */
type Found = Session | Match;

const isHit = (found: Found): found is Match => "position" in found;

/** `next`: where the next page begins, as text; null: there is none. `reading`: how much of the files is read so far. */
type Page = { found: Found[]; total: number; next: string | null; reading: string };

type Collecting = Pick<BridgeOutput<"list_sessions">, "collecting" | "collected_bytes" | "total_bytes">;

const readingOf = ({ collecting, collected_bytes: read = 0, total_bytes: all = 0 }: Collecting) =>
  collecting === true ? ` · ${bytes(read)} of ${bytes(all)} read so far` : "";

const limit = 50;

const readHits = async (
  { q: query, ...asked }: Asked,
  cursor: string,
  signal: AbortSignal,
): Promise<Page> => {
  // The service says what it does not know.
  const input = { query, ...asked, cursor, limit, include_active: true } as BridgeInput<"search_sessions">;
  const answer = await askBridge("search_sessions", input, signal);
  const { matches: found, total, next_cursor: next } = answer;
  return { found, total, next, reading: readingOf(answer) };
};

const readNewest = async ({ project, since }: Asked, offset: number, signal: AbortSignal): Promise<Page> => {
  const hours = since === "" ? 0 : Math.ceil((Date.now() - Date.parse(since)) / 3_600_000);
  const input = { project, since_hours: Math.max(0, hours || 0), limit, offset };
  const answer = await askBridge("list_sessions", input, signal);
  const { sessions: found, total } = answer;
  const end = offset + found.length;
  const next = end < total && found.length > 0 ? String(end) : null;
  return { found, total, next, reading: readingOf(answer) };
};

/** The sessions that fit, a page at a time: by words the best first, else the last updated first. */
const useFound = (asked: Asked) =>
  useInfiniteQuery({
    queryKey: ["bridge", "found", asked],
    queryFn: ({ pageParam, signal }) =>
      asked.q.trim() === ""
        ? readNewest(asked, Number(pageParam), signal)
        : readHits(asked, pageParam, signal),
    initialPageParam: "",
    getNextPageParam: ({ next }: Page) => next,
    retry: false,
    refetchInterval: ({ state }) => ((state.data?.pages[0]?.reading ?? "") === "" ? false : 5000),
    // While other words are searched for, the list stays.
    placeholderData: (before) => before,
  });

export default function TranscriptsPage() {
  const [asked, change] = useAddress(["q", "project", "role", "since"]);
  const query = useFound(asked);
  const { data } = query;
  const found = useMemo(() => data?.pages.flatMap((page) => page.found) ?? [], [data]);
  const projects = [...new Set(found.map((each) => each.project_path))].filter(Boolean);
  const nameOf = (path: string): string => oneLine(path.split("/").at(-1) ?? path);
  const [at, setAt] = useState(-1);
  const [, navigate] = useLocation();
  const select = (index: number): void => setAt(Math.max(0, Math.min(found.length - 1, index)));
  useShortcut("j", "Next session", () => select(at + 1));
  useShortcut("k", "Session before", () => select(at - 1));
  useShortcut("Enter", "Open the session", () => {
    const chosen = found[at];
    if (chosen !== undefined) navigate(hrefOf(chosen));
  });
  return (
    <div className="column">
      <Title hidden>Transcripts</Title>
      <Filters
        search="Search transcripts"
        choices={[
          { name: "project", label: "Project", offered: projects, shown: nameOf },
          { name: "role", label: "Said by", offered: ["user", "assistant", "system", "summary"] },
        ]}
        asked={asked}
        change={change}
      >
        <span className="end faint number" role="status">
          {data?.pages[0] && counted(data.pages[0].total, "session")}
          {data?.pages[0]?.reading}
        </span>
      </Filters>
      <BridgeAnswer query={query}>
        {() =>
          found.length === 0 ? (
            <Nothing isNarrowed={Object.values(asked).some(Boolean)} show={() => change(everything)} />
          ) : (
            <VirtualList
              role="list"
              aria-label={asked.q === "" ? "Newest sessions" : "Sessions with hits"}
              items={found}
              keyOf={(each) => each.session_id}
              estimate={64}
              measured
              query={query}
              active={at}
              row={(each, index) => <FoundRow found={each} isSelected={index === at} />}
            />
          )
        }
      </BridgeAnswer>
    </div>
  );
}

const hrefOf = (found: Found): string =>
  addressOf(found.session_id, isHit(found) ? found.position : undefined);

/** A session in the list. All of the row opens it, a hit where it stands. */
const FoundRow = ({ found, isSelected }: { found: Found; isSelected: boolean }) => {
  const { session_id: id, project_path: path } = found;
  const at = isHit(found) ? found.timestamp : found.last_update;
  return (
    <div role="listitem" className="strip stack opens" data-selected={isSelected}>
      <Link className="clamp whole" href={hrefOf(found)}>
        {isHit(found) ? marked(found.content_preview) : oneLine(found.title || found.summary || id)}
      </Link>
      <p className="facts small">
        {path !== "" && (
          <span className="mono" title={oneLine(path)}>
            {oneLine(path.split("/").slice(-2).join("/"))}
          </span>
        )}
        {isHit(found) ? <HitFacts {...found} /> : <SessionFacts {...found} />}
        {at !== null && <Ago at={at} />}
      </p>
    </div>
  );
};

const HitFacts = ({ entry_type, num_hits }: Match) => (
  <>
    <span>{entry_type}</span>
    {num_hits > 1 && <span>{num_hits.toLocaleString("en")} entries</span>}
  </>
);

const SessionFacts = (session: Session) => (
  <>
    {session.git_branch !== "" && <span className="mono">{oneLine(session.git_branch)}</span>}
    <span>{counted(session.num_user_turns, "prompt")}</span>
    <span>{counted(session.num_tool_calls, "call")}</span>
    {session.kind !== "session" && <span>{session.kind}</span>}
    {session.cost_usd !== null && <Money usd={session.cost_usd} />}
  </>
);

/** The text with what was found between » and « marked. */
const marked = (text: string): ReactNode =>
  oneLine(text)
    .split(/»([^«]*)«/)
    .map((piece, index) => (index % 2 === 1 ? <mark key={index}>{piece}</mark> : piece));

const Nothing = ({ isNarrowed, show }: { isNarrowed: boolean; show: () => void }) =>
  isNarrowed ? (
    <Empty title="No session has this">
      All words must occur in one entry. <code>"a phrase"</code>, <code>OR</code>, <code>-not</code> and{" "}
      <code>prefix*</code> work. <Button text="Show all sessions" run={show} />
    </Empty>
  ) : (
    <Empty title="No sessions yet">
      Sessions of coding agents are found where <code>BRIDGE_AGENT_HOME</code> says.{" "}
      <code>bridge status</code> shows what is read.
    </Empty>
  );
