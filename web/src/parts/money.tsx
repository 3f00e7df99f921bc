import { cost } from "../../../src/lib/quantities.ts";

/** An amount in USD; null: it is not known. */
export const Money = ({ usd }: { usd: number | null }) => (
  <span className="number">{usd === null ? "" : cost(usd)}</span>
);
