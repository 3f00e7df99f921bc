import { execFileSync, spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo, type Server } from "node:net";
import { join } from "node:path";
import { modelRoute } from "../../src/agents/claude/routes.ts";
import { parseHosts } from "../../src/lib/allowed-hosts.ts";
import { supervise } from "../../src/lib/process/supervise.ts";
import { openDoor } from "../../src/sandbox/door.ts";
import { createSandbox, type SandboxMode } from "../../src/sandbox/sandbox.ts";
import { allowedOnly } from "./allowed-only.ts";
import { attacks, callNumbers, secret } from "./attacks.ts";

/**
 * A service on the stage that stage.ts makes: plants what is worth an attack, runs all attacks as one agent in the sandbox
 * that its argument names, with every public host if another one follows, and prints `{mode, succeeded: names}`; `{refused: sentence}` if there is no such sandbox here.
 */
const mode = process.argv[2] as SandboxMode;
const stage = process.env["STAGE"] ?? "";
const place = (name: string): string => join(stage, name);
const numbers = callNumbers[process.arch] ?? {};

const listen = async (server: Server, ...at: [string] | [number, string]): Promise<Server> => {
  server.listen(...(at as [string]));
  await once(server, "listening");
  return server;
};

const planted = (): Server =>
  createServer((socket) => {
    socket.on("error", () => undefined);
    socket.end(`HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n${secret}\n`);
  });

/** Any name is 192.0.2.7. */
const nameServer = createSocket("udp4", (query, { port, address }) => {
  const question = query.subarray(12, query.indexOf(0, 12) + 5);
  const isAddress = question.readUInt16BE(question.length - 4) === 1;
  const head = Buffer.from([...query.subarray(0, 2), 0x81, 0x80, 0, 1, 0, Number(isAddress), 0, 0, 0, 0]);
  const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 7]);
  nameServer.send(Buffer.concat([head, question, ...(isAddress ? [answer] : [])]), port, address);
});

const datagrams = createSocket("udp4", (_text, { port, address }) => datagrams.send(secret, port, address));

/** Notes that it was signalled. Lets anybody trace it, where the kernel asks (Yama): prctl(PR_SET_PTRACER). */
const victimScript = `
  syscall ${numbers["PRCTL"]}, 0x59616d61, -1, 0, 0, 0;
  $SIG{USR1} = sub { open my $f, ">", $ARGV[0] };
  $| = 1; print "ready"; sleep 1 while 1`;

/** struct file_handle of a file, as hex. */
const handleOf = (file: string): string =>
  execFileSync("perl", [
    "-e",
    `my $h = pack "Li", 128, 0; $h .= "\\0" x 128; my $id = pack "i", 0;
     syscall(${numbers["NAME_TO_HANDLE"]}, -100, $ARGV[0], $h, $id, 0) == 0 or die $!; print unpack "H*", $h`,
    file,
  ]).toString();

writeFileSync(join(place("other"), "file"), `${secret}\n`);
writeFileSync(join(place("service"), "keys"), `${secret}\n`);
await listen(planted(), "/run/docker.sock");
mkdirSync("/run/dbus", { recursive: true });
await listen(planted(), "/run/dbus/system_bus_socket");
await listen(planted(), "\0planted-socket");
const tcp = await listen(planted(), 0, "127.0.0.1");
const { port } = tcp.address() as AddressInfo;
await new Promise<void>((resolve) => void datagrams.bind(0, "127.0.0.1", resolve));
await new Promise<void>((resolve) => void nameServer.bind(53, "127.0.0.2", resolve));
const door = await openDoor({
  routes: [{ paths: /^\//, target: new URL(`http://127.0.0.1:${port}`), headers: {} }],
  hosts: [],
  onDenied: () => undefined,
  // As a run has it where others can reach its door.
  word: mode === "landlock" ? "the-word-of-another-run" : null,
});
/** Of a run whose model is what is planted. */
const model = { modelBaseUrl: `http://127.0.0.1:${port}`, modelApiKey: secret, modelAuthToken: null };
const routes = [modelRoute({ ...model, agentOauthToken: null })];
const victim = spawn("perl", ["-e", victimScript, join(place("own"), "signalled"), secret], {
  cwd: place("other"),
  env: { PATH: "/usr/bin:/bin", CANARY: secret },
  stdio: ["ignore", "pipe", "inherit"],
});
await once(victim.stdout, "data");

const variables: Record<string, string> = {
  OTHER: place("other"),
  SERVICE: place("service"),
  GIVEN: place("given"),
  HANDLE: handleOf(join(place("other"), "file")),
  VICTIM: String(victim.pid),
  SHARED_MEMORY: process.env["SHARED_MEMORY"] ?? "",
  TCP: String(port),
  UDP: String(datagrams.address().port),
  ABSTRACT: "planted-socket",
  DOOR: door.socket,
  ...Object.fromEntries(Object.entries(numbers).map(([name, number]) => [name, String(number)])),
};

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Names of the attacks that succeed. @throws Error: there is no such sandbox here */
const attack = async (mode: SandboxMode): Promise<string[]> => {
  const { sandbox } = await createSandbox(mode);
  const cwd = place("own");
  const path = "/usr/bin:/bin:/usr/sbin:/sbin";
  const all = attacks.map(({ script, isOpen }, index) =>
    mode === "off" && isOpen === null
      ? ""
      : `timeout 60 sh -c ${quoted(script)} >/dev/null 2>&1 </dev/null && echo ${index}\n`,
  );
  writeFileSync(join(cwd, "attacks.sh"), `${all.join("")}echo done\n`);
  await using entered = await sandbox.enter({
    command: "sh",
    path,
    home: "/home/agent",
    cwd,
    writable: [],
    readable: [],
    routes,
    word: "the-word",
    allowed: { ...allowedOnly(place("given")), hosts: parseHosts(process.argv.slice(3)) },
    onDenied: () => undefined,
  });
  const started = await supervise({
    command: "sh",
    args: ["attacks.sh"],
    cwd,
    env: {
      ...variables,
      PATH: path,
      WORD: "the-word",
      ORIGIN: entered?.model.origin ?? "",
      SOCKET: entered?.model.socket ? `--unix-socket ${entered.model.socket}` : "",
      ...entered?.env,
    },
    marker: { name: "SERVICE_TEST", value: `attacks-${process.pid}` },
    box: entered?.box ?? null,
    stdin: "",
  });
  if (!started.ok) throw new Error(started.message);
  let output = "";
  for (const stream of [started.process.stdout, started.process.stderr])
    stream.on("data", (piece: Buffer) => (output += piece.toString()));
  await started.process.ended;
  const lines = output.trim().split("\n");
  if (lines.pop() !== "done") throw new Error(`the attacks broke off: ${output}`);
  return lines.map((line) => attacks[Number(line)]?.name ?? line);
};

const said = await attack(mode).then(
  (succeeded) => ({ mode, succeeded }),
  (error: unknown) => ({ refused: error instanceof Error ? error.message : String(error) }),
);
process.stdout.write(JSON.stringify(said));
victim.kill("SIGKILL");
await door[Symbol.asyncDispose]();
process.exit();
