import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { publicConfiguration } from "./configuration.ts";
import { temporaryDirectory } from "../../test/temporary.ts";

/** A directory as /etc is, with a key in a mount of Kubernetes, whose files are links into a directory of a version. */
const makeConfiguration = async () => {
  const top = await temporaryDirectory();
  const version = join(top, "app", "..2026_11_30");
  await mkdir(version, { recursive: true });
  await symlink("..2026_11_30", join(top, "app", "..data"));
  for (const name of ["app.pem", "hosts.txt"]) {
    await writeFile(join(version, name), "text\n");
    await symlink(`..data/${name}`, join(top, "app", name));
  }
  await mkdir(join(top, "php", "conf.d"), { recursive: true });
  await writeFile(join(top, "php", "conf.d", "mbstring.ini"), "x\n");
  await writeFile(join(top, "shadow"), "x\n");
  await chmod(join(top, "shadow"), 0o640);
  await writeFile(join(top, "signing"), "x\n");
  return { top, shown: (reserved: readonly string[]) => pathsOf(top, reserved) };
};

const pathsOf = (top: string, reserved: readonly string[]): string[] =>
  publicConfiguration(reserved, top)
    .shown.map(({ path }) => path.slice(top.length + 1))
    .sort();

test("a key of the service's is withheld where it is and where its link leads, whoever may read it", async () => {
  const { top, shown } = await makeConfiguration();
  expect(shown([])).toEqual(["app", "php", "signing"]);
  const reserved = [join(top, "app", "app.pem"), join(top, "signing"), join(top, "missing")];
  expect(shown(reserved)).toEqual(["app/..2026_11_30/hosts.txt", "app/..data", "app/hosts.txt", "php"]);
});
