import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createServer, type IncomingHttpHeaders } from "node:http";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { copyFile, mkdir, readFile, realpath, rm, stat, symlink, writeFile } from "node:fs/promises";
import { createServer as createTcp, type AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { outsideSharedMemory, temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { findMarked } from "../../test/processes.ts";
import { parseHosts } from "../lib/allowed-hosts.ts";
import { runCommand, type Wall } from "../lib/command.ts";
import { supervise } from "../lib/process/supervise.ts";
import { reservePorts } from "../place/ports.ts";
import { createSandbox, type Allowed, type Run, type Sandbox } from "./sandbox.ts";

type Mode = "bwrap" | "landlock";
const execute = promisify(execFile);
const sandboxes = {
  bwrap: await createSandbox("bwrap"),
  landlock: await createSandbox("landlock"),
};
const nothing: Allowed = {
  hosts: [],
  read: [],
  write: [],
  temporaryBytes: 64 * 1024 * 1024,
  memoryBytes: null,
  processes: null,
};
const [path, word] = ["/usr/bin:/bin", "the-word-of-this-run"];

const enter = async ({ enter }: Sandbox, more: Partial<Run>) => {
  const { cwd = await temporaryDirectory() } = more;
  const denied: string[] = [];
  const entered = await enter({
    command: "sh",
    path,
    home: "/home/agent",
    cwd,
    writable: [],
    readable: [],
    routes: [],
    allowed: nothing,
    word,
    onDenied: (name) => denied.push(name),
    ...more,
  });
  if (entered === null) throw new Error("no sandbox");
  afterFile(() => entered[Symbol.asyncDispose]());
  return { cwd, denied, entered };
};

const startIn = async (sandbox: Sandbox, script: string, more: Partial<Run> = {}) => {
  const { cwd, denied, entered } = await enter(sandbox, more);
  const marker = { name: "SERVICE_TEST", value: randomUUID() };
  const env = {
    PATH: path,
    HOME: "/home/agent",
    SOCKET: entered.model.socket ?? "",
    ORIGIN: entered.model.origin,
    ...entered.env,
  };
  const { box } = entered;
  const started = await supervise({ command: "sh", args: ["-c", script], cwd, env, marker, box });
  if (!started.ok) throw new Error(started.message);
  const { process } = started;
  const seen = { output: "" };
  for (const stream of [process.stdout, process.stderr])
    stream.on("data", (piece: Buffer) => (seen.output += piece.toString()));
  return { cwd, denied, entered, process, seen, marker };
};

const start = (mode: Mode, script: string, more: Partial<Run> = {}) =>
  startIn(sandboxes[mode].sandbox, script, more);

const run = async (mode: Mode, script: string, more: Partial<Run> = {}) => {
  const { process, seen, ...rest } = await start(mode, script, more);
  process.stdin.end();
  const ended = await process.ended;
  return { ...rest, ended, output: seen.output };
};

describe.each<Mode>(["bwrap", "landlock"])("%s", (mode) => {
  test("TERM reaches the program, which may say its last words", async () => {
    const { process, seen, marker } = await start(
      mode,
      "trap 'echo last words; exit 3' TERM; echo ready; while :; do sleep 0.05; done",
    );
    await until(() => seen.output.includes("ready"));
    const ended = await process.stop({ graceSeconds: 10 });
    expect(seen.output).toContain("last words");
    expect(ended).toMatchObject({ exitCode: 3, survivors: [] });
    expect(await findMarked(marker)).toEqual([]);
  });

  test("what leaves its session and ignores TERM ends with the run", async () => {
    const deaf = "trap '' TERM HUP INT; echo deaf > f; while :; do sleep 0.05; done";
    const { process, seen, marker, cwd } = await start(
      mode,
      `setsid sh -c "${deaf}" & env -i setsid nohup sleep 1000 & echo ready; sleep 1000`,
    );
    await until(
      async () =>
        seen.output.includes("ready") && (await readFile(join(cwd, "f"), "utf8").catch(() => "")) !== "",
    );
    await process.stop({ graceSeconds: 1 });
    expect(await findMarked(marker)).toEqual([]);
  });

  test("the end of the program ends what it left running", async () => {
    const { ended, marker } = await run(mode, "setsid sleep 1000 & setsid sleep 1000 & exit 4");
    expect(ended).toMatchObject({ exitCode: 4, survivors: [] });
    expect(await findMarked(marker)).toEqual([]);
  });

  test("the model gets the service's credential, which is nowhere inside", async () => {
    const seen: IncomingHttpHeaders[] = [];
    const server = createServer((asked, answer) => {
      seen.push(asked.headers);
      answer.end("from the model");
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    afterFile(async () => void server.close());
    const { port } = server.address() as AddressInfo;
    const routes = [
      {
        paths: /^\/v1\//,
        target: new URL(`http://127.0.0.1:${port}`),
        headers: { authorization: "Bearer canary-7d1" },
      },
    ];
    const { output } = await run(
      mode,
      `curl -sS \${SOCKET:+--unix-socket $SOCKET} -H "authorization: Bearer ${word}" $ORIGIN/v1/messages; env; cat /proc/self/environ /proc/$$/environ /proc/$$/cmdline`,
      { routes },
    );
    expect(output).toContain("from the model");
    expect(output).not.toContain("canary-7d1");
    expect(seen.at(-1)).toMatchObject({ authorization: "Bearer canary-7d1" });
  });

  test("a refused host is told by name", async () => {
    const { output, denied } = await run(
      mode,
      "i=0; until curl -sS https://registry.example.com/ 2>&1 | grep 403; do i=$((i+1)); [ $i -gt 50 ] && exit 1; sleep 0.1; done",
    );
    expect(output).toMatch(/403/);
    expect(denied).toEqual(["registry.example.com:443"]);
  });

  test("a short program that is confined has the named paths, no socket and no descriptor, and leaves nothing behind", async () => {
    const home = await temporaryDirectory();
    const [given, own, worktree] = [`${home}/given`, `${home}/own`, `${home}/a "worktree" é`];
    for (const directory of [given, own, worktree]) await mkdir(directory);
    await writeFile(`${given}/secret`, "canary\n");
    const run = async (script: string, wall: Wall | null): Promise<string> => {
      const args = ["-c", script, "sh", worktree, home];
      const limits = { timeoutSeconds: 60, signal: new AbortController().signal };
      return (await runCommand({ command: "sh", args, cwd: "/", env: { PATH: path }, ...limits, wall }))
        .stdout;
    };
    const use = { readable: [own], writable: [worktree], cwd: worktree };
    const limits = { memoryBytes: null, processes: null };
    await using wall = await sandboxes[mode].sandbox.confine({ ...use, limits });
    const tried = `cd "$2"; cat given/secret own/secret; echo x >own/f; echo x >"$1/f"
      perl -MSocket -e 'print "socket\\n" for grep { socket(my $s, $_, SOCK_STREAM, 0) } AF_INET, AF_UNIX'
      setsid echo left; sleep 1001 & exit 0`;
    expect(await run(tried, wall)).toBe("");
    const descriptors = "echo /proc/self/fd/*";
    expect(await run(descriptors, wall)).toBe(await run(descriptors, null));
    expect(await readFile(join(worktree, "f"), "utf8")).toBe("x\n");
    expect(existsSync(join(own, "f"))).toBe(false);
    await until(async () => !(await execute("ps", ["-eo", "args="])).stdout.includes("\nsleep 1001\n"));
  });

  test("a path that is missing, or a link to what is the service's alone, is left out and said", async () => {
    const home = await temporaryDirectory();
    const [given, keys, planted] = ["given", "keys", "planted"].map((name) => join(home, name)) as [
      string,
      string,
      string,
    ];
    for (const directory of [given, keys]) await mkdir(directory);
    for (const directory of [given, keys]) await writeFile(join(directory, "f"), `${directory} said\n`);
    await symlink(keys, planted);
    const { sandbox } = await createSandbox(mode, { reserved: [keys], mark: "test" });
    const missing = join(home, "missing");
    const { seen, process, entered } = await startIn(sandbox, `cat ${given}/f ${planted}/f ${keys}/f`, {
      allowed: { ...nothing, read: [given, planted, missing, "/"], write: [home] },
    });
    await process.ended;
    expect(seen.output).toContain("given said");
    expect(seen.output).not.toContain("keys said");
    expect(entered.warnings).toEqual([
      expect.stringContaining(`${planted}, which leads to ${keys}`),
      expect.stringContaining(`${missing}, which does not exist`),
      expect.stringContaining("have /, which leads"),
      expect.stringContaining(`${home}, which leads to ${home}, and no agent may have ${keys}`),
    ]);
  });

  test("a link in the place of what the service made fails the start, wherever it leads", async () => {
    const home = await realpath(await temporaryDirectory());
    const [keys, planted, own] = ["keys", "planted", "own"].map((name) => join(home, name)) as [
      string,
      string,
      string,
    ];
    for (const directory of [keys, own]) await mkdir(directory);
    await symlink(keys, planted);
    await symlink(join(keys, "f"), join(own, "session.jsonl"));
    await writeFile(join(keys, "f"), "canary\n");
    const refused: readonly [link: string, run: Partial<Run>][] = [
      [planted, { writable: [own, planted] }],
      [planted, { readable: [planted] }],
      [planted, { cwd: planted }],
      [join(own, "session.jsonl"), { readable: [join(own, "session.jsonl")] }],
      [planted, { mounts: [{ from: planted, to: "/home/agent/.cache" }] }],
      [join(planted, "f"), { mounts: [{ from: join(planted, "f"), to: "/home/agent/.cache" }] }],
    ];
    for (const [link, more] of refused)
      await expect(start(mode, "cat f", more)).rejects.toThrow(`${link} is a link, or lies behind one`);
    const above = join(home, "above");
    await symlink(home, above);
    const { output } = await run(mode, `cat ${home}/keys/f`, { readable: [join(above, "keys")] });
    expect(output).toBe("canary\n");
  });

  test("shared memory and terminals work, and are the run's alone", async () => {
    const name = `svc-test-${randomUUID()}`;
    const outside = `/dev/shm/${name}`;
    await writeFile(outside, "planted\n");
    afterFile(() => rm(outside, { force: true }));
    const script = `cat ${outside}; ls /dev/shm | wc -l; echo x > ${outside}-inside && cat ${outside}-inside
      script -qec 'tty; echo typed > /dev/tty' /dev/null; df -k --output=size /dev/shm | tail -1`;
    const { output } = await outsideSharedMemory(() => run(mode, script));
    expect(output).toMatch(
      /^cat: .*No such file or directory\n0\nx\n\/dev\/pts\/\d+\r?\ntyped\r?\n *65536\n$/,
    );
    expect(existsSync(`${outside}-inside`)).toBe(false);
  });

  test("what is allowed by name is there, and nothing else of its parent", async () => {
    const home = await temporaryDirectory();
    for (const name of ["given", "kept"]) await mkdir(join(home, name));
    await writeFile(join(home, "given", "f"), "given\n");
    await writeFile(join(home, "kept", "f"), "kept\n");
    const { output } = await run(mode, `cat ${home}/given/f; cat ${home}/kept/f; echo > ${home}/given/g`, {
      readable: [join(home, "given")],
    });
    expect(output).toMatch(/^given$/m);
    expect(output).not.toMatch(/^kept$/m);
    expect(output).toMatch(/Read-only file system|Permission denied/);
  });
});

const startTcp = async (said: string): Promise<number> => {
  const server = createTcp((client) => client.on("error", () => undefined).end(said));
  await once(server.listen(0, "127.0.0.1"), "listening");
  afterFile(async () => void server.close());
  return (server.address() as AddressInfo).port;
};

test.each<Mode>(["bwrap", "landlock"])(
  "%s: a run listens on its own ports, and connects to them and to no others of this machine",
  async (mode) => {
    await using ports = await reservePorts("24000-29999");
    const numbers = ports?.numbers ?? [];
    const [first = 0, last = 0] = [numbers[0], numbers.at(-1)];
    const other = await startTcp("from outside");
    const serve = (port: number): string => `perl -MIO::Socket::INET -e '
      my $s = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1", LocalPort => ${port}) or exit print "no ";
      print IO::Socket::INET->new(PeerAddr => "127.0.0.1:${port}") ? "yes " : "deaf "';`;
    const script = `${serve(first)} ${serve(last)} ${mode === "landlock" ? serve(last + 1) : ""}
      curl -s --noproxy '*' http://127.0.0.1:${other}/ | grep -q outside && echo reached`;
    const { output } = await run(mode, script, { ports: numbers });
    expect(output).toBe(`yes yes ${mode === "landlock" ? "no " : ""}`);
  },
);

test.each<Mode>(["bwrap", "landlock"])(
  "%s: `*` stands for every public host through the door, and for nothing of this machine",
  async (mode) => {
    const port = await startTcp("HTTP/1.1 200 OK\r\n\r\nfrom the machine");
    const ask = (to: string): string => `curl -sS -m 20 --noproxy '' ${to} 2>&1`;
    const { output, denied } = await run(
      mode,
      `i=0; until curl -s -o /dev/null $HTTP_PROXY || [ $i -gt 50 ]; do i=$((i+1)); sleep 0.1; done
       ${ask(`http://127.0.0.1:${port}/`)}; ${ask("https://169.254.169.254/")}; ${ask("http://10.11.12.13/")}
       ${ask("https://198.51.100.7:8443/")}; curl -s --noproxy '*' http://127.0.0.1:${port}/ | grep machine; echo done`,
      { allowed: { ...nothing, hosts: parseHosts(["*"]) } },
    );
    expect(output).not.toContain("from the machine");
    expect(output).toMatch(/done$/m);
    expect(denied).toEqual([
      `127.0.0.1:${port}`,
      "169.254.169.254:443",
      "10.11.12.13:80",
      "198.51.100.7:8443",
    ]);
  },
);

test.each<Mode>(["bwrap", "landlock"])(
  "%s: ssh and programs without a proxy reach a host that is named with its port, as the manual says",
  async (mode) => {
    const banners: string[] = [];
    const ssh = createTcp((client) => {
      client.on("error", () => undefined).write("SSH-2.0-Planted\r\n");
      client.once("data", (piece) => (banners.push(piece.toString()), client.end()));
    });
    await once(ssh.listen(0, "127.0.0.1"), "listening");
    afterFile(async () => void ssh.close());
    const { port: sshPort } = ssh.address() as AddressInfo;
    const database = await startTcp("from the database");
    await using ports = await reservePorts("24000-29999");
    const numbers = ports?.numbers ?? [];
    const cwd = await temporaryDirectory();
    await copyFile(join(import.meta.dirname, "../../deploy/sandbox/through.mjs"), join(cwd, "through.mjs"));
    const { output, denied } = await run(
      mode,
      `node through.mjs 127.0.0.1:${database} ${numbers[0]} &
       i=0; until curl -s --http0.9 --noproxy '*' http://127.0.0.1:${numbers[0]}/ || [ $i -gt 100 ]; do i=$((i+1)); sleep 0.1; done
       ssh -F none -p ${sshPort} -o "ProxyCommand=node through.mjs %h:%p" git@127.0.0.1 2>&1; echo; echo done`,
      {
        cwd,
        ports: numbers,
        path: `${dirname(process.execPath)}:${path}`,
        allowed: { ...nothing, hosts: parseHosts([`127.0.0.1:${database}`, `127.0.0.1:${sshPort}`], true) },
      },
    );
    expect(output).toMatch(/^from the database[^]*done$/m);
    expect(banners).toEqual([expect.stringMatching(/^SSH-2\.0-OpenSSH/)]);
    expect(denied).toEqual([]);
  },
);

test.each<Mode>(["bwrap", "landlock"])(
  "%s: a port of the host's loopback that the operator allows",
  async (mode) => {
    const server = createServer((_asked, answer) => answer.end("local")).listen(0, "127.0.0.1");
    await once(server, "listening");
    afterFile(async () => void server.close());
    const { port } = server.address() as AddressInfo;
    const script = `curl -sS --retry 30 --retry-delay 1 --retry-connrefused http://127.0.0.1:${port}/`;
    const hosts = [{ name: "127.0.0.1", port, local: true }];
    expect((await run(mode, script, { allowed: { ...nothing, hosts } })).output).toBe("local");
  },
);

test("bwrap: a port that operator and secret name has one forwarder, and no start waits for another", async () => {
  const hosts = ["127.0.0.1", "localhost"].map((name) => ({ name, port: 4873, local: true }));
  const token = { name: "TOKEN", placeholder: "svc_placeholder_x", value: "tok-01234567", header: null };
  const { entered } = await enter(sandboxes.bwrap.sandbox, {
    allowed: { ...nothing, hosts },
    secrets: [{ ...token, hosts: ["127.0.0.1:4873"] }],
  });
  const script = entered.box.prefix.join(" ");
  expect(script.match(/TCP-LISTEN:\d+/g)).toEqual(["TCP-LISTEN:4873", "TCP-LISTEN:3128"]);
  expect(script).toContain("-gt 2 ]");
});

test("under Landlock the door answers nobody who does not say the word of the run", async () => {
  const { entered } = await enter(sandboxes.landlock.sandbox, {
    routes: [{ paths: /^\/v1\//, target: new URL("http://127.0.0.1:9"), headers: {} }],
  });
  const proxy = new URL(entered.env["HTTP_PROXY"] ?? "");
  const ask = async (...args: string[]): Promise<string> => {
    const quiet = ["-s", "-m", "10", "-o", "/dev/null", "-w", "%{http_code} %{http_connect}\n", ...args];
    // curl counts a refused tunnel as its own failure.
    const sh = ["-c", 'curl "$@" || :', "sh", ...quiet];
    return (await execute("/bin/sh", sh, { env: { PATH: path } })).stdout.trim();
  };
  const without = `http://${proxy.host}`;
  const wrong = `http://run:another@${proxy.host}`;
  for (const other of [without, wrong]) {
    expect(await ask("--proxy", other, "https://registry.example.com")).toBe("000 407");
    expect(await ask("--proxy", other, "http://registry.example.com")).toBe("407 000");
  }
  expect(await ask(`${without}/v1/messages`)).toBe("407 000");
  expect(await ask("-H", `authorization: Bearer ${word}`, `${without}/v1/messages`)).toBe("502 000");
  expect(await ask("--proxy", proxy.href, "https://registry.example.com")).toBe("000 403");
  expect(await ask("--proxy-anyauth", "--proxy", proxy.href, "https://registry.example.com")).toBe("000 403");
});

test("under Landlock temporary files and HOME are the run's alone, and go with it", async () => {
  const own = 'echo a > "$TMPDIR/f" && echo b > "$HOME/f" && chmod 0 "$HOME"';
  const script = `${own} && echo wrote; echo c > /tmp/f`;
  const { output, entered } = await run("landlock", script);
  expect(output).toMatch(/wrote[\s\S]*\/tmp\/f: Permission denied/);
  const { HOME = "", TMPDIR = "" } = entered.env;
  expect((await stat(TMPDIR)).mode & 0o777).toBe(0o700);
  await entered[Symbol.asyncDispose]();
  for (const place of [HOME, TMPDIR]) await expect(stat(place)).rejects.toThrow("ENOENT");
});
