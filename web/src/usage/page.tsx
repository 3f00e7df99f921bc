import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { oneLine } from "../../../src/view/sanitise.ts";
import type { UsageAnswer } from "../../../src/contract/usage.ts";
import { cost } from "../../../src/view/quantities.ts";
import { Answer, Empty } from "../parts/states.tsx";
import { Title } from "../parts/title.tsx";
import { client } from "../shell/service.ts";
import { periods, useAsked, type Asked } from "./asked.ts";
import { Breakdown } from "./breakdown.tsx";
import { Budgets } from "./budgets.tsx";
import { Days } from "./days.tsx";
import { measures, shown } from "./figures.ts";
import "../parts/ledger.css";
import "./usage.css";

type Change = (changes: Record<string, string>) => void;

const useUsage = ({ since, until, profile, repo_url, model, kind }: Asked, by: "day" | Asked["by"]) => {
  const input = { since, until, profile, repo_url, model, kind, by };
  return useQuery({
    queryKey: ["usage", input],
    queryFn: ({ signal }) => client().get_usage(input, { signal }),
    // While another period is read, this one stays.
    placeholderData: keepPreviousData,
    refetchInterval: 60_000,
  });
};

export default function UsagePage() {
  const [asked, change] = useAsked();
  const byDay = useUsage(asked, "day");
  const byGroup = useUsage(asked, asked.by);
  return (
    <div className="usage page">
      <header className="row wrap">
        <Title>Usage</Title>
        <Period asked={asked} change={change} />
        <Filters asked={asked} change={change} />
      </header>
      <Answer query={byDay}>
        {(answer) => (
          <>
            <Budgets budgets={answer.budgets} />
            {answer.total.runs === 0 ? (
              <Empty title="No runs">
                No job and no turn of agent mode ended from {answer.since} to {answer.until}.
              </Empty>
            ) : (
              <Shown answer={answer} />
            )}
          </>
        )}
      </Answer>
      {byDay.data !== undefined && byDay.data.total.runs > 0 && (
        <Answer query={byGroup}>
          {(answer) => <Breakdown answer={answer} by={asked.by} change={change} />}
        </Answer>
      )}
    </div>
  );
}

const Shown = ({ answer }: { answer: UsageAnswer }) => {
  const { total, since, until, rows } = answer;
  const isImputed = total.imputed_cost_usd > 0;
  return (
    <>
      <dl className="totals row wrap" aria-label={`From ${since} to ${until}`}>
        {measures.map((measure) => (
          <div key={measure.title}>
            <dt>{measure.title}</dt>
            <dd className="number">{shown(measure, total)}</dd>
          </div>
        ))}
        <div>
          <dt>Runs</dt>
          <dd className="number">{total.runs.toLocaleString("en")}</dd>
        </div>
      </dl>
      {isImputed && (
        <p className="note">
          {cost(total.imputed_cost_usd)} of the cost is imputed: the agent was logged in by subscription.
        </p>
      )}
      {total.estimated_cost_usd > 0 && (
        <p className="note">
          {cost(total.estimated_cost_usd, true)} of the cost is reckoned from tokens: runs ended without a
          result.
        </p>
      )}
      <Days rows={rows} since={since} until={until} />
    </>
  );
};

const Period = ({ asked, change }: { asked: Asked; change: Change }) => (
  <div className="period row wrap" role="group" aria-label="Period">
    {periods.map((days) => (
      <button
        key={days}
        type="button"
        aria-pressed={asked.days === days}
        onClick={() => change({ days: String(days), since: "", until: "" })}
      >
        {days === 365 ? "1 year" : `${days} days`}
      </button>
    ))}
    <Day label="From" asked={asked} name="since" change={change} />
    <Day label="to" asked={asked} name="until" change={change} />
  </div>
);

type DayProps = { label: string; name: "since" | "until"; asked: Asked; change: Change };

/** Chosen, it fixes both ends of the period, so that the address means the same tomorrow. */
const Day = ({ label, name, asked, change }: DayProps) => (
  <label>
    {label}{" "}
    <input
      type="date"
      value={asked[name]}
      onChange={({ target }) => {
        if (target.value === "") return;
        const [since = "", until = ""] = [
          target.value,
          asked[name === "since" ? "until" : "since"],
        ].toSorted();
        change({ days: "", since, until });
      }}
    />
  </label>
);

const Filters = ({ asked, change }: { asked: Asked; change: Change }) => {
  const set = useMemo(
    () =>
      (["profile", "repo_url", "model", "kind"] as const).flatMap((name) =>
        asked[name] === "" ? [] : [[name, asked[name]] as const],
      ),
    [asked],
  );
  return set.map(([name, value]) => (
    <button key={name} type="button" className="chosen cut" onClick={() => change({ [name]: "" })}>
      {name === "repo_url" ? "repository" : name}: <b>{oneLine(value)}</b> <span aria-hidden="true">×</span>
      <span className="visually-hidden"> Show all</span>
    </button>
  ));
};
