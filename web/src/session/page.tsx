import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useParams, useSearchParams } from "wouter";
import { oneLine } from "../../../src/view/sanitise.ts";
import type { Session, SessionMeta } from "../../../src/contract/transcript.ts";
import { counted } from "../../../src/view/quantities.ts";
import { Empty } from "../parts/states.tsx";
import { Ago } from "../parts/time.tsx";
import { Title } from "../parts/title.tsx";
import { client } from "../shell/service.ts";
import { askBridge } from "../transcripts/bridge.ts";
import { BridgeAnswer } from "../transcripts/bridge-states.tsx";
import { ConversationPane } from "./conversation-pane.tsx";
import { useEntries } from "./entries.ts";
import "../transcripts/transcripts.css";
import "./session.css";

/** Its fields are more than its schema names. */
type Known = SessionMeta & Partial<Session>;

export default function SessionPage() {
  const { id } = useParams<{ id: string }>();
  const meta = useQuery({
    queryKey: ["bridge", "session", id],
    queryFn: async ({ signal }): Promise<Known> => {
      const { meta: found } = await askBridge(
        "get_session",
        { session_id: id, last_n: 1, max_chars: 1 },
        signal,
      );
      if (found === undefined) throw new Error("The transcript service tells nothing about this session");
      return found;
    },
    retry: false,
  });
  return (
    <>
      {meta.data === undefined && <Title hidden>Session</Title>}
      <BridgeAnswer query={meta}>{(found) => <OneSession key={id} meta={found} />}</BridgeAnswer>
    </>
  );
}

const OneSession = ({ meta }: { meta: Known }) => {
  const { session_id: id, start_time: start } = meta;
  const at = useAt();
  // What is chosen later is among what is read.
  const [opened] = useState(at ?? 0);
  const loaded = useEntries(id, opened);
  return (
    <div className="session">
      <Header meta={meta} />
      <BridgeAnswer query={loaded.query}>
        {() =>
          loaded.total === 0 ? (
            <Empty title="Nothing is said in this session" />
          ) : (
            <ConversationPane
              session={id}
              project={meta.project_path}
              begin={start === null ? 0 : Date.parse(start)}
              at={at}
              loaded={loaded}
            />
          )
        }
      </BridgeAnswer>
    </div>
  );
};

/** The position of the address, `?at=12`. */
const useAt = (): number | null => {
  const [params] = useSearchParams();
  const text = params.get("at") ?? "";
  return /^\d{1,9}$/.test(text) ? Number(text) : null;
};

const Header = ({ meta }: { meta: Known }) => {
  const { session_id: id, title, summary, project_path: path, git_branch: branch, model, last_update } = meta;
  const job = useQuery({
    queryKey: ["job-of-session", id],
    queryFn: ({ signal }) => client().list_jobs({ session_id: id, limit: 1 }, { signal }),
    staleTime: Infinity,
  }).data?.jobs[0]?.id;
  return (
    <header>
      <Title>{oneLine((title || summary || id).slice(0, 500))}</Title>
      <p className="facts">
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
