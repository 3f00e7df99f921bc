import { memo, type ReactNode } from "react";
import { Link } from "wouter";
import { oneLine } from "../../../src/view/sanitise.ts";
import type { Match, Session } from "../../../src/contract/transcript.ts";
import { counted } from "../../../src/view/quantities.ts";
import { Money } from "../parts/money.tsx";
import { Ago } from "../parts/time.tsx";
import type { Found } from "./found.ts";

export const addressOf = (id: string, position?: number): string =>
  `/transcripts/${encodeURIComponent(id)}${position === undefined ? "" : `?at=${position}`}`;

/** A session in the list. All of the row opens it, a hit where it stands. */
export const FoundRow = memo(({ found }: { found: Found }) => (
  <div role="listitem" className="found-row">
    {"match" in found ? <Hit match={found.match} /> : <Known session={found.session} />}
  </div>
));

const Hit = ({ match }: { match: Match }) => (
  <>
    <Link className="clamp" href={addressOf(match.session_id, match.position)}>
      <Marked text={match.content_preview} />
    </Link>
    <Facts path={match.project_path} at={match.timestamp}>
      <span>{match.entry_type}</span>
      {match.num_hits > 1 && <span>{match.num_hits.toLocaleString("en")} entries</span>}
    </Facts>
  </>
);

const Known = ({ session }: { session: Session }) => {
  const { session_id: id, title, summary, project_path: path, last_update: at } = session;
  return (
    <>
      <Link className="clamp" href={addressOf(id)}>
        {oneLine(title || summary || id)}
      </Link>
      <Facts path={path} at={at}>
        {session.git_branch !== "" && <span className="mono">{oneLine(session.git_branch)}</span>}
        <span>{counted(session.num_user_turns, "prompt")}</span>
        <span>{counted(session.num_tool_calls, "call")}</span>
        {session.kind !== "session" && <span>{session.kind}</span>}
        {session.cost_usd !== null && <Money usd={session.cost_usd} />}
      </Facts>
    </>
  );
};

type FactsProps = { path: string; at: string | null; children: ReactNode };

const Facts = ({ path, at, children }: FactsProps) => (
  <p className="facts">
    {path !== "" && (
      <span className="mono" title={oneLine(path)}>
        {oneLine(path.split("/").slice(-2).join("/"))}
      </span>
    )}
    {children}
    {at !== null && <Ago at={at} />}
  </p>
);

/** The text with what was found between » and « marked. */
const Marked = ({ text }: { text: string }) =>
  oneLine(text)
    .split(/»([^«]*)«/)
    .map((piece, index) => (index % 2 === 1 ? <mark key={index}>{piece}</mark> : piece));
