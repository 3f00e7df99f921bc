import { isFinal, type Job } from "../../../src/contract/job.ts";
import { oneLine, sanitise } from "../../../src/view/sanitise.ts";
import { savedWork } from "../../../src/view/saved-work.ts";
import { hasChange } from "../parts/change.tsx";
import { Markdown } from "../parts/markdown.tsx";
import { Empty } from "../parts/states.tsx";
import { Copy } from "./copy.tsx";

/** The agent's final words. */
export const OutputPane = ({ job: { output, status } }: { job: Job }) =>
  output === null ? (
    <Empty title={isFinal(status) ? "There is no output" : "No output yet"} />
  ) : (
    <div className="document">
      <Markdown text={output} />
      <Copy text={output} label="Copy output" />
    </div>
  );

/** Ids, places, commands. */
export const DetailsPane = ({ job }: { job: Job }) => {
  const id = job.id.slice(0, 8);
  const options = Object.entries(job.options).filter(([, value]) => value !== null && String(value) !== "");
  return (
    <div className="document">
      <h2>Commands</h2>
      <Commands>
        {[
          `svc logs ${id} -f`,
          ...(hasChange(job) ? [`svc diff ${id}`, `svc checkout ${id}`] : []),
          ...(job.session_id === null ? [] : [`svc continue ${id} "…"`]),
          ...savedLines(job),
        ]}
      </Commands>
      <h2>Task</h2>
      <p className="words" dir="auto">
        {sanitise(job.task)}
      </p>
      <h2>Facts</h2>
      <dl>
        {facts.map(([name, key]) =>
          job[key] === null || job[key] === "" ? null : (
            <div key={key}>
              <dt>{name}</dt>
              <dd className="mono">{oneLine(String(job[key]))}</dd>
            </div>
          ),
        )}
        {options.map(([name, value]) => (
          <div key={name}>
            <dt>Option {name.replaceAll("_", " ")}</dt>
            <dd className="mono">{oneLine(String(value))}</dd>
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

const Commands = ({ children }: { children: string[] }) => (
  <ul className="commands facts">
    {children.map((line) => (
      <li key={line}>
        <code>{line}</code> <Copy text={line} />
      </li>
    ))}
  </ul>
);

const facts = [
  ["Id", "id"],
  ["Session", "session_id"],
  ["Repository", "repo_url"],
  ["Base", "base_ref"],
  ["Branch", "branch"],
  ["Commit", "commit_sha"],
  ["Pull request", "pr_url"],
  ["Saved work", "salvage_ref"],
  ["Cached clone", "cached_clone"],
  ["Worktree", "worktree_path"],
  ["Instance", "pod_name"],
  ["Created", "created_at"],
  ["Started", "started_at"],
  ["Ended", "ended_at"],
] as const satisfies [string, keyof Job][];
