// The program is imported only after this check: newer syntax would not even parse on an older Node.
const required = 24;
const [major] = process.versions.node.split(".");

if (Number(major) < required) {
  process.stderr.write(
    `svc: needs Node.js ${required} or later, and this is ${process.versions.node} (${process.execPath}): install a newer one, or put it first on PATH\n`,
  );
  process.exitCode = 1;
} else {
  const { run } = await import("./program.ts");
  process.exitCode = await run(process.argv.slice(2));
}

export {};
