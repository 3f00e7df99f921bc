import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { supervise } from "../../src/lib/process/supervise.ts";
import { createSandbox, type SandboxMode } from "../../src/sandbox/sandbox.ts";
import { allowedOnly } from "./allowed-only.ts";

/** A tool, and what a shell says with it. Of one that is not installed the shell says that, everywhere. */
export type Tool = readonly [name: string, script: string];

const python = (script: string): string => `/usr/bin/python3 -c '${script}'`;

/** What people's tasks start, as far as Debian has it small. Each is asked for what it finds in /etc, /dev or its directory. */
export const tools: readonly Tool[] = [
  ["php with mbstring", `php -r 'echo mb_strlen("aé"), PHP_EOL;'`],
  ["php's modules", "php -m | wc -l"],
  ["fonts", "fc-match sans"],
  ["python: locks between processes", python('import multiprocessing as m; m.Lock(); print("locked")')],
  ["python: a pool", python("import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))")],
  [
    "python: shared memory",
    python(
      "from multiprocessing import shared_memory as s; m = s.SharedMemory(create=True, size=64); m.buf[0] = 7; print(m.buf[0], m.name[:4]); m.unlink()",
    ),
  ],
  ["python: a terminal", python('import pty; pty.spawn(["sh", "-c", "tty -s && echo a terminal"])')],
  ["python: certificates", python("import ssl; print(ssl.create_default_context().cert_store_stats())")],
  ["a shell in a terminal", `script -qec 'tty -s && stty size && echo typed > /dev/tty' /dev/null`],
  ["files in shared memory", "echo shared > /dev/shm/$$ && cat /dev/shm/$$ && rm /dev/shm/$$"],
  ["ruby", "ruby -e 'require \"etc\"; puts Etc.getpwuid(0).name, RUBY_VERSION'"],
  ["perl", "perl -MSocket -MConfig -e 'print getpwuid(0).qq( $Config{version}\\n)'"],
  ["awk, by a link in /etc", "echo 1 2 | awk '{ print $2 }'"],
  ["the editor that is set", "readlink -f /usr/bin/editor /etc/localtime"],
  ["gcc", "printf 'int main(void) { return 3; }' > a.c && gcc a.c -o a.out && ./a.out; echo $?"],
  ["make", "printf 'all:\\n\\t@echo made\\n' > Makefile && make"],
  ["npm", "npm --version && npm config get globalconfig"],
  ["pip", "/usr/bin/python3 -m pip config debug | grep -A1 /etc"],
  ["cargo", "cargo --version"],
  ["go", "go env GOROOT"],
  ["sqlite3", "sqlite3 a.db 'create table t (a); insert into t values (1), (2); select sum(a) from t'"],
  ["git-lfs", "git lfs version"],
  ["git, set up for the machine", "git config --system --list"],
  ["names of the machine's release", "cat /etc/*release | sort"],
  ["services and protocols", "getent services https; getent protocols tcp; getent hosts localhost"],
  ["the locale", "locale -a | sort; date -d @0"],
  [
    "a path that docker's client asks",
    "ls /var/run/docker.sock >/dev/null 2>&1 && echo there || echo refused",
  ],
];

/** Tools of the Java machine, which Debian has large. */
export const jvmTools: readonly Tool[] = [
  [
    "java, with the machine's security settings",
    `printf 'class A { public static void main(String[] a) throws Exception { System.out.println(java.security.MessageDigest.getInstance("SHA-256").getProvider().getName() + javax.net.ssl.SSLContext.getDefault().getProtocol()); } }' > A.java && java A.java`,
  ],
  ["mvn", "mvn -v | grep -v memory"],
];

/** What each tool says in a mode: to people and to whoever reads errors, and how it ends. */
export const sayings = async (
  mode: SandboxMode,
  asked: readonly Tool[],
  within: string,
): Promise<Record<string, string>> => {
  const cwd = join(within, mode);
  await mkdir(cwd);
  const { sandbox } = await createSandbox(mode);
  const path = "/usr/bin:/bin";
  await using entered = await sandbox.enter({
    command: "sh",
    path,
    home: "/home/agent",
    cwd,
    writable: [],
    readable: [],
    routes: [],
    allowed: allowedOnly(),
    onDenied: () => undefined,
  });
  const each = asked.map(
    ([, script], nth) => `(${script}) > said-${nth} 2>&1 </dev/null; echo "[$?]" >> said-${nth}`,
  );
  const started = await supervise({
    command: "sh",
    args: ["-c", each.join("\n")],
    cwd,
    env: { PATH: path, HOME: cwd, LANG: "C.UTF-8", ...entered?.env },
    marker: { name: "SERVICE_TEST", value: randomUUID() },
    box: entered?.box ?? null,
    stdin: "",
  });
  if (!started.ok) throw new Error(started.message);
  const { stdout, stderr, ended } = started.process;
  for (const stream of [stdout, stderr]) stream.resume();
  await ended;
  const read = asked.map(async ([name], nth): Promise<[string, string]> => {
    const said = await readFile(join(cwd, `said-${nth}`), "utf8");
    return [name, said.replaceAll(cwd, "HERE").replaceAll(/^\S*sh: \d+: /gm, "")];
  });
  return Object.fromEntries(await Promise.all(read));
};

/** Those that this machine has not are said, so that a comparison is not taken for more than it is. */
export const missingOf = async (commands: readonly string[]): Promise<string[]> => {
  const has = (command: string): Promise<boolean> =>
    promisify(execFile)("/bin/sh", ["-c", `command -v ${command}`]).then(
      () => true,
      () => false,
    );
  const there = await Promise.all(commands.map(has));
  return commands.filter((_, nth) => !there[nth]);
};
