import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jvmTools, missingOf, sayings } from "./tools.ts";

/** `npm run test:jvm`: whether java and mvn say in each sandbox what they say outside. */
const missing = await missingOf(["java", "mvn"]);
if (missing.length > 0) {
  process.stderr.write(`${missing.join(", ")}: apt-get install default-jdk-headless maven\n`);
  process.exit(2);
}
const place = await mkdtemp(join(tmpdir(), "svc-jvm-"));
try {
  const outside = await sayings("off", jvmTools, place);
  for (const mode of ["bwrap", "landlock"] as const) {
    const inside = await sayings(mode, jvmTools, place);
    for (const [name] of jvmTools) {
      const isSame = inside[name] === outside[name] && inside[name]?.endsWith("[0]\n") === true;
      if (!isSame) process.exitCode = 1;
      process.stdout.write(`${isSame ? "same" : "DIFFERS"} ${mode} ${name}\n`);
      if (!isSame) process.stdout.write(`outside: ${outside[name]}\ninside: ${inside[name]}\n`);
    }
  }
} finally {
  await rm(place, { recursive: true, force: true });
}
