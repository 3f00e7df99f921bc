import { oneLine } from "../../../src/view/sanitise.ts";
import type { Budget } from "../../../src/contract/usage.ts";
import { Money } from "../parts/money.tsx";

const owners = { service: "The service", key: "Your API key", profile: "" };

/** What is left of each budget of today. */
export const Budgets = ({ budgets }: { budgets: readonly Budget[] }) =>
  budgets.length > 0 && (
    <section aria-labelledby="budgets" className="budgets">
      <h2 id="budgets">Budgets of today</h2>
      <ul>
        {budgets.map(({ of, profile, limit_usd: limit, spent_usd: spent }) => {
          const name = profile === null ? owners[of] : oneLine(profile);
          return (
            <li key={name} data-spent={spent >= limit}>
              <span>{name}</span>
              <meter
                aria-label={`${name}: spent`}
                max={Math.max(limit, Number.MIN_VALUE)}
                value={Math.min(spent, limit)}
              />
              <span>
                {spent >= limit ? (
                  <b className="fault">spent; lifts at midnight UTC</b>
                ) : (
                  <>
                    <Money usd={limit - spent} /> left
                  </>
                )}{" "}
                <span className="note">
                  of <Money usd={limit} />
                </span>
              </span>
            </li>
          );
        })}
      </ul>
    </section>
  );
