import { oneLine } from "../../../src/view/sanitise.ts";
import type { UsageAnswer } from "../../../src/contract/usage.ts";
import { shortRepository } from "../parts/repository.tsx";
import { filterOf, groups, type Asked } from "./asked.ts";
import { costOf } from "./figures.ts";
import { FiguresTable } from "./figures-table.tsx";

type Props = {
  answer: UsageAnswer;
  by: Asked["by"];
  change: (changes: Record<string, string>) => void;
};

/** Where the cost comes from, the most expensive first, with a bar for its share. */
export const Breakdown = ({ answer, by, change }: Props) => {
  // Without costs the bars compare the runs.
  const size = costOf(answer.total) > 0 ? costOf : ({ runs }: { runs: number }): number => runs;
  const most = Math.max(...answer.rows.map(size));
  return (
    <section aria-labelledby="breakdown" className="breakdown">
      <header className="row wrap">
        <h2 id="breakdown">By</h2>
        <select aria-label="By" value={by} onChange={({ target }) => change({ by: target.value })}>
          {groups.map((group) => (
            <option key={group} value={group}>
              {group === "key" ? "API key" : group}
            </option>
          ))}
        </select>
      </header>
      <FiguresTable
        head={answer.by === "key" ? "API key" : answer.by}
        rows={answer.rows}
        name={(row) => <Name group={row.group} by={answer.by} change={change} />}
        share={(row) => (most > 0 ? size(row) / most : 0)}
      />
    </section>
  );
};

type NameProps = { group: string; by: UsageAnswer["by"]; change: Props["change"] };

const Name = ({ group, by, change }: NameProps) => {
  if (group === "") return <span className="note">none</span>;
  const name = by === "repository" ? shortRepository(group) : oneLine(group);
  if (by === "day" || by === "key") return <span className="mono">{name.slice(0, 12)}</span>;
  return (
    <button
      type="button"
      className="quiet"
      title={`Only ${oneLine(group)}`}
      onClick={() => change({ [filterOf[by]]: group })}
    >
      {name}
    </button>
  );
};
