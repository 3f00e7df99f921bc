import { readdir, readFile } from "node:fs/promises";
import type { Service } from "../service.ts";

/** Process ids of the agents of a service: its children that speak the protocol, not those that are only asked their version. */
export const livingAgents = async ({ pid }: Pick<Service, "pid">): Promise<number[]> => {
  const found: number[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const stat = await readFile(`/proc/${name}/stat`, "utf8").catch(() => "");
    const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (Number(parent) !== pid || state === "Z") continue;
    const command = await readFile(`/proc/${name}/cmdline`, "utf8").catch(() => "");
    if (command.includes("stream-json")) found.push(Number(name));
  }
  return found;
};
