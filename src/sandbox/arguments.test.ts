import { spawn } from "node:child_process";
import { mkdir, open, writeFile } from "node:fs/promises";
import { existsSync, lstatSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { bwrapArguments, type View } from "./arguments.ts";
import { systemCallFilter } from "../lib/process/seccomp.ts";

const root = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"].filter(existsSync).map((path) => ({
  path,
  target: lstatSync(path).isSymbolicLink() ? readlinkSync(path) : null,
}));

const viewOf = (cwd: string, more: Partial<View> = {}): View => ({
  readable: [],
  writable: [cwd],
  home: "/home/agent",
  mounts: [],
  cwd,
  temporary: { path: "/tmp", bytes: 64 * 1024 * 1024 },
  machine: [
    ...root,
    ...["/etc/passwd", "/etc/ld.so.cache", "/etc/nothing"].map((path) => ({ path, target: null })),
  ],
  socket: null,
  seccomp: 3,
  ...more,
});

/** Runs a shell's command in the sandbox. */
const run = async (view: View, script: string): Promise<{ code: number | null; output: string }> => {
  const filter = join(await temporaryDirectory(), "filter");
  await writeFile(filter, systemCallFilter({ sockets: "usual" }));
  await using file = await open(filter);
  const child = spawn("bwrap", [...bwrapArguments(view), "/bin/sh", "-c", script], {
    stdio: ["ignore", "pipe", "pipe", file.fd, "pipe"],
    env: { PATH: "/usr/bin:/bin" },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (piece: Buffer) => (output += piece.toString()));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, output };
};

/** A directory for the run, and one beside it. */
const places = async () => {
  const home = await temporaryDirectory();
  const [own, other] = [join(home, "own"), join(home, "other")];
  for (const path of [own, other]) await mkdir(path);
  await writeFile(join(other, "secret"), "other's");
  return { home, own, other };
};

test("its own directory can be written, what is named can be read, and the rest is not there", async () => {
  const { own, other } = await places();
  const script = `echo a > f && cat f; cat ${other}/secret; ls -A /home/agent /root /var /etc; ls /proc | grep -c '^[0-9]'`;
  const without = await run(viewOf(own), script);
  expect(without.output).toContain("secret: No such file");
  expect(without.output).toMatch(/^a$/m);
  const processes = Number(/^(\d+)$/m.exec(without.output)?.[1]);
  expect(processes).toBeLessThan(8);
  const named = await run(
    viewOf(own, { readable: [other] }),
    `cat ${other}/secret; echo b > ${other}/secret; echo $?`,
  );
  expect(named.output).toMatch(/other's/);
  expect(named.output).toMatch(/Read-only file system/);
});

test("what is writable within what is readable is writable, and the other way round read-only", async () => {
  const { home, own, other } = await places();
  const view = viewOf(own, { readable: [home, join(other)], writable: [own] });
  expect((await run(view, `echo a > f && echo wrote; echo b > ${other}/x || echo kept`)).output).toMatch(
    /wrote[\s\S]*kept/,
  );
  const inverse = viewOf(own, { readable: [other], writable: [home] });
  expect(
    (await run(inverse, `echo a > ${home}/f && echo wrote; echo b > ${other}/x || echo kept`)).output,
  ).toMatch(/wrote[\s\S]*kept/);
});

test.each([
  ["capabilities", "grep CapEff /proc/self/status", /CapEff:\s+0000000000000000/],
  ["mounting /usr again", "mount -o remount,bind,rw /usr || echo no", /^no$/m],
  ["a new user namespace", "unshare -U true || echo no", /^no$/m],
  ["core_pattern", "echo x > /proc/sys/kernel/core_pattern || echo no", /^no$/m],
  ["the kernel's symbols", "head -c 8 /proc/kallsyms 2>/dev/null || echo no", /^no$/],
  [
    "lists of the kernel's memory",
    "cat /proc/kpage* /proc/slabinfo /proc/vmallocinfo /proc/pagetypeinfo /proc/timer_list 2>/dev/null | head -c 8; echo no",
    /^no$/,
  ],
  ["writing what watches the load", "(: > /proc/pressure/cpu) 2>/dev/null || echo no", /^no$/],
  ["reading it", "grep -c some /proc/pressure/cpu", /^1$/],
  ["the network", "grep -c : /proc/net/dev", /^1$/],
  [
    "a key of the keyring",
    'perl -e \'for (248..250) { print syscall($_, 0, 0, 0, 0, 0), $!{EPERM} ? "no " : "yes " }\'',
    /^(-1no ){3}$/,
  ],
])("%s: refused", async (_what, script, expected) => {
  const { own } = await places();
  expect((await run(viewOf(own), script)).output.trim() + (script.startsWith("perl") ? " " : "")).toMatch(
    expected,
  );
});

test("room for files is limited wherever they can be written", async () => {
  const { own } = await places();
  const view = viewOf(own, { temporary: { path: "/tmp", bytes: 1024 * 1024 } });
  const script = `for at in / /etc /dev /dev/shm /home /home/agent /proc /run /tmp /usr /var; do
    head -c 70000000 /dev/zero > $at/f && echo "room in $at"; done 2>/dev/null; echo looked`;
  expect((await run(view, script)).output).toBe("looked\n");
});
