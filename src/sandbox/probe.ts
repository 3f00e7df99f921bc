import { access, readFile } from "node:fs/promises";

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

/**
 * Why bubblewrap does not start here, and what to do. The first row that applies:
 *
 * | seen | cause |
 * |---|---|
 * | no program | the package is missing |
 * | an option that it does not know | it is older than 0.8 |
 * | proc cannot be mounted | the container masks /proc |
 * | no namespace; AppArmor restricts them | Ubuntu's default |
 * | no namespace; the kernel's switch is 0 | the administrator |
 * | no namespace, in a container | its seccomp or AppArmor profile |
 * | anything else | bubblewrap's last line |
 */
export const explain = (failure: Failure): string => {
  const { stderr, appArmorRestricts, unprivilegedAllowed, maxUserNamespaces, isContainer, isRoot } = failure;
  if (stderr === null) return "bubblewrap is not installed: apt-get install bubblewrap";
  if (/unknown option/i.test(stderr)) return "bubblewrap is too old: install 0.8 or newer";
  if (/can't mount proc/i.test(stderr))
    return "the container masks /proc: start it with --security-opt systempaths=unconfined (Docker) or --security-opt unmask=ALL (Podman), in Kubernetes with procMount: Unmasked and hostUsers: false";
  if (/namespace|uid map|operation not permitted|permission denied|no space left/i.test(stderr)) {
    if (!isRoot && appArmorRestricts === "1")
      return "AppArmor restricts user namespaces: install the profile deploy/apparmor/svc-bwrap as its first lines say";
    if (!isRoot && unprivilegedAllowed === "0")
      return "user namespaces are switched off: sysctl -w kernel.unprivileged_userns_clone=1";
    if (maxUserNamespaces === "0")
      return "user namespaces are switched off: sysctl -w user.max_user_namespaces=10000";
    if (isContainer)
      return "the container refuses namespaces: start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined, or let SERVICE_AGENT_SANDBOX=landlock do without them";
  }
  const line = stderr.trim().split("\n").at(-1)?.slice(0, 300) || "it says nothing";
  return `bubblewrap does not start: ${line}`;
};

/** What `explain` needs to know of this machine. */
export const machineFacts = async (): Promise<Omit<Failure, "stderr">> => {
  const read = (path: string): Promise<string | null> =>
    readFile(path, "utf8").then(
      (text) => text.trim(),
      () => null,
    );
  const exists = (path: string): Promise<boolean> =>
    access(path).then(
      () => true,
      () => false,
    );
  const [appArmorRestricts, unprivilegedAllowed, maxUserNamespaces, docker, podman] = await Promise.all([
    read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
    read("/proc/sys/kernel/unprivileged_userns_clone"),
    read("/proc/sys/user/max_user_namespaces"),
    exists("/.dockerenv"),
    exists("/run/.containerenv"),
  ]);
  const isContainer = docker || podman || process.env["KUBERNETES_SERVICE_HOST"] !== undefined;
  return {
    appArmorRestricts,
    unprivilegedAllowed,
    maxUserNamespaces,
    isContainer,
    isRoot: process.getuid?.() === 0,
  };
};
