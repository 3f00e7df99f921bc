import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Worktree, CleanupResult } from "../../../src/contract/worktree.ts";
import { bytes, counted } from "../../../src/view/quantities.ts";
import { oneLine } from "../../../src/view/sanitise.ts";
import { Dialog, Form } from "../parts/dialog.tsx";
import { Select } from "../parts/filters.tsx";
import { Ledger } from "../parts/ledger.tsx";
import { Section, Answer } from "../parts/states.tsx";
import { Ago, Repository } from "../parts/values.tsx";
import { client, queries } from "../shell/service.ts";
import { Button } from "../shell/shortcuts.tsx";

/** All, oldest first, however many pages they fill. */
const readAll = async (signal: AbortSignal, cursor = ""): Promise<Worktree[]> => {
  const { worktrees, next_cursor: next } = await client().list_worktrees({ limit: 1000, cursor }, { signal });
  return next === null ? worktrees : [...worktrees, ...(await readAll(signal, next))];
};

const reading = { queryKey: ["list_worktrees"], refetchInterval: 30_000 };

export const Worktrees = () => (
  <Section title="Worktrees" query={useQuery({ ...reading, queryFn: ({ signal }) => readAll(signal) })}>
    {(worktrees) =>
      worktrees.length === 0 ? <p className="faint">No worktrees</p> : <List worktrees={worktrees} />
    }
  </Section>
);

/** Worktrees to choose at once, by their age in hours. */
const choices = [
  ["", "Choose…"],
  ["0", "all"],
  ["24", "older than 1 day"],
  ["168", "older than 7 days"],
  ["720", "older than 30 days"],
  ["Infinity", "none"],
] as const;

const List = ({ worktrees }: { worktrees: readonly Worktree[] }) => {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [isCleaning, setCleaning] = useState(false);
  // Those that are gone meanwhile count no more.
  const ids = worktrees.map(({ worktree_id: id }) => id).filter((id) => chosen.has(id));
  const size = worktrees.reduce((sum, { size_bytes }) => sum + (size_bytes ?? 0), 0);
  const toggle = (id: string): void =>
    setChosen(new Set(chosen.has(id) ? ids.filter((each) => each !== id) : [...ids, id]));
  const olderThan = (hours: number): void =>
    setChosen(new Set(worktrees.filter((each) => each.age_hours >= hours).map(({ worktree_id: id }) => id)));
  return (
    <>
      <div className="row wrap">
        <span>
          {counted(worktrees.length, "worktree")}, <span className="number">{bytes(size)}</span>
        </span>
        <Select
          aria-label="Choose worktrees"
          value=""
          options={choices}
          change={(hours) => olderThan(Number(hours))}
        />
        <Button
          text={ids.length > 0 ? `Clean up ${ids.length}…` : "Clean up…"}
          disabled={ids.length === 0}
          run={() => setCleaning(true)}
        />
      </div>
      <Ledger
        label="Worktrees"
        rows={worktrees.toReversed()}
        keyOf={(each) => each.worktree_id}
        columns={[
          [
            "Worktree",
            ({ worktree_id: id, path, branch }) => (
              <label>
                <input type="checkbox" checked={chosen.has(id)} onChange={() => toggle(id)} />{" "}
                <span className="mono" title={oneLine(path)}>
                  {oneLine(branch || id)}
                </span>
              </label>
            ),
          ],
          [
            "State",
            ({ status, error }) => (
              <>
                {status.replace("_", " ")}
                {error !== null && <div className="fault why">{oneLine(error)}</div>}
              </>
            ),
          ],
          ["Repository", (each) => <Repository url={each.repo_url} />],
          ["Pushed", ({ pushed }) => (pushed === null ? "unknown" : pushed ? "yes" : "no"), "named"],
          ["Size", (each) => bytes(each.size_bytes), "named number"],
          ["Measured", ({ measured_at: at }) => at && <Ago at={at} />, "named"],
          ["Age", (each) => <Ago at={each.created_at} />, "named"],
        ]}
      />
      {isCleaning && <Cleanup ids={ids} onClose={() => setCleaning(false)} />}
    </>
  );
};

/** As many ids as an address has room for. */
const atOnce = 200;

const cleanUp = async (
  ids: readonly string[],
  how: { force: boolean; dry_run: boolean },
  signal?: AbortSignal,
): Promise<CleanupResult[]> => {
  const results: CleanupResult[] = [];
  for (let at = 0; at < ids.length; at += atOnce) {
    const paths = ids.slice(at, at + atOnce).join(",");
    const answer = await client().cleanup_worktrees({ paths, ...how }, { ...(signal && { signal }) });
    results.push(...answer.results);
  }
  return results;
};

/** Shows what would go and what stays and why; removes, when asked to, only what it has shown. */
const Cleanup = ({ ids, onClose }: { ids: readonly string[]; onClose: () => void }) => {
  const [asked] = useState(ids);
  const [force, setForce] = useState(false);
  const trial = useQuery({
    queryKey: ["cleanup", asked, force],
    queryFn: ({ signal }) => cleanUp(asked, { force, dry_run: true }, signal),
    staleTime: Infinity,
    gcTime: 0,
  });
  // A first force is refused for what git cannot save; only then does the next one count.
  const going = (trial.data ?? []).flatMap(({ removed, worktree_id: id }) =>
    id !== null && (removed || force) ? [id] : [],
  );
  const removal = useMutation({
    mutationFn: () => cleanUp(going, { force, dry_run: false }),
    onSettled: () =>
      Promise.all(
        ["list_worktrees", "get_disk_usage"].map((name) => queries.invalidateQueries({ queryKey: [name] })),
      ),
  });
  if (removal.data !== undefined)
    return (
      <Dialog title="Cleaned up" onClose={onClose} wide>
        <Results results={removal.data} isDone />
        <Button text="Close" run={onClose} />
      </Dialog>
    );
  return (
    <Dialog title="Clean up worktrees" onClose={onClose} wide>
      <Form
        action={removal}
        isReady={going.length > 0 && !trial.isFetching}
        note={<Button text="Keep all" run={onClose} />}
        yes={`Remove ${counted(going.length, "worktree")}`}
      >
        <label>
          <input
            type="checkbox"
            checked={force}
            disabled={removal.isPending}
            onChange={({ target }) => setForce(target.checked)}
          />{" "}
          Also those in use and not pushed: their jobs are cancelled, their work is saved first
        </label>
        <Answer query={trial}>{(results) => <Results results={results} />}</Answer>
      </Form>
    </Dialog>
  );
};

type ResultsProps = { results: readonly CleanupResult[]; isDone?: boolean };

const Results = ({ results, isDone = false }: ResultsProps) => {
  const removed = results.filter((each) => each.removed);
  const freed = removed.reduce((sum, { size_bytes }) => sum + (size_bytes ?? 0), 0);
  return (
    <>
      <p role="status">
        {counted(removed.length, "worktree")} {isDone ? "removed" : "would go"}, {bytes(freed)} freed;{" "}
        {results.length - removed.length} stay
      </p>
      <ul className="plain stack">
        {results.map((each) => (
          <li key={each.path}>
            <b>{each.removed ? (isDone ? "removed" : "goes") : "stays"}</b>
            <p className="mono">{oneLine(each.path)}</p>
            <p className="fault">{each.error && oneLine(each.error)}</p>
            {each.cancelled_jobs.length > 0 && (
              <p>
                {isDone ? "Cancelled" : "Would be cancelled"}: {each.cancelled_jobs.map(oneLine).join(", ")}
              </p>
            )}
            {each.salvage_ref !== null && <p>Its work is saved as {oneLine(each.salvage_ref)}</p>}
          </li>
        ))}
      </ul>
    </>
  );
};
