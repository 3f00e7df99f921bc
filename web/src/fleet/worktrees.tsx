import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { oneLine } from "../../../src/view/sanitise.ts";
import type { Worktree } from "../../../src/contract/worktree.ts";
import { bytes, counted } from "../../../src/view/quantities.ts";
import { Repository } from "../parts/repository.tsx";
import { Answer } from "../parts/states.tsx";
import { Ago } from "../parts/time.tsx";
import { client } from "../shell/service.ts";
import { Cleanup } from "./cleanup.tsx";

export const Worktrees = () => {
  const query = useQuery({
    queryKey: ["worktrees"],
    queryFn: ({ signal }) => client().list_worktrees({}, { signal }),
    refetchInterval: 30_000,
  });
  return (
    <section aria-labelledby="worktrees">
      <h2 id="worktrees">Worktrees</h2>
      <Answer query={query}>
        {({ worktrees }) =>
          worktrees.length === 0 ? <p className="note">No worktrees</p> : <List worktrees={worktrees} />
        }
      </Answer>
    </section>
  );
};

const hoursOffered = [24, 168, 720];

const List = ({ worktrees }: { worktrees: readonly Worktree[] }) => {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [isCleaning, setCleaning] = useState(false);
  // Those that are gone meanwhile count no more.
  const ids = worktrees.map(({ worktree_id: id }) => id).filter((id) => chosen.has(id));
  const size = worktrees.reduce((sum, { size_bytes }) => sum + (size_bytes ?? 0), 0);
  const toggle = (id: string): void => {
    const next = new Set(ids);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  const olderThan = (hours: number): void =>
    setChosen(new Set(worktrees.filter((each) => each.age_hours >= hours).map(({ worktree_id: id }) => id)));
  return (
    <>
      <div className="row wrap">
        <span>
          {counted(worktrees.length, "worktree")}, <span className="number">{bytes(size)}</span>
        </span>
        <select
          aria-label="Choose worktrees"
          value=""
          onChange={({ target }) => olderThan(Number(target.value))}
        >
          <option value="">Choose…</option>
          <option value="0">all</option>
          {hoursOffered.map((hours) => (
            <option key={hours} value={hours}>
              older than {counted(hours / 24, "day")}
            </option>
          ))}
          <option value="Infinity">none</option>
        </select>
        <button type="button" disabled={ids.length === 0} onClick={() => setCleaning(true)}>
          {ids.length > 0 ? `Clean up ${ids.length}…` : "Clean up…"}
        </button>
      </div>
      <div className="scrolled">
        <table className="ledger stacked" aria-labelledby="worktrees">
          <thead>
            <tr>
              <th scope="col">Worktree</th>
              <th scope="col">State</th>
              <th scope="col">Repository</th>
              <th scope="col">Pushed</th>
              <th scope="col">Size</th>
              <th scope="col">Age</th>
            </tr>
          </thead>
          <tbody>
            {worktrees.map((each) => (
              <tr key={each.worktree_id}>
                <th scope="row">
                  <label>
                    <input
                      type="checkbox"
                      checked={chosen.has(each.worktree_id)}
                      onChange={() => toggle(each.worktree_id)}
                    />{" "}
                    <span className="mono" title={oneLine(each.path)}>
                      {oneLine(each.branch || each.worktree_id)}
                    </span>
                  </label>
                </th>
                <td>
                  {each.status.replace("_", " ")}
                  {each.error !== null && <div className="fault why">{oneLine(each.error)}</div>}
                </td>
                <td>
                  <Repository url={each.repo_url} />
                </td>
                <td data-name="Pushed">{each.pushed === null ? "unknown" : each.pushed ? "yes" : "no"}</td>
                <td className="number" data-name="Size">
                  {bytes(each.size_bytes)}
                </td>
                <td data-name="Age">
                  <Ago at={each.created_at} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {isCleaning && <Cleanup ids={ids} onClose={() => setCleaning(false)} />}
    </>
  );
};
