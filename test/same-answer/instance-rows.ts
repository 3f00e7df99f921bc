import { until } from "../until.ts";
import type { Row, Scene } from "./scene.ts";

export const instanceRows = (scene: () => Scene): Row[] => [
  {
    operation: "list_instances",
    outcome: "success",
    question: async () => {
      // What an instance says about itself follows what it does by some seconds.
      await until(async () => (await scene().roomy.client.list_instances()).instances[0]?.running === 1);
      return { input: {} };
    },
    varies: ["oldest_wait_seconds"],
  },
];
