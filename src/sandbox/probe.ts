import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";

/** What a start of bubblewrap left, and what is known of the machine. */
export type Failure = {
  /** Of bubblewrap's start; null: there is no such program. */
  stderr: string | null;
  /** The kernel's switches, as they are read; null: there is no such switch. */
  appArmorRestricts: string | null;
  unprivilegedAllowed: string | null;
  maxUserNamespaces: string | null;
  isContainer: boolean;
  isRoot: boolean;
};

/** Why bubblewrap does not start here, and what to do: the first cause that applies, else its own last line. */
export const explain = (failure: Failure): string => {
  const { stderr } = failure;
  if (stderr === null) return "bubblewrap is not installed: apt-get install bubblewrap";
  if (/unknown option/i.test(stderr)) return "bubblewrap is too old: install 0.8 or newer";
  const line = stderr.trim().split("\n").at(-1)?.slice(0, 300) || "it says nothing";
  return maskOf(stderr, failure) ?? refusalOf(stderr, failure) ?? `bubblewrap does not start: ${line}`;
};

/** Containers mask parts of /proc. So does systemd, which also answers some calls as if they were not known. */
const maskOf = (stderr: string, { isContainer }: Failure): string | null => {
  if (isContainer && /can't mount proc/i.test(stderr))
    return "the container masks /proc: start it with --security-opt systempaths=unconfined (Docker) or --security-opt unmask=ALL (Podman), in Kubernetes with procMount: Unmasked and hostUsers: false";
  if (!isContainer && /can't mount proc|read-only file system|function not implemented/i.test(stderr))
    return "the service's unit forbids it: leave out ProtectKernelTunables, ProtectKernelLogs, ProtectHostname, ProcSubset and RestrictSUIDSGID, as deploy/systemd/svc.service does";
  return null;
};

const refusalOf = (stderr: string, failure: Failure): string | null => {
  const { appArmorRestricts, unprivilegedAllowed, maxUserNamespaces, isContainer, isRoot } = failure;
  if (!/namespace|uid map|operation not permitted|permission denied|no space left/i.test(stderr)) return null;
  if (!isRoot && appArmorRestricts === "1")
    return "AppArmor restricts user namespaces: install the profile deploy/apparmor/svc-bwrap as its first lines say";
  if (!isRoot && unprivilegedAllowed === "0")
    return "user namespaces are switched off: sysctl -w kernel.unprivileged_userns_clone=1";
  if (maxUserNamespaces === "0")
    return "user namespaces are switched off: sysctl -w user.max_user_namespaces=10000";
  if (!isContainer) return null;
  return "the container refuses namespaces: start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined, or let SERVICE_AGENT_SANDBOX=landlock do without them";
};

/** What `explain` needs to know of this machine. */
export const machineFacts = async (): Promise<Omit<Failure, "stderr">> => {
  const read = async (path: string): Promise<string | null> =>
    (await readFile(path, "utf8").catch(() => null))?.trim() ?? null;
  const [appArmorRestricts, unprivilegedAllowed, maxUserNamespaces] = await Promise.all([
    read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
    read("/proc/sys/kernel/unprivileged_userns_clone"),
    read("/proc/sys/user/max_user_namespaces"),
  ]);
  // Podman's file is hidden when its root is read-only, its variable is not.
  const isContainer =
    ["/.dockerenv", "/run/.containerenv"].some((path) => existsSync(path)) ||
    ["container", "KUBERNETES_SERVICE_HOST"].some((name) => process.env[name] !== undefined);
  return {
    appArmorRestricts,
    unprivilegedAllowed,
    maxUserNamespaces,
    isContainer,
    isRoot: process.getuid?.() === 0,
  };
};
