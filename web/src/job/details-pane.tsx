import { isFinal, type Job } from "../../../src/contract/job.ts";
import { oneLine, sanitise } from "../../../src/view/sanitise.ts";
import { sandboxText } from "../../../src/view/sandbox.ts";
import { savedWork } from "../../../src/view/saved-work.ts";
import { Markdown } from "../parts/markdown.tsx";
import { Checks } from "./checks.tsx";
import { Files } from "./files.tsx";
import { Empty } from "../parts/states.tsx";
import { Copy, hasChange } from "../parts/values.tsx";

/** The agent's final words, and files. */
export const OutputPane = ({ job }: { job: Job }) =>
  job.output === null && job.files.length === 0 ? (
    <Empty title={isFinal(job.status) ? "There is no output" : "No output yet"} />
  ) : (
    <div className="document stack">
      {job.output !== null && (
        <>
          <Markdown text={job.output} />
          <Copy text={job.output} label="Copy output" />
        </>
      )}
      <Files job={job} />
    </div>
  );

/** Ids, places, commands. */
export const DetailsPane = ({ job }: { job: Job }) => {
  const id = job.id.slice(0, 8);
  const lines = [
    `svc logs ${id} -f`,
    ...(hasChange(job) ? [`svc diff ${id}`, `svc checkout ${id}`] : []),
    ...(job.session_id === null ? [] : [`svc continue ${id} "…"`]),
    ...savedLines(job),
  ];
  const shown = [
    ...facts.map(([name, key]) => [name, String(job[key] ?? "")] as const),
    ...job.repositories.map(
      ({ repo_url: url, branch, pr_url: pull, error }) =>
        ["Also", [url, pull ?? branch, error].filter(Boolean).join(" ")] as const,
    ),
    ["Sandbox", sandboxText(job) ?? ""] as const,
    ...Object.entries(job.options).map(
      ([name, value]) => [`Option ${name.replaceAll("_", " ")}`, String(value ?? "")] as const,
    ),
  ];
  return (
    <div className="document stack">
      <h2>Commands</h2>
      <ul className="plain stack">
        {lines.map((line) => (
          <li key={line}>
            <code>{line}</code> <Copy text={line} />
          </li>
        ))}
      </ul>
      <Checks job={job} />
      <h2>Task</h2>
      <p className="words" dir="auto">
        {sanitise(job.task)}
      </p>
      <h2>Facts</h2>
      <dl className="names">
        {shown
          .filter(([, value]) => value !== "")
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd className="mono">{oneLine(value)}</dd>
            </div>
          ))}
      </dl>
    </div>
  );
};

/** The lines that bring saved work back, as `svc job` prints them. */
const savedLines = ({ id, salvage_ref: ref, cached_clone: gitDir }: Job): string[] =>
  ref === null
    ? []
    : [...savedWork({ ref, gitDir, id }).matchAll(/: +(git .*)$/gm)].map(([, line = ""]) => line);

const facts = [
  ["Id", "id"],
  ["Session", "session_id"],
  ["Repository", "repo_url"],
  ["Base", "base_ref"],
  ["Branch", "branch"],
  ["Commit", "commit_sha"],
  ["Pull request", "pr_url"],
  ["Saved work", "salvage_ref"],
  ["Saved in", "cached_clone"],
  ["Worktree", "worktree_path"],
  ["Instance", "pod_name"],
  ["Created", "created_at"],
  ["Started", "started_at"],
  ["Ended", "ended_at"],
] as const satisfies [string, keyof Job][];
