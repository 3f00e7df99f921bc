import { useMutation, useQuery } from "@tanstack/react-query";
import { oneLine } from "../../../src/view/sanitise.ts";
import type { CompanionTarget } from "../../../src/contract/companion.ts";
import { age } from "../../../src/view/quantities.ts";
import { Answer } from "../parts/states.tsx";
import { client, queries } from "../shell/service.ts";

/** Of the instance that answers. */
export const Companions = () => {
  const query = useQuery({
    queryKey: ["ready"],
    queryFn: ({ signal }) => client().ready({ signal }),
    refetchInterval: 30_000,
  });
  const sync = useMutation({
    mutationFn: (target: CompanionTarget) => client().sync_companions({ target }),
    onSettled: () =>
      Promise.all(["ready", "profiles"].map((name) => queries.invalidateQueries({ queryKey: [name] }))),
  });
  return (
    <section aria-labelledby="companions">
      <h2 id="companions">Companions</h2>
      <Answer query={query}>
        {({ companions }) =>
          companions.length === 0 ? (
            <p className="note">No companion repository is set.</p>
          ) : (
            <ul className="companions">
              {companions.map(({ target, age_seconds: seconds }) => {
                const result = sync.variables === target ? (sync.data?.[target] ?? sync.error?.message) : "";
                return (
                  <li key={target}>
                    <span className="mono">{target}</span>
                    <span>{seconds === null ? "never fetched" : `fetched ${age(seconds * 1000)} ago`}</span>
                    <button type="button" disabled={sync.isPending} onClick={() => sync.mutate(target)}>
                      Sync<span className="visually-hidden"> {target}</span>
                    </button>
                    <span role="status" className={result === "ok" ? "" : "fault"}>
                      {oneLine(result ?? "")}
                    </span>
                  </li>
                );
              })}
            </ul>
          )
        }
      </Answer>
    </section>
  );
};
