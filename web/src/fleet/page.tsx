import { useQuery } from "@tanstack/react-query";
import { oneLine } from "../../../src/view/sanitise.ts";
import { duration } from "../../../src/view/quantities.ts";
import { Answer } from "../parts/states.tsx";
import { Ago } from "../parts/time.tsx";
import { Title } from "../parts/title.tsx";
import { client } from "../shell/service.ts";
import { Companions } from "./companions.tsx";
import { Disk } from "./disk.tsx";
import { Profiles } from "./profiles.tsx";
import { Worktrees } from "./worktrees.tsx";
import "../parts/ledger.css";
import "./fleet.css";

export default function FleetPage() {
  return (
    <div className="fleet page">
      <Title>Fleet</Title>
      <Instances />
      <Worktrees />
      <Disk />
      <Profiles />
      <Companions />
    </div>
  );
}

const Instances = () => {
  const query = useQuery({
    queryKey: ["instances"],
    queryFn: ({ signal }) => client().list_instances({}, { signal }),
    refetchInterval: 5000,
  });
  return (
    <section aria-labelledby="instances">
      <h2 id="instances">Queue and instances</h2>
      <Answer query={query}>
        {({ queue, lost, recovered, instances, answered_by }) => (
          <>
            <p>
              <span className="number">{queue.waiting.toLocaleString("en")}</span> waiting
              {queue.oldest_wait_seconds !== null && (
                <>
                  , the oldest for{" "}
                  <span className="number">{duration(queue.oldest_wait_seconds * 1000)}</span>
                </>
              )}{" "}
              · <span className="number">{queue.running.toLocaleString("en")}</span> running
              {(lost > 0 || recovered > 0) &&
                ` · since instances were lost: ${lost} failed, ${recovered} queued again`}
            </p>
            <div className="scrolled">
              <table className="ledger stacked" aria-labelledby="instances">
                <thead>
                  <tr>
                    <th scope="col">Instance</th>
                    <th scope="col">Jobs</th>
                    <th scope="col">Agent mode</th>
                    <th scope="col">Address</th>
                    <th scope="col">Version</th>
                    <th scope="col">Up for</th>
                  </tr>
                </thead>
                <tbody>
                  {instances.map((each) => (
                    <tr key={each.name}>
                      <th scope="row">
                        <span className="mono">{oneLine(each.name)}</span>
                        {each.name === answered_by && <span className="note"> answers</span>}
                        {each.draining && <b> draining</b>}
                      </th>
                      <td className="number" data-name="Jobs">
                        {each.running} of {each.max_parallel_jobs}{" "}
                        <meter
                          aria-label={`Load of ${oneLine(each.name)}`}
                          max={each.max_parallel_jobs}
                          value={each.running}
                        />
                      </td>
                      <td data-name="Agent mode">
                        {each.agent_mode ? `${each.turns} turns` : <span className="note">off</span>}
                      </td>
                      <td className="mono">{each.address === null ? "unknown" : oneLine(each.address)}</td>
                      <td className="mono">{oneLine(each.version)}</td>
                      <td data-name="Up for">
                        <Ago at={each.started_at} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </>
        )}
      </Answer>
    </section>
  );
};
