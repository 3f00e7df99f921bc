import { useMutation, useQuery } from "@tanstack/react-query";
import type { CompanionTarget } from "../../../src/contract/companion.ts";
import { readinessText } from "../../../src/contract/instance.ts";
import { age, bytes, counted, duration, worktreesText } from "../../../src/view/quantities.ts";
import { oneLine } from "../../../src/view/sanitise.ts";
import { Ledger } from "../parts/ledger.tsx";
import { useRead } from "../parts/read.ts";
import { Section, Title } from "../parts/states.tsx";
import { Ago, Repository } from "../parts/values.tsx";
import { client, queries } from "../shell/service.ts";
import { Secrets } from "./secrets.tsx";
import { Worktrees } from "./worktrees.tsx";

export default function FleetPage() {
  return (
    <div className="page">
      <Title>Fleet</Title>
      <Instances />
      <Worktrees />
      <Disk />
      <Profiles />
      <Companions />
      <Secrets />
    </div>
  );
}

const useReadiness = () =>
  useQuery({
    queryKey: ["ready"],
    queryFn: ({ signal }) => client().ready({ signal }),
    refetchInterval: 30_000,
  });

/** Whether jobs are taken, as `svc status` says it. */
const Readiness = () => {
  const { data } = useReadiness();
  return data === undefined ? null : <p className={data.ready ? "" : "fault"}>{readinessText(data)}</p>;
};

const Instances = () => (
  <Section title="Queue and instances" query={useRead("list_instances", {}, { refetchInterval: 5000 })}>
    {({ queue, lost, recovered, limits, instances, answered_by }) => (
      <>
        <Readiness />
        <p>
          <span className="number">{queue.waiting.toLocaleString("en")}</span> waiting
          {queue.oldest_wait_seconds !== null &&
            `, the oldest for ${duration(queue.oldest_wait_seconds * 1000)}`}{" "}
          · <span className="number">{queue.running.toLocaleString("en")}</span> running
          {(lost > 0 || recovered > 0) &&
            ` · since instances were lost: ${lost} failed, ${recovered} queued again`}
          {limits.map(
            ({ credential, until, jobs }) =>
              ` · usage limit of ${oneLine(credential)}: ${counted(jobs, "job")} parked until ${oneLine(until)} or later`,
          )}
        </p>
        <Ledger
          label="Queue and instances"
          rows={instances}
          keyOf={({ name }) => name}
          columns={[
            [
              "Instance",
              ({ name, draining }) => (
                <>
                  <span className="mono">{oneLine(name)}</span>
                  {name === answered_by && <span className="faint"> answers</span>}
                  {draining && <b> draining</b>}
                </>
              ),
            ],
            [
              "Jobs",
              ({ name, running, max_parallel_jobs: most }) => (
                <>
                  {running} of {most}{" "}
                  <meter aria-label={`Load of ${oneLine(name)}`} max={most} value={running} />
                </>
              ),
              "named number",
            ],
            ["Agent mode", (each) => (each.agent_mode ? `${each.turns} turns` : "off"), "named"],
            ["Address", ({ address }) => (address === null ? "unknown" : oneLine(address)), "mono"],
            ["Version", ({ version }) => oneLine(version), "mono"],
            ["Up for", (each) => <Ago at={each.started_at} />, "named"],
          ]}
        />
      </>
    )}
  </Section>
);

const Disk = () => (
  <Section
    title="Disk"
    query={useRead(
      "get_disk_usage",
      {},
      {
        refetchInterval: ({ state: { data } }) =>
          data?.repositories.some(({ unmeasured }) => unmeasured > 0) ? 3000 : 60_000,
      },
    )}
  >
    {({ volumes, repositories, environments, min_free_bytes: floor }) => (
      <>
        <Ledger
          label="Volumes"
          rows={volumes}
          keyOf={({ purpose }) => purpose}
          columns={[
            ["Room for", ({ purpose }) => purpose],
            [
              "Used",
              ({ purpose, free_bytes: free, total_bytes: total }) => (
                <meter
                  aria-label={`Used for ${purpose}`}
                  max={total ?? 1}
                  value={total !== null && free !== null ? total - free : 0}
                />
              ),
            ],
            [
              "Free",
              ({ free_bytes: free, total_bytes: total }) => (
                <>
                  <span className="number">
                    {bytes(free)} of {bytes(total)}
                  </span>{" "}
                  {free !== null && free < floor && (
                    <b className="fault">less than {bytes(floor)}: no job is accepted</b>
                  )}
                </>
              ),
              "named",
            ],
            ["Path", ({ path }) => oneLine(path), "mono faint"],
          ]}
        />
        {repositories.length > 0 && (
          <Ledger
            label="Disk by repository"
            rows={repositories}
            keyOf={(each) => each.repo_key ?? each.repo_url}
            columns={[
              ["Repository", ({ repo_url: url }) => (url === "" ? "none" : <Repository url={url} />)],
              ["Cached clone", (each) => bytes(each.cache_bytes), "named number"],
              ["Worktrees", (each) => `${worktreesText(each)}, ${bytes(each.worktree_bytes)}`],
              ["Kept: git cannot save them", ({ kept }) => kept.map(oneLine).join("; ") || "none", "named"],
            ]}
          />
        )}
        {environments.length > 0 && (
          <Ledger
            label="Warm environments"
            rows={environments}
            keyOf={(each) => each.repo_url}
            columns={[
              ["Repository", ({ repo_url: url }) => <Repository url={url} />],
              ["Warm environments", (each) => `${each.entries}, ${bytes(each.bytes)}`, "named"],
            ]}
          />
        )}
      </>
    )}
  </Section>
);

const Profiles = () => (
  <Section title="Profiles" query={useRead("list_profiles", {})}>
    {({ profiles }) => (
      <Ledger
        label="Profiles"
        rows={profiles}
        keyOf={({ name }) => name}
        columns={[
          ["Profile", ({ name }) => oneLine(name), "mono"],
          ["Model", ({ model }) => oneLine(model)],
          [
            "What it is for",
            ({ error, description }) => (
              <span className={error === null ? "" : "fault"}>{oneLine(error ?? description)}</span>
            ),
            "why",
          ],
          ["Source", ({ source }) => oneLine(source), "mono"],
        ]}
      />
    )}
  </Section>
);

/** Of the instance that answers. */
const Companions = () => {
  const query = useReadiness();
  const sync = useMutation({
    mutationFn: (target: CompanionTarget) => client().sync_companions({ target }),
    onSettled: () =>
      Promise.all(["ready", "list_profiles"].map((name) => queries.invalidateQueries({ queryKey: [name] }))),
  });
  const said = (target: CompanionTarget): string =>
    sync.variables === target ? (sync.data?.[target] ?? sync.error?.message ?? "") : "";
  return (
    <Section title="Companions" query={query}>
      {({ companions }) =>
        companions.length === 0 ? (
          <p className="faint">No companion repository is set.</p>
        ) : (
          <Ledger
            label="Companions"
            rows={companions}
            keyOf={({ target }) => target}
            columns={[
              ["Companion", ({ target }) => target, "mono"],
              [
                "Fetched",
                ({ age_seconds: seconds }) =>
                  seconds === null ? "never fetched" : `fetched ${age(seconds * 1000)} ago`,
              ],
              [
                "Sync",
                ({ target }) => (
                  <>
                    <button type="button" disabled={sync.isPending} onClick={() => sync.mutate(target)}>
                      Sync<span className="visually-hidden"> {target}</span>
                    </button>{" "}
                    <span role="status" className={said(target) === "ok" ? "" : "fault"}>
                      {oneLine(said(target))}
                    </span>
                  </>
                ),
              ],
            ]}
          />
        )
      }
    </Section>
  );
};
