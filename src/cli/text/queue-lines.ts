import type { Overview } from "../../contract/instance.ts";
import { duration } from "./duration.ts";
import { oneLine } from "./sanitise.ts";

/** How long the queue is and who works on it; what was lost with an instance is told when there is any. */
export const queueLines = ({ queue, instances, lost, recovered }: Overview): string[] => {
  const oldest =
    queue.oldest_wait_seconds === null
      ? ""
      : `, the oldest for ${duration(queue.oldest_wait_seconds * 1000)}`;
  const running = [`${queue.running} running`, instances.map(share).join(", ")].filter((part) => part !== "");
  return [
    `${queue.waiting} waiting${oldest}; ${running.join(": ")}`,
    ...(lost + recovered > 0
      ? [`${jobs(lost)} failed with a lost instance, ${recovered} queued again after one`]
      : []),
  ];
};

const share = ({ name, running, max_parallel_jobs: most, draining }: Overview["instances"][number]): string =>
  `${oneLine(name)} ${running} of ${most}${draining ? " (draining)" : ""}`;

const jobs = (count: number): string => `${count} ${count === 1 ? "job" : "jobs"}`;
