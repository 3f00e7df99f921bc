import { useMutation } from "@tanstack/react-query";
import { useId, useRef, useState } from "react";
import { ClientError } from "../../../src/client/client-error.ts";
import type { Job } from "../../../src/contract/job.ts";
import { Dialog, Form } from "../parts/dialog.tsx";
import { useRead } from "../parts/read.ts";
import { Select } from "../parts/filters.tsx";
import { Attached, filesIn, tooMuch, withFiles } from "./attached.tsx";
import { client, connection, newKey } from "../shell/service.ts";

type Field = {
  name: string;
  label: string;
  /** `number`: a number in the input. `lines`: a list, a line each. `switch`: on or off. Absent: text. */
  type?: "task" | "choice" | "number" | "lines" | "switch";
  hint?: string;
  classes?: string;
};

const places: readonly Field[] = [
  { name: "task", label: "What should be done", type: "task", classes: "wide" },
  {
    name: "repo_url",
    label: "Repository",
    hint: "acme/app or a URL; none: an empty directory",
    classes: "wide mono",
  },
  { name: "base_ref", label: "Base branch", hint: "as the service decides", classes: "mono" },
  { name: "profile", label: "Profile", type: "choice" },
];

/** Fields of the submission that few need; their names are those of the service. */
const more: readonly Field[] = [
  { name: "repositories", label: "Further repositories, a line each", type: "lines", classes: "mono" },
  { name: "allow_hosts", label: "Hosts it may reach besides, a line each", type: "lines", classes: "mono" },
];

const options: readonly Field[] = [
  { name: "model", label: "Model", hint: "the profile's" },
  { name: "branch", label: "Branch", hint: "service/…" },
  { name: "title", label: "Title of the pull request" },
  { name: "timeout_seconds", label: "Seconds at most", type: "number" },
  { name: "max_budget_usd", label: "USD at most", type: "number" },
  { name: "max_turns", label: "Turns at most", type: "number" },
  { name: "checks", label: "Commands that check the work, a line each", type: "lines", classes: "mono" },
  { name: "must_pass", label: "Fail the job for checks that were red before, too", type: "switch" },
  { name: "plan", label: "Let me approve the plan first", type: "switch" },
  { name: "submodules", label: "Check out submodules", type: "switch" },
  { name: "lfs", label: "Download files in Git LFS", type: "switch" },
];

/** Texts by their fields; none: empty. */
type Draft = Record<string, string>;

/** What was typed, while the page is open. */
let kept: Draft = {};

type Props = { onClose: () => void; onSubmitted: (job: Job) => void };

/** Asks for a task and submits it. */
export const NewJob = ({ onClose, onSubmitted }: Props) => {
  const profiles = useRead("list_profiles", {}).data?.profiles ?? [];
  const recent = useRead("list_jobs", { limit: 100 }).data?.jobs.map((job) => job.repo_url);
  const offered: Record<string, readonly string[]> = {
    repo_url: [...new Set(recent)].filter(Boolean).slice(0, 12),
    profile: profiles.filter(({ error }) => error === null).map(({ name }) => name),
  };
  const [draft, setDraft] = useState(kept);
  const [files, setFiles] = useState<readonly File[]>([]);
  /** One for each text of the form: the same job when it is sent twice. */
  const key = useRef(newKey());
  const submit = useMutation({
    mutationFn: async () => {
      await connection.until((state) => state !== "offline");
      return client().run_task(inputOf(draft), { idempotencyKey: key.current, attach: files });
    },
    // Sent again with the same key, it is the same job.
    retry: (failures, error) => failures < 3 && error instanceof ClientError && error.status === 0,
    onSuccess: ({ job }) => {
      const { repo_url = "", profile = "" } = draft;
      kept = { repo_url, profile };
      onSubmitted(job);
    },
  });
  const { other = "", ...faults } = faultsOf(submit.error);
  if (faults["task"] !== undefined && !draft["task"]?.trim())
    faults["task"] = "Write what the agent should do";

  const set = (name: string, value: string): void => {
    kept = { ...draft, [name]: value };
    setDraft(kept);
    key.current = newKey();
  };
  const attach = (all: readonly File[]): void => {
    setFiles(all);
    key.current = newKey();
  };
  const add = (event: { preventDefault: () => void }, data: DataTransfer | null): void => {
    const more = filesIn(event, data);
    if (more.length > 0) attach(withFiles(files, more));
  };
  const chosen = profiles.find((each) => each.name === draft["profile"]);
  const shown = (field: Field) => (
    <FieldView
      key={field.name}
      field={field}
      value={draft[field.name] ?? ""}
      set={(value) => set(field.name, value)}
      fault={faults[field.name]}
      note={field.name === "profile" ? chosen?.description : undefined}
      offered={offered[field.name] ?? []}
    />
  );
  return (
    <Dialog title="New job" onClose={onClose} wide>
      <Form
        className="fields"
        action={submit}
        isReady={tooMuch(files) === null}
        fault={other}
        note={<kbd>Ctrl Enter</kbd>}
        yes={
          submit.isPending
            ? "Submitting…"
            : draft["repo_url"]?.trim()
              ? "Submit"
              : "Submit without a repository"
        }
        onPaste={(event) => add(event, event.clipboardData)}
        onDrop={(event) => add(event, event.dataTransfer)}
      >
        {places.map(shown)}
        <Attached files={files} change={attach} />
        <details
          className="wide"
          open={[...more, ...options].some(({ name }) => draft[name] || faults[name])}
        >
          <summary>Options of this job</summary>
          <div className="stack fields">{[...more, ...options].map(shown)}</div>
        </details>
      </Form>
    </Dialog>
  );
};

type FieldProps = {
  field: Field;
  value: string;
  set: (value: string) => void;
  fault: string | undefined;
  note: string | undefined;
  offered: readonly string[];
};

const FieldView = ({ field, value, set, fault, note, offered }: FieldProps) => {
  const { label, type, hint, classes = "" } = field;
  const id = useId();
  const props = { id, value, "aria-invalid": fault !== undefined, "aria-describedby": `${id}-about` };
  const onChange = ({ target }: { target: { value: string } }): void => set(target.value);
  return (
    <div className={`field ${classes}`}>
      <label htmlFor={id}>
        {type === "switch" && (
          <input
            {...props}
            type="checkbox"
            checked={value !== ""}
            onChange={({ target }) => set(target.checked ? "true" : "")}
          />
        )}
        {label}
      </label>
      {type === "task" && <textarea {...props} onChange={onChange} rows={6} aria-required />}
      {type === "lines" && <textarea {...props} onChange={onChange} rows={1} spellCheck={false} />}
      {type === "choice" && (
        <Select
          {...props}
          change={set}
          options={[["", "As the service decides"], ...offered.map((name) => [name] as const)]}
        />
      )}
      {(type === undefined || type === "number") && (
        <input
          {...props}
          onChange={onChange}
          placeholder={hint}
          inputMode={type && "decimal"}
          list={`${id}-offered`}
          spellCheck={false}
          autoCapitalize="none"
        />
      )}
      <datalist id={`${id}-offered`}>
        {offered.map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
      <p id={`${id}-about`} className={fault === undefined ? "faint" : "fault"}>
        {fault ?? note}
      </p>
    </div>
  );
};

const inputOf = (draft: Draft) => {
  const of = (fields: readonly Field[]) =>
    fields.flatMap(({ name, type }) => {
      const text = draft[name]?.trim() ?? "";
      return text === "" ? [] : [[name, readers[type ?? "task"](text)] as const];
    });
  const { repositories, ...rest } = Object.fromEntries(of([...places, ...more])) as Draft & {
    repositories?: string[];
  };
  return {
    task: "",
    ...rest,
    repositories: (repositories ?? []).map((repo_url) => ({ repo_url })),
    options: Object.fromEntries(of(options)),
  };
};

const readers: Record<NonNullable<Field["type"]>, (text: string) => unknown> = {
  task: String,
  choice: String,
  number: (text) => (Number.isFinite(Number(text)) ? Number(text) : text),
  lines: (text) =>
    text
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean),
  switch: () => true,
};

const fieldOfCode: Record<string, string> = {
  invalid_repo_url: "repo_url",
  invalid_ref: "base_ref",
  unknown_profile: "profile",
  invalid_profile: "profile",
};

/** What the service says, by the field that it says it of: `task: must not be empty; options.model: …`. */
const faultsOf = (error: Error | null): Record<string, string> => {
  if (error === null) return {};
  const field = error instanceof ClientError ? fieldOfCode[error.code] : undefined;
  if (field !== undefined) return { [field]: error.message };
  const names = [...places, ...more, ...options].map(({ name }) => name);
  const faults: Record<string, string> = {};
  for (const part of error.message.split("; ")) {
    const [, name = "", fault = ""] = /^(?:options\.)?(\w+)(?:\.[\w.]+)?: (.*)$/s.exec(part) ?? [];
    if (!names.includes(name)) return { other: error.message };
    faults[name] = fault;
  }
  return faults;
};
