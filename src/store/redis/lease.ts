import { readlink } from "node:fs/promises";
import { z } from "zod";
import { isAlive, type ProcessIdentity } from "../../lib/process/identity.ts";
import { InstanceFacts } from "../instances.ts";

/** What the key of an instance holds. */
const Lease = z.object({
  facts: InstanceFacts,
  /** Null: it could not be told. */
  process: z.object({ pid: z.int(), start_time: z.string(), boot_id: z.string() }).nullable(),
  pid_namespace: z.string(),
  lease_ms: z.number(),
});
export type Lease = z.infer<typeof Lease>;

export const leaseText = (lease: Lease): string => JSON.stringify(lease);

/** Null: not a lease that this version knows. */
export const parseLease = (text: string): Lease | null => {
  try {
    return Lease.parse(JSON.parse(text));
  } catch {
    return null;
  }
};

/** Containers of one machine share its boot but not its pids: those of another namespace say nothing here. */
export const pidNamespace = async (): Promise<string> => await readlink("/proc/self/ns/pid").catch(() => "");

/** Whether the process of the lease lives; null: that cannot be seen from here. */
export const isHolderAlive = async (holder: Lease, self: ProcessIdentity | null): Promise<boolean | null> => {
  const here = await pidNamespace();
  if (holder.process === null || self === null || holder.process.boot_id !== self.boot_id) return null;
  if (here === "" || holder.pid_namespace !== here) return null;
  return await isAlive(holder.process);
};
