import { isRed } from "../../../src/contract/check.ts";
import type { Job } from "../../../src/contract/job.ts";
import { checkEnd } from "../../../src/view/checks.ts";
import { sanitise } from "../../../src/view/sanitise.ts";

/** What the service ran on the work; a red one with the end of its output. */
export const Checks = ({ job: { checks } }: { job: Job }) =>
  checks.length === 0 ? null : (
    <>
      <h2>Checks</h2>
      <ul className="plain stack">
        {checks.map((check) => (
          <li key={check.name}>
            <details open={isRed(check)}>
              <summary className={isRed(check) ? "fault" : undefined}>
                {check.name}: {checkEnd(check)}
              </summary>
              <pre>{sanitise(check.log) || "(no output)"}</pre>
            </details>
          </li>
        ))}
      </ul>
    </>
  );
