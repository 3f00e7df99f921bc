import { useMutation } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useLocation } from "wouter";
import { retryInput } from "../../../src/client/again.ts";
import { continueInput } from "../../../src/contract/message.ts";
import { isFinal, type Job, type Usage } from "../../../src/contract/job.ts";
import { faultOf } from "../../../src/view/advice.ts";
import { isDraft, leftRed } from "../../../src/view/checks.ts";
import { stateOf } from "../../../src/view/paint.ts";
import { cost, duration } from "../../../src/view/quantities.ts";
import { timeOf } from "../../../src/view/stages.ts";
import { refusedLines } from "../../../src/view/sandbox.ts";
import { oneLine, sanitise } from "../../../src/view/sanitise.ts";
import { pauseLine } from "../../../src/view/waiting.ts";
import { Dialog, Form } from "../parts/dialog.tsx";
import { Title } from "../parts/states.tsx";
import { Copy, Duration, hasChange, isWeb, Repository, State, useNow } from "../parts/values.tsx";
import { client, newKey } from "../shell/service.ts";
import { Button, useShortcut } from "../shell/shortcuts.tsx";
import { setJob, type Follower } from "./follow.ts";

type Props = { job: Job; follower: Follower };

/** What the job is, how it stands, and what can be done with it. */
export const JobHeader = ({ job, follower }: Props) => {
  follower.version.use();
  const { facts } = follower.conversation;
  const usage = job.usage ?? facts.usage;
  const usd = job.cost_usd ?? facts.costUsd;
  return (
    <header className="job-header stack">
      <div className="headline row between">
        <Title state={stateOf(job)}>{oneLine(job.task.slice(0, 500))}</Title>
        <Actions job={job} />
      </div>
      <ul className="facts">
        <li>
          <span role="status">
            <State status={stateOf(job)} />
          </span>
        </li>
        <Fact>{pauseLine(job)}</Fact>
        <Outcome job={job} />
        <Silence job={job} last={facts.at} />
        <Fact className="fault">{leftRed(job)}</Fact>
        <Fact>{job.repo_url && <Repository url={job.repo_url} />}</Fact>
        <Fact className="mono">{job.branch && oneLine(`${job.base_ref} → ${job.branch}`)}</Fact>
        <Fact>{oneLine(`${job.profile} (${job.profile_rule})`)}</Fact>
        <Fact>{oneLine(job.model ?? facts.model ?? "")}</Fact>
        <Fact className="mono">{usd !== null && cost(usd, job.cost_estimated)}</Fact>
        <Fact className="mono">{usage && tokens(usage)}</Fact>
        <Fact>{job.started_at && <Duration from={job.started_at} to={job.ended_at} />}</Fact>
      </ul>
      {job.summary !== null && (
        <p className="words" tabIndex={0}>
          {sanitise(job.summary)}
        </p>
      )}
      <Stages job={job} live={facts.stages} />
    </header>
  );
};

/** What came of it, and why it failed; a word for both is said once. */
const Outcome = ({ job: { outcome, failure_reason: why } }: { job: Job }) => (
  <>
    <Fact>{outcome !== why && outcome?.replaceAll("_", " ")}</Fact>
    <Fact className="fault">{why?.replaceAll("_", " ")}</Fact>
  </>
);

/** How long nothing has been heard of the agent, once that is long. */
const Silence = ({ job, last }: { job: Job; last: string }) => {
  const ms = useNow() - Date.parse(last || job.created_at);
  return job.status === "running" && ms >= 30_000 && <Fact>nothing new for {duration(ms)}</Fact>;
};

const Fact = ({ children, className }: { children: ReactNode; className?: string }) =>
  Boolean(children) && <li className={className}>{children}</li>;

const tokens = (usage: Usage): string => {
  const read = usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
  return `${short.format(read)} in, ${short.format(usage.output_tokens)} out`;
};

const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** What is asked before it is done. */
const questions = {
  cancel: {
    title: "Cancel this job?",
    yes: "Cancel the job",
    text: "The agent is stopped. What it has done so far is kept.",
  },
  again: {
    title: "Run this task again?",
    yes: "Run again",
    text: "A new job gets the same task, repository, profile and options, and begins anew.",
  },
  continue: {
    title: "Continue the session",
    yes: "Continue",
    text: "What should the agent do next? It knows the conversation so far.",
  },
};

type Asked = keyof typeof questions;

const Actions = ({ job }: { job: Job }) => {
  const [asked, ask] = useState<Asked | null>(null);
  const hasEnded = isFinal(job.status);
  const checkout = `svc checkout ${job.id.slice(0, 8)}`;
  const isChanged = hasChange(job);
  useShortcut("o", "Open the pull request", () => {
    if (isWeb(job.pr_url)) window.open(job.pr_url, "_blank", "noopener");
  });
  useShortcut("y", "Copy the checkout line", () => {
    if (isChanged) void navigator.clipboard?.writeText(checkout);
  });
  return (
    <div className="row wrap">
      {isWeb(job.pr_url) && (
        <a href={job.pr_url} target="_blank" rel="noreferrer">
          {isDraft(job) ? "Draft" : "Pull request"}
        </a>
      )}
      {isChanged && <Copy text={checkout} label="Copy checkout" />}
      {hasEnded && job.session_id !== null && (
        <Button text="Continue" keys="c" label="Continue the session" run={() => ask("continue")} />
      )}
      {hasEnded ? (
        <Button text="Run again" keys="r" label="Run the task again" run={() => ask("again")} />
      ) : (
        <Button text="Cancel" keys="x" label="Cancel the job" run={() => ask("cancel")} />
      )}
      {asked !== null && <Question job={job} asked={asked} close={() => ask(null)} />}
    </div>
  );
};

type QuestionProps = { job: Job; asked: Asked; close: () => void };

const Question = ({ job, asked, close }: QuestionProps) => {
  // The same task is submitted once, however often it is asked for: another one gets another key.
  const [{ task, idempotencyKey }, setDraft] = useState(() => ({ task: "", idempotencyKey: newKey() }));
  const [, navigate] = useLocation();
  const action = useMutation({
    mutationFn: async () => {
      if (asked === "cancel") return client().cancel_job({ job_id: job.id });
      const isNew = asked === "again";
      const input = isNew ? await retryInput(client(), job) : continueInput(job, job.session_id ?? "", task);
      return client().run_task(input, { idempotencyKey });
    },
    onSuccess: ({ job: current }) => {
      setJob(current);
      close();
      if (current.id !== job.id) navigate(`/jobs/${current.id}`);
    },
  });
  const { title, yes, text } = questions[asked];
  const lacksFiles = asked === "again" && job.options.files.length > 0;
  const isReady = asked === "continue" ? task.trim() !== "" : !lacksFiles;
  return (
    <Dialog title={title} onClose={close} wide={asked === "continue"}>
      <Form yes={yes} action={action} isReady={isReady}>
        {asked !== "continue" && (
          <p>
            {lacksFiles
              ? `The service does not give the job's files back: svc retry ${job.id.slice(0, 8)} --attach names them again.`
              : text}
          </p>
        )}
        {asked === "continue" && (
          <label className="stack">
            {text}
            <textarea
              rows={5}
              maxLength={100_000}
              value={task}
              onChange={({ target }) => setDraft({ task: target.value, idempotencyKey: newKey() })}
            />
          </label>
        )}
      </Form>
    </Dialog>
  );
};

/** What the job's time went into: each part as wide as it took. */
const Stages = ({ job, live }: { job: Job; live: readonly Job["stages"][number][] }) => {
  const now = useNow();
  // Events come before the job is read again.
  const stages = live.length > job.stages.length ? live : job.stages;
  const parts = timeOf([...stages], { ...job, now });
  return (
    <ol className="stages facts small" aria-label="Where the time went">
      {parts.map(({ name, at, ms, attempt, isNow }, index) => {
        const isLast = index === parts.length - 1;
        return (
          <li
            key={`${name}-${attempt}-${at}`}
            title={at}
            data-status={isLast ? (isNow ? "running" : job.status) : undefined}
            // The root keeps short parts in sight beside one of an hour.
            style={{ flexGrow: Math.sqrt(ms) }}
          >
            <span className={isLast ? undefined : "wide-only"}>
              {name}
              {attempt > 1 && ` ${attempt}`}
              <span className="number"> {duration(ms)}</span>
            </span>
          </li>
        );
      })}
    </ol>
  );
};

/** Why the job failed, what to do about it, and its warnings: above all of its parts. */
export const Banner = ({ job }: { job: Job }) => {
  const { warnings } = job;
  const { error, advice } = faultOf(job, "page");
  const refused = refusedLines(job);
  if (error === null && advice === null && warnings.length + refused.length === 0) return null;
  return (
    <section
      className="banner"
      data-status={job.status === "failed" ? "failed" : "other"}
      aria-label="Error and warnings"
      tabIndex={0}
    >
      {error !== null && <p className="words">{error}</p>}
      {advice !== null && <p>What to do: {advice}</p>}
      {refused.map((line) => (
        <p key={line}>Refused: {line}</p>
      ))}
      {warnings.map((warning, index) => (
        <p key={index}>Warning: {oneLine(warning)}</p>
      ))}
    </section>
  );
};
