import { cleanUp } from "../cleanup.ts";
import { idempotencyRounds } from "./idempotency-rounds.ts";
import { storeOutage } from "./store-outage.ts";
import { storeRounds } from "./store-rounds.ts";

type Request = {
  directory: string;
  rounds: number;
  random: () => number;
  onRound?: (round: number, tally: { faults: string[] }) => void;
};

const cleaned =
  <Tally>(run: (request: Request) => Promise<Tally>) =>
  async (request: Request): Promise<Tally> => {
    try {
      return await run(request);
    } finally {
      await cleanUp();
    }
  };

/** What `npm run crash` does to the store, as often as is asked; for `outage` that is how long the store is away, in seconds. */
export const storeCrashes = {
  store: cleaned((request) => storeRounds({ ...request, timed: true })),
  freeze: cleaned((request) => storeRounds({ ...request, hows: ["freeze"], timed: true })),
  sentinel: cleaned((request) => storeRounds({ ...request, hows: ["fail-over"] })),
  outage: cleaned(({ directory, rounds }) => storeOutage({ directory, seconds: rounds })),
  idempotency: cleaned(idempotencyRounds),
};
