import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { temporaryDirectory } from "../temporary.ts";
import { callNumbers } from "./attacks.ts";

const checkout = join(import.meta.dirname, "..", "..");
const isRoot = process.getuid?.() === 0;

export type Cast = {
  /** Who the service runs as. Root can be only root itself; an ordinary user is the tests' own unless that is root. */
  user: "root" | "user";
  sandbox: "off" | "bwrap" | "landlock";
  hasPublicHosts?: boolean;
  /** Under a seccomp filter like that of a container without privileges. */
  inContainer?: boolean;
};

export type Scene = { mode: string; succeeded: string[] } | { refused: string };

/** Users as whom these tests can run services. */
export const users: readonly Cast["user"][] = isRoot ? ["root", "user"] : ["user"];

/** Whether root makes the stage. */
export const stagedByRoot = isRoot;

/** For the title of a test. */
export const whoIs = (user: Cast["user"]): string =>
  user === "root" ? "root" : isRoot ? "an ordinary user" : "the tests' own user (root's half needs root)";

/**
 * Namespaces of its own for network, mounts and System V IPC, so that all that is planted is the test's alone: a resolver on
 * port 53, sockets in /run, a spool directory of cron, a device, a setuid program. The checkout is there under another name:
 * an ordinary user may not reach the tests' own.
 */
const stageScript = `
set -e
mount -t tmpfs -o mode=755 none "$STAGE"
for name in own other service given tmp; do mkdir "$STAGE/$name"; done
mkdir "$STAGE/checkout"
mount --rbind "$CHECKOUT" "$STAGE/checkout"
mount -t tmpfs -o mode=1777 none /run
mount -t tmpfs -o mode=1777 none /dev/shm
echo planted-secret > /dev/shm/planted
mount -t tmpfs -o mode=1777 none /var/spool
mkdir -p -m 1777 /var/spool/cron /var/spool/cron/crontabs
chmod 1777 /var/spool/cron/crontabs
mount -t tmpfs -o mode=755 none /etc/ssl
mkdir /etc/ssl/certs /etc/ssl/private
echo planted-secret > /etc/ssl/private/key
chmod 600 /etc/ssl/private/key
echo nameserver 127.0.0.2 > "$STAGE/resolv.conf"
for name in default apt systemd; do mount -t tmpfs -o mode=755 none "/etc/$name"; done
mkdir /etc/apt/auth.conf.d /etc/apt/closed
for file in default/svc apt/auth.conf apt/auth.conf.d/x apt/closed/key systemd/svc; do echo planted-secret > "/etc/$file"; done
chmod 711 /etc/apt/closed
resolver="$(readlink -m /etc/resolv.conf)"
case "$resolver" in
  /run/*) mkdir -p "\${resolver%/*}"; cp "$STAGE/resolv.conf" "$resolver" ;;
  *) mount --bind "$STAGE/resolv.conf" "$resolver" ;;
esac
ip link set lo up
echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start
if [ -n "$BY_ROOT" ]; then
  mknod -m 666 "$STAGE/own/zero" c 1 5
  cp /usr/bin/id "$STAGE/given/setuid"
  chmod 4755 "$STAGE/given/setuid"
  chown "$USER_ID" /dev/shm/planted /etc/ssl/private/key "$STAGE/own" "$STAGE/other" "$STAGE/service" "$STAGE/given" "$STAGE/tmp"
fi
exec setpriv "$@"
`;

/** What no shell and no Node can do: a key in a session keyring of its own, shared memory, and the filter of a container. */
const plantScript = String.raw`
use strict;
my ($number, $filter) = ({ split /[= ]/, shift }, shift);
syscall($number->{KEYCTL} + 0, 1, 0, 0, 0, 0) > 0 or die "keyring: $!";
my ($kind, $name, $secret) = ("user", "planted", "planted-secret");
syscall($number->{ADD_KEY} + 0, $kind, $name, $secret, length $secret, -3) > 0 or die "key: $!";
my $memory = shmget $ENV{SHARED_MEMORY}, 64, 01600;
defined $memory && shmwrite $memory, $secret, 0, 64 or die "shared memory: $!";
if ($filter ne "") {
  my $bytes = pack "H*", $filter;
  syscall($number->{PRCTL} + 0, 38, 1, 0, 0, 0) == 0 or die "no_new_privs: $!";
  my $program = pack "S x6 P", length($bytes) / 8, $bytes;
  syscall($number->{PRCTL} + 0, 22, 2, $program, 0, 0) == 0 or die "seccomp: $!";
}
exec { $ARGV[0] } @ARGV;
`;

/** Runs all attacks as one agent of a service in the cast's sandbox. */
export const play = async ({ sandbox, hasPublicHosts = false, ...who }: Cast): Promise<Scene> => {
  const { args, env } = await onStage(who, "attacked-service.ts", sandbox, ...(hasPublicHosts ? ["*"] : []));
  const { stdout } = await promisify(execFile)("unshare", args, { env, cwd: "/" });
  return JSON.parse(stdout) as Scene;
};

/** Arguments of `unshare` and the environment for a program of this directory. It keeps the pid. */
export const onStage = async (
  { user, inContainer = false }: Pick<Cast, "user" | "inContainer">,
  program: string,
  ...more: string[]
): Promise<{ args: string[]; env: Record<string, string>; stage: string }> => {
  // Not in shared memory, which the stage hides.
  const stage = await temporaryDirectory("/var/tmp");
  const numbers = Object.entries(callNumbers[process.arch] ?? {}).map((entry) => entry.join("="));
  const mine = isRoot ? [] : ["--user", "--map-current-user", "--keep-caps"];
  const become =
    user === "user" && isRoot ? "--reuid 20001 --regid 20001 --clear-groups" : "--ambient-caps=-all";
  const node = process.execPath.startsWith(checkout)
    ? join(stage, "checkout", process.execPath.slice(checkout.length))
    : process.execPath;
  const plant = ["perl", "-e", plantScript, numbers.join(" "), inContainer ? containerFilter() : ""];
  const args = [...mine, "--net", "--mount", "--ipc", "sh", "-c", stageScript, "sh", ...become.split(" ")];
  args.push(...plant, node, join(stage, "checkout", "test", "sandbox", program), ...more);
  const env = {
    PATH: "/usr/bin:/bin:/usr/sbin:/sbin",
    STAGE: stage,
    TMPDIR: join(stage, "tmp"),
    CHECKOUT: checkout,
    BY_ROOT: isRoot ? "1" : "",
    USER_ID: user === "user" ? "20001" : "0",
    SHARED_MEMORY: "4711",
    ...(inContainer && { KUBERNETES_SERVICE_HOST: "192.0.2.1" }),
  };
  return { args, env, stage };
};

const [load, jumpIfEqual, jumpIfAny, answer] = [0x20, 0x15, 0x45, 0x06];
const [allow, refuse, unknown] = [0x7fff0000, 0x00050001, 0x00050026];
const newNamespaces = 0x7e020000;
/** unshare, mount, setns, umount2; clone; clone3. */
const refusedCalls: Readonly<Record<string, { plain: number[]; clone: number; clone3: number }>> = {
  x64: { plain: [272, 165, 308, 166], clone: 56, clone3: 435 },
  arm64: { plain: [97, 40, 268, 39], clone: 220, clone3: 435 },
};

/**
 * What Docker's default profile does to a process without CAP_SYS_ADMIN, as far as a sandbox notices: new namespaces and
 * mounts are refused, and clone3, whose flags no filter can see, is said not to exist. Hex of `struct sock_filter[]`.
 */
const containerFilter = (): string => {
  const calls = refusedCalls[process.arch];
  if (calls === undefined) throw new Error(`no filter is written for ${process.arch}`);
  const { plain, clone, clone3 } = calls;
  const program: [code: number, ifTrue: number, ifFalse: number, value: number][] = [
    [load, 0, 0, 0],
    ...plain.map((call, at): [number, number, number, number] => [
      jumpIfEqual,
      plain.length - at + 5,
      0,
      call,
    ]),
    [jumpIfEqual, 0, 2, clone],
    [load, 0, 0, 16],
    [jumpIfAny, 3, 2, newNamespaces],
    [jumpIfEqual, 0, 1, clone3],
    [answer, 0, 0, unknown],
    [answer, 0, 0, allow],
    [answer, 0, 0, refuse],
  ];
  const bytes = Buffer.alloc(program.length * 8);
  for (const [at, [code, ifTrue, ifFalse, value]] of program.entries()) {
    bytes.writeUInt16LE(code, at * 8);
    bytes.writeUInt8(ifTrue, at * 8 + 2);
    bytes.writeUInt8(ifFalse, at * 8 + 3);
    bytes.writeUInt32LE(value, at * 8 + 4);
  }
  return bytes.toString("hex");
};
