import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { oneLine } from "../../../src/view/sanitise.ts";
import type { CleanupResult } from "../../../src/contract/worktree.ts";
import { bytes, counted } from "../../../src/view/quantities.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Answer } from "../parts/states.tsx";
import { client, queries } from "../shell/service.ts";

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
export const Cleanup = ({ ids, onClose }: { ids: readonly string[]; onClose: () => void }) => {
  const [asked] = useState(ids);
  const [force, setForce] = useState(false);
  const trial = useQuery({
    queryKey: ["cleanup", asked, force],
    queryFn: ({ signal }) => cleanUp(asked, { force, dry_run: true }, signal),
    staleTime: Infinity,
    gcTime: 0,
  });
  const removal = useMutation({
    mutationFn: (named: readonly string[]) => cleanUp(named, { force, dry_run: false }),
    onSettled: () =>
      Promise.all(["worktrees", "disk"].map((name) => queries.invalidateQueries({ queryKey: [name] }))),
  });
  // A first force is refused for what git cannot save; only then does the next one count.
  const going = (trial.data ?? []).filter(
    ({ removed, worktree_id: id }) => removed || (force && id !== null),
  );
  const done = removal.data;
  return (
    <Dialog title={done ? "Cleaned up" : "Clean up worktrees"} onClose={onClose} wide>
      <div className="cleanup">
        {done ? (
          <Results results={done} isDone />
        ) : (
          <>
            <label>
              <input
                type="checkbox"
                checked={force}
                disabled={removal.isPending}
                onChange={({ target }) => setForce(target.checked)}
              />{" "}
              Also those in use and not pushed: their jobs are cancelled, their work is saved first
            </label>
            <Answer query={trial}>{(results) => <Results results={results} isDone={false} />}</Answer>
          </>
        )}
        {removal.error && (
          <p className="fault" role="alert">
            {removal.error.message}
          </p>
        )}
        <footer className="row wrap">
          <button type="button" onClick={onClose}>
            {done ? "Close" : "Keep all"}
          </button>
          {!done && (
            <button
              type="button"
              className="primary"
              disabled={going.length === 0 || removal.isPending || trial.isFetching}
              onClick={() => removal.mutate(going.flatMap(({ worktree_id: id }) => id ?? []))}
            >
              Remove {counted(going.length, "worktree")}
            </button>
          )}
        </footer>
      </div>
    </Dialog>
  );
};

const Results = ({ results, isDone }: { results: readonly CleanupResult[]; isDone: boolean }) => {
  const freed = results.reduce((sum, { removed, size_bytes }) => sum + (removed ? (size_bytes ?? 0) : 0), 0);
  const removed = results.filter((each) => each.removed).length;
  return (
    <>
      <p role="status">
        {counted(removed, "worktree")} {isDone ? "removed" : "would go"},{" "}
        <span className="number">{bytes(freed)}</span> freed; {results.length - removed} stay
      </p>
      <ul>
        {results.map((each) => (
          <li key={each.path}>
            <b>{each.removed ? (isDone ? "removed" : "goes") : "stays"}</b>
            <div>
              <span className="mono">{oneLine(each.path)}</span>
              {each.error !== null && <p className="fault">{oneLine(each.error)}</p>}
              {each.cancelled_jobs.length > 0 && (
                <p>
                  {isDone ? "Cancelled" : "Would be cancelled"}: {each.cancelled_jobs.map(oneLine).join(", ")}
                </p>
              )}
              {each.salvage_ref !== null && (
                <p>
                  Its work is saved as <code>{oneLine(each.salvage_ref)}</code>
                </p>
              )}
            </div>
          </li>
        ))}
      </ul>
    </>
  );
};
