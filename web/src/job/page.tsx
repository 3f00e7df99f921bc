import { useEffect, useState } from "react";
import { Redirect, useParams } from "wouter";
import { asksPerson, isFinal, type Job } from "../../../src/contract/job.ts";
import { clock } from "../../../src/view/quantities.ts";
import { ConversationPane } from "../conversation/pane.tsx";
import { useRead } from "../parts/read.ts";
import { Answer, Empty, Failed, Loading, Title } from "../parts/states.tsx";
import { Change } from "../parts/values.tsx";
import { Button } from "../shell/shortcuts.tsx";
import { Asked } from "./asked.tsx";
import { ChangesPane } from "./changes-pane.tsx";
import { DetailsPane, OutputPane } from "./details-pane.tsx";
import { useFollower, type Follower } from "./follow.ts";
import { Banner, JobHeader } from "./header.tsx";
import { Say } from "./say.tsx";
import "./job.css";

export default function JobPage() {
  const { id } = useParams<{ id: string }>();
  const job = useRead("get_job", { job_id: id });
  return (
    <>
      {job.data === undefined && <Title hidden>Job</Title>}
      <Answer query={job}>
        {({ job: found }) =>
          // The address may have only the beginning of the id.
          found.id === id ? (
            <OneJob key={id} job={found} />
          ) : (
            <Redirect to={`/jobs/${found.id}${location.search}${location.hash}`} replace />
          )
        }
      </Answer>
    </>
  );
}

type PaneProps = { job: Job; follower: Follower };

const OneJob = ({ job }: { job: Job }) => {
  const follower = useFollower(job.id);
  const [chosen, choose] = useState(() => new URLSearchParams(location.search).get("pane"));
  const { name, Pane } = panes.find((pane) => pane.name === chosen) ?? panes[0];
  return (
    <div className="column">
      <JobHeader job={job} follower={follower} />
      <Banner job={job} />
      {asksPerson(job.waiting) && <Asked key={job.waiting.id} id={job.id} waiting={job.waiting} />}
      <div role="tablist" className="tabs row" aria-label="The job's parts">
        {panes.map((pane, index) => (
          <Button
            key={pane.name}
            role="tab"
            id={`tab-${pane.name}`}
            aria-selected={pane.name === name}
            aria-controls="pane"
            text={[pane.title, " ", pane.name === "changes" && <Change key="change" stat={job.diff_stat} />]}
            keys={String(index + 1)}
            label={pane.title}
            run={() => {
              history.replaceState(history.state, "", `?pane=${pane.name}`);
              choose(pane.name);
            }}
          />
        ))}
      </div>
      <section role="tabpanel" id="pane" className="grow scrolled" aria-labelledby={`tab-${name}`}>
        <Pane job={job} follower={follower} />
      </section>
      {name === "conversation" && <Say job={job} />}
    </div>
  );
};

/** The event of the address, `#e123`; 0: none. */
const addressed = (): number => Number(/^#e([1-9]\d{0,9})$/.exec(location.hash)?.[1] ?? 0);

const Conversation = ({ job, follower: { conversation, version, failure } }: PaneProps) => {
  version.use();
  const { entries, facts } = conversation;
  const failed = failure.use();
  const [selected, setSelected] = useState(addressed);
  useEffect(() => {
    const read = (): void => setSelected(addressed());
    window.addEventListener("hashchange", read);
    return () => window.removeEventListener("hashchange", read);
  }, []);
  const hasEnded = isFinal(job.status);
  // The job's end may be known before its last events are here.
  const [follows] = useState(!hasEnded);
  if (failed !== null && entries.length === 0) return <Failed error={failed} />;
  if (entries.length === 0) return hasEnded ? <Loading /> : <Empty title="Nothing has happened yet" />;
  return (
    <ConversationPane
      count={entries.length}
      entry={(index) => {
        const entry = entries[index];
        return entry && { ...entry, parts: [entry] };
      }}
      at={selected > 0 && facts.seq >= selected ? conversation.indexOf(selected) : -1}
      select={(index) => {
        const { seq = 0 } = entries[index] ?? {};
        history.replaceState(history.state, "", `#e${seq}`);
        setSelected(seq);
      }}
      mark={(index) => {
        const { seq = 0, at = "" } = entries[index] ?? {};
        return (
          <a className="at number" href={`#e${seq}`} title={`Event ${seq}, ${at}`}>
            {clock(Date.parse(at) - Date.parse(job.created_at))}
          </a>
        );
      }}
      worktree={facts.worktree}
      follows={follows}
      canFind
    />
  );
};

/** The job's parts, `?pane=changes`. A link to an event opens the first. */
const panes = [
  { name: "conversation", title: "Conversation", Pane: Conversation },
  { name: "changes", title: "Changes", Pane: ChangesPane },
  { name: "output", title: "Output", Pane: OutputPane },
  { name: "details", title: "Details", Pane: DetailsPane },
] as const;
