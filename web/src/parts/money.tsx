import { cost } from "../../../src/view/quantities.ts";

/** An amount in USD; null: it is not known. */
export const Money = ({ usd, estimated = false }: { usd: number | null; estimated?: boolean }) => (
  <span className="number">{usd === null ? "" : cost(usd, estimated)}</span>
);
