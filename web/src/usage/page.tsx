import { keepPreviousData } from "@tanstack/react-query";
import type { UsageAnswer, UsageInput, UsageRow } from "../../../src/contract/usage.ts";
import { cost } from "../../../src/view/quantities.ts";
import { oneLine } from "../../../src/view/sanitise.ts";
import { useAddress } from "../parts/address.ts";
import { Ledger } from "../parts/ledger.tsx";
import { useRead } from "../parts/read.ts";
import { Select } from "../parts/filters.tsx";
import { Answer, Empty, Title } from "../parts/states.tsx";
import { shortRepository } from "../parts/values.tsx";
import { Button } from "../shell/shortcuts.tsx";
import { Days, costOf, figures } from "./days.tsx";
import "./usage.css";

type Change = (changes: Record<string, string>) => void;

/** What narrows the figures, and the group whose rows do so. */
const filters = { profile: "profile", repo_url: "repository", model: "model", kind: "kind" } as const;
type Filter = keyof typeof filters;
const filterNames = Object.keys(filters) as Filter[];

const groups = [...Object.values(filters), "key"];

const periods = [7, 30, 90, 365] as const;

/** A day of UTC, as the service counts. */
const dayBefore = (days: number): string =>
  new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);

export default function UsagePage() {
  const [{ since, until, days, by, ...narrowed }, change] = useAddress([
    "since",
    "until",
    "days",
    "by",
    ...filterNames,
  ]);
  const isFixed = since !== "" || until !== "";
  const last = isFixed ? 0 : (periods.find((each) => String(each) === days) ?? 30);
  // The last days, until today, or those of the address.
  const period = isFixed ? { since, until } : { since: dayBefore(last - 1), until: dayBefore(0) };
  // The service says what it does not know.
  const input = (group: string) => ({ ...period, ...narrowed, by: group }) as UsageInput;
  // While another period is read, this one stays.
  const options = { placeholderData: keepPreviousData, refetchInterval: 60_000 };
  const byDay = useRead("get_usage", input("day"), options);
  const byGroup = useRead("get_usage", input(by || "profile"), options);
  return (
    <div className="usage page">
      <header className="row wrap">
        <Title>Usage</Title>
        <Period last={last} period={period} change={change} />
        {filterNames.map(
          (name) =>
            narrowed[name] !== "" && (
              <button key={name} type="button" className="here cut" onClick={() => change({ [name]: "" })}>
                {filters[name]}: <b>{oneLine(narrowed[name])}</b> <span aria-hidden="true">×</span>
                <span className="visually-hidden"> Show all</span>
              </button>
            ),
        )}
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
              <Totals answer={answer} />
            )}
          </>
        )}
      </Answer>
      {byDay.data !== undefined && byDay.data.total.runs > 0 && (
        <Answer query={byGroup}>
          {(answer) => <Breakdown answer={answer} asked={by || answer.by} change={change} />}
        </Answer>
      )}
    </div>
  );
}

const owners = { service: "The service", key: "Your API key", profile: "" };

/** What is left of each budget of today. */
const Budgets = ({ budgets }: Pick<UsageAnswer, "budgets">) =>
  budgets.length > 0 && (
    <section className="stack">
      <h2>Budgets of today</h2>
      <Ledger
        label="Budgets"
        rows={budgets.map((each) => ({ ...each, name: oneLine(each.profile ?? owners[each.of]) }))}
        keyOf={({ name }) => name}
        columns={[
          ["Of", ({ name }) => name],
          [
            "Spent",
            ({ name, limit_usd: limit, spent_usd: spent }) => (
              <meter
                aria-label={`${name}: spent`}
                data-full={spent >= limit}
                max={Math.max(limit, Number.MIN_VALUE)}
                value={Math.min(spent, limit)}
              />
            ),
          ],
          [
            "Left",
            ({ limit_usd: limit, spent_usd: spent }) =>
              spent >= limit ? (
                <b className="fault">{cost(limit)} spent; lifts at midnight UTC</b>
              ) : (
                `${cost(limit - spent)} left of ${cost(limit)}`
              ),
            "number",
          ],
        ]}
      />
    </section>
  );

const Totals = ({ answer: { total, since, until, rows } }: { answer: UsageAnswer }) => (
  <>
    <dl className="totals" aria-label={`From ${since} to ${until}`}>
      {figures.map(([title, figure]) => (
        <div key={title}>
          <dt className="small faint">{title}</dt>
          <dd className="number">{figure(total)}</dd>
        </div>
      ))}
    </dl>
    <Part usd={total.imputed_cost_usd} />
    <Part usd={total.estimated_cost_usd} isReckoned />
    <Days rows={rows} since={since} until={until} />
  </>
);

const Part = ({ usd, isReckoned = false }: { usd: number; isReckoned?: boolean }) =>
  usd > 0 && (
    <p className="faint">
      {cost(usd, isReckoned)} of the cost is{" "}
      {isReckoned
        ? "reckoned from tokens: runs ended without a result."
        : "imputed: the agent was logged in by subscription."}
    </p>
  );

type PeriodProps = { last: number; period: { since: string; until: string }; change: Change };

const Period = ({ last, period, change }: PeriodProps) => (
  <div className="row wrap end" role="group" aria-label="Period">
    {periods.map((days) => (
      <Button
        key={days}
        text={days === 365 ? "1 year" : `${days} days`}
        aria-pressed={last === days}
        run={() => change({ days: String(days), since: "", until: "" })}
      />
    ))}
    {(["since", "until"] as const).map((name) => (
      <label key={name}>
        {name === "since" ? "From" : "to"}{" "}
        <input
          type="date"
          value={period[name]}
          // Chosen, it fixes both ends of the period, so that the address means the same tomorrow.
          onChange={({ target: { value } }) => {
            if (value === "") return;
            const [since = "", until = ""] = Object.values({ ...period, [name]: value }).toSorted();
            change({ days: "", since, until });
          }}
        />
      </label>
    ))}
  </div>
);

type BreakdownProps = { answer: UsageAnswer; asked: string; change: Change };

const capitalised = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);

/** Where the cost comes from, the most expensive first, with a bar for its share. */
const Breakdown = ({ answer: { by, rows, total }, asked, change }: BreakdownProps) => {
  // Without costs the bars compare the runs.
  const size = costOf(total) > 0 ? costOf : ({ runs }: UsageRow): number => runs;
  const most = Math.max(...rows.map(size)) || 1;
  const nameOf = (group: string): string => (group === "key" ? "API key" : capitalised(group));
  const only = filterNames.find((name) => filters[name] === by);
  const name = ({ group }: UsageRow) => {
    if (group === "") return <span className="faint">none</span>;
    if (only === undefined) return <span className="mono">{oneLine(group).slice(0, 12)}</span>;
    return (
      <Button
        text={by === "repository" ? shortRepository(group) : oneLine(group)}
        className="quiet link"
        title={`Only ${oneLine(group)}`}
        run={() => change({ [only]: group })}
      />
    );
  };
  return (
    <section aria-label="By group" className="stack">
      <header className="row">
        <h2>By</h2>
        <Select
          aria-label="By"
          value={asked}
          options={groups.map((group) => [group, nameOf(group)])}
          change={(group) => change({ by: group })}
        />
      </header>
      <Ledger
        label="Figures by group"
        rows={rows}
        keyOf={({ group }) => group}
        columns={[
          [nameOf(by), name],
          ...figures,
          ["Share", (row) => <meter aria-hidden="true" max={most} value={size(row)} />],
        ]}
      />
    </section>
  );
};
