import { useQuery } from "@tanstack/react-query";
import { oneLine } from "../../../src/view/sanitise.ts";
import { bytes, counted } from "../../../src/view/quantities.ts";
import { Repository } from "../parts/repository.tsx";
import { Answer } from "../parts/states.tsx";
import { client } from "../shell/service.ts";

export const Disk = () => {
  const query = useQuery({
    queryKey: ["disk"],
    queryFn: ({ signal }) => client().get_disk_usage({}, { signal }),
    refetchInterval: 60_000,
  });
  return (
    <section aria-labelledby="disk">
      <h2 id="disk">Disk</h2>
      <Answer query={query}>
        {({ volumes, repositories, min_free_bytes: floor }) => (
          <>
            <ul className="volumes">
              {volumes.map(({ path, purpose, free_bytes: free, total_bytes: total }) => (
                <li key={purpose}>
                  <span>{purpose}</span>
                  <meter
                    aria-label={`Used for ${purpose}`}
                    max={total ?? 1}
                    value={total !== null && free !== null ? total - free : 0}
                  />
                  <span>
                    <span className="number">{bytes(free)}</span> free of{" "}
                    <span className="number">{bytes(total)}</span>{" "}
                    {free !== null && free < floor && (
                      <b className="fault">less than {bytes(floor)}: no job is accepted</b>
                    )}{" "}
                    <span className="note mono">{oneLine(path)}</span>
                  </span>
                </li>
              ))}
            </ul>
            {repositories.length > 0 && (
              <div className="scrolled">
                <table className="ledger stacked" aria-label="Disk by repository">
                  <thead>
                    <tr>
                      <th scope="col">Repository</th>
                      <th scope="col">Cached clone</th>
                      <th scope="col">Worktrees</th>
                      <th scope="col">Kept: git cannot save them</th>
                    </tr>
                  </thead>
                  <tbody>
                    {repositories.map((each) => (
                      <tr key={each.repo_key ?? each.repo_url}>
                        <th scope="row">
                          {each.repo_url === "" ? "none" : <Repository url={each.repo_url} />}
                        </th>
                        <td className="number" data-name="Cached clone">
                          {bytes(each.cache_bytes)}
                        </td>
                        <td>
                          {counted(each.worktrees, "worktree")},{" "}
                          <span className="number">{bytes(each.worktree_bytes)}</span>
                        </td>
                        <td data-name="Kept">{each.kept.map(oneLine).join("; ") || "none"}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
          </>
        )}
      </Answer>
    </section>
  );
};
