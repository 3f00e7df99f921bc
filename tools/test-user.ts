/**
 * `npm run test:user [-- PATH …]`: tests that depend on the user's rights, or those of PATH, as an ordinary user. Root starts
 * them as a user who exists only in a mount namespace of their own. There the checkout is at /mnt/svc, wherever it is else,
 * and what this user writes is in memory and ends with the namespace. Anybody else is an ordinary user already.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";

const root = join(import.meta.dirname, "..");

/** Where the code or the test asks who the user is, or where a mode of a file keeps only an ordinary user out. */
const suites = [
  "src/agents/claude/environment.test.ts",
  "src/agents/claude/real-cli.test.ts",
  "src/chat/workspaces.test.ts",
  "src/lib/disk-usage.test.ts",
  "src/lib/process/",
  "src/place/environments.test.ts",
  "src/repos/mischief.test.ts",
  "src/repos/outcome.test.ts",
  "src/sandbox/arguments.test.ts",
  "src/sandbox/door-load.test.ts",
  "src/sandbox/choice.test.ts",
  "src/sandbox/probe.test.ts",
  "src/sandbox/sandbox.test.ts",
  "src/telemetry/sql-sink.test.ts",
  "test/bridge/file-failures.test.ts",
  "test/e2e/bad-input-disk.test.ts",
  "test/e2e/bad-input-start.test.ts",
  "test/faults/partition.test.ts",
  "test/mcp/nginx/",
  "test/sandbox/attacks.test.ts",
  "test/sandbox/landlock.test.ts",
  "test/sandbox/limits.test.ts",
  "test/update/",
];

/** Directories in which vitest and the tests write. */
const written = [".cache", ".vite", ".vite-temp"];

/** Programs that this project brings, then those of the machine: root's own PATH may lead where the user may not go. */
const path = [
  "/mnt/svc/node_modules/.bin",
  dirname(process.execPath).replace(root, "/mnt/svc"),
  "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
].join(":");

const stage = `
set -e
mount -t tmpfs -o mode=755 none /mnt
mkdir /mnt/svc /mnt/home
chown 20041:20041 /mnt/home
mount --bind "$1" /mnt/svc
for name in ${written.join(" ")}; do
  mount -t tmpfs -o uid=20041,gid=20041,mode=755 none "/mnt/svc/node_modules/$name"
done
{ cat /etc/passwd; echo svc-tester:x:20041:20041::/mnt/home:/bin/sh; } > /mnt/passwd
{ cat /etc/group; echo svc-tester:x:20041:; } > /mnt/group
for name in passwd group; do mount --bind "/mnt/$name" "/etc/$name"; done
cd /mnt/svc
path="$2"
shift 2
exec setpriv --reuid=20041 --regid=20041 --clear-groups --inh-caps=-all --reset-env env "PATH=$path" vitest run "$@"
`;

const args = process.argv.length > 2 ? process.argv.slice(2) : suites;
const isRoot = process.getuid?.() === 0;
for (const name of isRoot ? written : []) mkdirSync(join(root, "node_modules", name), { recursive: true });
const [command, before] = isRoot
  ? ["unshare", ["--mount", "sh", "-c", stage, "sh", root, path]]
  : ["vitest", ["run"]];
const { status, error } = spawnSync(command, [...before, ...args], { cwd: root, stdio: "inherit" });
if (error !== undefined) process.stderr.write(`${command}: ${error.message}\n`);
process.exitCode = status ?? 1;
