import { useQuery } from "@tanstack/react-query";
import { useEffect, useState, type ReactNode } from "react";
import { Redirect, useParams } from "wouter";
import { isFinal, type Job } from "../../../src/contract/job.ts";
import { clock } from "../../../src/view/quantities.ts";
import { Change } from "../parts/change.tsx";
import { ConversationPane } from "../conversation/pane.tsx";
import { Answer, Empty, Failed, Loading } from "../parts/states.tsx";
import { Title } from "../parts/title.tsx";
import { client } from "../shell/service.ts";
import { useShortcut } from "../shell/shortcuts.tsx";
import { Banner } from "./banner.tsx";
import { ChangesPane } from "./changes-pane.tsx";
import { DetailsPane, OutputPane } from "./details-pane.tsx";
import { jobKey, useFollower, type Follower } from "./follow.ts";
import { JobHeader } from "./header.tsx";
import "./job.css";

export default function JobPage() {
  const { id } = useParams<{ id: string }>();
  const job = useQuery({
    queryKey: jobKey(id),
    queryFn: ({ signal }) => client().get_job({ job_id: id }, { signal }),
  });
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

const OneJob = ({ job }: { job: Job }) => {
  const follower = useFollower(job.id);
  return (
    <div className="job column">
      <JobHeader job={job} follower={follower} />
      <Banner job={job} />
      <Panes job={job} follower={follower} />
    </div>
  );
};

type Pane = { name: string; title: string; count?: ReactNode; content: () => ReactNode };

const Panes = ({ job, follower }: { job: Job; follower: Follower }) => {
  const panes: Pane[] = [
    {
      name: "conversation",
      title: "Conversation",
      content: () => <Conversation job={job} follower={follower} />,
    },
    {
      name: "changes",
      title: "Changes",
      count: <Change stat={job.diff_stat} />,
      content: () => <ChangesPane job={job} follower={follower} />,
    },
    { name: "output", title: "Output", content: () => <OutputPane job={job} /> },
    { name: "details", title: "Details", content: () => <DetailsPane job={job} /> },
  ];
  const [chosen, choose] = usePane(panes.map(({ name }) => name));
  return (
    <>
      <div role="tablist" className="tabs" aria-label="The job's parts">
        {panes.map((pane, index) => (
          <Tab
            key={pane.name}
            pane={pane}
            keys={String(index + 1)}
            isChosen={pane.name === chosen}
            choose={choose}
          />
        ))}
      </div>
      <section role="tabpanel" id="pane" className="pane" aria-labelledby={`tab-${chosen}`}>
        {panes.find(({ name }) => name === chosen)?.content()}
      </section>
    </>
  );
};

type TabProps = { pane: Pane; keys: string; isChosen: boolean; choose: (name: string) => void };

const Tab = ({ pane: { name, title, count }, keys, isChosen, choose }: TabProps) => {
  useShortcut(keys, title, () => choose(name));
  return (
    <button
      type="button"
      role="tab"
      id={`tab-${name}`}
      aria-selected={isChosen}
      aria-controls="pane"
      onClick={() => choose(name)}
    >
      {title} {count}
    </button>
  );
};

/** The pane of the address, `?pane=changes`; the first where it names none. A link to an event opens the conversation. */
const usePane = (names: string[]): [string, (name: string) => void] => {
  const [chosen, setChosen] = useState(() => new URLSearchParams(location.search).get("pane") ?? "");
  const choose = (name: string): void => {
    history.replaceState(history.state, "", `?pane=${name}`);
    setChosen(name);
  };
  return [names.find((name) => name === chosen) ?? names[0] ?? "", choose];
};

/** The event of the address, `#e123`; 0: none. */
const addressed = (): number => Number(/^#e([1-9]\d{0,9})$/.exec(location.hash)?.[1] ?? 0);

const Conversation = ({ job, follower }: { job: Job; follower: Follower }) => {
  const { conversation, version, failure } = follower;
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
      follows={!hasEnded}
      canFind
    />
  );
};
