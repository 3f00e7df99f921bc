import { useMutation } from "@tanstack/react-query";
import { useEffect, useId, useRef, useState, type FormEvent, type ReactNode } from "react";
import { useLocation } from "wouter";
import { continueInput, retryInput } from "../../../src/client/again.ts";
import { isFinal, type Job, type Usage } from "../../../src/contract/job.ts";
import { cost } from "../../../src/view/quantities.ts";
import { oneLine } from "../../../src/view/sanitise.ts";
import { hasChange } from "../parts/change.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { isWeb, Repository } from "../parts/repository.tsx";
import { State } from "../parts/state.tsx";
import { Duration } from "../parts/time.tsx";
import { Title } from "../parts/title.tsx";
import { newKey } from "../parts/new-key.ts";
import { client } from "../shell/service.ts";
import { useShortcut } from "../shell/shortcuts.tsx";
import { Copy } from "./copy.tsx";
import { setJob, type Follower } from "./follow.ts";
import { Stages } from "./stages.tsx";

type Props = { job: Job; follower: Follower };

/** What the job is, how it stands, and what can be done with it. */
export const JobHeader = ({ job, follower }: Props) => {
  follower.version.use();
  const { facts } = follower.conversation;
  const usage = job.usage ?? facts.usage;
  return (
    <header className="job-header">
      <div className="headline">
        <Title state={job.status}>{oneLine(job.task.slice(0, 500))}</Title>
        <Actions job={job} />
      </div>
      <ul className="facts">
        <li>
          <span role="status">
            <State status={job.status} />
          </span>
        </li>
        {job.failure_reason !== null && (
          <li className="removed">{job.failure_reason.replaceAll("_", " ")}</li>
        )}
        {job.repo_url !== "" && (
          <li>
            <Repository url={job.repo_url} />
          </li>
        )}
        <Fact mono>{job.branch === null ? null : `${job.base_ref} → ${job.branch}`}</Fact>
        <Fact>{`${job.profile} (${job.profile_rule})`}</Fact>
        <Fact>{job.model ?? facts.model}</Fact>
        <Fact mono>{nullOr(job.cost_usd ?? facts.costUsd, (usd) => cost(usd, job.cost_estimated))}</Fact>
        <Fact mono>{nullOr(usage, tokens)}</Fact>
        {job.started_at !== null && (
          <li>
            <Duration from={job.started_at} to={job.ended_at} />
          </li>
        )}
      </ul>
      <Stages job={job} live={facts.stages} />
    </header>
  );
};

const Fact = ({ children, mono = false }: { children: string | null; mono?: boolean }) =>
  children === null || children === "" ? null : <li className={mono ? "mono" : ""}>{oneLine(children)}</li>;

const nullOr = <Value,>(value: Value | null, text: (value: Value) => string): string | null =>
  value === null ? null : text(value);

const tokens = (usage: Usage): string => {
  const read = usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
  return `${short.format(read)} in, ${short.format(usage.output_tokens)} out`;
};

const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

type Asking = "cancel" | "again" | "continue" | null;

const Actions = ({ job }: { job: Job }) => {
  const [asking, ask] = useState<Asking>(null);
  const hasEnded = isFinal(job.status);
  const close = (): void => ask(null);
  const checkout = `svc checkout ${job.id.slice(0, 8)}`;
  const isChanged = hasChange(job);
  const canContinue = hasEnded && job.session_id !== null;
  useShortcut("x", "Cancel the job", () => !hasEnded && ask("cancel"));
  useShortcut("r", "Run the task again", () => hasEnded && ask("again"));
  useShortcut("c", "Continue the session", () => canContinue && ask("continue"));
  useShortcut(
    "o",
    "Open the pull request",
    () => isWeb(job.pr_url) && window.open(job.pr_url, "_blank", "noopener"),
  );
  useShortcut(
    "y",
    "Copy the checkout line",
    () => isChanged && void navigator.clipboard?.writeText(checkout),
  );
  return (
    <div className="actions row">
      {isWeb(job.pr_url) && (
        <a href={job.pr_url} target="_blank" rel="noreferrer">
          Pull request
        </a>
      )}
      {isChanged && <Copy text={checkout} label="Copy checkout" />}
      {canContinue && (
        <button type="button" onClick={() => ask("continue")}>
          Continue
        </button>
      )}
      {hasEnded ? (
        <button type="button" onClick={() => ask("again")}>
          Run again
        </button>
      ) : (
        <button type="button" onClick={() => ask("cancel")}>
          Cancel
        </button>
      )}
      {asking === "cancel" && <CancelDialog job={job} close={close} />}
      {asking === "again" && <AgainDialog job={job} close={close} />}
      {asking === "continue" && <ContinueDialog job={job} close={close} />}
    </div>
  );
};

type DialogProps = { job: Job; close: () => void };

const CancelDialog = ({ job: { id }, close }: DialogProps) => {
  const cancel = useMutation({
    mutationFn: () => client().cancel_job({ job_id: id }),
    onSuccess: (answer) => {
      setJob(answer.job);
      close();
    },
  });
  return (
    <Question title="Cancel this job?" yes="Cancel the job" action={cancel} close={close}>
      The agent is stopped. What it has done so far is kept.
    </Question>
  );
};

const AgainDialog = ({ job, close }: DialogProps) => {
  const { files } = job.options;
  const again = useSubmission(() => retryInput(client(), job));
  return (
    <Question
      title="Run this task again?"
      yes="Run again"
      action={again}
      close={close}
      isRefused={files.length > 0}
    >
      {files.length === 0
        ? "A new job gets the same task, repository, profile and options, and begins anew."
        : `The service does not give the job's files back: svc retry ${job.id.slice(0, 8)} --file names them again.`}
    </Question>
  );
};

type QuestionProps = {
  title: string;
  yes: string;
  children: ReactNode;
  action: { mutate: () => void; error: Error | null; isPending: boolean };
  close: () => void;
  isRefused?: boolean;
};

const Question = ({ title, yes, children, action, close, isRefused = false }: QuestionProps) => {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => button.current?.focus(), []);
  return (
    <Dialog title={title} onClose={close}>
      <form onSubmit={submitting(action.mutate)}>
        <p>{children}</p>
        <Fault error={action.error} />
        <button ref={button} type="submit" className="primary" disabled={action.isPending || isRefused}>
          {yes}
        </button>
      </form>
    </Dialog>
  );
};

const ContinueDialog = ({ job, close }: DialogProps) => {
  const [task, setTask] = useState("");
  const field = useId();
  const next = useSubmission(() => continueInput(job, job.session_id ?? "", task));
  const isReady = task.trim() !== "" && !next.isPending;
  return (
    <Dialog title="Continue the session" onClose={close} wide>
      <form onSubmit={submitting(() => isReady && next.mutate())}>
        <label htmlFor={field}>What should the agent do next? It knows the conversation so far.</label>
        <textarea
          id={field}
          rows={5}
          maxLength={100_000}
          value={task}
          onChange={({ target }) => setTask(target.value)}
          onKeyDown={({ key, ctrlKey, metaKey }) =>
            key === "Enter" && (ctrlKey || metaKey) && isReady && next.mutate()
          }
        />
        <Fault error={next.error} />
        <button type="submit" className="primary" disabled={!isReady}>
          Continue <kbd>Ctrl Enter</kbd>
        </button>
      </form>
    </Dialog>
  );
};

type TaskInput = Parameters<ReturnType<typeof client>["run_task"]>[0];

/** Submits once, however often it is asked to, and goes to the new job. */
const useSubmission = (inputOf: () => TaskInput | Promise<TaskInput>) => {
  const [, navigate] = useLocation();
  const [idempotencyKey] = useState(newKey);
  return useMutation({
    mutationFn: async () => client().run_task(await inputOf(), { idempotencyKey }),
    onSuccess: ({ job }) => navigate(`/jobs/${job.id}`),
  });
};

const submitting = (run: () => void) => (event: FormEvent) => {
  event.preventDefault();
  run();
};

const Fault = ({ error }: { error: Error | null }) => (
  <p role="alert" className="fault">
    {error?.message}
  </p>
);
