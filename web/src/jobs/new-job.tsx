import { useMutation, useQuery } from "@tanstack/react-query";
import { useId, useMemo, useRef, useState, type FormEvent, type KeyboardEvent, type ReactNode } from "react";
import { ClientError } from "../../../src/client/client-error.ts";
import type { Job } from "../../../src/contract/job.ts";
import { Dialog } from "../parts/dialog.tsx";
import { newKey } from "../parts/new-key.ts";
import { client } from "../shell/service.ts";
import "./new-job.css";

type Draft = Record<Name, string>;

type Name = "task" | "repo_url" | "base_ref" | "profile" | OptionName;
type OptionName = "model" | "branch" | "title" | "timeout_seconds" | "max_budget_usd" | "max_turns";

const optionFields: readonly { name: OptionName; label: string; type?: "number"; hint?: string }[] = [
  { name: "model", label: "Model", hint: "the profile's" },
  { name: "branch", label: "Branch", hint: "service/…" },
  { name: "title", label: "Title of the pull request" },
  { name: "timeout_seconds", label: "Seconds at most", type: "number" },
  { name: "max_budget_usd", label: "USD at most", type: "number" },
  { name: "max_turns", label: "Turns at most", type: "number" },
];

const empty: Draft = {
  task: "",
  repo_url: "",
  base_ref: "",
  profile: "",
  model: "",
  branch: "",
  title: "",
  timeout_seconds: "",
  max_budget_usd: "",
  max_turns: "",
};

/** What was typed, while the page is open. */
let kept: Draft = empty;

type Props = { onClose: () => void; onSubmitted: (job: Job) => void };

/** Asks for a task and submits it. */
export const NewJob = ({ onClose, onSubmitted }: Props) => {
  const recent = useRecent();
  const profiles = useQuery({
    queryKey: ["profiles"],
    queryFn: ({ signal }) => client().list_profiles({}, { signal }),
  });
  const [draft, setDraft] = useState(kept);
  const repository = draft.repo_url;
  const chosen = profiles.data?.profiles.find(({ name }) => name === draft.profile);
  const list = useId();
  /** One for each text of the form: the same job when it is sent twice. */
  const key = useRef(newKey());

  const submit = useMutation({
    mutationFn: () => client().run_task(inputOf(draft), { idempotencyKey: key.current }),
    // Sent again with the same key, it is the same job.
    retry: (failures, error) => failures < 3 && error instanceof ClientError && error.status === 0,
    onSuccess: ({ job }) => {
      kept = { ...empty, repo_url: draft.repo_url, profile: draft.profile };
      onSubmitted(job);
    },
  });
  const faults = useMemo(() => faultsOf(submit.error), [submit.error]);

  const set = (name: Name, value: string): void => {
    kept = { ...draft, [name]: value };
    setDraft(kept);
    key.current = newKey();
  };
  const send = (event: FormEvent | KeyboardEvent): void => {
    event.preventDefault();
    if (!submit.isPending) submit.mutate();
  };
  const input = (name: Name) => ({
    value: draft[name],
    onChange: ({ target }: { target: { value: string } }) => set(name, target.value),
  });

  return (
    <Dialog title="New job" onClose={onClose} wide>
      <form
        className="new-job"
        onSubmit={send}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send(event);
        }}
      >
        <Field
          label="What should be done"
          fault={faults.task && (draft.task.trim() === "" ? "Write what the agent should do" : faults.task)}
          wide
        >
          {(props) => <textarea {...props} {...input("task")} rows={6} aria-required />}
        </Field>
        <Field label="Repository" fault={faults.repo_url} wide>
          {(props) => (
            <input
              {...props}
              {...input("repo_url")}
              className="mono"
              list={list}
              placeholder="none: an empty directory"
              spellCheck={false}
              autoCapitalize="none"
            />
          )}
        </Field>
        <datalist id={list}>
          {recent.map((url) => (
            <option key={url} value={url} />
          ))}
        </datalist>
        {repository === "" && recent[0] !== undefined && (
          <p className="note wide">
            Recent:{" "}
            {recent.slice(0, 3).map((url) => (
              <button key={url} type="button" className="quiet mono" onClick={() => set("repo_url", url)}>
                {url}
              </button>
            ))}
          </p>
        )}
        <Field label="Base branch" fault={faults.base_ref}>
          {(props) => (
            <input {...props} {...input("base_ref")} className="mono" placeholder="as the service decides" />
          )}
        </Field>
        <Field label="Profile" fault={faults.profile} note={chosen?.description}>
          {(props) => (
            <select {...props} {...input("profile")}>
              <option value="">As the service decides</option>
              {profiles.data?.profiles.map(({ name, error }) => (
                <option key={name} value={name} disabled={error !== null}>
                  {name}
                </option>
              ))}
            </select>
          )}
        </Field>
        <details className="wide" open={optionFields.some(({ name }) => draft[name] !== "" || faults[name])}>
          <summary>Options of this job</summary>
          <div className="options">
            {optionFields.map(({ name, label, type, hint }) => (
              <Field key={name} label={label} fault={faults[name]}>
                {(props) => (
                  <input {...props} {...input(name)} inputMode={type && "decimal"} placeholder={hint} />
                )}
              </Field>
            ))}
          </div>
        </details>
        <footer className="wide">
          <p role="alert" className="fault">
            {faults.other}
          </p>
          <span className="note">
            <kbd>Ctrl</kbd> <kbd>Enter</kbd>
          </span>
          <button type="submit" className="primary" disabled={submit.isPending}>
            {submit.isPending ? "Submitting…" : "Submit"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
};

type FieldProps = {
  label: string;
  fault: string | undefined;
  note?: string | undefined;
  wide?: boolean;
  children: (props: { id: string; "aria-invalid": boolean; "aria-describedby": string }) => ReactNode;
};

const Field = ({ label, fault, note, wide = false, children }: FieldProps) => {
  const id = useId();
  return (
    <div className={wide ? "field wide" : "field"}>
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-invalid": fault !== undefined, "aria-describedby": `${id}-about` })}
      <p id={`${id}-about`} className={fault === undefined ? "note" : "fault"}>
        {fault ?? note}
      </p>
    </div>
  );
};

/** Repositories of the newest jobs, each once. */
const useRecent = (): string[] => {
  const { data } = useQuery({
    queryKey: ["recent repositories"],
    queryFn: async ({ signal }) => {
      const { jobs } = await client().list_jobs({ limit: 100 }, { signal });
      return [...new Set(jobs.map(({ repo_url }) => repo_url))].filter((url) => url !== "").slice(0, 12);
    },
  });
  return data ?? [];
};

const inputOf = ({ task, repo_url, base_ref, profile, ...options }: Draft) => ({
  task,
  repo_url: repo_url.trim(),
  base_ref: base_ref.trim(),
  profile,
  options: Object.fromEntries(
    optionFields.flatMap(({ name, type }) => {
      const text = options[name].trim();
      if (text === "") return [];
      return [[name, type === "number" && Number.isFinite(Number(text)) ? Number(text) : text]];
    }),
  ),
});

const fieldOfCode: Record<string, Name> = {
  invalid_repo_url: "repo_url",
  invalid_ref: "base_ref",
  unknown_profile: "profile",
  invalid_profile: "profile",
};

/** What the service says, by the field that it says it of: `task: must not be empty; options.model: …`. */
const faultsOf = (error: Error | null): Partial<Record<Name | "other", string>> => {
  if (error === null) return {};
  const field = error instanceof ClientError ? fieldOfCode[error.code] : undefined;
  if (field !== undefined) return { [field]: error.message };
  const named = error.message.split("; ").map((part) => /^(?:options\.)?(\w+): (.*)$/s.exec(part));
  if (!named.every((match) => match !== null && (match[1] ?? "") in empty)) return { other: error.message };
  return Object.fromEntries(named.flatMap((match) => (match ? [[match[1], match[2]]] : [])));
};
