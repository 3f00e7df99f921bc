import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { deploy } from "./rendered.ts";

const profile = join(deploy, "apparmor", "svc-bwrap");

test("the AppArmor profile lets bubblewrap make user namespaces, and confines nothing", async () => {
  const rules = (await readFile(profile, "utf8"))
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"));
  expect(rules).toEqual([
    "abi <abi/4.0>,",
    "include <tunables/global>",
    "profile svc-bwrap /usr/bin/bwrap flags=(unconfined) {",
    "userns,",
    "include if exists <local/svc-bwrap>",
    "}",
  ]);
});
